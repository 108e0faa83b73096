"""The tools that block, `task` and `wait_tasks`, as native tasks."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from mcp_types import CallToolResult, ElicitResult
from pydantic import ValidationError

from mcp_subagents.arguments import TaskArguments, WaitArguments, parsed
from mcp_subagents.errors import UnknownTask
from mcp_subagents.server.asking import form_request, pass_on
from mcp_subagents.server.calls import Call
from mcp_subagents.server.desk import Desk
from mcp_subagents.server.native import Native
from mcp_subagents.server.tools import Tools, seen, waited_for
from mcp_subagents.types import TaskHandle, TaskStatus, utc_now
from mcp_subagents.views import open_questions

_WAIT = "wait."
_LONGEST_ID = 4_000
"""A native id travels in a header."""


class TaskForeground:
    """A sync `task`: the native task is the task."""

    def __init__(self, desk: Desk, tools: Tools) -> None:
        self._desk = desk
        self._tools = tools
        self._declined: set[str] = set()
        """Questions that a user would not answer; the model gets them then."""

    def owns(self, task_id: str) -> bool:
        return not task_id.startswith(_WAIT)

    def about(self, task_id: str) -> Sequence[str]:
        return [task_id]

    async def begin(self, call: Call, arguments: Mapping[str, Any]) -> str | None:
        given = await self._tools.resolved(call, parsed(TaskArguments, arguments))
        if self._tools.mode(call, given) == "async":
            return None
        return (await self._tools.submit(call, given)).task_id

    async def look(self, call: Call, task_id: str) -> Native:
        standing = await call.engine.look(task_id, owner=call.owner)
        task = standing.handle
        asks = self._asks(call, task)
        return Native(
            task_id=task_id,
            created_at=task.created_at,
            updated_at=task.last_activity_at or task.created_at,
            doing=standing.doing,
            asks=asks,
            is_cancelled=task.status is TaskStatus.CANCELLED,
            result=None if asks else await self.result(call, task),
        )

    async def result(self, call: Call, task: TaskHandle) -> CallToolResult | None:
        """What the call returns, once there is nothing more to wait for."""
        if not task.status.is_terminal and task.status is not TaskStatus.WAITING_FOR_ANSWER:
            return None
        return await self._desk.told(call, await seen(call, await call.engine.look(task.task_id, owner=call.owner)))

    async def update(self, call: Call, task_id: str, said: Mapping[str, Any]) -> None:
        waiting = {each.question_id for each in open_questions(await call.engine.check(task_id, owner=call.owner))}
        for question_id in waiting & said.keys():
            try:
                answer = ElicitResult.model_validate(said[question_id])
            except ValidationError:
                continue
            if not await pass_on(call, task_id, question_id, answer):
                self._declined.add(question_id)

    async def cancel(self, call: Call, task_id: str) -> None:
        await call.engine.hard_cancel(task_id, owner=call.owner)

    def _asks(self, call: Call, task: TaskHandle) -> Mapping[str, Any] | None:
        questions = open_questions(task)
        if not call.can_ask_human or any(each.question_id in self._declined for each in questions):
            return None
        return {each.question_id: form_request(task, each) for each in questions} or None


class WaitForeground:
    """`wait_tasks`: all there is to know of it is in its id, so that nothing is lost with the process."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._cancelled: set[str] = set()

    def owns(self, task_id: str) -> bool:
        return task_id.startswith(_WAIT)

    def about(self, task_id: str) -> Sequence[str]:
        return _decoded(task_id)[0].task_ids

    async def begin(self, call: Call, arguments: Mapping[str, Any]) -> str | None:
        given = parsed(WaitArguments, arguments)
        for task_id in given.task_ids:
            await call.engine.check(task_id, owner=call.owner)
        encoded = _encoded(given, utc_now())
        return encoded if len(encoded) <= _LONGEST_ID else None

    async def look(self, call: Call, task_id: str) -> Native:
        given, begun_at = _decoded(task_id)
        waited = await call.engine.wait(given.task_ids, mode=given.mode, timeout=0, owner=call.owner)
        late = given.timeout is not None and utc_now() >= begun_at + timedelta(seconds=given.timeout)
        result = None
        if late or not waited.timed_out:
            result = await self._desk.told(
                call, await waited_for(call, given, waited.tasks, timed_out=waited.timed_out)
            )
        ended = sum(task.status.is_terminal for task in waited.tasks)
        return Native(
            task_id=task_id,
            created_at=begun_at,
            updated_at=max([begun_at, *(task.last_activity_at or begun_at for task in waited.tasks)]),
            doing=f"{ended} of {len(waited.tasks)} tasks have ended",
            is_cancelled=task_id in self._cancelled,
            result=result,
        )

    async def update(self, call: Call, task_id: str, said: Mapping[str, Any]) -> None:
        """A wait asks nothing."""

    async def cancel(self, call: Call, task_id: str) -> None:
        """The waiting ends; the tasks go on."""
        self._cancelled.add(task_id)


def _encoded(given: WaitArguments, begun_at: datetime) -> str:
    said = json.dumps([given.mode, given.timeout, begun_at.isoformat(), *given.task_ids], separators=(",", ":"))
    return _WAIT + urlsafe_b64encode(said.encode()).decode().rstrip("=")


def _decoded(task_id: str) -> tuple[WaitArguments, datetime]:
    encoded = task_id.removeprefix(_WAIT)
    try:
        mode, timeout, begun_at, *task_ids = json.loads(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
        given = WaitArguments(task_ids=task_ids, mode=mode, timeout=timeout)
        return given, datetime.fromisoformat(begun_at)
    except (ValueError, TypeError) as exc:
        raise UnknownTask(task_id) from exc
