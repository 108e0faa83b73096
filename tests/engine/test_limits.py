"""Limits are on by default, and reaching one keeps what was done."""

from dataclasses import replace
from decimal import Decimal

import anyio
import pytest
from office import SETTINGS, at_work, delegate, outcome, subagent
from pydantic_ai import Agent, ModelRetry, Tool, ToolFailed
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

from mcp_subagents.config.limits import EngineSettings, Limits
from mcp_subagents.delegation import Submission
from mcp_subagents.errors import ConfigError, DepthExceeded, TooManyTasks
from mcp_subagents.store import Store
from mcp_subagents.testing import Line
from mcp_subagents.types import FailureType, TaskStatus


def turn(number: int, cost: Decimal | None = None) -> ModelResponse:
    parts = [TextPart(f"Step {number}."), ToolCallPart("step", {}, tool_call_id=str(number))]
    return ModelResponse(parts=parts, usage=RequestUsage(input_tokens=100, output_tokens=10, cost=cost))


def step() -> str:
    return "ok"


@pytest.mark.parametrize(
    ("limit", "lines", "partial"),
    [
        ({"requests": 2}, [turn(1), turn(2)], "Step 1.\n\nStep 2."),
        ({"tool_calls": 1}, [turn(1), turn(2)], "Step 1.\n\nStep 2."),
        ({"total_tokens": 200}, [turn(1), turn(2)], "Step 1.\n\nStep 2."),
        ({"input_tokens": 150}, [turn(1), turn(2)], "Step 1.\n\nStep 2."),
        ({"output_tokens": 15}, [turn(1), turn(2)], "Step 1.\n\nStep 2."),
        ({"cost_usd": 0.5}, [turn(1, cost=Decimal("0.3")), turn(2, cost=Decimal("0.3"))], "Step 1.\n\nStep 2."),
    ],
    ids=["requests", "tool calls", "tokens", "input tokens", "output tokens", "cost"],
)
async def test_a_limit_ends_the_task_with_its_partial_results(
    store: Store, limit: dict[str, float], lines: list[Line], partial: str
):
    async with at_work(store, subagent(*lines, tools=[step], limits=limit)) as engine:
        done = await outcome(engine, await delegate(engine))
    assert (done.status, done.turns) == (TaskStatus.FAILED, 2)
    assert done.failure is not None
    assert (done.failure.failure_type, done.failure.partial_results) == (FailureType.LIMIT, partial)
    assert done.usage is not None
    assert done.usage.requests == 2


@pytest.mark.parametrize("kind", [ToolFailed, ModelRetry])
async def test_calls_that_fail_count_as_well(store: Store, kind: type[Exception]):
    def step() -> str:
        raise kind("no such file")

    lines: list[Line] = [turn(number) for number in range(1, 9)]
    worker = subagent(*lines, tools=[Tool(step, max_retries=20)], limits={"tool_calls": 3})
    async with at_work(store, worker) as engine:
        done = await outcome(engine, await delegate(engine))
    assert done.failure is not None
    assert done.failure.message == "A usage limit was reached: at most 3 tool calls."
    assert done.usage is not None
    assert (done.turns, done.usage.tool_calls) == (4, 3)


async def test_a_limit_holds_over_all_attempts_of_a_task(store: Store):
    busy = ModelHTTPError(503, "scripted")
    lines: list[Line] = [turn(1), busy, turn(2), busy, turn(3)]
    async with at_work(store, subagent(*lines, tools=[step], limits={"requests": 2})) as engine:
        done = await outcome(engine, await delegate(engine))
    assert done.failure is not None
    assert (done.failure.failure_type, done.turns) == (FailureType.LIMIT, 2)


async def test_running_time_is_limited(store: Store):
    async def hang(messages: list[ModelMessage], info: object) -> ModelResponse:
        await anyio.sleep_forever()
        raise AssertionError

    worker = subagent(agent=Agent(FunctionModel(hang)), limits={"seconds": 0.05})
    async with at_work(store, worker) as engine:
        done = await outcome(engine, await delegate(engine))
    assert done.failure is not None
    assert done.failure.failure_type is FailureType.TIMEOUT
    assert done.failure.message == "The task used up its 0.05 seconds of running time."


async def test_a_model_that_hangs_is_asked_again_and_then_given_up(store: Store):
    asked = 0

    async def hang(messages: list[ModelMessage], info: object) -> ModelResponse:
        nonlocal asked
        asked += 1
        await anyio.sleep_forever()
        raise AssertionError

    worker = subagent(agent=Agent(FunctionModel(hang)), max_retries=1)
    async with at_work(store, worker, settings=replace(SETTINGS, request_timeout=0.02)) as engine:
        done = await outcome(engine, await delegate(engine))
    assert done.failure is not None
    assert (done.failure.failure_type, asked) == (FailureType.TIMEOUT, 2)


async def test_only_so_many_tasks_may_be_open(store: Store):
    ask = ToolCallPart("ask_parent", {"question": "?"}, tool_call_id="q")
    settings = EngineSettings(max_open_tasks=2, hot_wait=0.0)
    async with at_work(store, subagent(ask, ask, "42"), settings=settings) as engine:
        first, second = await delegate(engine), await delegate(engine)
        with pytest.raises(TooManyTasks, match="2 tasks are open"):
            await delegate(engine)
        await outcome(engine, first)
        await engine.hard_cancel(second)
        await delegate(engine)


async def test_tasks_go_only_so_deep(store: Store):
    async with at_work(store, subagent(*["42"] * 4)) as engine:
        parent = None
        for depth in range(3):
            handle = await engine.submit(Submission(description="Go.", subagent="worker", parent_id=parent))
            assert handle.depth == depth
            parent = handle.task_id
        with pytest.raises(DepthExceeded, match="2 levels deep"):
            await engine.submit(Submission(description="Go.", subagent="worker", parent_id=parent))


def test_limits_are_on_by_default():
    limits = Limits()
    assert None not in (limits.requests, limits.tool_calls, limits.total_tokens, limits.cost_usd, limits.seconds)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"request": 1}, "limits: unknown limit 'request', did you mean 'requests'?"),
        ({"seconds": -1}, "limits: seconds must be a number, 0 or more, not -1"),
        ({"seconds": float("nan")}, "limits: seconds must be a number, 0 or more, not nan"),
    ],
)
def test_wrong_limits_are_refused(given: dict[str, float], message: str):
    with pytest.raises(ConfigError) as refused:
        Limits.of(given)
    assert str(refused.value) == message


def test_a_limit_can_be_lifted():
    assert Limits.of({"cost_usd": None}).cost_usd is None
