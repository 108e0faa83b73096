"""Tasks in one SQLite file, which several processes can share."""

import logging
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.lowlevel
import anyio.to_thread

from mcp_subagents import moves
from mcp_subagents.branches import upward
from mcp_subagents.errors import FollowedUp, LeaseLost, StoreError, TooManyTasks
from mcp_subagents.records import Entry, EntryKind, Lease, Move, TaskRecord
from mcp_subagents.store import NOBODY, Capacity, Claim, Query
from mcp_subagents.store.sqlite_changes import add_entries, insert, read_for_update, tell_parent, update
from mcp_subagents.store.sqlite_file import StoreFile, open_file
from mcp_subagents.store.sqlite_life import BEAT_EVERY, Clock, Life, steady_clock
from mcp_subagents.store.sqlite_patience import BUSY_TIMEOUT, Patience
from mcp_subagents.store.sqlite_prune import delete_ended, shrink
from mcp_subagents.store.sqlite_query import counting, literals, selection
from mcp_subagents.store.sqlite_queue import ANYTHING, POSITION, Starts, cool_down, cooling, next_due
from mcp_subagents.store.sqlite_recent import Recent
from mcp_subagents.store.sqlite_rows import CHANGED, TASK, entry_of, micros, only, record_of, tasks
from mcp_subagents.store.sqlite_spending import note_spending, spent
from mcp_subagents.store.sqlite_transaction import Told, Transaction
from mcp_subagents.store.sqlite_watch import Follower
from mcp_subagents.store.sqlite_writer import Writer, run_writer
from mcp_subagents.store.watching import Changes
from mcp_subagents.types import TaskStatus

__all__ = ["SqliteStore", "open_sqlite"]

logger = logging.getLogger(__name__)

_CHANGED = "SELECT changed FROM task WHERE id = ?"
_ENTRIES = """
SELECT id, task, kind, attempt, at, body, sum FROM journal WHERE task = (SELECT seq FROM task WHERE id = ?)
"""
_SAME_KEY = f"""
{tasks("task_idempotency")} WHERE task.owner = ? AND task.idempotency_key = ? AND task.idempotency_key <> ''
"""
_FOLLOW_UP = f"""
{tasks("task_open")} WHERE task.owner = ? AND task.status NOT IN ('completed', 'failed', 'cancelled')
AND CASE WHEN json_valid(task.state) THEN json_extract(task.state, '$.continues') END = ?
"""
_OVERDUE = """
SELECT id FROM task INDEXED BY task_waiting WHERE status = 'waiting_for_answer' AND due_at <= ? ORDER BY seq
"""
_ORPHANS = """
SELECT task.id FROM task INDEXED BY task_open_child JOIN task AS parent ON parent.id = task.parent_id
WHERE task.parent_id IS NOT NULL AND task.status NOT IN ('completed', 'failed', 'cancelled')
AND parent.status IN ('completed', 'failed', 'cancelled') ORDER BY task.seq
"""
_PARSED_AT_ONCE = 100
_CLOSE_WITHIN = timedelta(seconds=1)
"""How long to wait for a lock, all in all, when the store is closed: somebody waits for this process to leave."""


