"""The one thread that writes: what comes in together is committed together."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import anyio
import apsw

from mcp_subagents.errors import StoreUnavailable
from mcp_subagents.records import TaskRecord
from mcp_subagents.store.sqlite_database import Database, Row
from mcp_subagents.store.sqlite_file import StoreFile
from mcp_subagents.store.sqlite_trouble import store_error

logger = logging.getLogger(__name__)

T = TypeVar("T")

Told = list[tuple[int, TaskRecord]]
"""Records that were written, each with the number of its change."""

_MOST_AT_ONCE = 256


LAST_CHANGE = """
SELECT max((SELECT coalesce(max(changed), 0) FROM task), (SELECT value FROM counter WHERE name = 'changes'))
"""
_LAST_NUMBERS = f"""
SELECT (SELECT coalesce(max(seq), 0) FROM task), (SELECT coalesce(max(id), 0) FROM journal), ({LAST_CHANGE})
"""


@dataclass(slots=True)
class Known:
    """What need not be read again, for as long as nobody else writes to the file."""

    version: int | None = None
    """Of the file, as the last commit left it."""
    running: dict[str, tuple[Row, TaskRecord]] = field(default_factory=dict[str, tuple[Row, TaskRecord]])
    """Tasks at work that were written here, each with its row."""
    numbers: list[int] = field(default_factory=list[int])
    """The last ones that were given out."""


class Transaction:
    """One commit in the making, shared by several jobs."""

    def __init__(self, db: Database, known: Known) -> None:
        self.db = db
        self.running = known.running
        self.told: Told = []
        self.tidy = False
        """Whether to shorten the write-ahead log after the commit."""
        self._numbers = known.numbers

    def next_task(self) -> int:
        return self._next(0)

    def next_entry(self) -> int:
        return self._next(1)

    def next_change(self) -> int:
        """Over all processes, they follow each other without a gap, but for those that came to nothing."""
        return self._next(2)

    def _next(self, which: int) -> int:
        if not self._numbers:
            self._numbers.extend(self.db.rows(_LAST_NUMBERS)[0])
        self._numbers[which] += 1
        return self._numbers[which]


Write = Callable[[Transaction], T]
"""A function that writes. It runs in the writer's thread, within a transaction, all or nothing."""


@dataclass(slots=True)
class _Job:
    """A function on its way to the writer's thread and back."""

    write: Write[Any]
    future: "asyncio.Future[Any] | None" = None
    result: Any = None
    error: BaseException | None = None

    def settle(self) -> None:
        if self.future is None:
            if self.error is not None:
                logger.warning("no sign of life could be given: %s", self.error)
        elif self.future.done():
            pass  # nobody waits for it any more
        elif self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class _HalfDone(Exception):
    """A job failed after it had begun to write. What it wrote must go; the others are done again, one by one."""

    def __init__(self, trouble: BaseException) -> None:
        super().__init__(trouble)
        self.trouble = trouble


