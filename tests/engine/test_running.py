"""From a delegation to its result, through faults and restarts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from office import at_work, delegate, outcome, subagent, until
from pydantic_ai import Agent, BinaryContent, ModelRetry, ToolFailed, ToolReturn
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import Tool
from pydantic_ai.usage import RequestUsage

from mcp_subagents.config import SubAgentConfig
from mcp_subagents.engine import Engine
from mcp_subagents.errors import KeyTaken, UnknownSubagent, UnknownTask
from mcp_subagents.journal import INTERRUPTED
from mcp_subagents.records import EntryKind
from mcp_subagents.store import Store
from mcp_subagents.testing import Line, ScriptedModel
from mcp_subagents.types import FailureType, TaskStatus, TaskUsage

BUSY = ModelHTTPError(503, "scripted")


def call(tool: str, call_id: str = "call-1", **args: Any) -> ToolCallPart:
    return ToolCallPart(tool, args, tool_call_id=call_id)


def returned(model: ScriptedModel) -> list[object]:
    """What the model was last told that its tools returned."""
    return [
        part.content for message in model.requests[-1] for part in message.parts if isinstance(part, ToolReturnPart)
    ]


async def test_a_task_ends_with_its_result_and_what_it_used(store: Store):
    spent = ModelResponse(parts=[TextPart("42")], usage=RequestUsage(input_tokens=10, output_tokens=2))
    async with at_work(store, subagent(spent)) as engine:
        done = await outcome(engine, await delegate(engine, "What is six times seven?"))
    assert (done.status, done.result, done.attempt, done.turns) == (TaskStatus.COMPLETED, "42", 1, 1)
    assert done.usage == TaskUsage(requests=1, input_tokens=10, output_tokens=2)
    assert done.started_at is not None
    assert done.completed_at is not None
    assert done.created_at <= done.started_at <= done.completed_at


async def test_a_transient_fault_is_retried_later_from_where_it_was(store: Store):
    searches = 0

    def search() -> str:
        nonlocal searches
        searches += 1
        return "found"

    model = ScriptedModel(call("search"), BUSY, BUSY, "42")
    async with at_work(store, subagent(agent=Agent(model, tools=[search]))) as engine:
        done = await outcome(engine, await delegate(engine))
    assert (done.result, done.retry_count, done.attempt, searches) == ("42", 2, 3, 1)
    assert returned(model) == ["found"]
    assert sum(isinstance(part, UserPromptPart) for message in model.requests[-1] for part in message.parts) == 1


async def test_retries_are_counted_anew_after_a_turn_that_went_well(store: Store):
    lines = [BUSY, call("search", "1"), BUSY, call("search", "2"), BUSY, "42"]
    async with at_work(store, subagent(*lines, tools=[search], max_retries=1)) as engine:
        done = await outcome(engine, await delegate(engine))
    assert (done.status, done.retry_count) == (TaskStatus.COMPLETED, 3)


def search() -> str:
    return "found"


async def test_a_task_that_keeps_failing_fails_with_all_it_knows(store: Store):
    lines = [ModelResponse(parts=[TextPart("Looking."), call("search")]), BUSY, BUSY]
    async with at_work(store, subagent(*lines, tools=[search], max_retries=1)) as engine:
        done = await outcome(engine, await delegate(engine))
    assert done.status is TaskStatus.FAILED
    assert done.failure is not None
    assert (done.failure.failure_type, done.failure.retries) == (FailureType.TRANSIENT, 1)
    assert done.failure.partial_results == "Looking."
    assert done.error == done.failure.message


async def test_a_retry_waits_in_the_store_and_survives_a_restart(store: Store):
    model = ScriptedModel(BUSY, "42")
    worker = subagent(agent=Agent(model), retry_initial_delay=0.05, retry_jitter=False)
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        waiting = await until(engine, task_id, lambda task: task.status is TaskStatus.RETRYING)
        assert waiting.retry_count == 1
    async with at_work(store, worker) as engine:
        done = await outcome(engine, task_id)
    assert (done.result, done.retry_count) == ("42", 1)


async def test_a_stopped_engine_gives_its_tasks_back_and_the_next_goes_on(store: Store):
    asked = anyio.Event()
    stuck = True
    searches: list[int] = []

    def count() -> str:
        searches.append(1)
        return "found"

    async def think(messages: list[ModelMessage], info: object) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[call("count")])
        if stuck:
            asked.set()
            await anyio.sleep_forever()
        return ModelResponse(parts=[TextPart("42")])

    worker = subagent(agent=Agent(FunctionModel(think), tools=[count]))
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        await asked.wait()
    assert (await store.read(task_id)).handle.status is TaskStatus.PENDING
    stuck = False
    async with at_work(store, worker) as engine:
        done = await outcome(engine, task_id)
    assert (done.result, done.attempt, len(searches), done.turns) == ("42", 2, 1, 2)
    assert done.usage is not None
    assert (done.usage.requests, done.usage.tool_calls) == (2, 1)


@pytest.mark.parametrize(
    ("metadata", "runs", "told"),
    [
        (None, 1, INTERRUPTED),
        ({"idempotent": True}, 2, "launched"),
        ({"annotations": {"readOnlyHint": True}}, 2, "launched"),
    ],
    ids=["with a side effect: not run again", "declared idempotent: run again", "read-only by MCP's word: run again"],
)
async def test_a_tool_that_was_interrupted(store: Store, metadata: Any, runs: int, told: str):
    started = anyio.Event()
    ran = 0

    async def launch() -> str:
        nonlocal ran
        ran += 1
        if ran == 1:
            started.set()
            await anyio.sleep_forever()
        return "launched"

    model = ScriptedModel(call("launch"), "Done.")
    worker = subagent(agent=Agent(model, tools=[Tool(launch, metadata=metadata)]))
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        await started.wait()
    async with at_work(store, worker) as engine:
        assert (await outcome(engine, task_id)).result == "Done."
    assert (ran, returned(model)) == (runs, [told])


async def test_a_tool_that_returned_is_not_run_again_though_its_sibling_was_interrupted(store: Store):
    started = anyio.Event()
    ran: list[str] = []

    async def quick() -> str:
        ran.append("quick")
        return "quick result"

    async def slow() -> str:
        ran.append("slow")
        while "quick" not in ran:
            await anyio.lowlevel.checkpoint()
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    model = ScriptedModel([call("quick", "a"), call("slow", "b")], "Done.")
    worker = subagent(agent=Agent(model, tools=[quick, slow]))
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        await started.wait()
        while EntryKind.TOOL_RESULT not in {entry.kind for entry in await store.journal(task_id)}:
            await anyio.lowlevel.checkpoint()
    async with at_work(store, worker) as engine:
        await outcome(engine, task_id)
    assert sorted(ran) == ["quick", "slow"]
    assert returned(model) == ["quick result", INTERRUPTED]


def plain(content: Any) -> Any:
    return (content.data, content.media_type) if isinstance(content, BinaryContent) else content


PICTURE = BinaryContent(data=b"\x89PNG", media_type="image/png")
RICH = ToolReturn(return_value={"n": 1}, content="See also this.", metadata={"k": "v"})


@pytest.mark.parametrize(
    ("result", "seen"),
    [
        ("A text: 東京.", "A text: 東京."),
        ("half a \ud83d character", "half a \N{REPLACEMENT CHARACTER} character"),
        ({"a": [1, ("\udfff", None)]}, {"a": [1, ["\N{REPLACEMENT CHARACTER}", None]]}),
        ({"a": [1, None]}, {"a": [1, None]}),
        (PICTURE, PICTURE),
        (RICH, {"n": 1}),
        (ModelRetry("Ask for less."), "Ask for less."),
        (ToolFailed("No such file."), "No such file."),
    ],
    ids=[
        "a text",
        "half a character",
        "half a character within",
        "data",
        "an image",
        "a rich return",
        "a request to try again",
        "a failure",
    ],
)
async def test_what_a_tool_returned_is_told_to_the_model_as_it_was(store: Store, result: Any, seen: object):
    ran = 0
    asked = anyio.Event()

    def fetch() -> Any:
        nonlocal ran
        ran += 1
        if isinstance(result, Exception):
            raise result
        return result

    async def think(messages: list[ModelMessage], info: object) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[call("fetch")])
        heard.append([part for message in messages[2:] for part in message.parts])
        if len(heard) == 1:
            asked.set()
            await anyio.sleep_forever()
        return ModelResponse(parts=[TextPart("Done.")])

    heard: list[list[Any]] = []
    worker = subagent(agent=Agent(FunctionModel(think), tools=[fetch]))
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        await asked.wait()
    async with at_work(store, worker) as engine:
        await outcome(engine, task_id)
    first, again = ([(part.part_kind, plain(part.content)) for part in parts] for parts in heard)
    assert first == again
    assert ran == 1
    assert first[0][1] == plain(seen)


async def test_an_answer_that_was_recorded_is_not_asked_for_again(store: Store):
    """The process was lost between the last turn and the end of the task."""
    model = ScriptedModel("42")
    worker = subagent(agent=Agent(model, instructions="Be brief."))
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
    # The same journal under a task that was never finished.
    record = await store.read(task_id)
    copy = replace(
        record,
        handle=replace(record.handle, task_id="copy", status=TaskStatus.PENDING, result=None, completed_at=None),
        unread=False,
    )
    turns = await store.journal(task_id, frozenset({EntryKind.TURN}))
    await store.create(copy, turns, most_open=10)
    async with at_work(store, worker) as engine:
        done = await outcome(engine, "copy")
    assert (done.result, len(model.requests)) == ("42", 1)


async def test_ids_of_calls_that_come_again_in_a_later_turn_are_other_calls(store: Store):
    ran = 0

    def count() -> int:
        nonlocal ran
        ran += 1
        return ran

    model = ScriptedModel(call("count", "call_1"), call("count", "call_1"), "Done.")
    async with at_work(store, subagent(agent=Agent(model, tools=[count]))) as engine:
        await outcome(engine, await delegate(engine))
    assert returned(model) == [1, 2]


async def test_each_turn_is_recorded_once_and_history_is_never_rewritten(store: Store):
    lines = [call("search", str(n)) for n in range(3)]
    async with at_work(store, subagent(*lines, BUSY, "Done.", tools=[search])) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        history = await engine.history(task_id)
    kinds = [entry.kind for entry in await store.journal(task_id) if entry.kind is not EntryKind.EVENT]
    turn = [EntryKind.TURN, EntryKind.TOOL_STARTED, EntryKind.TOOL_RESULT]
    assert kinds == [*turn, *turn, *turn, EntryKind.TURN]
    assert len(history) == 8


async def test_a_history_that_an_agent_rewrites_is_recorded_as_it_then_is(store: Store):
    def forget(messages: list[ModelMessage]) -> list[ModelMessage]:
        return messages[-3:]

    model = ScriptedModel(call("search", "1"), call("search", "2"), call("search", "3"), BUSY, "Done.")
    agent = Agent(model, tools=[search], capabilities=[ProcessHistory(forget)])
    async with at_work(store, subagent(agent=agent)) as engine:
        done = await outcome(engine, await delegate(engine))
    assert done.result == "Done."


async def test_a_structured_output_becomes_json(store: Store):
    model = ScriptedModel(call("final_result", "1", response=42))
    async with at_work(store, subagent(agent=Agent(model, output_type=int))) as engine:
        assert (await outcome(engine, await delegate(engine))).result == "42"


async def test_a_declarative_subagent_runs_from_the_definition_stored_with_its_task(store: Store):
    plain = SubAgentConfig(name="worker", description="", instructions="Be brief.", model="test")
    async with at_work(store, plain) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
    record = await store.read(task_id)
    assert record.definition is not None
    assert "Be brief." in record.definition


async def test_a_subagent_that_cannot_be_made_fails_its_tasks_and_says_why(store: Store):
    async with at_work(store, SubAgentConfig(name="worker", description="", instructions="")) as engine:
        done = await outcome(engine, await delegate(engine))
    assert done.failure is not None
    assert done.failure.failure_type is FailureType.PERMANENT
    assert "MCP_SUBAGENTS_MODEL" in done.failure.message


async def test_a_cut_off_answer_is_a_failure(store: Store):
    cut = ModelResponse(parts=[TextPart("Once upon a")], finish_reason="length")
    async with at_work(store, subagent(cut)) as engine:
        done = await outcome(engine, await delegate(engine))
    assert done.failure is not None
    assert (done.failure.failure_type, done.failure.partial_results) == (FailureType.LIMIT, "Once upon a")


async def test_unknown_names_and_ids_are_refused(store: Store):
    async with at_work(store, subagent("42")) as engine:
        with pytest.raises(UnknownSubagent, match=r"No subagent is named 'nobody'\. Configured: worker\."):
            await delegate(engine, subagent="nobody")
        with pytest.raises(UnknownTask):
            await engine.check("no-such-task")


async def test_a_task_of_somebody_else_does_not_exist(store: Store):
    async def refused(engine: Engine, task_id: str) -> None:
        for asked in (
            engine.check,
            engine.soft_cancel,
            engine.hard_cancel,
            engine.history,
            engine.look,
        ):
            with pytest.raises(UnknownTask):
                await asked(task_id, owner="mallory")
        with pytest.raises(UnknownTask):
            await engine.see(await engine.check(task_id), owner="mallory")
        with pytest.raises(UnknownTask):
            await engine.answer(task_id, "Yes.", owner="mallory")
        with pytest.raises(UnknownTask):
            await engine.send(task_id, "Hello.", owner="mallory")
        with pytest.raises(UnknownTask):
            await engine.wait([task_id], owner="mallory")

    async with at_work(store, subagent("42")) as engine:
        task_id = await delegate(engine)
        await refused(engine, task_id)
        assert (await outcome(engine, task_id)).result == "42"
        assert await engine.list(owner="mallory", statuses=frozenset(TaskStatus)) == []


async def test_the_same_key_means_the_same_task(store: Store):
    async with at_work(store, subagent("42", "43")) as engine:
        first = await delegate(engine, idempotency_key="k")
        assert await delegate(engine, idempotency_key="k") == first
        assert await delegate(engine) != first


async def test_a_key_of_another_task_is_a_mistake(store: Store):
    async with at_work(store, subagent("42"), subagent("43", name="other")) as engine:
        first = await delegate(engine, "One.", idempotency_key="k")
        for wish in ({"description": "Two."}, {"description": "One.", "subagent": "other"}):
            with pytest.raises(KeyTaken, match=rf"'k' belongs to task '{first}', which is about something else"):
                await delegate(engine, **wish, idempotency_key="k")
        assert await engine.count() == 1


async def test_a_crash_in_an_attempt_leaves_the_engine_at_work(store: Store):
    class Broken(Agent[Any, Any]):
        def iter(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("broken")

    async with at_work(
        store, subagent(agent=Broken("test", deps_type=type(None))), subagent("42", name="other")
    ) as engine:
        failed = await outcome(engine, await delegate(engine))
        assert failed.failure is not None
        assert "RuntimeError: broken" in failed.failure.message
        assert (await outcome(engine, await delegate(engine, subagent="other"))).result == "42"


async def test_the_model_is_told_when_the_model_inside_a_tool_fails(store: Store):
    async def nested() -> str:
        raise ModelHTTPError(503, "nested")

    model = ScriptedModel(call("nested"), "I did it myself.")
    async with at_work(store, subagent(agent=Agent(model, tools=[nested]))) as engine:
        done = await outcome(engine, await delegate(engine))
    assert (done.result, done.retry_count) == ("I did it myself.", 0)
    assert "The tool's own model failed." in str(returned(model))


# What our own agents record


def own(*lines: Line, tools: Sequence[Any] = ()) -> tuple[ScriptedModel, SubAgentConfig]:
    """A subagent whose agent we build."""
    model = ScriptedModel(*lines)
    return model, SubAgentConfig(
        name="worker", description="", instructions="", model=model, agent_kwargs={"tools": list(tools)}
    )


async def recorded(store: Store, engine: Engine) -> list[EntryKind]:
    [task] = await engine.list()
    return [entry.kind for entry in await store.journal(task.task_id) if entry.kind is not EntryKind.EVENT]


async def test_a_turn_and_the_starts_of_its_tools_are_recorded_before_a_tool_runs(store: Store):
    seen: list[list[EntryKind]] = []

    async def search() -> str:
        seen.append(await recorded(store, engine))
        return "found"

    _, worker = own([call("search", "1"), call("search", "2")], "42", tools=[search])
    async with at_work(store, worker) as engine:
        done = await outcome(engine, await delegate(engine))
    assert (done.result, done.turns) == ("42", 2)
    assert [kinds[:2] for kinds in seen] == [[EntryKind.TURN, EntryKind.TOOL_STARTED]] * 2
    assert all(kinds.count(EntryKind.TURN) == 1 for kinds in seen)


async def test_a_turn_whose_tools_cannot_be_called_is_recorded_before_the_model_is_asked_again(store: Store):
    seen: list[list[EntryKind]] = []

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(await recorded(store, engine))
        return ModelResponse(parts=[call("unknown") if len(seen) == 1 else TextPart("42")])

    worker = SubAgentConfig(name="worker", description="", instructions="", model=FunctionModel(answer))
    async with at_work(store, worker) as engine:
        assert (await outcome(engine, await delegate(engine))).result == "42"
    assert seen == [[], [EntryKind.TURN]]


async def test_what_happens_to_a_task_while_its_tool_runs_is_heeded_before_the_next_request(store: Store):
    async def search() -> str:
        [task] = await engine.list()
        await engine.send(task.task_id, "Look in the attic.")
        return "found"

    model, worker = own(call("search"), "42", tools=[search])
    async with at_work(store, worker) as engine:
        assert (await outcome(engine, await delegate(engine))).result == "42"
    told = [part.content for part in model.requests[-1][-1].parts if isinstance(part, UserPromptPart)]
    assert told == ["Look in the attic."]