class SqliteStore:
    """The promises of `Store`, kept by one file."""

    def __init__(self, file: StoreFile, writer: Writer, follower: Follower, life: Life, recent: Recent) -> None:
        self.process = life.process
        self._recent = recent
        self.file = file
        self._writer = writer
        self._follower = follower
        self._life = life

    async def create(
        self,
        record: TaskRecord,
        entries: Sequence[Entry] = (),
        *,
        most_open: int,
        above: Mapping[str, Move] = NOBODY,
    ) -> TaskRecord:
        owner, key, past = record.handle.owner, record.idempotency_key, record.continues

        def write(transaction: Transaction) -> TaskRecord:
            if key and (same := transaction.db.rows(_SAME_KEY, (owner, key))):
                return record_of(same[0])
            if past and (another := transaction.db.rows(_FOLLOW_UP, (owner, past))):
                raise FollowedUp(past, record_of(another[0]).handle)
            open_tasks = transaction.db.value("SELECT value FROM counter WHERE name = ?", (f"open/{owner}",))
            if (open_tasks or 0) >= most_open:
                raise TooManyTasks(most_open)
            rows = [(read_for_update(transaction, task_id), move) for task_id, move in above.items()]
            changed = [(row, move(parent).record) for (row, parent), move in rows]  # refused before anything is written
            insert(transaction, record, entries)
            for row, parent in changed:
                update(transaction, row, parent)
            return record

        return await self._writer.run(write)

    async def by_key(self, owner: str, key: str) -> TaskRecord | None:
        same = self.file.rows(_SAME_KEY, (owner, key)) if key else ()
        return record_of(same[0]) if same else None

    async def read(self, task_id: str) -> TaskRecord:
        changed = self.file.rows(_CHANGED, (task_id,))
        if changed and (known := self._recent.recall(task_id, changed[0][0])) is not None:
            return known
        row = only(self.file.rows(TASK, (task_id,)), task_id)
        record = record_of(row)
        self._recent.remember(row[CHANGED], record)
        return record

    async def journal(self, task_id: str, kinds: frozenset[EntryKind] | None = None) -> Sequence[Entry]:
        rows = self.file.rows(f"{_ENTRIES}{_only(kinds)} ORDER BY id", (task_id,))
        return [entry_of(task_id, row) for row in rows]

    async def last_entry(self, task_id: str, kinds: frozenset[EntryKind] | None = None) -> Entry | None:
        rows = self.file.rows(f"{_ENTRIES}{_only(kinds)} ORDER BY id DESC LIMIT 1", (task_id,))
        return entry_of(task_id, rows[0]) if rows else None

    async def change(self, task_id: str, move: Move, *, lease: Lease | None = None) -> TaskRecord:
        def write(transaction: Transaction) -> TaskRecord:
            row, record = read_for_update(transaction, task_id)
            if lease is not None and (record.lease != lease or record.handle.status is not TaskStatus.RUNNING):
                raise LeaseLost(lease.task_id, lease.attempt)
            change = move(record)
            if change.record is not record:
                update(transaction, row, change.record)
                note_spending(transaction, record, change.record)
            add_entries(transaction, task_id, row[0], change.entries)
            if (told := upward(record, change.record)) is not None:
                tell_parent(transaction, change.record, told)
            return change.record

        return await self._writer.run(write)

    async def append(self, lease: Lease, entries: Sequence[Entry]) -> TaskRecord:
        return await self.change(lease.task_id, moves.record(entries), lease=lease)

    async def claim(self, capacity: Capacity, now: datetime, *, task_id: str | None = None) -> Claim:
        if not self.file.rows(ANYTHING):
            return Claim(records=[])  # to see that there is nothing, nobody has to be kept from writing

        def write(transaction: Transaction) -> Claim:
            at = micros(now)
            cool = cooling(transaction.db, at)
            starts = Starts(
                transaction=transaction,
                capacity=capacity,
                now=now,
                process=self.process,
                cooling=cool,
                recent=self._recent,
            )
            if task_id is None:
                starts.start_all()
            else:
                starts.start_one(task_id)
            if starts.records:
                self._life.sign(transaction.db)
                self._writer.pulse.keep(self._life.pulse, self._life.beat_every)
            is_full = len(starts.records) >= capacity.most
            return Claim(records=starts.records, next_due_at=None if is_full else next_due(transaction.db, at, cool))

        return await self._writer.run(write)

    async def catch_up(self) -> None:
        await self._writer.run(lambda transaction: None)

    async def queue_position(self, task_id: str) -> int | None:
        [(place,)] = self.file.rows(POSITION, (task_id,))
        return place or None

    async def select(self, query: Query) -> Sequence[TaskRecord]:
        rows = self.file.rows(*selection(query))
        found: list[TaskRecord] = []
        for start in range(0, len(rows), _PARSED_AT_ONCE):
            found += map(record_of, rows[start : start + _PARSED_AT_ONCE])
            await anyio.lowlevel.checkpoint()  # a long list must not hold up everybody else
        return found

    async def count(self, query: Query) -> int:
        [(number,)] = self.file.rows(*counting(query))
        return number

    async def cool_down(self, provider: str, until: datetime) -> None:
        await self._writer.run(lambda transaction: cool_down(transaction.db, provider, micros(until)))

    async def lost(self, dead_after: timedelta) -> Sequence[Lease]:
        return self._life.lost(self.file, dead_after)

    async def others_at_work(self, dead_after: timedelta) -> bool:
        return self._life.has_company(self.file, dead_after)

    async def overdue(self, now: datetime) -> Sequence[str]:
        return [task_id for (task_id,) in self.file.rows(_OVERDUE, (micros(now),))]

    async def orphans(self) -> Sequence[str]:
        return [task_id for (task_id,) in self.file.rows(_ORPHANS)]

    async def spent(self, day: date) -> Decimal:
        return spent(self.file, day)

    async def prune(self, before: datetime) -> int:
        deleted = await delete_ended(self._writer, micros(before))
        await self._writer.run(self._life.forget)
        await shrink(self._writer)
        return deleted

    def watch(self) -> AbstractAsyncContextManager[Changes]:
        return self._follower.watch()


