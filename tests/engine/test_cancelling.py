"""Soft and hard cancel, from every state a task can be in."""

from dataclasses import replace
from typing import Any

import anyio
import pytest
from office import SETTINGS, at_work, delegate, outcome, subagent, until
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from test_steering import Gate

from mcp_subagents.delegation import Submission
from mcp_subagents.store import Store
from mcp_subagents.testing import ScriptedModel
from mcp_subagents.types import FailureType, TaskHandle, TaskStatus

ASK = ToolCallPart("ask_parent", {"question": "A or B?"}, tool_call_id="q")
BOTH = pytest.mark.parametrize("how", ["soft_cancel", "hard_cancel"])


def ended_by_cancel(task: TaskHandle) -> bool:
    failure = task.failure
    return task.status is TaskStatus.CANCELLED and failure is not None and failure.failure_type is FailureType.CANCELLED


async def test_a_soft_cancel_lets_the_tool_finish_and_stops_before_the_next_request(store: Store):
    gate = Gate()
    model = ScriptedModel(ModelResponse(parts=[TextPart("Looking."), ToolCallPart("gate", {})]))
    async with at_work(store, subagent(agent=Agent(model, tools=[gate.gate]))) as engine:
        task_id = await delegate(engine)
        await gate.reached.wait()
        asked = await engine.soft_cancel(task_id)
        assert asked.status is TaskStatus.RUNNING
        gate.open.set()
        done = await outcome(engine, task_id)
    assert ended_by_cancel(done)
    assert done.failure is not None
    assert done.failure.partial_results == "Looking."
    assert done.usage is not None
    assert (done.usage.requests, done.usage.tool_calls, len(model.requests)) == (1, 1, 1)


async def test_a_soft_cancel_outlives_the_engine_that_took_it(store: Store):
    gate = Gate()
    model = ScriptedModel(ToolCallPart("gate", {}), "never said")
    worker = subagent(agent=Agent(model, tools=[gate.gate]))
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        await gate.reached.wait()
        await engine.soft_cancel(task_id)
    async with at_work(store, worker) as engine:
        assert ended_by_cancel(await outcome(engine, task_id))
    assert len(model.requests) == 1


async def test_a_hard_cancel_ends_a_running_task_now(store: Store):
    gate = Gate()
    left = anyio.Event()

    async def hold() -> str:
        try:
            return await gate.gate()
        finally:
            left.set()

    model = ScriptedModel(ModelResponse(parts=[TextPart("Looking."), ToolCallPart("hold", {})]))
    async with at_work(store, subagent(agent=Agent(model, tools=[hold]))) as engine:
        task_id = await delegate(engine)
        await gate.reached.wait()
        done = await engine.hard_cancel(task_id)
        assert ended_by_cancel(done)
        assert done.failure is not None
        assert done.failure.partial_results == "Looking."
        await left.wait()
        assert await engine.check(task_id) == done


@BOTH
async def test_a_queued_task_is_cancelled_at_once(store: Store, how: str):
    gate = Gate()
    model = ScriptedModel(ToolCallPart("gate", {}))
    settings = replace(SETTINGS, max_concurrency=1)
    async with at_work(store, subagent(agent=Agent(model, tools=[gate.gate])), settings=settings) as engine:
        await delegate(engine)
        await gate.reached.wait()
        queued = await delegate(engine)
        assert ended_by_cancel(await getattr(engine, how)(queued))
    assert len(model.requests) == 1


@BOTH
async def test_a_task_that_asks_is_cancelled_at_once(store: Store, how: str):
    async with at_work(store, subagent(ASK)) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        assert ended_by_cancel(await getattr(engine, how)(task_id))


@BOTH
async def test_a_task_between_retries_is_cancelled_at_once(store: Store, how: str):
    busy = ModelHTTPError(503, "scripted")
    async with at_work(
        store, subagent(busy, retry_initial_delay=60.0, retry_max_delay=60.0, retry_jitter=False)
    ) as engine:
        task_id = await delegate(engine)
        await until(engine, task_id, lambda task: task.status is TaskStatus.RETRYING)
        assert ended_by_cancel(await getattr(engine, how)(task_id))


@BOTH
async def test_cancelling_what_has_ended_changes_nothing(store: Store, how: str):
    async with at_work(store, subagent("42")) as engine:
        task_id = await delegate(engine)
        done = await outcome(engine, task_id)
        assert await getattr(engine, how)(task_id) == done
        assert await getattr(engine, how)(task_id) == done


async def test_cancelling_again_is_harmless_and_a_hard_cancel_overtakes_a_soft_one(store: Store):
    gate = Gate()
    model = ScriptedModel(ToolCallPart("gate", {}))
    async with at_work(store, subagent(agent=Agent(model, tools=[gate.gate]))) as engine:
        task_id = await delegate(engine)
        await gate.reached.wait()
        assert await engine.soft_cancel(task_id) == await engine.soft_cancel(task_id)
        assert ended_by_cancel(await engine.hard_cancel(task_id))


@BOTH
async def test_cancelling_a_task_reaches_the_whole_tree_below_it(store: Store, how: str):
    async with at_work(store, subagent(ASK, ASK, ASK)) as engine:
        ids: list[str] = []
        for _ in range(3):
            parent = ids[-1] if ids else None
            handle = await engine.submit(Submission(description="Go.", subagent="worker", parent_id=parent))
            await outcome(engine, handle.task_id)
            ids.append(handle.task_id)
        await getattr(engine, how)(ids[0])
        assert all([ended_by_cancel(await engine.check(task_id)) for task_id in ids])


async def test_a_hard_cancel_frees_the_slot(store: Store):
    gate = Gate()
    stuck: Any = Agent(ScriptedModel(ToolCallPart("gate", {})), tools=[gate.gate])
    settings = replace(SETTINGS, max_concurrency=1)
    async with at_work(store, subagent(agent=stuck), subagent("42", name="other"), settings=settings) as engine:
        task_id = await delegate(engine)
        await gate.reached.wait()
        other = await delegate(engine, subagent="other")
        await engine.hard_cancel(task_id)
        assert (await outcome(engine, other)).result == "42"
