"""Runs due tasks in this process, beside others that work on the same store."""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime

import anyio
from anyio.abc import TaskGroup

from mcp_subagents.dispatch import Execute
from mcp_subagents.errors import StoreError
from mcp_subagents.records import TaskRecord
from mcp_subagents.store import Capacity, Claim, Store

logger = logging.getLogger(__name__)

_LONGEST_NAP = 3600.0
"""Seconds. A clock that is set while we wait for a time must not let us wait for ever."""
_TROUBLE_NAP = 1.0
"""Seconds before a store that cannot be used just now is tried again."""


class LocalDispatcher:
    """Claims as much as there is room for, whenever something may have fallen due."""

    def __init__(
        self,
        store: Store,
        *,
        max_concurrency: int,
        per_subagent: Mapping[str, int],
        resident: frozenset[str],
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._room = max_concurrency
        self._per_subagent = dict(per_subagent)
        self._resident = resident
        self._now = now
        self._bell = anyio.Event()
        self._running: dict[str, anyio.CancelScope] = {}
        self._held: set[str] = set()

    def ring(self) -> None:
        self._bell.set()

    def abort(self, task_id: str) -> None:
        if (scope := self._running.get(task_id)) is not None:
            scope.cancel()

    @asynccontextmanager
    async def hold(self, task_id: str) -> AsyncGenerator[None]:
        self._held.add(task_id)
        self.ring()  # its slot is free for the time being
        try:
            yield
        finally:
            self._held.discard(task_id)
            self.ring()

    def capacity(self, most: int) -> Capacity:
        return Capacity(
            most=most,
            in_all=self._room,
            per_subagent=self._per_subagent,
            subagents=self._resident,
            but_not=frozenset(self._held),
        )

    def runs(self, task_id: str) -> bool:
        return task_id in self._running

    async def serve(self, execute: Execute) -> None:
        async with anyio.create_task_group() as attempts:
            while True:
                # Take the bell, then look, then wait for the one that was taken: no ring is missed.
                self._bell = bell = anyio.Event()
                nap = await self._start_what_fits(attempts, execute)
                with anyio.move_on_after(nap):
                    await bell.wait()

    async def _start_what_fits(self, attempts: TaskGroup, execute: Execute) -> float:
        """Start due tasks, and say for how many seconds there is nothing more to do."""
        free = self._room - len(self._running.keys() - self._held)
        if free <= 0:
            return _LONGEST_NAP
        now = self._now()
        try:
            claim = await self._claim(free, now)
        except StoreError as exc:
            logger.error("cannot look for due tasks, trying again: %s", exc)
            return _TROUBLE_NAP
        except Exception:
            # Whatever it is, the tasks that run must not suffer for it.
            logger.exception("cannot look for due tasks, trying again")
            return _TROUBLE_NAP
        for record in claim.records:
            # Known to `abort` before anybody else can act.
            self._running[record.task_id] = anyio.CancelScope()
            attempts.start_soon(self._run, record, execute, name=f"attempt of {record.task_id}")
        if claim.next_due_at is None:
            return _LONGEST_NAP
        return min(max((claim.next_due_at - now).total_seconds(), 0.001), _LONGEST_NAP)

    async def _claim(self, most: int, now: datetime) -> Claim:
        """Start up to `most` due tasks, whosever they are."""
        return await self._store.claim(self.capacity(most), now)

    async def _run(self, record: TaskRecord, execute: Execute) -> None:
        scope = self._running[record.task_id]
        try:
            with scope:
                await execute(record)
        finally:
            # The same task may run again here already, under a scope of its own.
            if self._running.get(record.task_id) is scope:
                del self._running[record.task_id]
            self.ring()
