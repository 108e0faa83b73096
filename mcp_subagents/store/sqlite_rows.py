"""Records as rows and back, each with a checksum."""

import zlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from mcp_subagents.errors import StoreDamaged, UnknownTask
from mcp_subagents.records import (
    PRIORITY_ORDER,
    Entry,
    EntryKind,
    TaskRecord,
    dump_state,
    load_record,
)
from mcp_subagents.store.sqlite_database import Row

COLUMNS = """
task.seq, task.id, task.owner, task.subagent, task.parent_id, task.idempotency_key, task.declared, task.status,
task.rank, task.due_at, task.attempt, task.process, task.provider, task.unread, task.completed_at, task.changed,
task.state, task.sum
"""


def tasks(index: str = "") -> str:
    """What `record_of` takes. To be followed by a condition; `index` says how to find what it is about."""
    source = f"task INDEXED BY {index}" if index else "task"
    return f"""
    SELECT {COLUMNS}, assignment.body, assignment.sum
    FROM {source} LEFT JOIN assignment ON assignment.task = task.seq
    """


TASKS = tasks()
TASK = f"{TASKS} WHERE task.id = ?"

SEQ, ID, STATUS, ATTEMPT, COMPLETED_AT, CHANGED, STATE, SUM = 0, 1, 7, 10, 14, 15, 16, 17
FIXED, MOVING = slice(1, 7), slice(7, 15)
_ASSIGNMENT, _ASSIGNMENT_SUM = 18, 19

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOWEST_RANK = max(PRIORITY_ORDER.values())


def micros(at: datetime) -> int:
    """Microseconds since 1970."""
    since = at - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def moment(at: int) -> datetime:
    """The other way round."""
    return _EPOCH + timedelta(microseconds=at)


def checksum(*values: Any) -> int:
    return zlib.crc32("\x1f".join(map(str, values)).encode())


class Damaged(StoreDamaged):
    """A record that is not what was written."""

    def __init__(self, what: str) -> None:
        super().__init__(f"The store is damaged: {what} is not what was written. Everything else can be read.")


def record_of(row: Row) -> TaskRecord:
    """The record in a row of `TASKS`. Raises: `StoreDamaged`."""
    task_id, assignment = row[ID], row[_ASSIGNMENT]
    if not is_sound(row) or checksum(task_id, row[SEQ], assignment) != row[_ASSIGNMENT_SUM]:
        raise Damaged(f"task {task_id!r}")
    return load_record(assignment, row[STATE])


def is_sound(row: Row) -> bool:
    """Whether the columns of a task are what was written."""
    return checksum(*row[:SUM]) == row[SUM]


def only(rows: Sequence[Row], task_id: str) -> Row:
    """The row of a task. Raises: `UnknownTask`."""
    if not rows:
        raise UnknownTask(task_id)
    return rows[0]


def entry_of(task_id: str, row: Row) -> Entry:
    """The entry in a row of the journal: all its columns, in their order. Raises: `StoreDamaged`."""
    number, task, kind, attempt, at, body, total = row
    if checksum(number, task_id, task, kind, attempt, at, body) != total:
        raise Damaged(f"the journal of task {task_id!r}")
    return Entry(kind=EntryKind(kind), body=body, at=moment(at), attempt=attempt)


def row_of(record: TaskRecord, seq: int, change: int) -> Row:
    """The columns of a task but for its checksum, in the order of `TASKS`."""
    handle = record.handle
    return (
        seq,
        handle.task_id,
        handle.owner,
        handle.subagent_name,
        handle.parent_id,
        record.idempotency_key,
        int(record.definition is not None),
        handle.status.value,
        _LOWEST_RANK - PRIORITY_ORDER[handle.priority],
        micros(record.due_at),
        handle.attempt,
        record.process,
        record.provider,
        int(record.unread),
        None if handle.completed_at is None else micros(handle.completed_at),
        change,
        dump_state(record),
    )
