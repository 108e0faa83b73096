"""Who runs a task, and when: the doorbell beside the journal."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from mcp_subagents.records import TaskRecord
from mcp_subagents.store import Capacity

Execute = Callable[[TaskRecord], Awaitable[None]]
"""Runs one attempt of a task that was claimed. It never raises but to be cancelled."""


class Dispatcher(Protocol):
    """Has due tasks run. What is due, and what has become of it, only the store knows."""

    def ring(self) -> None:
        """Something may be due."""
        ...

    def abort(self, task_id: str) -> None:
        """End the attempt of that task now, if one runs here. It must not be ours any more, or be going to end."""
        ...

    def hold(self, task_id: str) -> AbstractAsyncContextManager[None]:
        """Leave that task to somebody in this process for as long as the block lasts."""
        ...

    def capacity(self, most: int) -> Capacity:
        """What this process could take on just now, `most` tasks at a time."""
        ...

    def runs(self, task_id: str) -> bool:
        """Whether an attempt of that task is at work here."""
        ...

    async def serve(self, execute: Execute) -> None:
        """Start what is due, until cancelled."""
        ...
