"""Runs some tasks and those below them in this process, and leaves all others to whoever works the store."""

from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import datetime

from mcp_subagents.delegation import ACTIVE
from mcp_subagents.dispatch.local import LocalDispatcher
from mcp_subagents.errors import UnknownTask
from mcp_subagents.records import TaskRecord
from mcp_subagents.store import Claim, Query
from mcp_subagents.types import TaskStatus

_QUEUED = frozenset({TaskStatus.PENDING, TaskStatus.RETRYING})


class TreeDispatcher(LocalDispatcher):
    """Claims tasks it has adopted, and what is below them. Nothing keeps others from being faster."""

    _roots: frozenset[str] = frozenset()

    def adopt(self, task_id: str) -> None:
        """Run that task, and all that comes to be below it."""
        self._roots |= {task_id}
        self.ring()

    async def _claim(self, most: int, now: datetime) -> Claim:
        started: list[TaskRecord] = []
        dues: list[datetime] = []
        async for record in self._queued():
            if record.due_at > now:
                dues.append(record.due_at)
            elif record.task_id not in self._held:
                claim = await self._store.claim(self.capacity(most - len(started)), now, task_id=record.task_id)
                started += claim.records
                # It says when a provider that is to be left alone may be asked again.
                dues += [] if claim.records or claim.next_due_at is None else [claim.next_due_at]
        return Claim(records=started, next_due_at=min(dues, default=None))

    async def _queued(self) -> AsyncGenerator[TaskRecord]:
        """What waits for its turn, from the top of each tree down."""
        level: list[TaskRecord] = []
        for task_id in sorted(self._roots):
            with suppress(UnknownTask):  # it has ended, and was deleted
                level.append(await self._store.read(task_id))
        while level:
            below: list[TaskRecord] = []
            for record in level:
                if record.handle.status in _QUEUED:
                    yield record
                if record.tree is not None:
                    below += await self._store.select(Query(parent_id=record.task_id, statuses=ACTIVE))
            level = below
