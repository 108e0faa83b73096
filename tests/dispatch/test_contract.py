"""Every promise of a dispatcher, on every pair of dispatcher and store."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_subagents import moves
from mcp_subagents.dispatch import Dispatcher, Execute
from mcp_subagents.dispatch.local import LocalDispatcher
from mcp_subagents.errors import StoreUnavailable
from mcp_subagents.records import TaskRecord
from mcp_subagents.store import Claim, Store
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.types import TaskHandle, TaskStatus, TaskUsage, utc_now

Pair = tuple[Store, Callable[..., Dispatcher]]


def local(store: Store, most: int = 2) -> Dispatcher:
    return LocalDispatcher(store, max_concurrency=most, per_subagent={}, resident=frozenset({"worker"}), now=utc_now)


@pytest.fixture(params=["memory + local", "sqlite + local"])
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Pair]:
    if request.param == "memory + local":
        yield MemoryStore(), local
        return
    async with open_sqlite(tmp_path / "tasks.db") as store:
        yield store, local


@asynccontextmanager
async def serving(dispatcher: Dispatcher, execute: Execute) -> AsyncGenerator[None]:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(dispatcher.serve, execute)
            yield
            group.cancel_scope.cancel()


async def put(store: Store, task_id: str, due_at: datetime | None = None) -> TaskRecord:
    record = TaskRecord(handle=TaskHandle(task_id, "worker", "Go."), due_at=due_at or utc_now())
    return await store.create(record, most_open=100)


async def end(store: Store, record: TaskRecord) -> None:
    done = moves.complete("42", usage=TaskUsage(), seconds=0.0, at=utc_now())
    await store.change(record.task_id, done, lease=record.lease)


class Work:
    """Runs attempts, and lets a test see and hold them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.running: set[str] = set()
        self.most = 0
        self.seen: list[str] = []
        self.go = anyio.Event()
        self.changed = anyio.Event()

    async def execute(self, record: TaskRecord) -> None:
        self.seen.append(record.task_id)
        self.running.add(record.task_id)
        self.most = max(self.most, len(self.running))
        self._tell()
        try:
            await self.go.wait()
            await end(self.store, record)
        finally:
            self.running.discard(record.task_id)
            self._tell()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self.changed.wait()

    def _tell(self) -> None:
        changed, self.changed = self.changed, anyio.Event()
        changed.set()


async def test_what_is_due_is_run_and_no_more_at_a_time_than_there_is_room_for(pair: Pair):
    store, make = pair
    dispatcher, work = make(store), Work(store)
    async with serving(dispatcher, work.execute):
        for number in range(5):
            await put(store, f"t{number}")
            dispatcher.ring()
        await work.until(lambda: len(work.running) == 2)
        await anyio.wait_all_tasks_blocked()
        work.go.set()
        await work.until(lambda: len(work.seen) == 5 and not work.running)
    assert (work.most, work.seen) == (2, ["t0", "t1", "t2", "t3", "t4"])


async def test_what_was_due_before_it_began_needs_no_ring(pair: Pair):
    store, make = pair
    await put(store, "early")
    work = Work(store)
    async with serving(make(store), work.execute):
        await work.until(lambda: work.seen == ["early"])


async def test_what_falls_due_later_is_run_then_without_a_ring(pair: Pair):
    store, make = pair
    due_at = utc_now() + timedelta(milliseconds=50)
    await put(store, "later", due_at)
    work = Work(store)
    async with serving(make(store), work.execute):
        await work.until(lambda: work.seen == ["later"])
    assert utc_now() >= due_at


async def test_an_abort_ends_that_attempt_and_no_other(pair: Pair):
    store, make = pair
    dispatcher, work = make(store), Work(store)
    await put(store, "a")
    await put(store, "b")
    async with serving(dispatcher, work.execute):
        await work.until(lambda: len(work.running) == 2)
        assert dispatcher.runs("a")
        dispatcher.abort("a")
        dispatcher.abort("nobody")
        await work.until(lambda: work.running == {"b"})
        work.go.set()
        await work.until(lambda: not work.running)
    assert (await store.read("b")).handle.status is TaskStatus.COMPLETED


async def test_a_task_that_is_held_is_left_to_whoever_holds_it(pair: Pair):
    store, make = pair
    dispatcher, work = make(store), Work(store)
    async with serving(dispatcher, work.execute):
        async with dispatcher.hold("mine"):
            await put(store, "mine")
            await put(store, "other")
            dispatcher.ring()
            await work.until(lambda: work.seen == ["other"])
            assert "mine" in dispatcher.capacity(1).but_not
        await work.until(lambda: work.seen == ["other", "mine"])


async def test_a_store_that_fails_for_a_while_does_not_end_it():
    class Moody(MemoryStore):
        trouble = 1

        async def claim(self, *args: Any, **kwargs: Any) -> Claim:
            if self.trouble:
                self.trouble -= 1
                raise StoreUnavailable("The disk is full.")
            return await super().claim(*args, **kwargs)

    store = Moody()
    await put(store, "patient")
    work = Work(store)
    async with serving(local(store), work.execute):
        await work.until(lambda: work.seen == ["patient"])
