"""Wakes those who wait for a task to change, without anybody polling."""

from collections import defaultdict
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager
from typing import Literal

import anyio

from mcp_subagents.errors import EngineStopped
from mcp_subagents.types import TaskHandle, TaskStatus


class Waker:
    """One who waits."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._changed: dict[str, TaskHandle] = {}
        self._closed = False

    def close(self) -> None:
        self._closed = True
        self._event.set()

    def wake(self, task: TaskHandle) -> None:
        self._changed[task.task_id] = task
        self._event.set()

    async def changed(self) -> Collection[TaskHandle]:
        """The tasks that have changed since the last time, as soon as there is one. By now they may have gone on."""
        await self._event.wait()
        if self._closed:
            raise EngineStopped
        self._event = anyio.Event()
        changed, self._changed = self._changed, {}
        return changed.values()


class Wakers:
    """All who wait, by the tasks they wait for."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[Waker]] = defaultdict(set)
        self._closed = False

    def require_open(self) -> None:
        """Raises: `EngineStopped`."""
        if self._closed:
            raise EngineStopped

    def close(self) -> None:
        """Tell everybody who waits that nothing more will come."""
        self._closed = True
        for waker in {waker for wakers in self._waiting.values() for waker in wakers}:
            waker.close()

    def wake(self, task: TaskHandle) -> None:
        for waker in self._waiting.get(task.task_id, ()):
            waker.wake(task)

    @contextmanager
    def join(self, task_ids: Iterable[str]) -> Generator[Waker]:
        """Hear of every change of these tasks. Join first and look then, and no change is missed."""
        self.require_open()
        waker, wanted = Waker(), set(task_ids)
        for task_id in wanted:
            self._waiting[task_id].add(waker)
        try:
            yield waker
        finally:
            for task_id in wanted:
                self._waiting[task_id].discard(waker)
                if not self._waiting[task_id]:
                    del self._waiting[task_id]


class Tally:
    """Which of some tasks are open and which ask, kept up change by change."""

    def __init__(self, tasks: Iterable[TaskHandle]) -> None:
        self._all: set[str] = set()
        self._open: set[str] = set()
        self._asking: set[str] = set()
        self.update(tasks)

    def update(self, tasks: Iterable[TaskHandle]) -> None:
        for task in tasks:
            self._all.add(task.task_id)
            _put(self._open, task.task_id, not task.status.is_terminal)
            _put(self._asking, task.task_id, task.status is TaskStatus.WAITING_FOR_ANSWER)

    def is_enough(self, mode: Literal["all", "any"]) -> bool:
        if self._asking or not self._open:
            return True
        return mode == "any" and len(self._open) < len(self._all)


def _put(members: set[str], member: str, belongs: bool) -> None:
    if belongs:
        members.add(member)
    else:
        members.discard(member)
