"""Tasks that this process cannot run: a key, a package or a tool is missing here, and may be there elsewhere."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import anyio

from mcp_subagents import moves
from mcp_subagents.dispatch import Dispatcher
from mcp_subagents.failures import failure_of
from mcp_subagents.past import stored_history
from mcp_subagents.records import Lease, TaskRecord
from mcp_subagents.store import Store
from mcp_subagents.texts import brief

logger = logging.getLogger(__name__)

OTHERS_FIRST = 10.0
"""Seconds for another process to take on what we cannot run; one that is idle does so at once."""


class Unfit:
    """What becomes of such tasks: others go first, and if there is nobody, they fail."""

    def __init__(self, store: Store, dispatcher: Dispatcher, dead_after: float, now: Callable[[], datetime]) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._dead_after = timedelta(seconds=dead_after)
        self._now = now
        self._unwanted: set[Lease] = set()
        """What we gave back and nobody else took, while nobody else was at work."""

    async def settle(self, record: TaskRecord, why: Exception) -> None:
        """Leave the task to another process, or fail it: what we took on ourselves, and what nobody wanted."""
        ours_before = replace(record.lease, attempt=record.lease.attempt - 1)
        if record.home == self._store.process or ours_before in self._unwanted:
            self._unwanted.discard(ours_before)
            await self._fail(record, why)
        else:
            logger.warning("task %s is left to another process: %s", record.task_id, brief(str(why)))
            await self._offer(record)

    async def _offer(self, record: TaskRecord) -> None:
        # While it is held, this process does not claim it, and its slot is free for others.
        async with self._dispatcher.hold(record.task_id):
            await self._store.change(record.task_id, moves.release(self._now()), lease=record.lease)
            await anyio.sleep(OTHERS_FIRST)
            while await self._store.others_at_work(self._dead_after):  # noqa: ASYNC110  # they are elsewhere
                await anyio.sleep(OTHERS_FIRST)
            # Who takes it on ends this (`Dispatcher.abort`); a later attempt of somebody else makes it worthless.
            self._unwanted.add(record.lease)

    async def _fail(self, record: TaskRecord, why: Exception) -> None:
        history = await stored_history(self._store, record.task_id) if record.handle.turns else []
        failure = failure_of(why, messages=history, retries=record.handle.retry_count)
        failure = replace(failure, usage=record.handle.usage or failure.usage)
        await self._store.change(record.task_id, moves.fail(failure, at=self._now()), lease=record.lease)
