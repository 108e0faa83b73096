"""Results of a given shape: they fit their schema, or the task has failed."""

import json
from typing import Any

import anyio
import pytest
from office import at_work, delegate, outcome
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import ToolCallPart as Call
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents.config import SubAgentConfig
from mcp_subagents.outputs import REPAIRS
from mcp_subagents.records import Entry, EntryKind, TaskRecord
from mcp_subagents.store import Store
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.testing import Gateway, Line, ScriptedModel, Text, ToolCall, ToolCalls
from mcp_subagents.types import FailureType, TaskHandle, TaskStatus, utc_now

# Loaded here, where it may take its time: in a test the clock is running.
pytest.importorskip("pydantic_ai.models.anthropic")
pytest.importorskip("pydantic_ai.models.openai")

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 3},
        "stars": {"$ref": "#/$defs/stars"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
    },
    "required": ["title", "stars"],
    "additionalProperties": False,
    "$defs": {"stars": {"type": "integer", "maximum": 5}},
}
GOOD = {"title": "Fine", "stars": 4}
BAD = {"title": "no", "stars": 9, "tags": ["c"]}


def reviewer(*lines: Line, model: Any = None, **more: Any) -> SubAgentConfig:
    config: Any = {"name": "worker", "description": "", "instructions": "", "retry_initial_delay": 0.0}
    made: Any = {**config, "model": model or ScriptedModel(*lines), "output_schema": SCHEMA, **more}
    return made


def gives(result: Any) -> Call:
    return Call("final_result", result)


async def run(*lines: Line, **more: Any) -> TaskHandle:
    async with at_work(MemoryStore(), reviewer(*lines, **more)) as engine:
        return await outcome(engine, await delegate(engine))


def complaints(messages: list[ModelMessage]) -> list[str]:
    """What the model was told of its last result."""
    last = messages[-1]
    assert isinstance(last, ModelRequest)
    return [str(part.content) for part in last.parts if isinstance(part, ToolReturnPart)]


async def test_a_result_that_fits_is_stored_as_json(store: Store):
    async with at_work(store, reviewer(gives(GOOD))) as engine:
        task = await outcome(engine, await delegate(engine))

    assert (task.status, task.is_structured) == (TaskStatus.COMPLETED, True)
    assert json.loads(task.result or "") == GOOD


async def test_the_model_is_told_what_does_not_fit_and_may_mend_it():
    model = ScriptedModel(gives(BAD), gives(GOOD))
    task = await run(model=model)

    assert json.loads(task.result or "") == GOOD
    [told] = complaints(model.requests[-1])
    assert "$.title: 'no' is too short" in told
    assert "$.stars: 9 is greater than the maximum of 5" in told
    assert "$.tags[0]: 'c' is not one of ['a', 'b']" in told


@pytest.mark.parametrize(
    ("lines", "problem", "partial"),
    [
        pytest.param([gives(BAD)], "$.title: 'no' is too short", BAD, id="objects that do not fit"),
        pytest.param([gives('{"title": "Fi')], "it is no JSON", None, id="broken JSON"),
        pytest.param([gives({"title": "Fine", "stars": float("nan")})], "NaN", None, id="numbers JSON has not"),
        pytest.param(["I would rather talk."], "it is no JSON", "I would rather talk.", id="text"),
    ],
)
async def test_a_model_that_only_gives(lines: list[Line], problem: str, partial: Any):
    model = ScriptedModel(*lines * 10)
    task = await run(model=model)

    assert (task.status, task.result, task.is_structured) == (TaskStatus.FAILED, None, False)
    assert task.failure is not None
    assert task.failure.failure_type is FailureType.VALIDATION
    assert "no result that fits the output schema" in task.failure.message
    assert problem in task.failure.message
    assert len(model.requests) == REPAIRS + 1
    if isinstance(partial, dict):
        assert json.loads(task.failure.partial_results) == partial
    elif partial:
        assert partial in task.failure.partial_results
    else:
        assert "Fi" in task.failure.partial_results


@pytest.mark.parametrize("bad", [gives(BAD), "I would rather talk."], ids=["objects that do not fit", "text"])
async def test_a_retry_gives_the_model_no_more_tries(bad: Line):
    model = ScriptedModel(*[bad, ModelHTTPError(503, "scripted")] * 10)
    task = await run(model=model)

    assert task.failure is not None
    assert task.failure.failure_type is FailureType.VALIDATION
    assert (task.usage.requests if task.usage else 0, task.retry_count) == (REPAIRS + 1, REPAIRS)


