"""One writer: what comes in together is committed together.

The event loop writes, and a thread commits: that is what takes long, for it waits for the disk. To write in the thread
as well would make it and the loop take turns with the interpreter at every statement, which costs more than the
statements. The thread writes where the loop would have to wait: for another process, or for what takes long by itself.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

import anyio
import apsw

from mcp_subagents.errors import StoreUnavailable
from mcp_subagents.store.sqlite_file import StoreFile
from mcp_subagents.store.sqlite_pulse import Pulse
from mcp_subagents.store.sqlite_transaction import Known, Told, Transaction, Write
from mcp_subagents.store.sqlite_trouble import store_error

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MOST_AT_ONCE = 64
"""Jobs in a commit."""
_AT_A_STRETCH = 0.01
"""Seconds that jobs may write in the loop, before everything else there has its turn."""


@dataclass(slots=True)
class _Job:
    """A function on its way to the disk."""

    write: Write[Any]
    future: "asyncio.Future[Any] | None" = None
    takes_long: bool = False
    result: Any = None
    error: BaseException | None = None

    def settle(self) -> None:
        """Let whoever waits for it hear of it."""
        if self.future is None:
            if self.error is not None:
                logger.warning("no sign of life could be given: %s", self.error)
        elif self.future.done():
            pass  # nobody waits for it any more
        elif isinstance(self.error, StopIteration):
            self.future.set_exception(RuntimeError("a function that writes raised StopIteration"))  # which none takes
        elif self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


@dataclass(slots=True)
class _Batch:
    """Jobs that are committed together."""

    jobs: list[_Job]
    has_lock: bool = False
    """Whether the loop took the connection for it. Only the thread gives it back, whatever came of it."""
    written: Transaction | None = None
    """What they wrote, if that has been done: then only the commit is left."""


class _HalfDone(Exception):
    """A job failed after it had begun to write. What it wrote must go; the others are done again, one by one."""

    def __init__(self, trouble: BaseException) -> None:
        super().__init__(trouble)
        self.trouble = trouble


class Writer:
    """Takes functions, and hands back their results once what they wrote is on disk."""

    def __init__(self, file: StoreFile, untold: deque[Told], committed: Callable[[Told], None]) -> None:
        self._untold = untold
        self._file = file
        self._path = file.path
        self._db = file.writer
        self._committed = committed
        self._known = Known()
        self._waiting: list[_Job] = []
        self._thread_is_busy = False
        """With one batch at a time: what comes in meanwhile goes together into the next one."""
        self._in_use = Lock()
        """Held by whoever uses the connection; from the loop's first statement to the thread's commit, by both."""
        self._queue = SimpleQueue[_Batch | None]()
        self._loop = asyncio.get_running_loop()
        self._open = True
        self._ended = anyio.Event()
        self.pulse = Pulse()

    async def run(self, write: Write[T], *, takes_long: bool = False) -> T:
        """What `write` returned, after its commit. If it `takes_long`, the event loop goes on meanwhile.

        Raises: whatever `write` raised, or `StoreError`. Then nothing of it was written.
        """
        if not self._open:
            raise StoreUnavailable(f"The store {self._path} has been closed.")
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append(_Job(write, future, takes_long))
        if len(self._waiting) == 1:
            self._loop.call_soon(self._go_on)  # so that those who are about to write join
        return await future

    async def end(self) -> None:
        """Write what is queued, as far as patience with other processes goes, and take nothing more."""
        self._open = False
        self._go_on()
        with anyio.CancelScope(shield=True):
            await self._ended.wait()

    # In the event loop

    def _go_on(self) -> None:
        """Write what waits, unless the thread is busy: then it will tell."""
        if self._thread_is_busy:
            return
        if self._waiting:
            batch = _Batch([])
            try:
                self._thread_is_busy = True
                batch.jobs, self._waiting = self._waiting[:_MOST_AT_ONCE], self._waiting[_MOST_AT_ONCE:]
                batch.jobs[:0] = self._due_beat()  # before a goodbye, which it would take back
                self._write_here(batch)
            finally:  # also after a Ctrl-C: whoever waits for these jobs has to hear of them
                self._queue.put(batch)
        elif not self._open:
            self._queue.put(None)

    def _write_here(self, batch: _Batch) -> None:
        """Let the jobs write, but for those that have to wait. What comes to nothing is done again by the thread."""
        if any(job.takes_long for job in batch.jobs):
            return
        batch.has_lock = self._in_use.acquire(blocking=False)
        if not batch.has_lock or not self._db.begin_now():
            return
        try:
            transaction, done = self._transaction(), 0
            enough_at = time.monotonic() + _AT_A_STRETCH
            while done < len(batch.jobs) and (not done or time.monotonic() < enough_at):
                self._do(batch.jobs[done], transaction)
                done += 1
        except Exception:
            logger.debug("a batch is written again in the thread", exc_info=True)  # which finds out whose fault it is
        else:
            self._waiting[:0] = batch.jobs[done:]
            del batch.jobs[done:]
            batch.written = transaction

    def _settle(self, jobs: list[_Job]) -> None:
        """Whatever goes wrong with those who are told, everybody hears of their jobs, and the next batch is written."""
        commits = [*self._untold]
        self._untold.clear()
        try:
            for told in commits:
                self._committed(told)
        finally:
            for job in jobs:
                job.settle()
            self._thread_is_busy = False
            self._loop.call_soon(self._go_on)  # after the jobs: who has waited may have more to write

    # In the thread

    def work(self) -> None:
        """The life of the thread."""
        while (batch := self._next()) is not None:
            if not batch.has_lock:
                self._in_use.acquire()
            try:
                self._finish(batch)
            finally:
                self._in_use.release()
            self._on_loop(self._settle, batch.jobs)
        self._on_loop(self._ended.set)

    def _next(self) -> _Batch | None:
        """Wait for a batch. If none comes, since there is nothing to write or the loop is held up, beat here."""
        while (wait := self.pulse.seconds_left) is not None:
            with suppress(Empty):
                return self._queue.get(timeout=wait)
            if not self._in_use.acquire(blocking=False):
                break  # the loop is writing, and a batch is on its way
            for beat in self._due_beat():
                self._finish(_Batch([beat]))
                beat.settle()
            self._in_use.release()
        return self._queue.get()

    def _finish(self, batch: _Batch) -> None:
        """Commit a batch, and write it before if that was not done. Each of its jobs has a result or an error then."""
        try:
            if batch.written is not None:
                self._commit(batch.written)
            else:
                self._write(batch.jobs)
        except Exception as exc:
            self._roll_back()
            for job in batch.jobs:
                job.error = store_error(exc, self._path)

    def _write(self, jobs: list[_Job]) -> None:
        self._roll_back()  # what the loop may have left half done
        self._db.run("BEGIN IMMEDIATE")
        try:
            transaction = self._transaction()
            for job in jobs:
                self._do(job, transaction)
            self._commit(transaction)
        except _HalfDone as exc:
            self._roll_back()
            if len(jobs) == 1:
                jobs[0].error = store_error(exc.trouble, self._path)
                return
            for job in jobs:
                self._finish(_Batch([job]))

    def _commit(self, written: Transaction) -> None:
        if written.told:
            self._untold.append(written.told)
        try:
            self._db.run("COMMIT")
        except apsw.Error:
            if written.told:
                self._untold.pop()
            raise
        self._known.version = self._db.version
        self.pulse.committed()
        if written.tidy:
            self._tidy_up()

    def _tidy_up(self) -> None:
        try:
            self._db.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            pass  # somebody is reading; then it is shortened another time
        except apsw.Error as exc:
            logger.warning("the log of %s could not be shortened: %s", self._path, exc)  # what it holds is safe

    def _on_loop(self, call: Callable[..., None], *values: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *values)
        except RuntimeError:  # pragma: no cover - a process that dies in disorder
            logger.debug("the event loop was closed before its store")

    # In either

    def _transaction(self) -> Transaction:
        """What has just begun. Raises: `StoreUnavailable`."""
        self._file.require_there()
        if self._db.version != self._known.version:
            self._known = Known()  # somebody else has written
        return Transaction(self._db, self._known)

    def _do(self, job: _Job, transaction: Transaction) -> None:
        """Most jobs that fail refuse before they write: then the others go on as if it had not been there."""
        job.error = None
        written = self._db.written
        try:
            job.result = job.write(transaction)
        except KeyboardInterrupt:
            raise  # no doing of the job, and not for its caller alone
        except BaseException as exc:
            if isinstance(exc, apsw.Error) or self._db.written != written:
                raise _HalfDone(exc) from exc
            job.error = store_error(exc, self._path)

    def _due_beat(self) -> list[_Job]:
        """A sign of life, if it is time for one."""
        return [_Job(self.pulse.beat)] if self.pulse.is_due() else []

    def _roll_back(self) -> None:
        self._known = Known()  # it tells of what is undone here
        self.pulse.undone()
        self._db.roll_back()


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
