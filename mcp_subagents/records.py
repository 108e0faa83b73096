"""What is stored of a task: values, and their JSON."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from mcp_subagents.trees import Tree, dump_tree, dump_usage, load_tree, load_usage
from mcp_subagents.types import (
    CancelKind,
    FailureType,
    Question,
    TaskFailure,
    TaskHandle,
    TaskPriority,
    TaskStatus,
    TaskUsage,
)

PRIORITY_ORDER: Mapping[TaskPriority, int] = {priority: rank for rank, priority in enumerate(TaskPriority)}
"""Higher goes first."""


class EntryKind(StrEnum):
    """What a journal entry records."""

    TURN = "turn"
    """The messages of one turn: what was asked, and the model's response."""
    HISTORY = "history"
    """All messages so far, where a history was rewritten; what came before it no longer counts."""
    TOOL_STARTED = "tool_started"
    TOOL_RESULT = "tool_result"
    EVENT = "event"
    """An `AgentMessage` between host and subagent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One record of a task's journal. Never changed once it is written."""

    kind: EntryKind
    body: str
    """JSON."""
    at: datetime
    attempt: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Mail:
    """A steering message that no turn has carried yet."""

    mail_id: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """The right to write on behalf of one attempt of a task. A later attempt ends it."""

    task_id: str
    attempt: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskRecord:
    """A task as the store holds it: what everybody may see, and what the next attempt needs."""

    handle: TaskHandle
    due_at: datetime
    """When it may start; for one that waits for an answer, when it has waited long enough."""
    definition: str | None = None
    """The subagent's definition as JSON; `None` for one that lives in the Python code of a process."""
    provider: str = ""
    """Whose model it uses, for shared cooldowns."""
    process: str | None = None
    """Who runs it, while it runs."""
    idempotency_key: str = ""
    limits: Mapping[str, float | None] | None = None
    continues: str = ""
    """The ended task whose history it goes on from."""
    home: str = ""
    """The process that took it on."""
    trace: str = ""
    """The trace that it belongs to, as a `traceparent`."""
    mail: tuple[Mail, ...] = ()
    failures: int = 0
    """Transient failures since the last finished turn."""
    losses: int = 0
    """Processes that were lost with it since the last finished turn."""
    active_seconds: float = 0.0
    """How long it has been running, over all attempts."""
    unread: bool = False
    """It ended or asked, and its owner has not seen that yet."""
    warned: tuple[str, ...] = ()
    """The limits of which it was told that they are nearly reached."""
    tree: Tree | None = None
    """The tasks below it; `None` for one that has never delegated."""

    @property
    def task_id(self) -> str:
        return self.handle.task_id

    @property
    def wish(self) -> tuple[str, str, str]:
        """What it is about; a call with the key of another wish is a mistake, not a repetition."""
        return self.handle.subagent_name, self.handle.description, self.continues

    @property
    def lease(self) -> Lease:
        return Lease(task_id=self.handle.task_id, attempt=self.handle.attempt)

    def with_handle(self, handle: TaskHandle, **changes: Any) -> "TaskRecord":
        return replace(self, handle=handle, **changes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What a move makes of a task: its next record, and what the journal says of it."""

    record: TaskRecord
    entries: Sequence[Entry] = ()


Move = Callable[[TaskRecord], Change]
"""A pure function from a task as it stands to a task as it should be. It raises to refuse."""


compact_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Made once: to make an encoder takes as long as to use it."""

_WRITTEN_ONCE = ("description", "definition", "limits")
"""What never changes is kept apart, so that it is not written again with every turn."""


def dump_assignment(record: TaskRecord) -> str:
    """The part of a record that is written once."""
    return compact_json(
        {
            "description": record.handle.description,
            "definition": record.definition,
            "limits": None if record.limits is None else dict(record.limits),
        }
    )


def dump_state(record: TaskRecord) -> str:
    """The part of a record that changes; what has its default is left out."""
    handle = _changed(record.handle, _HANDLE_DEFAULTS)
    return compact_json({"handle": handle, **_changed(record, _RECORD_DEFAULTS)})


def load_record(assignment: str, state: str) -> TaskRecord:
    """The record that was dumped."""
    once: dict[str, Any] = json.loads(assignment)
    data: dict[str, Any] = json.loads(state)
    handle = {name: _RICH.get(name, _same)(value) for name, value in data.pop("handle").items()}
    own = {name: _RICH.get(name, _same)(value) for name, value in data.items()}
    return TaskRecord(
        handle=TaskHandle(description=once["description"], **handle),
        definition=once["definition"],
        limits=once["limits"],
        **own,
    )


_HANDLE_DEFAULTS = {each.name: each.default for each in fields(TaskHandle) if each.name not in _WRITTEN_ONCE}
_RECORD_DEFAULTS = {
    each.name: each.default for each in fields(TaskRecord) if each.name not in {*_WRITTEN_ONCE, "handle"}
}


def _changed(value: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(given) for name, default in defaults.items() if (given := getattr(value, name)) != default}


def dump_failure(failure: TaskFailure) -> dict[str, Any]:
    return {field.name: _plain(getattr(failure, field.name)) for field in fields(TaskFailure)}


def _plain(value: object) -> Any:
    as_plain = _PLAIN.get(type(value))
    return value if as_plain is None else as_plain(value)


_PLAIN: Mapping[type, Callable[[Any], Any]] = {
    datetime: datetime.isoformat,
    TaskFailure: dump_failure,
    TaskUsage: dump_usage,
    Tree: dump_tree,
    Question: lambda value: [value.question_id, value.text, value.answer],
    Mail: lambda value: [value.mail_id, value.text],
    tuple: lambda value: [_plain(each) for each in value],
}
"""What JSON does not know, by its type."""


def _same(value: Any) -> Any:
    return value


def _failure(value: dict[str, Any]) -> TaskFailure:
    value["failure_type"] = FailureType(value["failure_type"])
    value["alternatives"] = tuple(value["alternatives"])
    value["usage"] = load_usage(value["usage"])
    return TaskFailure(**value)


def _questions(value: list[list[Any]]) -> tuple[Question, ...]:
    return tuple(Question(question_id=each[0], text=each[1], answer=each[2]) for each in value)


def _mail(value: list[list[str]]) -> tuple[Mail, ...]:
    return tuple(Mail(mail_id=each[0], text=each[1]) for each in value)


def _time(value: str) -> datetime:
    return datetime.fromisoformat(value).astimezone(UTC)


_RICH: Mapping[str, Any] = {
    "status": TaskStatus,
    "priority": TaskPriority,
    "created_at": _time,
    "started_at": _time,
    "completed_at": _time,
    "last_activity_at": _time,
    "due_at": _time,
    "usage": load_usage,
    "tree": load_tree,
    "warned": tuple,
    "failure": _failure,
    "cancel_requested": CancelKind,
    "questions": _questions,
    "models_used": tuple,
    "mail": _mail,
}
