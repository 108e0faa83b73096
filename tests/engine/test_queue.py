"""Who goes first, how many at a time, and who is left alone for a while."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
from office import SETTINGS, at_work, delegate, outcome, subagent, until
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError, ModelRateLimitError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from test_steering import Gate

from mcp_subagents.config import SubAgentConfig
from mcp_subagents.store import Store
from mcp_subagents.testing import ScriptedModel
from mcp_subagents.types import TaskPriority, TaskStatus, utc_now

ONE = replace(SETTINGS, max_concurrency=1)


def last_words(messages: list[ModelMessage]) -> str:
    prompt: Any = messages[0].parts[-1]
    return str(prompt.content).split("\n")[2]


class Crowd:
    """A subagent that counts how many of its tasks run at a time, and holds them until they are enough."""

    def __init__(self, enough: int, name: str = "worker", **more: Any) -> None:
        self.running = 0
        self.most = 0
        self.order: list[str] = []
        self.full = anyio.Event()
        self._enough = enough
        self.config: SubAgentConfig = subagent(agent=Agent(FunctionModel(self._think)), name=name, **more)

    async def _think(self, messages: list[ModelMessage], info: object) -> ModelResponse:
        self.order.append(last_words(messages))
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running >= self._enough:
            self.full.set()
        await self.full.wait()
        # Others that could run would have begun by now.
        await anyio.wait_all_tasks_blocked()
        self.running -= 1
        return ModelResponse(parts=[TextPart("Done.")])


async def test_as_many_tasks_run_at_a_time_as_are_allowed_and_no_more(store: Store):
    crowd = Crowd(enough=3)
    async with at_work(store, crowd.config, settings=replace(SETTINGS, max_concurrency=3)) as engine:
        ids = [await delegate(engine) for _ in range(7)]
        waited = await engine.wait(ids)
    assert Counter(task.status for task in waited.tasks) == {TaskStatus.COMPLETED: 7}
    assert crowd.most == 3


async def test_a_subagent_can_have_a_bound_of_its_own(store: Store):
    shy, bold = Crowd(enough=1, name="shy", max_concurrency=1), Crowd(enough=2, name="bold")
    async with at_work(store, shy.config, bold.config, settings=replace(SETTINGS, max_concurrency=4)) as engine:
        ids = [await delegate(engine, subagent="shy") for _ in range(3)]
        ids += [await delegate(engine, subagent="bold") for _ in range(2)]
        await engine.wait(ids)
    assert (shy.most, bold.most) == (1, 2)


async def test_priorities_order_the_queue_and_age_orders_each_priority(store: Store):
    gate, crowd = Gate(), Crowd(enough=1)
    holder = subagent(ToolCallPart("gate", {}), "Done.", tools=[gate.gate], name="holder")
    ranks = [TaskPriority.LOW, TaskPriority.NORMAL, TaskPriority.CRITICAL, TaskPriority.HIGH]
    async with at_work(store, holder, crowd.config, settings=ONE) as engine:
        await delegate(engine, subagent="holder")
        await gate.reached.wait()
        ids = [await delegate(engine, f"{rank} {n}", priority=rank) for n in (1, 2) for rank in ranks]
        places = [(await engine.look(task_id)).queue_position for task_id in ids]
        gate.open.set()
        await engine.wait(ids)
    assert crowd.order == ["critical 1", "critical 2", "high 1", "high 2", "normal 1", "normal 2", "low 1", "low 2"]
    assert places == [7, 5, 1, 3, 8, 6, 2, 4]


async def test_a_task_that_is_not_queued_has_no_place_in_the_queue(store: Store):
    async with at_work(store, subagent("42")) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        assert (await engine.look(task_id)).queue_position is None


async def test_a_rate_limit_holds_back_all_tasks_of_that_provider_and_no_others(store: Store):
    limited = ModelHTTPError.for_category(
        ModelRateLimitError, status_code=429, model_name="scripted", headers={"retry-after": "30"}
    )
    model = ScriptedModel(limited)
    crowded = Agent(model)
    other = Agent(ScriptedModel("42"))
    elsewhere = subagent(agent=other, name="elsewhere")
    async with at_work(store, subagent(agent=crowded), elsewhere) as engine:
        first = await delegate(engine)
        retrying = await until(engine, first, lambda task: task.status is TaskStatus.RETRYING)
        assert retrying.retry_count == 1
        second = await delegate(engine)
        # Another provider's name keeps the other subagent out of it.
        record = await store.read(second)
        assert record.provider == "function"
        waiting = await engine.wait([second], timeout=0.1)
        assert (waiting.timed_out, waiting.tasks[0].status) == (True, TaskStatus.PENDING)
    assert len(model.requests) == 1


async def test_a_task_whose_subagent_lives_elsewhere_is_left_for_that_process(store: Store):
    async with at_work(store, subagent("42", name="theirs")) as engine:
        task_id = await delegate(engine, subagent="theirs")
        await outcome(engine, task_id)
    record = await store.read(task_id)
    fresh = replace(
        record,
        handle=replace(record.handle, task_id="fresh", status=TaskStatus.PENDING, result=None, completed_at=None),
        due_at=utc_now() - timedelta(seconds=1),
        unread=False,
    )
    await store.create(fresh, most_open=10)
    async with at_work(store, subagent("43", name="ours")) as engine:
        assert (await outcome(engine, await delegate(engine, subagent="ours"))).result == "43"
        assert (await engine.check("fresh")).status is TaskStatus.PENDING