class Writer:
    """Takes functions, and hands back their results once what they wrote is on disk."""

    def __init__(self, file: StoreFile, untold: deque[Told], committed: Callable[[Told], None]) -> None:
        self._untold = untold
        self._path = file.path
        self._db = file.writer
        self._committed = committed
        self._known = Known()
        self._queue = SimpleQueue[_Job | None]()
        self._loop = asyncio.get_running_loop()
        self._open = True
        self._ended = anyio.Event()
        self._pulse: Write[bool] | None = None
        self._pulse_every = 0.0
        self._pulse_at = 0.0

    async def run(self, write: Write[T]) -> T:
        """What `write` returned, after its commit.

        Raises: whatever `write` raised, or `StoreError`. Then nothing of it was written.
        """
        if not self._open:
            raise StoreUnavailable(f"The store {self._path} has been closed.")
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Job(write, future))
        return await future

    def keep_pulse(self, pulse: Write[bool], every: timedelta) -> None:
        """Call `pulse` at this interval until it returns False. To be called in the writer's thread."""
        if self._pulse is None:
            self._pulse, self._pulse_every = pulse, every.total_seconds()
            self._pulse_at = time.monotonic() + self._pulse_every

    async def end(self) -> None:
        """Write what is queued, as far as patience with other processes goes, and take nothing more."""
        self._open = False
        self._queue.put(None)
        with anyio.CancelScope(shield=True):
            await self._ended.wait()

    def work(self) -> None:
        """The life of the thread."""
        more = True
        while more:
            jobs, more = self._take()
            if self._pulse is not None and time.monotonic() >= self._pulse_at:
                self._pulse_at = time.monotonic() + self._pulse_every
                jobs.append(_Job(self._beat))
            if jobs:
                self._write(jobs)
        self._on_loop(self._ended.set)

    def _take(self) -> tuple[list[_Job], bool]:
        """Wait for jobs, but not beyond the next pulse; False if those were the last."""
        jobs: list[_Job] = []
        timeout = None if self._pulse is None else max(0.0, self._pulse_at - time.monotonic())
        try:
            job = self._queue.get(timeout=timeout)
            while job is not None:
                jobs.append(job)
                if len(jobs) == _MOST_AT_ONCE:
                    return jobs, True
                job = self._queue.get_nowait()
        except Empty:
            return jobs, True
        return jobs, False

    def _write(self, jobs: list[_Job]) -> None:
        told: Told = []
        try:
            told = self._commit(jobs)
        except _HalfDone as exc:
            self._roll_back()
            if len(jobs) > 1:
                for job in jobs:
                    self._write([job])
                return
            jobs[0].error = store_error(exc.trouble, self._path)
        except Exception as exc:
            self._roll_back()
            for job in jobs:
                job.error = store_error(exc, self._path)
        self._on_loop(self._settle, told, jobs)

    def _commit(self, jobs: list[_Job]) -> Told:
        self._db.run("BEGIN IMMEDIATE")
        if self._db.version != self._known.version:
            self._known = Known()  # somebody else has written
        transaction = Transaction(self._db, self._known)
        for job in jobs:
            self._do(job, transaction)
        if transaction.told:
            self._untold.append(transaction.told)
        try:
            self._db.run("COMMIT")
        except apsw.Error:
            if transaction.told:
                self._untold.pop()
            raise
        self._known.version = self._db.version
        if transaction.tidy:
            with suppress(apsw.BusyError):  # somebody is reading; then it is shortened another time
                self._db.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        return transaction.told

    def _roll_back(self) -> None:
        self._known = Known()  # it tells of what is undone here
        self._db.roll_back()

    def _do(self, job: _Job, transaction: Transaction) -> None:
        """Most jobs that fail refuse before they write: then the others go on as if it had not been there."""
        job.error = None
        written = self._db.written
        try:
            job.result = job.write(transaction)
        except BaseException as exc:
            if isinstance(exc, apsw.Error) or self._db.written != written:
                raise _HalfDone(exc) from exc
            job.error = store_error(exc, self._path)

    def _beat(self, transaction: Transaction) -> None:
        if self._pulse is not None and not self._pulse(transaction):
            self._pulse = None

    def _settle(self, told: Told, jobs: list[_Job]) -> None:
        try:
            if told:
                self._untold.popleft()
                self._committed(told)
        finally:
            for job in jobs:
                job.settle()

    def _on_loop(self, call: Callable[..., None], *values: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *values)
        except RuntimeError:  # pragma: no cover - a process that dies in disorder
            logger.debug("the event loop was closed before its store")


@asynccontextmanager
async def run_writer(file: StoreFile, untold: deque[Told], committed: Callable[[Told], None]) -> AsyncGenerator[Writer]:
    """A writer for as long as the block lasts. What was queued when it ends is still written.

    What a commit changes is in `untold` from before the commit until `committed` is called with it: in the event
    loop, before those who wait for the commit go on.
    """
    writer = Writer(file, untold, committed)
    thread = Thread(target=writer.work, name="mcp-subagents-store", daemon=True)
    thread.start()
    try:
        yield writer
    finally:
        await writer.end()
        thread.join()
