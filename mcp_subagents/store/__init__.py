"""Durable tasks: the promises every store keeps.

The rules of a task's life are pure functions on its record (`mcp_subagents.moves`). A store applies them
one at a time and writes the outcome, so that all stores behave alike and none decides anything.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Protocol

from mcp_subagents.records import Entry, EntryKind, Lease, Move, TaskRecord
from mcp_subagents.store.watching import Changes
from mcp_subagents.types import TaskStatus

__all__ = ["Capacity", "Claim", "Query", "Store"]


NOBODY: Mapping[str, Move] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """What a process can take on."""

    most: int
    """How many tasks, at the most, this claim may start."""
    in_all: int
    """How many tasks may run at a time, over all processes."""
    per_subagent: dict[str, int] = field(default_factory=dict[str, int])
    """How many tasks of one subagent may run at a time, where that is bounded."""
    subagents: frozenset[str] = frozenset()
    """Subagents that live in this process; of others, only tasks that carry their definition can be taken."""
    but_not: frozenset[str] = frozenset()
    """Tasks that somebody else in this process is about to take on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The tasks that were started, and when the next one falls due.

    That is `None` if nothing is waiting for a time; and if `Capacity.most` were started, since there is no room for
    more until one of them ends.
    """

    records: Sequence[TaskRecord] = ()
    next_due_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """Which tasks to list; the oldest come first, unless said otherwise. Everything given must hold."""

    owner: str | None = None
    statuses: frozenset[TaskStatus] | None = None
    parent_id: str | None = None
    unread: bool | None = None
    on_top: bool = False
    """Only tasks of hosts, and none that a subagent has delegated."""
    prefix: str = ""
    """How their ids begin."""
    ended_before: datetime | None = None
    limit: int = sys.maxsize
    newest_first: bool = False


class Store(Protocol):
    """Durable tasks. When a method returns, what it wrote has survived a crash."""

    process: str
    """Who starts the tasks that are claimed here: one name for each opened store, never used again."""

    async def create(
        self,
        record: TaskRecord,
        entries: Sequence[Entry] = (),
        *,
        most_open: int,
        above: Mapping[str, Move] = NOBODY,
    ) -> TaskRecord:
        """Store a new task, together with what it makes of the tasks `above` it: all or nothing.

        If `idempotency_key` is set and the owner has a task with it already, that one is returned and nothing
        is stored.

        Raises:
            FollowedUp: it goes on from an ended task, and so does another one that is still open.
            TooManyTasks: the owner has `most_open` tasks that have not ended.
            SubagentsError: a task above it refuses.
        """
        ...

    async def by_key(self, owner: str, key: str) -> TaskRecord | None:
        """The task that the owner has under this idempotency key, as it stands; an empty key is none."""
        ...

    async def read(self, task_id: str) -> TaskRecord:
        """The task as it stands. Raises: `UnknownTask`."""
        ...

    async def journal(self, task_id: str, kinds: frozenset[EntryKind] | None = None) -> Sequence[Entry]:
        """What was recorded of a task, in order."""
        ...

    async def last_entry(self, task_id: str, kinds: frozenset[EntryKind] | None = None) -> Entry | None:
        """What was recorded of a task last, of these kinds."""
        ...

    async def change(self, task_id: str, move: Move, *, lease: Lease | None = None) -> TaskRecord:
        """Apply `move` to the task as it stands, and store what comes of it: all or nothing.

        With a `lease`, only if that attempt still runs the task. When it ends, asks or is answered, its parent
        notes that in the same commit (`mcp_subagents.branches.upward`).

        Raises:
            UnknownTask: there is no such task.
            LeaseLost: another attempt has the task, or it has ended.
            IllegalTransition: the lifecycle does not lead there.
        """
        ...

    async def append(self, lease: Lease, entries: Sequence[Entry]) -> TaskRecord:
        """Add to the journal of a running task, and say how it stands. Raises: `LeaseLost`."""
        ...

    async def claim(self, capacity: Capacity, now: datetime, *, task_id: str | None = None) -> Claim:
        """Start the due tasks that fit, so that no other caller can start them too.

        The highest priority goes first, then the oldest. With `task_id`, that one or none. Tasks of a
        provider that is cooling down are left alone.
        """
        ...

    async def catch_up(self) -> None:
        """Return when all that was asked of this store before has been written, or has come to nothing."""
        ...

    async def queue_position(self, task_id: str) -> int | None:
        """How many tasks go before this one, plus one; `None` if it is not queued."""
        ...

    async def select(self, query: Query) -> Sequence[TaskRecord]:
        """The tasks that `query` describes."""
        ...

    async def count(self, query: Query) -> int:
        """How many tasks `query` describes, whatever its limit."""
        ...

    async def cool_down(self, provider: str, until: datetime) -> None:
        """Start no task of `provider` before `until`. An earlier end than the one in force changes nothing."""
        ...

    async def lost(self, dead_after: timedelta) -> Sequence[Lease]:
        """Attempts at work in a process that has given no sign of life for that long."""
        ...

    async def others_at_work(self, dead_after: timedelta) -> bool:
        """Whether another process has given a sign of life; one that has nothing to do gives none."""
        ...

    async def overdue(self, now: datetime) -> Sequence[str]:
        """Tasks that have waited for an answer for long enough."""
        ...

    async def orphans(self) -> Sequence[str]:
        """Open tasks whose parent has ended."""
        ...

    async def spent(self, day: date) -> Decimal:
        """What all tasks cost on that day, UTC, as far as prices are known. Deleted tasks count too."""
        ...

    async def prune(self, before: datetime) -> int:
        """Delete tasks that ended before then, with their journals, and say how many."""
        ...

    def watch(self) -> AbstractAsyncContextManager[Changes]:
        """What changes from now on of tasks' records, made by this process or another.

        Of several changes of a task since the last read, the last one is told: see `Changes`.
        """
        ...
