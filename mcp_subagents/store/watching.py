"""Tells everybody who watches what has changed."""

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from mcp_subagents.records import TaskRecord


class Watchers:
    """Those who watch a store, in one event loop."""

    def __init__(self) -> None:
        self._streams: set[MemoryObjectSendStream[TaskRecord]] = set()

    def tell(self, record: TaskRecord) -> None:
        for stream in self._streams:
            with suppress(anyio.BrokenResourceError):  # it has stopped listening, and is about to leave
                stream.send_nowait(record)

    @asynccontextmanager
    async def join(self) -> AsyncGenerator[MemoryObjectReceiveStream[TaskRecord]]:
        # Unbounded: a change must not wait for those who watch, and each is a small value.
        send, receive = anyio.create_memory_object_stream[TaskRecord](math.inf)
        self._streams.add(send)
        try:
            with send, receive:
                yield receive
        finally:
            self._streams.discard(send)