@pytest.mark.parametrize("model", ["openai:gpt-4o-mini", "anthropic:claude-haiku-5-5"])
@pytest.mark.parametrize("effort", [None, "high"])
async def test_the_clients_of_providers_send_the_schema_and_take_the_object(model: str, effort: str | None):
    results = [ToolCalls([ToolCall("final_result", each)]) for each in (BAD, GOOD)]
    texts = [Text(json.dumps(each)) for each in (BAD, GOOD)]
    rounds = iter(range(10))

    def reply(received: Any) -> Any:
        number = next(rounds)
        tools = [tool.get("name") or tool["function"]["name"] for tool in received.body.get("tools", [])]
        return (results if "final_result" in tools else texts)[min(number, 1)]

    async with Gateway(reply) as gateway:
        url = gateway.url if model.startswith("anthropic") else f"{gateway.url}/v1"
        more: dict[str, Any] = {"effort": effort} if effort else {}
        task = await run(model=model, base_url=url, **more)

    assert json.loads(task.result or "null") == GOOD
    assert len(gateway.requests) == 2
    assert "stars" in json.dumps(gateway.requests[0].body)


async def test_another_process_holds_the_task_to_the_schema_that_is_stored_with_it(store: Store):
    """The second process has no such subagent: all it knows is in the store."""
    asks = ToolCalls([ToolCall("ask_parent", {"question": "Which?"})])
    results = [ToolCalls([ToolCall("final_result", each)]) for each in (BAD, GOOD)]
    async with Gateway([asks, *results]) as gateway:
        config = reviewer(model="openai:gpt-4o-mini", base_url=f"{gateway.url}/v1")
        async with at_work(store, config) as engine:
            task_id = await delegate(engine)
            await outcome(engine, task_id)
        async with at_work(store) as engine:
            await engine.answer(task_id, "This one.")
            task = await outcome(engine, task_id)

    assert (json.loads(task.result or ""), task.is_structured) == (GOOD, True)
    assert len(gateway.requests) == 3


@pytest.mark.parametrize(("on_record", "lines"), [(GOOD, []), (BAD, [gives(GOOD)])], ids=["fits", "does not fit"])
async def test_a_result_that_a_lost_process_left_on_record_is_judged_again(store: Store, on_record: Any, lines: Any):
    """A process was lost after the model had answered, and before the task was done."""
    model = ScriptedModel(*lines)
    turn = [ModelRequest(parts=[UserPromptPart("Go.")]), ModelResponse(parts=[gives(on_record)])]
    now = utc_now()
    handle = TaskHandle("t1", "worker", "Go.", created_at=now, started_at=now, attempt=1, turns=1)
    entry = Entry(kind=EntryKind.TURN, body=ModelMessagesTypeAdapter.dump_json(turn).decode(), at=now, attempt=1)
    await store.create(TaskRecord(handle=handle, due_at=now), [entry], most_open=10)
    async with at_work(store, reviewer(model=model)) as engine:
        task = await outcome(engine, "t1")

    assert (json.loads(task.result or ""), task.attempt) == (GOOD, 2)
    assert len(model.requests) == len(lines)


async def test_a_follow_up_of_a_structured_task_is_structured_again(store: Store):
    model = ScriptedModel(gives(GOOD), gives({**GOOD, "stars": 5}))
    async with at_work(store, reviewer(model=model)) as engine:
        first = await delegate(engine)
        await outcome(engine, first)
        task = await outcome(engine, await delegate(engine, "Again.", continues=first))

    assert json.loads(task.result or "")["stars"] == 5
    told = [part for message in model.requests[1] for part in message.parts if isinstance(part, ToolReturnPart)]
    assert [(part.content, part.outcome) for part in told] == [("The result was taken.", "success")]


async def test_a_message_that_comes_with_the_result_is_read_before_the_result_counts(store: Store):
    submitted = anyio.Event()
    results = iter([GOOD, {**GOOD, "stars": 1}])

    async def speak(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await submitted.wait()
        if len(messages) == 1:
            await engine.send(task_id, "Be strict.")
        return ModelResponse(parts=[gives(next(results))])

    async with at_work(store, reviewer(model=FunctionModel(speak))) as engine:
        task_id = await delegate(engine)
        submitted.set()
        task = await outcome(engine, task_id)

    assert json.loads(task.result or "")["stars"] == 1
