"""What a person does to a task of a store, whoever runs it."""

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

import anyio

from mcp_subagents import moves
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.records import Mail, TaskRecord
from mcp_subagents.store import Store
from mcp_subagents.types import TaskHandle, TaskStatus, utc_now

NOBODY_THERE = "No server seems to be at work here; the next one, which your app starts or `mcp-subagents serve`,"
"""To be followed by what it does."""

Now = Callable[[], datetime]

_QUEUED = frozenset({TaskStatus.PENDING, TaskStatus.RETRYING})
_SOON = 1.0
"""Seconds. A server that has nothing to do hears of a due task ten times as soon."""


async def answer(store: Store, task_id: str, text: str, question_id: str, now: Now = utc_now) -> TaskRecord:
    """Answer that question of the task. Raises: `NotWaiting`, if somebody else was faster."""
    return await store.change(task_id, moves.answer(text, question_id, now()))


async def send(store: Store, task_id: str, text: str, now: Now = utc_now) -> TaskRecord:
    """Tell the task something it did not ask for. Raises: `TaskEnded`."""
    return await store.change(task_id, moves.send(Mail(mail_id=secrets.token_urlsafe(8), text=text), now()))


async def see(store: Store, shown: TaskHandle) -> None:
    """Note that somebody has seen how the task ended, so that no host is told of it as news."""
    await store.change(shown.task_id, moves.see(shown))


async def is_taken_up(store: Store, task_id: str, *, within: float = _SOON) -> bool:
    """Whether somebody is at work who goes on with the task: it starts soon, or others are seen to be busy."""
    async with store.watch() as changes:
        record = await store.read(task_id)
        with anyio.move_on_after(within):
            while record.handle.status in _QUEUED:
                await changes.receive()
                record = await store.read(task_id)
    if record.handle.status not in _QUEUED:
        return True
    return await store.others_at_work(timedelta(seconds=EngineSettings().dead_after))
