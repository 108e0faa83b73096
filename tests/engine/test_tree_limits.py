"""Limits hold for a whole tree of tasks, and what it used is what the provider counted."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from office import SETTINGS, at_work, delegate, outcome, subagent, until
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

from mcp_subagents import moves
from mcp_subagents.ancestry import Spent, spent_by
from mcp_subagents.budget import Budget, meters, warning
from mcp_subagents.config.limits import EngineSettings, Limits
from mcp_subagents.errors import ConfigError, DailyCostReached, StopRequested
from mcp_subagents.records import TaskRecord
from mcp_subagents.store import Query, Store
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.testing import Gateway, Line, Received, Reply, ScriptedModel, Text, ToolCall, ToolCalls
from mcp_subagents.types import CancelKind, FailureType, TaskFailure, TaskHandle, TaskStatus, TaskUsage, utc_now

LEVELS = ("root", "first", "second", "third")


def step() -> str:
    return "ok"


def turn(number: int, cost: str | None = None) -> ModelResponse:
    parts = [TextPart(f"Step {number}."), ToolCallPart("step", {}, tool_call_id=str(number))]
    price = None if cost is None else Decimal(cost)
    return ModelResponse(parts=parts, usage=RequestUsage(input_tokens=100, output_tokens=10, cost=price))


def heard(messages: Sequence[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, UserPromptPart)][1:]


def answer(received: Received) -> Reply:
    """Each level delegates two tasks to the next at once; the last one takes a step first."""
    messages = received.body["messages"]
    level = next(name for name in LEVELS if f"I am {name}." in str(messages))
    turns = sum(message["role"] == "assistant" for message in messages)
    if level == "third":
        return Text("Found it.") if turns else ToolCalls([ToolCall("step", {})], text="Looking.")
    if turns:
        return Text(f"{level} is done.")
    below = LEVELS[LEVELS.index(level) + 1]
    calls = [ToolCall("task", {"description": f"I am {below}.", "subagent_type": below}) for _ in range(2)]
    return ToolCalls(calls, text=f"{level} delegates.")


async def run_tree(
    folder: Path, limits: dict[str, Any], slots: int
) -> tuple[TaskHandle, TaskUsage, int, list[TaskHandle]]:
    """How a tree of three levels below the root ends, what it has used, and what the gateway counted."""
    async with Gateway(answer) as gateway, open_sqlite(folder / "tasks.db") as store:
        model = gateway.openai_model()
        subagents = [
            subagent(agent=Agent(model, tools=[step]), name=name, subagents=[below], can_ask_questions=False)
            for name, below in pairwise(LEVELS)
        ]
        subagents[0]["limits"] = {"depth": 3, **limits}
        leaf = subagent(agent=Agent(model, tools=[step]), name="third", can_ask_questions=False)
        settings = replace(SETTINGS, max_concurrency=slots)
        async with at_work(store, *subagents, leaf, settings=settings) as engine:
            task_id = await delegate(engine, "I am root.", "root")
            done = await outcome(engine, task_id)
            for record in await store.select(Query()):
                await until(engine, record.task_id, lambda task: task.status.is_terminal)
            used = (await engine.look(task_id)).usage
        return done, used, len(gateway.requests), [record.handle for record in await store.select(Query())]


async def test_what_a_tree_has_used_is_what_the_provider_counted(tmp_path: Path):
    done, used, asked, tasks = await run_tree(tmp_path, {}, slots=8)
    assert (done.status, done.result) == (TaskStatus.COMPLETED, "root is done.")
    # 1 + 2 + 4 + 8 tasks, of two turns each.
    assert (len(tasks), asked) == (15, 30)
    assert (used.requests, used.input_tokens, used.output_tokens) == (30, 30 * 12, 30 * 7)
    assert used.tool_calls == 2 + 4 + 8 + 8
    assert used.requests == sum((task.usage or TaskUsage()).requests for task in tasks)


@pytest.mark.parametrize("slots", [1, 8])
@pytest.mark.parametrize("most", [5, 12])
async def test_a_cap_on_the_root_holds_for_its_whole_tree(tmp_path: Path, most: int, slots: int):
    done, used, asked, tasks = await run_tree(tmp_path, {"requests": most}, slots)
    assert (done.status, used.requests, asked) == (TaskStatus.FAILED, most, most)
    assert done.failure is not None
    assert done.failure.failure_type is FailureType.LIMIT
    assert f"{most} of {most} model requests used" in done.failure.message
    assert "root delegates." in done.failure.partial_results
    assert "first delegates." in done.failure.partial_results
    assert all(task.status.is_terminal for task in tasks)


@pytest.mark.parametrize(
    ("limits", "used_up"),
    [
        ({"total_tokens": 200}, "tokens"),
        ({"input_tokens": 100}, "input"),
        ({"output_tokens": 70}, "output"),
    ],
)
async def test_every_limit_of_the_root_holds_for_its_whole_tree(tmp_path: Path, limits: dict[str, Any], used_up: str):
    done, used, asked, tasks = await run_tree(tmp_path, limits, slots=1)
    [(name, most)] = limits.items()
    total = {"total_tokens": used.total_tokens}.get(name, getattr(used, name, 0))
    # What breaks a limit is the last response, which is paid for.
    assert total <= most + 19
    assert done.failure is not None
    assert (done.status, used.requests) == (TaskStatus.FAILED, asked)
    assert asked < 30
    failures = [task.failure.message for task in tasks if task.failure is not None]
    assert any(used_up in message for message in failures)


async def test_a_tree_that_has_used_up_its_tool_calls_still_answers(tmp_path: Path):
    done, used, _, tasks = await run_tree(tmp_path, {"tool_calls": 6}, slots=1)
    assert (done.status, used.tool_calls) == (TaskStatus.COMPLETED, 6)
    failures = [task.failure.message for task in tasks if task.failure is not None]
    assert any("tool calls" in message for message in failures)


async def test_a_child_gets_what_is_left_of_its_parents_money(store: Store):
    delegation = ToolCallPart("task", {"description": "Go.", "subagent_type": "helper"}, tool_call_id="t")
    usage = RequestUsage(input_tokens=1, output_tokens=1, cost=Decimal("0.3"))
    first = ModelResponse(parts=[TextPart("Let us see."), delegation], usage=usage)
    top = subagent(first, name="boss", subagents=["helper"], limits={"cost_usd": 0.5})
    lines: list[Line] = [turn(1, "0.15"), turn(2, "0.15"), turn(3, "0.15")]
    helper = subagent(*lines, tools=[step], name="helper")
    async with at_work(store, top, helper) as engine:
        task_id = await delegate(engine, subagent="boss")
        done = await outcome(engine, task_id)
        used = (await engine.look(task_id)).usage
    assert (done.status, used.cost_usd) == (TaskStatus.FAILED, Decimal("0.60"))
    assert done.failure is not None
    assert done.failure.failure_type is FailureType.LIMIT
    assert "Step 1.\n\nStep 2." in done.failure.partial_results
    [child] = await store.select(Query(parent_id=task_id))
    assert child.handle.failure is not None
    assert (
        child.handle.failure.message == "A usage limit was reached: The cost of $0.3000 exceeds the limit of $0.2000."
    )


@pytest.mark.parametrize("own", [None, 60.0], ids=["without one of its own", "with a longer one"])
async def test_the_running_time_of_a_tree_is_limited(store: Store, own: float | None):
    async def hang(messages: list[ModelMessage], info: object) -> ModelResponse:
        await anyio.sleep_forever()
        raise AssertionError

    delegation = ToolCallPart("task", {"description": "Go.", "subagent_type": "helper"}, tool_call_id="t")
    top = subagent(delegation, name="boss", subagents=["helper"], limits={"seconds": 0.5})
    helper = subagent(agent=Agent(FunctionModel(hang)), name="helper", limits={"seconds": own})
    async with at_work(store, top, helper) as engine:
        task_id = await delegate(engine, subagent="boss")
        done = await outcome(engine, task_id)
    [child] = await store.select(Query(parent_id=task_id))
    assert child.handle.failure is not None
    assert (child.handle.failure.failure_type, child.handle.failure.message) == (
        FailureType.TIMEOUT,
        "The 0.5 seconds of running time of the task that delegated this one are used up.",
    )
    assert (done.status, (await spent_by(store, await store.read(task_id))).seconds >= 0.5) == (TaskStatus.FAILED, True)


async def test_a_task_is_told_once_that_it_comes_near_a_limit(store: Store):
    model = ScriptedModel(*[turn(number) for number in range(1, 10)], "Done.")
    worker = subagent(agent=Agent(model, tools=[step]), limits={"requests": 10})
    async with at_work(store, worker) as engine:
        assert (await outcome(engine, await delegate(engine))).result == "Done."
    assert [len(heard(request)) for request in model.requests] == [0] * 8 + [1, 1]
    [said] = heard(model.requests[-1])
    assert said.startswith("You are running out of budget: 8 of 10 model requests: 2 left. Wrap up:")


async def test_a_warning_is_not_given_again_after_a_restart(store: Store):
    ask = ToolCallPart("ask_parent", {"question": "?"}, tool_call_id="q")
    model = ScriptedModel(*[turn(number) for number in range(1, 9)], ask, "Done.")
    worker = subagent(agent=Agent(model, tools=[step]), limits={"requests": 10})
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
    async with at_work(store, worker) as engine:
        await engine.answer(task_id, "Go on.")
        assert (await outcome(engine, task_id)).result == "Done."
    assert len(heard(model.requests[-1])) == 1
    assert (await store.read(task_id)).warned == ("requests",)


async def test_a_child_is_told_when_its_parents_budget_runs_out(store: Store):
    delegation = ToolCallPart("task", {"description": "Go.", "subagent_type": "helper"}, tool_call_id="t")
    top = subagent(delegation, "Done.", name="boss", subagents=["helper"], limits={"requests": 5})
    model = ScriptedModel(turn(1), turn(2), "42")
    async with at_work(store, top, subagent(agent=Agent(model, tools=[step]), name="helper")) as engine:
        task_id = await delegate(engine, subagent="boss")
        done = await outcome(engine, task_id)
    assert done.result == "Done."
    assert [len(heard(request)) for request in model.requests] == [0, 0, 0]

    top = subagent(delegation, name="boss", subagents=["helper"], limits={"requests": 4})
    model = ScriptedModel(turn(1), turn(2), "42")
    async with at_work(store, top, subagent(agent=Agent(model, tools=[step]), name="helper")) as engine:
        await outcome(engine, await delegate(engine, subagent="boss"))
    [said] = heard(model.requests[-1])
    assert "3 of 4 model requests of the task that delegated this one: 1 left" in said


@pytest.mark.parametrize(
    ("limit", "used", "said"),
    [
        ({"cost_usd": 5.0}, TaskUsage(cost_usd=Decimal("4.2")), "$4.20 of $5.00: $0.8000 left"),
        ({"total_tokens": 1000}, TaskUsage(input_tokens=700, output_tokens=100), "800 of 1,000 tokens: 200 left"),
        ({"tool_calls": 10}, TaskUsage(tool_calls=9), "9 of 10 tool calls: 1 left"),
        ({"requests": 2}, TaskUsage(requests=1), "1 of 2 model requests: 1 left"),
    ],
)
def test_a_warning_says_which_limit_and_what_is_left(limit: dict[str, float], used: TaskUsage, said: str):
    near = [each for each in meters(Limits.of(limit), Spent(usage=used, seconds=0.0)) if each.is_near]
    assert warning(near).startswith(f"You are running out of budget: {said}. ")


@pytest.mark.parametrize(
    ("level", "whose"),
    [(0, ""), (1, " of the task that delegated this one"), (2, " of a task further up")],
    ids=["its own", "its parent's", "that of its parent's parent"],
)
def test_a_limit_says_whose_it_is(level: int, whose: str):
    meter = meters(Limits(seconds=60.0), Spent(usage=TaskUsage(), seconds=30.0), level=level)[-1]
    assert (str(meter), meter.is_own) == (f"30 of 60 seconds of running time{whose}", level == 0)


def test_nothing_is_said_before_four_fifths_are_used():
    used = TaskUsage(requests=79, tool_calls=239, input_tokens=1_599_999, cost_usd=Decimal("3.99"))
    assert not any(each.is_near for each in meters(Limits(), Spent(usage=used, seconds=2879.0)))
    full = TaskUsage(requests=80, tool_calls=240, input_tokens=1_600_000, cost_usd=Decimal("4.00"))
    assert all(each.is_near for each in meters(Limits(), Spent(usage=full, seconds=2880.0)))


async def test_when_the_day_is_spent_running_tasks_stop_and_new_ones_are_refused(store: Store):
    worker = subagent(turn(1, "0.6"), turn(2, "0.6"), turn(3, "0.6"), tools=[step])
    settings = replace(SETTINGS, daily_cost_usd=1.0)
    async with at_work(store, worker, settings=settings) as engine:
        done = await outcome(engine, await delegate(engine))
        assert done.failure is not None
        assert (done.failure.failure_type, done.turns) == (FailureType.LIMIT, 2)
        assert "the $1.00 that they may cost in a day (UTC)" in done.failure.message
        assert done.failure.partial_results == "Step 1.\n\nStep 2."
        with pytest.raises(DailyCostReached, match=r"used up the \$1\.00 that they may cost in a day"):
            await delegate(engine)
    assert await store.spent(utc_now().date()) == Decimal("1.2")


async def test_tasks_of_another_process_count_for_the_day(tmp_path: Path):
    async with open_sqlite(tmp_path / "tasks.db") as first, open_sqlite(tmp_path / "tasks.db") as second:
        async with at_work(first, subagent(turn(1, "2.0"), "Done.", tools=[step])) as engine:
            await outcome(engine, await delegate(engine))
        async with at_work(second, subagent(), settings=replace(SETTINGS, daily_cost_usd=1.0)) as engine:
            with pytest.raises(DailyCostReached):
                await delegate(engine)


async def test_a_child_whose_parent_has_ended_stops_at_its_next_request():
    store, now = MemoryStore(), utc_now()
    await store.create(TaskRecord(handle=TaskHandle("parent", "boss", "Go.", created_at=now), due_at=now), most_open=9)
    child = TaskRecord(handle=TaskHandle("child", "helper", "Go.", created_at=now, parent_id="parent"), due_at=now)
    await store.create(child, most_open=9)
    budget = Budget(child, store, EngineSettings(), Counter(), utc_now)
    assert await budget.look(child, TaskUsage())

    failure = TaskFailure(failure_type=FailureType.CANCELLED, is_retryable=False, message="Enough.")
    await store.change("parent", moves.cancel(CancelKind.HARD, failure, now))

    with pytest.raises(StopRequested):
        await budget.look(child, TaskUsage())
    with pytest.raises(StopRequested):
        await budget.before_tools(TaskUsage())


@pytest.mark.parametrize("wrong", [-1, float("nan"), True, "5"])
def test_a_daily_cost_is_an_amount(wrong: Any):
    with pytest.raises(ConfigError, match="daily_cost_usd must be 0 or more"):
        EngineSettings(daily_cost_usd=wrong)