@asynccontextmanager
async def open_sqlite(
    path: Path | str,
    *,
    busy_timeout: timedelta = BUSY_TIMEOUT,
    beat_every: timedelta = BEAT_EVERY,
    clock: Clock = steady_clock,
    vfs: str | None = None,
) -> AsyncGenerator[SqliteStore]:
    """The store at `path`, for as long as the block lasts; it is made if there is none.

    What is queued when the block ends is still written, unless another process keeps the file locked: then those who
    wait for it are told so, and tasks that run here are free for others when no sign of life comes any more.

    Raises: `StoreError`, in one of its kinds, if the file cannot be used.
    """
    patience = Patience(busy_timeout)
    file = await _open(Path(path), patience, vfs)
    try:
        life = Life(f"{os.getpid()}-{uuid4().hex}", clock, beat_every)
        follower, recent = Follower(file), Recent()

        def committed(told: Told) -> None:
            for change, record in told:
                recent.remember(change, record)
            follower.committed(told)

        async with run_writer(file, follower.untold, committed) as writer:
            try:
                yield SqliteStore(file, writer, follower, life, recent)
            finally:
                patience.end(_CLOSE_WITHIN)
                with anyio.CancelScope(shield=True):
                    await _leave(file, writer, life)
    finally:
        with anyio.CancelScope(shield=True):
            # The last one to close tidies up the file, which may take a moment.
            await anyio.to_thread.run_sync(file.close)


async def _open(path: Path, patience: Patience, vfs: str | None) -> StoreFile:
    try:
        # Left to itself when cancelled: to check a large file takes long, and so does a lock.
        return await anyio.to_thread.run_sync(
            lambda: open_file(path, patience=patience, vfs=vfs), abandon_on_cancel=True
        )
    except anyio.get_cancelled_exc_class():
        patience.end(timedelta(0))
        raise


async def _leave(file: StoreFile, writer: Writer, life: Life) -> None:
    if not file.is_there:
        return  # there is nobody to say goodbye to

    def say_goodbye(transaction: Transaction) -> None:
        writer.pulse.stop()
        life.end(transaction)

    try:
        await writer.run(say_goodbye)
    except StoreError as exc:
        logger.warning("could not say goodbye: %s", exc)  # the others notice by themselves


def _only(kinds: frozenset[EntryKind] | None) -> str:
    return "" if kinds is None else f" AND kind IN ({literals(kinds)})"
