"""Everything that can happen to a task, as pure functions on its record."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from mcp_subagents.errors import ChildrenOpen, MailWaiting, NotWaiting, StopRequested, TaskEnded
from mcp_subagents.records import Change, Entry, EntryKind, Mail, Move, TaskRecord, compact_json
from mcp_subagents.types import (
    AgentMessage,
    CancelKind,
    MessageType,
    Question,
    TaskFailure,
    TaskHandle,
    TaskStatus,
    TaskUsage,
)

HOST = "host"
MOST_LOSSES = 5
"""How often in a row the process of a task may be lost, without a turn in between, before the task is to blame."""


def event(record: TaskRecord, type: MessageType, payload: object, at: datetime, *, from_host: bool = False) -> Entry:
    """A journal entry that tells of something between host and subagent."""
    subagent = record.handle.subagent_name
    body = {
        "type": type,
        "sender": HOST if from_host else subagent,
        "receiver": subagent if from_host else HOST,
        "payload": payload,
        "id": uuid4().hex,
    }
    return Entry(kind=EntryKind.EVENT, body=compact_json(body), at=at, attempt=record.handle.attempt)


def message_of(task_id: str, entry: Entry) -> AgentMessage:
    """The message that an event entry holds."""
    body = json.loads(entry.body)
    return AgentMessage(**{**body, "type": MessageType(body["type"])}, task_id=task_id, timestamp=entry.at)


def nothing(record: TaskRecord) -> Change:
    """The task stays as it is."""
    return Change(record=record)


def record(entries: Sequence[Entry]) -> Move:
    """The task stays as it is, and its journal says more."""
    return lambda record: Change(record=record, entries=entries)


def both(first: Move, second: Move) -> Move:
    """One move after the other, as one: all or nothing."""

    def move(record: TaskRecord) -> Change:
        before = first(record)
        after = second(before.record)
        return Change(record=after.record, entries=(*before.entries, *after.entries))

    return move


def start(process: str, at: datetime) -> Move:
    """A new attempt, by `process`."""

    def move(record: TaskRecord) -> Change:
        return Change(record=record.with_handle(record.handle.started(at), process=process))

    return move


def finish_turn(
    turn: Entry,
    *,
    number: int,
    usage: TaskUsage,
    seconds: float,
    delivered: frozenset[str],
    model: str | None = None,
) -> Move:
    """Turn `number`, counted from 1, is done: what it used, which mail it carried, which `model` answered.

    Done again, it is done once.
    """

    def move(record: TaskRecord) -> Change:
        if record.handle.turns >= number:
            return Change(record=record)  # it was stored, though whoever wanted that did not live to hear of it
        handle = replace(
            record.handle,
            usage=usage,
            turns=record.handle.turns + 1,
            last_activity_at=turn.at,
            questions=(),
            models_used=tuple(dict.fromkeys([*record.handle.models_used, *([model] if model else ())])),
        )
        left = tuple(mail for mail in record.mail if mail.mail_id not in delivered)
        active = record.active_seconds + seconds
        tree = replace(record.tree, awaited=()) if record.tree is not None else None
        changed = record.with_handle(handle, mail=left, failures=0, losses=0, active_seconds=active, tree=tree)
        return Change(record=changed, entries=(turn,))

    return move


def ask(questions: Sequence[Question], *, seconds: float, at: datetime, until: datetime) -> Move:
    """The subagent waits for answers, until `until` at the most. Raises: `StopRequested`."""

    def move(record: TaskRecord) -> Change:
        _unless_stopped(record)
        handle = replace(record.handle.asked(*questions), last_activity_at=at)
        asked = [
            event(record, MessageType.QUESTION, {"question_id": each.question_id, "question": each.text}, at)
            for each in questions
        ]
        active = record.active_seconds + seconds
        changed = record.with_handle(handle, process=None, due_at=until, unread=True, active_seconds=active)
        return Change(record=changed, entries=asked)

    return move


def answer(text: str, question_id: str, at: datetime) -> Move:
    """One question is answered. Without a `question_id` it is the only open one."""

    def move(record: TaskRecord) -> Change:
        waiting = [each for each in record.handle.questions if each.answer is None]
        chosen = [each for each in waiting if not question_id or each.question_id == question_id]
        if record.handle.status is not TaskStatus.WAITING_FOR_ANSWER or len(chosen) != 1:
            raise NotWaiting(record.handle, question_id)
        handle = replace(record.handle.answered(chosen[0].question_id, text), last_activity_at=at)
        due_at = at if handle.status is TaskStatus.PENDING else record.due_at
        told = {"question_id": chosen[0].question_id, "answer": text}
        said = event(record, MessageType.ANSWER, told, at, from_host=True)
        return Change(record=record.with_handle(handle, due_at=due_at, unread=False), entries=(said,))

    return move


def send(mail: Mail, at: datetime) -> Move:
    """A steering message, to be carried by the next turn."""

    def move(record: TaskRecord) -> Change:
        if record.handle.status.is_terminal:
            raise TaskEnded(record.handle)
        said = event(record, MessageType.TASK_UPDATE, {"message": mail.text}, at, from_host=True)
        return Change(record=replace(record, mail=(*record.mail, mail)), entries=(said,))

    return move


def retry_later(failure: TaskFailure, *, due_at: datetime, seconds: float, at: datetime) -> Move:
    """A transient failure ended the attempt; the next one is due at `due_at`. Raises: `StopRequested`."""

    def move(record: TaskRecord) -> Change:
        _unless_stopped(record)
        said = event(record, MessageType.TASK_UPDATE, {"retrying": failure.message, "due_at": due_at.isoformat()}, at)
        changed = record.with_handle(
            replace(record.handle.retrying(), last_activity_at=at),
            process=None,
            due_at=due_at,
            failures=record.failures + 1,
            active_seconds=record.active_seconds + seconds,
        )
        return Change(record=changed, entries=(said,))

    return move


def release(at: datetime, *, seconds: float = 0.0) -> Move:
    """The process that runs it is gone or going; any other may take it on at once."""

    def move(record: TaskRecord) -> Change:
        changed = record.with_handle(
            record.handle.released(), process=None, due_at=at, active_seconds=record.active_seconds + seconds
        )
        return Change(record=changed)

    return move


def lose(failure: TaskFailure, at: datetime) -> Move:
    """The process that ran it is gone. Any other may take it on, unless it has cost too many of them already."""

    def move(record: TaskRecord) -> Change:
        if record.losses >= MOST_LOSSES:
            return fail(failure, at=at)(record)
        return release(at)(replace(record, losses=record.losses + 1))

    return move


def complete(result: str, *, usage: TaskUsage, seconds: float, at: datetime, is_structured: bool = False) -> Move:
    """It ended with a result, unless mail came in that it must still read, or it was not told of its open children.

    Raises: `MailWaiting`, `ChildrenOpen`.
    """

    def move(record: TaskRecord) -> Change:
        if record.mail:
            raise MailWaiting(record.mail)
        if record.tree is not None and record.tree.children and not record.tree.reminded:
            raise ChildrenOpen(child.task_id for child in record.tree.children)
        ended = record.handle.completed(result, usage=usage, at=at, is_structured=is_structured)
        handle = replace(ended, last_activity_at=at, questions=())
        return _ended(record, handle, MessageType.TASK_COMPLETED, {}, at, seconds)

    return move


def fail(failure: TaskFailure, *, at: datetime, seconds: float = 0.0) -> Move:
    """It ended without a result."""

    def move(record: TaskRecord) -> Change:
        told = {"failure_type": failure.failure_type, "message": failure.message}
        handle = replace(record.handle.failed(failure, at=at), last_activity_at=at)
        return _ended(record, handle, MessageType.TASK_FAILED, told, at, seconds)

    return move


def cancel(kind: CancelKind, failure: TaskFailure, at: datetime) -> Move:
    """It is to stop: at once, but for a soft cancel of a running task, which stops itself at its next turn.

    Cancelling what has ended, or cancelling again, changes nothing.
    """

    def move(record: TaskRecord) -> Change:
        handle = record.handle
        softly = kind is CancelKind.SOFT and handle.status is TaskStatus.RUNNING
        if handle.status.is_terminal or (softly and handle.cancel_requested is not None):
            return Change(record=record)
        type = MessageType.CANCEL_REQUEST if kind is CancelKind.SOFT else MessageType.CANCEL_FORCED
        said = event(record, type, {}, at, from_host=True)
        if softly:
            return Change(record=record.with_handle(replace(handle, cancel_requested=kind)), entries=(said,))
        ended = replace(handle.cancelled(failure, at=at), cancel_requested=kind, last_activity_at=at)
        return Change(record=record.with_handle(ended, process=None, mail=(), unread=False), entries=(said,))

    return move


def stop(failure: TaskFailure, *, at: datetime, seconds: float) -> Move:
    """A running task obeys a soft cancel."""

    def move(record: TaskRecord) -> Change:
        handle = replace(record.handle.cancelled(failure, at=at), last_activity_at=at)
        told = {"failure_type": failure.failure_type, "message": failure.message}
        return _ended(record, handle, MessageType.TASK_FAILED, told, at, seconds)

    return move


def expire(failure: TaskFailure, *, at: datetime) -> Move:
    """Nobody answered in time. An answer that came at the last moment wins."""

    def move(record: TaskRecord) -> Change:
        overdue = record.handle.status is TaskStatus.WAITING_FOR_ANSWER and record.due_at <= at
        return fail(failure, at=at)(record) if overdue else Change(record=record)

    return move


def see(shown: TaskHandle) -> Move:
    """Its owner has been shown this much of it. If it has moved since, there is news, and that stays unread."""

    def move(record: TaskRecord) -> Change:
        is_news = (record.handle.status, record.handle.attempt) != (shown.status, shown.attempt)
        return Change(record=record if is_news or not record.unread else replace(record, unread=False))

    return move


def _unless_stopped(record: TaskRecord) -> None:
    if record.handle.status is TaskStatus.RUNNING and record.handle.cancel_requested is not None:
        raise StopRequested(record.task_id)


def _ended(
    record: TaskRecord, handle: TaskHandle, type: MessageType, payload: object, at: datetime, seconds: float
) -> Change:
    changed = record.with_handle(
        handle, process=None, mail=(), unread=True, active_seconds=record.active_seconds + seconds
    )
    return Change(record=changed, entries=(event(record, type, payload, at),))
