"""The tools that block, `task` and `wait_tasks`, as native tasks."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from mcp_types import CallToolResult, ElicitResult
from pydantic import ValidationError

from mcp_subagents.arguments import TaskArguments, WaitArguments, parsed
from mcp_subagents.delegation import Waited
from mcp_subagents.errors import UnknownTask, WrongArguments
from mcp_subagents.server.asking import form_request, pass_on
from mcp_subagents.server.calls import Call
from mcp_subagents.server.desk import Desk
from mcp_subagents.server.native import LONGEST_ID, Native
from mcp_subagents.server.tools import Tools, seen, waited_for
from mcp_subagents.types import TaskHandle, TaskStatus, utc_now
from mcp_subagents.views import open_questions, view_of

_WAIT = "wait."
MOST_REMEMBERED = 10_000


class TaskForeground:
    """A sync `task`: the native task is the task."""

    def __init__(self, desk: Desk, tools: Tools) -> None:
        self._desk = desk
        self._tools = tools
        self._declined = _Recent()
        """Questions that a user would not answer; the model gets them then. Forgotten, they are asked once more."""

    def owns(self, task_id: str) -> bool:
        return not task_id.startswith(_WAIT)

    def about(self, task_id: str) -> Sequence[str]:
        return [task_id]

    async def begin(self, call: Call, arguments: Mapping[str, Any]) -> Native | None:
        if call.context.request_state is not None:
            return None  # it brings answers to a task that has begun as a plain call
        given = await self._tools.resolved(call, parsed(TaskArguments, arguments))
        if self._tools.mode(call, given) == "async":
            return None
        return self._native(call, await self._tools.submit(call, given, "sync"))

    async def look(self, call: Call, task_id: str) -> Native:
        standing = await call.engine.look(task_id, owner=call.owner)
        return self._native(call, standing.handle, doing=standing.doing)

    async def result(self, call: Call, task_id: str, *, unasked: bool) -> CallToolResult:
        standing = await call.engine.look(task_id, owner=call.owner)
        return await self._desk.told(call, view_of(standing) if unasked else await seen(call, standing))

    async def update(self, call: Call, task_id: str, said: Mapping[str, Any]) -> None:
        for question in open_questions(await call.engine.check(task_id, owner=call.owner)):
            answer = _answer(said.get(question.question_id))
            if answer is not None and not await pass_on(call, task_id, question.question_id, answer):
                self._declined.add((task_id, question.question_id))

    async def cancel(self, call: Call, task_id: str) -> None:
        await call.engine.hard_cancel(task_id, owner=call.owner)

    def _native(self, call: Call, task: TaskHandle, doing: str = "") -> Native:
        return Native(
            task_id=task.task_id,
            status=self._status(call, task),
            created_at=task.created_at,
            updated_at=task.last_activity_at or task.created_at,
            ended_at=task.completed_at,
            doing=doing,
            asks={each.question_id: form_request(task, each) for each in open_questions(task)},
        )

    def _status(self, call: Call, task: TaskHandle) -> Literal["working", "input_required", "completed", "cancelled"]:
        match task.status:
            case TaskStatus.PENDING | TaskStatus.RUNNING | TaskStatus.RETRYING:
                return "working"
            case TaskStatus.WAITING_FOR_ANSWER:
                questions = [(task.task_id, each.question_id) for each in open_questions(task)]
                asks_user = call.can_ask_human and not any(each in self._declined for each in questions)
                return "input_required" if asks_user else "completed"
            case TaskStatus.COMPLETED | TaskStatus.FAILED:
                return "completed"
            case TaskStatus.CANCELLED:
                return "cancelled"


class WaitForeground:
    """`wait_tasks`: all there is to know of it is in its id, so that nothing is lost with the process."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._cancelled = _Recent()
        """Waits that nobody asks after any more. Forgotten, one is a wait again, and no harm done."""

    def owns(self, task_id: str) -> bool:
        return task_id.startswith(_WAIT)

    def about(self, task_id: str) -> Sequence[str]:
        return _decoded(task_id)[0].task_ids

    async def begin(self, call: Call, arguments: Mapping[str, Any]) -> Native | None:
        encoded = _encoded(parsed(WaitArguments, arguments), utc_now())
        return await self.look(call, encoded) if len(encoded) <= LONGEST_ID else None

    async def look(self, call: Call, task_id: str) -> Native:
        given, begun_at = _decoded(task_id)
        waited, is_late = await self._waited(call, given, begun_at)
        is_over = is_late or not waited.timed_out
        ended = [task.completed_at for task in waited.tasks if task.completed_at is not None]
        return Native(
            task_id=task_id,
            status="cancelled" if task_id in self._cancelled else "completed" if is_over else "working",
            created_at=begun_at,
            updated_at=max([begun_at, *(task.last_activity_at or begun_at for task in waited.tasks)]),
            ended_at=min(ended) if len(ended) == len(waited.tasks) else None,
            doing=f"{len(ended)} of {len(waited.tasks)} tasks have ended",
        )

    async def result(self, call: Call, task_id: str, *, unasked: bool) -> CallToolResult:
        given, begun_at = _decoded(task_id)
        waited, _ = await self._waited(call, given, begun_at)
        view = await waited_for(call, given, waited.tasks, timed_out=waited.timed_out, unasked=unasked)
        return await self._desk.told(call, view)

    async def update(self, call: Call, task_id: str, said: Mapping[str, Any]) -> None:
        """A wait asks nothing."""

    async def cancel(self, call: Call, task_id: str) -> None:
        """The waiting ends; the tasks go on."""
        self._cancelled.add(task_id)

    async def _waited(self, call: Call, given: WaitArguments, begun_at: datetime) -> tuple[Waited, bool]:
        waited = await call.engine.wait(given.task_ids, mode=given.mode, timeout=0, owner=call.owner)
        passed = (utc_now() - begun_at).total_seconds()
        return waited, given.timeout is not None and passed >= given.timeout


class _Recent:
    """A set that forgets what was added first when it grows too large."""

    def __init__(self) -> None:
        self._members: OrderedDict[object, None] = OrderedDict()

    def __contains__(self, member: object) -> bool:
        return member in self._members

    def add(self, member: object) -> None:
        self._members[member] = None
        if len(self._members) > MOST_REMEMBERED:
            self._members.popitem(last=False)


def _answer(said: object) -> ElicitResult | None:
    """What the user said, if it was said in the shape it was asked for."""
    try:
        return ElicitResult.model_validate(said)
    except ValidationError:
        return None


def _encoded(given: WaitArguments, begun_at: datetime) -> str:
    said = json.dumps([given.mode, given.timeout, begun_at.isoformat(), *given.task_ids], separators=(",", ":"))
    return _WAIT + urlsafe_b64encode(said.encode()).decode().rstrip("=")


def _decoded(task_id: str) -> tuple[WaitArguments, datetime]:
    encoded = task_id.removeprefix(_WAIT)
    try:
        mode, timeout, begun_at, *task_ids = json.loads(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
        given = parsed(WaitArguments, {"task_ids": task_ids, "mode": mode, "timeout": timeout})
        begun = datetime.fromisoformat(begun_at)
    except (ValueError, TypeError, RecursionError, WrongArguments) as exc:
        raise UnknownTask(task_id) from exc
    if begun.utcoffset() is None or _encoded(given, begun) != task_id:
        raise UnknownTask(task_id)  # it is not of our making
    return given, begun
