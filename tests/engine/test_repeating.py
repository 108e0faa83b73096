"""A call that is made again finds the task that it has started, whatever has changed in between."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import anyio
import pytest
from office import SETTINGS, at_work, delegate, outcome, subagent
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.usage import RequestUsage
from test_nesting import ALONE, GATED, boss, child_of, only_child, task, told
from test_steering import Gate

from mcp_subagents.agents import Roster
from mcp_subagents.config import SubAgentConfig
from mcp_subagents.engine import Engine, run_engine
from mcp_subagents.errors import DailyCostReached, TaskEnded, TooManyTasks, UnknownSubagent, UnknownTask
from mcp_subagents.records import EntryKind
from mcp_subagents.store import Query, Store
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.testing import ScriptedModel
from mcp_subagents.types import TaskStatus, utc_now

COSTLY = ModelResponse(parts=[TextPart("42")], usage=RequestUsage(input_tokens=1, output_tokens=1, cost=Decimal("1.2")))


class Scene:
    """An engine, and what can come in the way of a task."""

    def __init__(self, engine: Engine, store: Store, roster: dict[str, SubAgentConfig]) -> None:
        self.engine = engine
        self.store = store
        self.roster = roster

    async def spend_the_day(self, wanted: dict[str, Any]) -> None:
        await outcome(self.engine, await delegate(self.engine, subagent="costly"))

    async def remove_the_subagent(self, wanted: dict[str, Any]) -> None:
        del self.roster["worker"]

    async def open_too_many(self, wanted: dict[str, Any]) -> None:
        await delegate(self.engine, subagent="waiting")

    async def end_its_parent(self, wanted: dict[str, Any]) -> None:
        await self.engine.hard_cancel(wanted["parent_id"])

    async def delete_what_it_follows(self, wanted: dict[str, Any]) -> None:
        await self.store.prune(utc_now() + timedelta(days=1))


@pytest.mark.parametrize(
    ("get_in_the_way", "refusal"),
    [
        (Scene.spend_the_day, DailyCostReached),
        (Scene.remove_the_subagent, UnknownSubagent),
        (Scene.open_too_many, TooManyTasks),
        (Scene.end_its_parent, TaskEnded),
        (Scene.delete_what_it_follows, UnknownTask),
    ],
    ids=["the day is spent", "it is gone", "too many are open", "its parent has ended", "its past is deleted"],
)
async def test_a_repeated_call_returns_its_task_where_a_new_one_is_refused(
    store: Store, get_in_the_way: Callable[[Scene, dict[str, Any]], Awaitable[None]], refusal: type[Exception]
):
    gate = Gate()
    roster = {
        "worker": subagent(GATED, tools=[gate.gate]),
        "costly": subagent(COSTLY, name="costly"),
        "waiting": subagent(GATED, GATED, tools=[gate.gate], name="waiting"),
    }
    day = 1.0 if get_in_the_way is Scene.spend_the_day else None
    settings = replace(SETTINGS, daily_cost_usd=day, max_open_tasks=2)
    with anyio.fail_after(10):
        async with run_engine(store, Roster(roster), settings) as engine:
            wanted: dict[str, Any] = {}
            if get_in_the_way is Scene.end_its_parent:
                wanted["parent_id"] = await delegate(engine, subagent="waiting")
            if get_in_the_way is Scene.delete_what_it_follows:
                wanted["continues"] = await delegate(engine, subagent="costly")
                await outcome(engine, wanted["continues"])
            first = await delegate(engine, idempotency_key="k", **wanted)
            await get_in_the_way(Scene(engine, store, roster), wanted)

            assert await delegate(engine, idempotency_key="k", **wanted) == first
            with pytest.raises(refusal):
                await delegate(engine, idempotency_key="another", **wanted)


async def test_a_parked_call_returns_its_childs_result_though_that_was_the_last_of_the_day(store: Store):
    top, _ = boss(task("helper"))
    settings = replace(SETTINGS, daily_cost_usd=1.0)
    async with at_work(store, top, subagent(COSTLY, name="helper"), settings=settings) as engine:
        task_id = await delegate(engine, subagent="boss")
        done = await outcome(engine, task_id)
    [result] = await store.journal(task_id, frozenset({EntryKind.TOOL_RESULT}))
    assert '"outcome":"returned"' in result.body
    assert "(helper): completed." in result.body
    assert done.failure is not None
    assert "may cost in a day" in done.failure.message


async def test_a_parked_call_returns_though_its_subagent_is_gone(store: Store):
    gate = Gate()
    top, model = boss(task("helper"), "Done.")
    roster = {"boss": top, "helper": subagent(GATED, "42", tools=[gate.gate], name="helper")}
    with anyio.fail_after(10):
        async with run_engine(store, Roster(roster), ALONE) as engine:
            task_id = await delegate(engine, subagent="boss")
            await gate.reached.wait()
            del roster["helper"]
            gate.open.set()
            assert (await outcome(engine, task_id)).result == "Done."
    assert "(helper): completed." in told(model)[0]


async def test_a_call_that_waits_beside_a_question_is_not_made_twice(store: Store):
    own = ToolCallPart("ask_parent", {"question": "May I?"}, tool_call_id="own")
    top, model = boss([own, task("helper")], "Done.")
    roster = {"boss": top, "helper": subagent("42", name="helper")}
    with anyio.fail_after(10):
        async with run_engine(store, Roster(roster), replace(SETTINGS, hot_wait=0.0)) as engine:
            task_id = await delegate(engine, subagent="boss")
            assert (await outcome(engine, task_id)).status is TaskStatus.WAITING_FOR_ANSWER
            await outcome(engine, (await child_of(engine, store, task_id)).task_id)
            del roster["helper"]
            await engine.answer(task_id, "Yes.")
            assert (await outcome(engine, task_id)).result == "Done."
    assert "(helper): completed." in told(model)[1]
    assert (await only_child(store, task_id)).status is TaskStatus.COMPLETED


async def test_a_parked_call_whose_child_was_deleted_does_not_start_another(store: Store):
    gate = Gate()
    top, model = boss([task("quick", "a"), task("slow", "b")], "Done.", to=["quick", "slow"])
    slow = subagent(GATED, "42", tools=[gate.gate], name="slow")
    async with at_work(store, top, subagent("1", "2", name="quick"), slow) as engine:
        task_id = await delegate(engine, subagent="boss")
        await gate.reached.wait()
        quick = next(
            each.handle for each in await store.select(Query(parent_id=task_id)) if each.handle.subagent_name == "quick"
        )
        await outcome(engine, quick.task_id)
        await store.prune(utc_now() + timedelta(days=1))
        gate.open.set()
        assert (await outcome(engine, task_id)).result == "Done."
    first, second = told(model)
    assert first.startswith(f"There is no task '{quick.task_id}'.")
    assert "(slow): completed." in second
    assert [each.handle.subagent_name for each in await store.select(Query(parent_id=task_id))] == ["slow"]


async def test_calls_of_different_turns_with_the_same_id_are_different_calls(store: Store):
    top, model = boss(task("helper", "t1"), task("helper", "t1"), "Done.")
    async with at_work(store, top, subagent("First.", "Second.", name="helper")) as engine:
        task_id = await delegate(engine, subagent="boss")
        assert (await outcome(engine, task_id)).result == "Done."
    assert len(await store.select(Query(parent_id=task_id))) == 2
    assert ["First." in told(model)[0], "Second." in told(model)[1]] == [True, True]


async def test_a_key_that_a_subagent_gives_is_one_among_those_of_its_own_task(store: Store):
    keyed = {"idempotency_key": "k"}
    calls = [task("helper", "t1", **keyed), "Done.", task("helper", "t1", **keyed), task("helper", "t2", **keyed)]
    top, model = boss(*calls, "Done.")
    async with at_work(store, top, subagent("First.", "Second.", name="helper")) as engine:
        parents = [(await outcome(engine, await delegate(engine, subagent="boss"))).task_id for _ in range(2)]
    children = [await only_child(store, parent) for parent in parents]
    assert [child.result for child in children] == ["First.", "Second."]
    assert all("Second." in said for said in told(model))


async def test_a_key_of_a_subagent_stands_for_one_task(store: Store):
    other = ToolCallPart("task", {"description": "Else.", "idempotency_key": "k"}, tool_call_id="t2")
    top, model = boss(task("helper", idempotency_key="k"), other, "Done.")
    async with at_work(store, top, subagent("42", name="helper")) as engine:
        task_id = await delegate(engine, subagent="boss")
        await outcome(engine, task_id)
    assert "which is about something else" in told(model)[1]
    assert (await only_child(store, task_id)).result == "42"


async def test_a_model_is_not_told_that_its_engine_stops_and_goes_on_in_the_next_one():
    store, gate = MemoryStore(), Gate()
    model = ScriptedModel(GATED, task("helper"), "Done.")
    top = subagent(agent=Agent(model, tools=[gate.gate]), name="boss", subagents=["helper"])
    helper = subagent("42", name="helper")
    async with at_work(store, top, helper) as engine:
        task_id = await delegate(engine, subagent="boss")
        await gate.reached.wait()
        engine.stop()
        gate.open.set()
        while (await engine.look(task_id)).doing != "calling task":
            await anyio.wait_all_tasks_blocked()
        await anyio.wait_all_tasks_blocked()
        assert len(model.requests) == 2
    async with at_work(store, top, helper) as engine:
        assert (await outcome(engine, task_id)).result == "Done."
    assert "(helper): completed." in told(model)[1]
    assert (await only_child(store, task_id)).status is TaskStatus.COMPLETED
