"""A dispatcher that works on what it has adopted, beside others that work on the rest."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import anyio

from mcp_subagents import moves
from mcp_subagents.branches import adopt
from mcp_subagents.dispatch.trees import TreeDispatcher
from mcp_subagents.records import TaskRecord
from mcp_subagents.store import Store
from mcp_subagents.types import TaskHandle, TaskStatus, TaskUsage, utc_now


class Work:
    """Ends each attempt at once, or as soon as `go` is set, and remembers what was run."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.seen: list[str] = []
        self.ended: set[str] = set()
        self.go = anyio.Event()
        self.changed = anyio.Event()

    async def execute(self, record: TaskRecord) -> None:
        self.seen.append(record.task_id)
        self._tell()
        await self.go.wait()
        done = moves.complete("42", usage=TaskUsage(), seconds=0.0, at=utc_now())
        await self.store.change(record.task_id, done, lease=record.lease)
        self.ended.add(record.task_id)
        self._tell()

    async def until_ended(self, *task_ids: str) -> None:
        while not self.ended >= set(task_ids):
            await self.changed.wait()

    async def until_seen(self, count: int) -> None:
        while len(self.seen) < count:
            await self.changed.wait()

    def _tell(self) -> None:
        changed, self.changed = self.changed, anyio.Event()
        changed.set()


@asynccontextmanager
async def at_work(store: Store, *, most: int = 4, go: bool = True) -> AsyncGenerator[tuple[TreeDispatcher, Work]]:
    dispatcher = TreeDispatcher(
        store, max_concurrency=most, per_subagent={}, resident=frozenset({"worker"}), now=utc_now
    )
    work = Work(store)
    if go:
        work.go.set()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(dispatcher.serve, work.execute)
            yield dispatcher, work
            group.cancel_scope.cancel()


async def put(store: Store, task_id: str, *, parent: str | None = None, due_at: datetime | None = None) -> None:
    handle = TaskHandle(task_id, "worker", "Go.", parent_id=parent)
    above = {} if parent is None else {parent: adopt(task_id, directly=True, most=None)}
    record = TaskRecord(handle=handle, due_at=due_at or utc_now(), provider="openai")
    await store.create(record, most_open=100, above=above)


async def status(store: Store, task_id: str) -> TaskStatus:
    return (await store.read(task_id)).handle.status


async def test_only_what_was_adopted_is_run(store: Store):
    for task_id in ("older", "mine", "newer"):
        await put(store, task_id)
    async with at_work(store) as (dispatcher, work):
        dispatcher.ring()
        await anyio.wait_all_tasks_blocked()
        assert work.seen == []
        dispatcher.adopt("mine")
        await work.until_ended("mine")
        dispatcher.ring()
        await anyio.wait_all_tasks_blocked()
    assert work.seen == ["mine"]
    assert [await status(store, each) for each in ("older", "newer")] == [TaskStatus.PENDING] * 2


async def test_what_comes_to_be_below_it_is_run_too(store: Store):
    await put(store, "mine")
    await put(store, "child", parent="mine")
    await put(store, "grandchild", parent="child")
    await put(store, "other")
    await put(store, "child of another", parent="other")
    async with at_work(store, go=False) as (dispatcher, work):
        dispatcher.adopt("mine")
        await work.until_seen(3)
        await put(store, "late child", parent="mine")
        dispatcher.ring()
        await work.until_seen(4)
        await anyio.wait_all_tasks_blocked()
    assert work.seen == ["mine", "child", "grandchild", "late child"]


async def test_no_more_is_run_at_a_time_than_there_is_room_for(store: Store):
    await put(store, "mine")
    for number in range(3):
        await put(store, f"child {number}", parent="mine")
    async with at_work(store, most=2, go=False) as (dispatcher, work):
        dispatcher.adopt("mine")
        await work.until_seen(2)
        dispatcher.ring()
        await anyio.wait_all_tasks_blocked()
        assert work.seen == ["mine", "child 0"]


async def test_what_falls_due_later_is_run_then_without_a_ring(store: Store):
    due_at = utc_now() + timedelta(milliseconds=50)
    await put(store, "mine", due_at=due_at)
    async with at_work(store) as (dispatcher, work):
        dispatcher.adopt("mine")
        await work.until_ended("mine")
    assert utc_now() >= due_at


async def test_a_provider_that_is_to_be_left_alone_is_asked_again_in_time(store: Store):
    until = utc_now() + timedelta(milliseconds=50)
    await store.cool_down("openai", until)
    await put(store, "mine")
    async with at_work(store) as (dispatcher, work):
        dispatcher.adopt("mine")
        await work.until_ended("mine")
    assert utc_now() >= until


async def test_what_is_held_is_left_to_whoever_holds_it(store: Store):
    await put(store, "mine")
    async with at_work(store) as (dispatcher, work):
        async with dispatcher.hold("mine"):
            dispatcher.adopt("mine")
            await anyio.wait_all_tasks_blocked()
            assert work.seen == []
        await work.until_ended("mine")


async def test_a_task_that_is_gone_keeps_no_other_from_being_run(store: Store):
    await put(store, "mine")
    async with at_work(store) as (dispatcher, work):
        dispatcher.adopt("gone")
        dispatcher.adopt("mine")
        await work.until_ended("mine")
