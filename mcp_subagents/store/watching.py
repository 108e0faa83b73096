"""Tells everybody who watches what has changed."""

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import UnreliableObjectReceiveStream

from mcp_subagents.records import TaskRecord


class Changes(UnreliableObjectReceiveStream[TaskRecord]):
    """What has changed since it was last read: of each task the newest record, in the order of the commits.

    So a reader may be as slow as it likes: it holds up nobody, misses the last state of no task, and however often
    a task changes, one record of it is kept. How many tasks that are has no bound. A reader that was left out of
    something would have to be told so and look for it; and that is to save less than the store holds anyway.
    """

    def __init__(self) -> None:
        self._newest: OrderedDict[str, TaskRecord] = OrderedDict()
        self._told = anyio.Event()
        self._open = True

    def tell(self, record: TaskRecord) -> None:
        if self._open:
            self._newest[record.task_id] = record
            self._newest.move_to_end(record.task_id)
            self._told.set()

    async def receive(self) -> TaskRecord:
        """The next change, as soon as there is one. Raises: `anyio.EndOfStream`, when there will be no more."""
        while self._open and not self._newest:
            await self._told.wait()
        if not self._open:
            raise anyio.EndOfStream
        return self.receive_nowait()

    def receive_nowait(self) -> TaskRecord:
        """The next change. Raises: `anyio.WouldBlock`, if there is none yet."""
        if not self._newest:
            raise anyio.WouldBlock
        _, record = self._newest.popitem(last=False)
        if not self._newest:
            self._told = anyio.Event()
        return record

    async def aclose(self) -> None:
        self._open = False
        self._newest.clear()
        self._told.set()


class Watchers:
    """Those who watch a store, in one event loop."""

    def __init__(self) -> None:
        self._all: set[Changes] = set()

    def tell(self, record: TaskRecord) -> None:
        for changes in self._all:
            changes.tell(record)

    @asynccontextmanager
    async def join(self) -> AsyncGenerator[Changes]:
        async with Changes() as changes:
            self._all.add(changes)
            try:
                yield changes
            finally:
                self._all.discard(changes)
