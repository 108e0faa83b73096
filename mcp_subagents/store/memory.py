"""A store that forgets when its process ends: for tests, and for those who want nothing kept."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from uuid import uuid4

from mcp_subagents import moves
from mcp_subagents.branches import cost_between, upward
from mcp_subagents.errors import FollowedUp, IllegalTransition, LeaseLost, TooManyTasks, UnknownTask
from mcp_subagents.records import PRIORITY_ORDER, Entry, EntryKind, Lease, Move, TaskRecord
from mcp_subagents.store import NOBODY, Capacity, Claim, Query
from mcp_subagents.store.watching import Changes, Watchers
from mcp_subagents.types import TaskHandle, TaskStatus

QUEUED = frozenset({TaskStatus.PENDING, TaskStatus.RETRYING})


class MemoryStore:
    """The promises of `Store` but the one about crashes."""

    def __init__(self) -> None:
        self.process = f"memory-{uuid4().hex}"
        self._tasks: dict[str, TaskRecord] = {}
        self._journals: dict[str, list[Entry]] = {}
        self._cooling: dict[str, datetime] = {}
        self._spent: defaultdict[date, Decimal] = defaultdict(Decimal)
        self._watchers = Watchers()

    async def create(
        self,
        record: TaskRecord,
        entries: Sequence[Entry] = (),
        *,
        most_open: int,
        above: Mapping[str, Move] = NOBODY,
    ) -> TaskRecord:
        owner = record.handle.owner
        if (same := await self.by_key(owner, record.idempotency_key)) is not None:
            return same
        mine = [each for each in self._tasks.values() if each.handle.owner == owner]
        still_open = [each for each in mine if not each.handle.status.is_terminal]
        for each in still_open if record.continues else ():
            if each.continues == record.continues:
                raise FollowedUp(record.continues, each.handle)
        if len(still_open) >= most_open:
            raise TooManyTasks(most_open)
        changed = [move(await self.read(task_id)).record for task_id, move in above.items()]
        self._journals[record.task_id] = list(entries)
        self._put(record)
        for each in changed:
            self._put(each)
        return record

    async def by_key(self, owner: str, key: str) -> TaskRecord | None:
        mine = (each for each in self._tasks.values() if key and each.handle.owner == owner)
        return next((each for each in mine if each.idempotency_key == key), None)

    async def read(self, task_id: str) -> TaskRecord:
        try:
            return self._tasks[task_id]
        except KeyError:
            raise UnknownTask(task_id) from None

    async def journal(self, task_id: str, kinds: frozenset[EntryKind] | None = None) -> Sequence[Entry]:
        entries = self._journals.get(task_id, ())
        return [entry for entry in entries if kinds is None or entry.kind in kinds]

    async def last_entry(self, task_id: str, kinds: frozenset[EntryKind] | None = None) -> Entry | None:
        entries = await self.journal(task_id, kinds)
        return entries[-1] if entries else None

    async def change(self, task_id: str, move: Move, *, lease: Lease | None = None) -> TaskRecord:
        record = await self.read(task_id)
        _fence(record, lease)
        change = move(record)
        if record.handle.status.is_terminal and replace(change.record, unread=record.unread) != record:
            raise IllegalTransition(task_id, record.handle.status, change.record.handle.status, ())
        self._journals[task_id].extend(change.entries)
        if change.record is record:
            return record
        self._put(change.record)
        self._note_spending(record, change.record)
        told, parent = upward(record, change.record), self._tasks.get(change.record.handle.parent_id or "")
        if told is not None and parent is not None and (noted := told(parent).record) is not parent:
            self._put(noted)
        return change.record

    async def append(self, lease: Lease, entries: Sequence[Entry]) -> TaskRecord:
        return await self.change(lease.task_id, moves.record(entries), lease=lease)

    async def claim(self, capacity: Capacity, now: datetime, *, task_id: str | None = None) -> Claim:
        running = [each.handle.subagent_name for each in self._tasks.values() if each.process is not None]
        started: list[TaskRecord] = []
        for record in self._queue():
            name = record.handle.subagent_name
            fits = len(running) < capacity.in_all and len(started) < capacity.most
            roomy = running.count(name) < capacity.per_subagent.get(name, capacity.in_all)
            mine = record.definition is not None or name in capacity.subagents
            cool = self._cooling.get(record.provider, now) <= now
            wanted = record.task_id not in capacity.but_not if task_id is None else record.task_id == task_id
            if fits and roomy and mine and cool and wanted and record.due_at <= now:
                running.append(name)
                started.append(self._put(moves.start(self.process, now)(record).record))
        if len(started) >= capacity.most:
            return Claim(records=started)
        waits = [max(each.due_at, self._cooling.get(each.provider, each.due_at)) for each in self._queue()]
        return Claim(records=started, next_due_at=min((wait for wait in waits if wait > now), default=None))

    async def catch_up(self) -> None:
        pass

    async def queue_position(self, task_id: str) -> int | None:
        ids = [record.task_id for record in self._queue()]
        return ids.index(task_id) + 1 if task_id in ids else None

    async def select(self, query: Query) -> Sequence[TaskRecord]:
        tasks = reversed(self._tasks.values()) if query.newest_first else self._tasks.values()
        return [record for record in tasks if _matches(record, query)][: query.limit]

    async def count(self, query: Query) -> int:
        return sum(_matches(record, query) for record in self._tasks.values())

    async def cool_down(self, provider: str, until: datetime) -> None:
        self._cooling[provider] = max(until, self._cooling.get(provider, until))

    async def lost(self, dead_after: timedelta) -> Sequence[Lease]:
        return ()  # the one process there is, is alive

    async def others_at_work(self, dead_after: timedelta) -> bool:
        return False

    async def overdue(self, now: datetime) -> Sequence[str]:
        waiting = TaskStatus.WAITING_FOR_ANSWER
        return [each.task_id for each in self._tasks.values() if each.handle.status is waiting and each.due_at <= now]

    async def orphans(self) -> Sequence[str]:
        ended = {each.task_id for each in self._tasks.values() if each.handle.status.is_terminal}
        children = (each for each in self._tasks.values() if each.handle.parent_id in ended)
        return [each.task_id for each in children if each.task_id not in ended]

    async def spent(self, day: date) -> Decimal:
        return self._spent[day]

    async def prune(self, before: datetime) -> int:
        due = [
            record.task_id
            for record in self._tasks.values()
            if record.handle.completed_at is not None and record.handle.completed_at < before
        ]
        for task_id in due:
            del self._tasks[task_id], self._journals[task_id]
        return len(due)

    @asynccontextmanager
    async def watch(self) -> AsyncGenerator[Changes]:
        async with self._watchers.join() as stream:
            yield stream

    def _note_spending(self, before: TaskRecord, after: TaskRecord) -> None:
        cost = cost_between(before, after)
        if cost and after.handle.last_activity_at is not None:
            self._spent[after.handle.last_activity_at.date()] += cost

    def _queue(self) -> list[TaskRecord]:
        queued = [each for each in self._tasks.values() if each.handle.status in QUEUED]
        return sorted(queued, key=lambda each: -PRIORITY_ORDER[each.handle.priority])

    def _put(self, record: TaskRecord) -> TaskRecord:
        self._tasks[record.task_id] = record
        self._watchers.tell(record)
        return record


def _fence(record: TaskRecord, lease: Lease | None) -> None:
    if lease is not None and (record.lease != lease or record.handle.status is not TaskStatus.RUNNING):
        raise LeaseLost(lease.task_id, lease.attempt)


def _matches(record: TaskRecord, query: Query) -> bool:
    handle = record.handle
    return (
        (query.owner is None or handle.owner == query.owner)
        and (query.statuses is None or handle.status in query.statuses)
        and (query.parent_id is None or handle.parent_id == query.parent_id)
        and not (query.on_top and handle.parent_id is not None)
        and (query.unread is None or record.unread == query.unread)
        and handle.task_id.startswith(query.prefix)
        and (query.ended_before is None or _ended_before(handle, query.ended_before))
    )


def _ended_before(handle: TaskHandle, moment: datetime) -> bool:
    return handle.completed_at is not None and handle.completed_at < moment
