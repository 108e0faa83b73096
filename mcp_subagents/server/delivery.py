"""Waiting on behalf of a host: as long as it can bear, with progress, asking its user where that is possible."""

import time
from collections.abc import Sequence
from typing import Literal

from mcp_types import InputRequiredResult

from mcp_subagents.delegation import Waited
from mcp_subagents.server.asking import answers_by_return, ask_by_return, ask_now
from mcp_subagents.server.calls import Call
from mcp_subagents.types import TaskHandle, TaskStatus
from mcp_subagents.views import view_of
from mcp_subagents.words import progress_in_words

SOON = 15.0
"""Seconds that a user needs at the least to read a question and answer it."""


class Deadline:
    """A moment to be done by."""

    def __init__(self, seconds: float) -> None:
        self._started = time.monotonic()
        self._seconds = seconds

    @property
    def left(self) -> float:
        return max(0.0, self._seconds - self.passed)

    @property
    def passed(self) -> float:
        return time.monotonic() - self._started


async def follow(call: Call, task_id: str) -> TaskHandle | InputRequiredResult:
    """Wait for a task as a sync call does: until it ends, or asks what the user cannot be asked, or time is up.

    Nothing is lost or cancelled when this stops early: the task goes on.
    """
    deadline = Deadline(call.patience)
    if not await answers_by_return(call, task_id):
        return await call.engine.check(task_id, owner=call.owner)
    while True:
        waited = await wait(call, [task_id], mode="all", deadline=deadline)
        task = waited.tasks[0]
        if task.status is not TaskStatus.WAITING_FOR_ANSWER or not call.can_ask_human:
            return task
        if call.is_modern:
            return ask_by_return(task)
        if deadline.left < min(SOON, call.patience / 3):
            return task  # a form that is gone before it is read helps nobody
        await ask_now(call, task, deadline.left)
        if (task := await call.engine.check(task_id, owner=call.owner)).status is TaskStatus.WAITING_FOR_ANSWER:
            return task


async def wait(call: Call, task_ids: Sequence[str], *, mode: Literal["all", "any"], deadline: Deadline) -> Waited:
    """Wait for tasks until the deadline, and tell the host every now and then how it goes."""
    while True:
        step = min(deadline.left, call.settings.progress_every)
        waited = await call.engine.wait(task_ids, mode=mode, timeout=step, owner=call.owner)
        if not waited.timed_out or not deadline.left:
            return waited
        await call.context.report_progress(deadline.passed, message=await _progress(call, waited))


async def _progress(call: Call, waited: Waited) -> str:
    open_ones = [task for task in waited.tasks if not task.status.is_terminal]
    standing = await call.engine.look(open_ones[0].task_id, owner=call.owner)
    said = progress_in_words(view_of(standing, budget=0))
    if len(waited.tasks) == 1:
        return said
    ended = len(waited.tasks) - len(open_ones)
    return f"{ended} of {len(waited.tasks)} ended · {standing.handle.subagent_name}: {said}"
