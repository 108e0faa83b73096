"""The standard input and output of this process, kept for the protocol alone."""

import os
import select
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TypeVar

import anyio
import anyio.to_thread

from mcp_subagents.errors import ConfigError

if sys.platform != "win32":
    import fcntl

CHUNK = 65536
AT_A_TIME = getattr(select, "PIPE_BUF", CHUNK)
"""As much as a pipe that is ready takes without blocking."""
PARTING = 0.5
"""Seconds for a thread to let go of a descriptor."""

T = TypeVar("T")


class Pipe:
    """What comes in and what goes out. Both wait in threads, which let go when the pipe is closed."""

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        self._closing, self._close = os.pipe()
        self._closed = False
        self._reading, self._writing = threading.Lock(), threading.Lock()
        # Threads of their own: tools that are stuck in all the shared ones must not silence the protocol.
        self._reader, self._writer = anyio.CapacityLimiter(1), anyio.CapacityLimiter(1)

    async def read(self) -> bytes:
        """What has come in; nothing at the end. A cancelled read closes the pipe."""
        return await self._in_thread(self._read_now, self._reader)

    async def write(self, data: bytes) -> None:
        """Send all of `data`. A cancelled write closes the pipe, since half of a message may be out.

        Raises:
            OSError: nobody is there to read it.
        """
        await self._in_thread(lambda: self._write_now(data), self._writer)

    def close(self) -> None:
        """Let go of the descriptors, once no thread has them."""
        self._wake_threads()
        for held, descriptor in ((self._reading, self._source), (self._writing, self._sink)):
            # A descriptor is not closed under a thread that is stuck with it: its number would be given to another.
            if held.acquire(timeout=PARTING):
                os.close(descriptor)

    async def _in_thread(self, act: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
        try:
            return await anyio.to_thread.run_sync(act, abandon_on_cancel=True, limiter=limiter)
        except anyio.get_cancelled_exc_class():
            self._wake_threads()
            raise

    def _wake_threads(self) -> None:
        if not self._closed:
            self._closed = True
            os.write(self._close, b".")

    def _read_now(self) -> bytes:
        with self._reading:
            while self._ready(readable=[self._source]):
                with suppress(BlockingIOError):
                    return os.read(self._source, CHUNK)
            return b""

    def _write_now(self, data: bytes) -> None:
        left = memoryview(data)
        with self._writing:
            while left and self._ready(writable=[self._sink]):
                with suppress(BlockingIOError):
                    left = left[os.write(self._sink, left[:AT_A_TIME]) :]

    def _ready(self, *, readable: list[int] | None = None, writable: list[int] | None = None) -> bool:
        """Wait until there is something to do. False: the pipe was closed."""
        if self._closed:
            return False
        if sys.platform == "win32":  # where only sockets can be waited for: there the thread may stay behind
            return True
        found = select.select([*(readable or ()), self._closing], writable or (), ())
        return self._closing not in found[0]


@contextmanager
def standard_pipe() -> Generator[Pipe]:
    """Keep standard input and output for the protocol, for as long as the block lasts.

    Meanwhile descriptor 0 is the null device and descriptor 1 is standard error, so that whatever prints or
    reads in this process, or in a child of it, misses the wire.

    Raises:
        ConfigError: there is no standard input or output.
    """
    if sys.__stdin__ is None or sys.__stdout__ is None:
        raise ConfigError("Standard input or output is closed; over stdio, both are needed to talk with the host.")
    source, sink = _duplicate(0), _duplicate(1)
    pipe = Pipe(source, sink)
    restored = [_duplicate(0), _duplicate(1)]
    try:
        _divert(0, lambda: os.open(os.devnull, os.O_RDONLY))
        _divert(1, _open_stderr)
        yield pipe
    finally:
        # Flushed first: what was printed meanwhile belongs on standard error, not on the wire.
        sys.stdout.flush()
        for standard, duplicate in enumerate(restored):
            os.dup2(duplicate, standard)
            os.close(duplicate)
        pipe.close()


def _duplicate(descriptor: int) -> int:
    """A private copy that no child inherits, never one of the standard three."""
    if sys.platform == "win32":
        return os.dup(descriptor)
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


def _divert(standard: int, opened: Callable[[], int]) -> None:
    elsewhere = opened()
    os.dup2(elsewhere, standard)
    os.close(elsewhere)


def _open_stderr() -> int:
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)
