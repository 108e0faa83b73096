"""Agents that we build keep all that pydantic-ai promises of tools, beside what an engine promises."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from office import SETTINGS, at_work, delegate, outcome, until
from pydantic_ai import RunContext, Tool, ToolFailed
from pydantic_ai.capabilities import AbstractCapability, Capability, HandleDeferredToolCalls, Thinking, ToolSearch
from pydantic_ai.exceptions import ApprovalRequired, ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolDefinition

from mcp_subagents.config import SubAgentConfig
from mcp_subagents.journal import INTERRUPTED
from mcp_subagents.records import EntryKind
from mcp_subagents.store import Store
from mcp_subagents.testing import Line, ScriptedModel
from mcp_subagents.types import TaskStatus

BUSY = ModelHTTPError(503, "scripted")


def own(model: Any, *tools: Any, code: Sequence[Any] = (), **more: Any) -> SubAgentConfig:
    """A subagent whose agent we build, with these capabilities from its code."""
    given = {"tools": list(tools), "capabilities": list(code)}
    config: Any = {"name": "worker", "description": "", "instructions": "", "model": model, "agent_kwargs": given}
    return SubAgentConfig(**{**config, **more})


def call(tool: str, call_id: str = "c1", **args: Any) -> ToolCallPart:
    return ToolCallPart(tool, args, tool_call_id=call_id)


def returned(messages: Sequence[ModelMessage]) -> list[object]:
    return [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def said(messages: Sequence[ModelMessage]) -> Sequence[object]:
    """What came after the task itself, as if from a user."""
    return [part.content for message in messages for part in message.parts if isinstance(part, UserPromptPart)][1:]


class Searcher:
    """A model that searches for a tool, and calls it."""

    def __init__(self, query: str) -> None:
        self.offered: list[list[str]] = []
        # One that cannot search by itself, as most cannot.
        self.model = FunctionModel(self._answer, profile={"supported_native_tools": frozenset()})
        self._lines: list[Any] = [call("search_tools", queries=[query]), call("measure_the_moon"), TextPart("Done.")]

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.offered.append([each.name for each in info.function_tools])
        return ModelResponse(parts=[self._lines[len(self.offered) - 1]])


def measure_the_moon() -> str:
    """How far it is to the moon."""
    return "384400 km"


def find_any(ctx: RunContext[Any], queries: Sequence[str], tools: Sequence[ToolDefinition]) -> list[str]:
    return [each.name for each in tools]


async def recorded(store: Store, task_id: str) -> list[str]:
    """The tools whose calls have an end on record."""
    entries = await store.journal(task_id, frozenset({EntryKind.TOOL_RESULT}))
    return [json.loads(entry.body)["tool"] for entry in entries]


@pytest.mark.parametrize(
    ("query", "code", "definition"),
    [
        ("moon", [], []),
        ("moon", [Thinking()], []),
        ("luna", [ToolSearch[Any](strategy=find_any)], []),
        ("moon", [], [{"ToolSearch": {"strategy": "keywords"}}]),
    ],
    ids=["as pydantic-ai searches", "beside another capability", "as its code says", "as its definition says"],
)
async def test_a_tool_that_loads_late_is_found_and_called(store: Store, query: str, code: Any, definition: Any):
    searcher = Searcher(query)
    late = Tool(measure_the_moon, defer_loading=True)
    worker = own(searcher.model, late, code=code, capabilities=definition, can_ask_questions=False)
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        assert (await outcome(engine, task_id)).result == "Done."
        assert returned(await engine.history(task_id))[1:] == ["384400 km"]
    assert searcher.offered == [["search_tools"], *[["measure_the_moon", "search_tools"]] * 2]
    assert await recorded(store, task_id) == ["search_tools", "measure_the_moon"]


async def test_a_capability_that_loads_late_is_loaded_and_its_tools_are_recorded(store: Store):
    maps = Capability[Any](id="maps", description="Maps.", tools=[measure_the_moon], defer_loading=True)
    model = ScriptedModel(call("load_capability", id="maps"), call("measure_the_moon"), "Done.")
    async with at_work(store, own(model, code=[maps])) as engine:
        task_id = await delegate(engine)
        assert (await outcome(engine, task_id)).result == "Done."
    assert returned(model.requests[-1])[1:] == ["384400 km"]
    assert await recorded(store, task_id) == ["load_capability", "measure_the_moon"]


BY_THE_WAY = ModelRequest(parts=[UserPromptPart("By the way.")])


@pytest.mark.parametrize(
    ("content", "priority", "lines"),
    [
        ("By the way.", "asap", [call("note"), "Done."]),
        (BY_THE_WAY, "asap", [call("note"), "Done."]),
        (BY_THE_WAY, "when_idle", [call("note"), "Nearly.", "Done."]),
    ],
    ids=["with its result", "with the next request", "when there is nothing else to do"],
)
async def test_what_a_tool_enqueues_is_told_to_the_model_once(
    store: Store, content: Any, priority: Any, lines: list[Line]
):
    def note(ctx: RunContext[Any]) -> str:
        ctx.enqueue(content, priority=priority)
        return "noted"

    model = ScriptedModel(*lines)
    async with at_work(store, own(model, note)) as engine:
        task_id = await delegate(engine)
        assert (await outcome(engine, task_id)).result == "Done."
        assert said(await engine.history(task_id)) == ["By the way."]
    assert ["By the way." in said(request) for request in model.requests] == [*[False] * (len(lines) - 1), True]


class Witness(AbstractCapability[Any]):
    """Sees requests before they are sent."""

    def __init__(self) -> None:
        self.seen: list[Sequence[object]] = []

    async def before_model_request(self, ctx: Any, request_context: ModelRequestContext) -> ModelRequestContext:
        self.seen.append(said(request_context.messages))
        return request_context


async def test_what_a_tool_enqueues_is_there_when_other_capabilities_see_the_request(store: Store):
    def note(ctx: RunContext[Any]) -> str:
        ctx.enqueue("By the way.")
        return "noted"

    witness = Witness()
    async with at_work(store, own(ScriptedModel(call("note"), "Done."), note, code=[witness])) as engine:
        assert (await outcome(engine, await delegate(engine))).result == "Done."
    assert witness.seen == [[], ["By the way."]]


@pytest.mark.parametrize("hot_wait", [0.0, 5.0], ids=["after it was parked", "while it stayed at hand"])
async def test_a_question_is_answered_once_and_tools_of_the_same_turn_run_once(store: Store, hot_wait: float):
    ran: list[str] = []

    def launch() -> str:
        ran.append("launch")
        return "launched"

    model = ScriptedModel([call("ask_parent", "q", question="Really?"), call("launch")], BUSY, "Done.")
    async with at_work(
        store, own(model, launch, retry_initial_delay=0.0), settings=replace(SETTINGS, hot_wait=hot_wait)
    ) as engine:
        task_id = await delegate(engine)
        await until(engine, task_id, lambda task: task.status is TaskStatus.WAITING_FOR_ANSWER)
        await engine.answer(task_id, "Yes.")
        done = await outcome(engine, task_id)
    assert (done.result, ran, returned(model.requests[-1])) == ("Done.", ["launch"], ["Yes.", "launched"])


async def test_after_an_interruption_what_has_returned_is_told_again_and_nothing_runs_twice(store: Store):
    reached, ran = anyio.Event(), list[str]()

    def quick() -> str:
        ran.append("quick")
        return "quick as ever"

    async def slow() -> str:
        ran.append("slow")
        while await recorded(store, task_id) != ["quick"]:
            await anyio.lowlevel.checkpoint()
        reached.set()
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    model = ScriptedModel([call("quick", "a"), call("slow", "b")], "Done.")
    async with at_work(store, own(model, quick, slow)) as engine:
        task_id = await delegate(engine)
        await reached.wait()
    async with at_work(store, own(model, quick, slow)) as engine:
        assert (await outcome(engine, task_id)).result == "Done."
    assert (sorted(ran), returned(model.requests[-1])) == (["quick", "slow"], ["quick as ever", INTERRUPTED])


async def test_the_model_is_told_when_the_model_inside_a_tool_fails(store: Store):
    async def nested() -> str:
        raise BUSY

    model = ScriptedModel(call("nested"), "I did it myself.")
    async with at_work(store, own(model, nested)) as engine:
        done = await outcome(engine, await delegate(engine))
    assert (done.result, done.retry_count) == ("I did it myself.", 0)
    assert "The tool's own model failed." in str(returned(model.requests[-1]))


def ping() -> str:
    return "pong"


class Loud(AbstractCapability[Any]):
    """Changes what tools return."""

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        return f"{await handler(args)}!"


class Calm(AbstractCapability[Any]):
    """Makes results of errors."""

    async def on_tool_execute_error(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, error: Any) -> Any:
        return f"Never mind: {type(error).__name__}."


async def test_what_a_capability_of_the_user_makes_of_a_result_is_the_same_after_an_interruption(store: Store):
    asked, stuck = anyio.Event(), True
    told: list[object] = []

    async def think(messages: list[ModelMessage], info: object) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[call("ping")])
        told.extend(returned(messages))
        if stuck:
            asked.set()
            await anyio.sleep_forever()
        return ModelResponse(parts=[TextPart("Done.")])

    worker = own(FunctionModel(think), ping, code=[Loud()])
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        await asked.wait()
    stuck = False
    async with at_work(store, worker) as engine:
        assert (await outcome(engine, task_id)).result == "Done."
    assert told == ["pong!", "pong!"]


async def test_a_capability_of_the_user_has_its_say_on_errors_of_tools(store: Store):
    def broken() -> str:
        raise ValueError("broken")

    model = ScriptedModel(call("broken"), "Done.")
    async with at_work(store, own(model, broken, code=[Calm()])) as engine:
        assert (await outcome(engine, await delegate(engine))).result == "Done."
    assert returned(model.requests[-1]) == ["Never mind: ValueError."]


async def test_approvals_that_the_user_gives_come_before_our_refusal(store: Store):
    def approve(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
        return requests.build_results(approve_all=True)

    model = ScriptedModel(call("ping"), "Done.")
    tool = Tool(ping, requires_approval=True)
    async with at_work(store, own(model, tool, code=[HandleDeferredToolCalls(approve)])) as engine:
        task_id = await delegate(engine)
        assert (await outcome(engine, task_id)).result == "Done."
    assert returned(model.requests[-1]) == ["pong"]
    assert await recorded(store, task_id) == ["ping"]  # lest it runs again after a crash


async def test_a_tool_that_asks_for_approval_by_itself_runs_once_it_is_approved(store: Store):
    def launch(ctx: RunContext[Any]) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return "launched"

    def approve(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
        return requests.build_results(approve_all=True)

    model = ScriptedModel(call("launch"), "Done.")
    async with at_work(store, own(model, launch, code=[HandleDeferredToolCalls(approve)])) as engine:
        assert (await outcome(engine, await delegate(engine))).result == "Done."
    assert returned(model.requests[-1]) == ["launched"]


class Stubborn(AbstractCapability[Any]):
    """Calls a tool once more that has failed."""

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        try:
            return await handler(args)
        except Exception:
            return await handler(args)


async def test_a_capability_of_the_user_may_call_a_tool_again_that_has_failed(store: Store):
    tries: list[None] = []

    def flaky() -> str:
        tries.append(None)
        if len(tries) == 1:
            raise ValueError("not yet")
        return "now"

    model = ScriptedModel(call("flaky"), "Done.")
    async with at_work(store, own(model, flaky, code=[Stubborn()])) as engine:
        assert (await outcome(engine, await delegate(engine))).result == "Done."
    assert returned(model.requests[-1]) == ["now"]


async def test_a_tool_that_was_called_again_and_then_interrupted_is_told_so(store: Store):
    begun, paid = anyio.Event(), list[str]()

    async def pay() -> str:
        paid.append("anna")
        if len(paid) == 1:
            raise ToolFailed("the bank is closed")  # which is on record, but is not the last word
        begun.set()
        await anyio.sleep_forever()
        return "paid"

    model = ScriptedModel(call("pay"), "Done.")
    worker = own(model, pay, code=[Stubborn()])
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        with anyio.fail_after(5):
            await begun.wait()
    async with at_work(store, worker) as engine:
        assert (await outcome(engine, task_id)).result == "Done."
    assert paid == ["anna", "anna"]
    assert returned(model.requests[-1]) == [INTERRUPTED]
