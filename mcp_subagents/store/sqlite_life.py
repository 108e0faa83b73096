"""Proof of life: which processes are at work, and which are gone."""

import time
from collections.abc import Callable
from datetime import timedelta

from mcp_subagents.records import Lease
from mcp_subagents.store.sqlite_database import Database
from mcp_subagents.store.sqlite_file import StoreFile
from mcp_subagents.store.sqlite_rows import checksum
from mcp_subagents.store.sqlite_transaction import Transaction

Clock = Callable[[], int]
"""Microseconds of a clock that all processes share, that is never set, and that stands still while the machine
sleeps: a process is not dead because the lid was closed."""

BEAT_EVERY = timedelta(seconds=1)


def steady_clock() -> int:
    return time.monotonic_ns() // 1000


_BEAT = """
INSERT INTO process (id, beat, sum) VALUES (?, ?, ?)
ON CONFLICT (id) DO UPDATE SET beat = excluded.beat, sum = excluded.sum
"""
_AT_WORK = "SELECT 1 FROM task INDEXED BY task_running WHERE status = 'running' AND process = ? LIMIT 1"
_OTHERS = """
SELECT task.id, task.attempt, process.id, process.beat, process.sum
FROM task INDEXED BY task_running LEFT JOIN process ON process.id = task.process
WHERE task.status = 'running' AND task.process <> ?
ORDER BY task.seq
"""
_IDLE = """
DELETE FROM process WHERE id <> ? AND NOT beat BETWEEN ? AND ? AND NOT EXISTS (
    SELECT 1 FROM task INDEXED BY task_running WHERE status = 'running' AND process = process.id
)
"""
_HEARD_OF = "SELECT 1 FROM process WHERE id <> ? AND beat BETWEEN ? AND ? LIMIT 1"
_KEPT = timedelta(hours=1)


class Life:
    """The signs of life of one process, and its view of those of others."""

    def __init__(self, process: str, clock: Clock, beat_every: timedelta) -> None:
        self.process = process
        self._clock = clock
        self.beat_every = beat_every

    def sign(self, db: Database) -> None:
        """To be given with every claim: a task must not be found running under somebody unheard of."""
        now = self._clock()
        last = db.value("SELECT beat FROM process WHERE id = ?", (self.process,))
        if last is None or now - last > micros_of(self.beat_every) // 2:
            self._beat(db, now)

    def pulse(self, transaction: Transaction) -> bool:
        """One more sign of life, if there is anything to live for; else nothing is written."""
        if not transaction.db.rows(_AT_WORK, (self.process,)):
            return False
        self._beat(transaction.db, self._clock())
        return True

    def end(self, transaction: Transaction) -> None:
        """Whatever this process leaves behind is free to be taken at once."""
        transaction.db.run("DELETE FROM process WHERE id = ?", (self.process,))

    def forget(self, transaction: Transaction) -> None:
        """Drop processes that ended long ago."""
        now = self._clock()
        transaction.db.run(_IDLE, (self.process, now - micros_of(_KEPT), now))

    def lost(self, file: StoreFile, dead_after: timedelta) -> list[Lease]:
        """Attempts of processes that have not been heard of for so long."""
        rows = file.rows(_OTHERS, (self.process,))
        now = self._clock()  # after the rows: a beat that has just been given is not from the future
        oldest = now - micros_of(dead_after)
        return [
            Lease(task_id=task_id, attempt=attempt)
            for task_id, attempt, process, beat, total in rows
            # A beat from the future is from before the machine was started; a damaged one is as good as none.
            if process is None or not oldest <= beat <= now or checksum(process, beat) != total
        ]

    def has_company(self, file: StoreFile, dead_after: timedelta) -> bool:
        """Whether another process has been heard of lately."""
        now = self._clock()
        return bool(file.rows(_HEARD_OF, (self.process, now - micros_of(dead_after), now)))

    def _beat(self, db: Database, now: int) -> None:
        db.run(_BEAT, (self.process, now, checksum(self.process, now)))


def micros_of(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)
