"""What is written of a task: one row, its assignment, and its journal."""

import logging
from collections.abc import Sequence

import apsw

from mcp_subagents.errors import IllegalTransition, StoreDamaged, UnknownTask
from mcp_subagents.records import Entry, Move, TaskRecord, dump_assignment
from mcp_subagents.store.sqlite_database import Row
from mcp_subagents.store.sqlite_rows import (
    ATTEMPT,
    FIXED,
    ID,
    MOVING,
    SEQ,
    STATE,
    STATUS,
    TASK,
    checksum,
    micros,
    only,
    record_of,
    row_of,
)
from mcp_subagents.store.sqlite_transaction import Transaction
from mcp_subagents.types import TRANSITIONS, TaskStatus

logger = logging.getLogger(__name__)

_INSERT_TASK = """
INSERT INTO task (seq, id, owner, subagent, parent_id, idempotency_key, declared, status, rank, due_at, attempt,
                  process, provider, unread, completed_at, changed, state, sum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_MOVE_TASK = """
UPDATE task SET status = ?, rank = ?, due_at = ?, attempt = ?, process = ?, provider = ?, unread = ?,
                completed_at = ?, changed = ?, state = ?, sum = ?
WHERE id = ? AND attempt = ? AND status = ?
"""
_UPDATE_TASK = "UPDATE task SET changed = ?, state = ?, sum = ? WHERE id = ? AND attempt = ? AND status = ?"
"""For a change of nothing but the state; it leaves most indexes alone."""

_INSERT_ASSIGNMENT = "INSERT INTO assignment (task, body, sum) VALUES (?, ?, ?)"
_INSERT_ENTRY = "INSERT INTO journal (id, task, kind, attempt, at, body, sum) VALUES (?, ?, ?, ?, ?, ?, ?)"


def read_for_update(transaction: Transaction, task_id: str) -> tuple[Row, TaskRecord]:
    """A task as it stands, with its row for `update`. Raises: `UnknownTask`, `StoreDamaged`."""
    if (known := transaction.running.get(task_id)) is not None:
        return known
    row = only(transaction.db.rows(TASK, (task_id,)), task_id)
    return row, record_of(row)


def insert(transaction: Transaction, record: TaskRecord, entries: Sequence[Entry]) -> TaskRecord:
    """Write a new task."""
    seq, change = transaction.next_task(), transaction.next_change()
    row = row_of(record, seq, change)
    transaction.db.run(_INSERT_TASK, (*row, checksum(*row)))
    assignment = dump_assignment(record)
    transaction.db.run(_INSERT_ASSIGNMENT, (seq, assignment, checksum(record.task_id, seq, assignment)))
    add_entries(transaction, record.task_id, seq, entries)
    transaction.told.append((change, record))
    return record


def update(transaction: Transaction, old: Row, record: TaskRecord) -> TaskRecord:
    """Write what became of a task that was read as `old`. Raises: `IllegalTransition`."""
    change = transaction.next_change()
    row = row_of(record, old[SEQ], change)
    assert row[FIXED] == old[FIXED], "what a task is stays the same, whatever happens to it"
    total = checksum(*row)
    new = (change, row[STATE], total, old[ID], old[ATTEMPT], old[STATUS])
    try:
        if row[MOVING] == old[MOVING]:
            transaction.db.run(_UPDATE_TASK, new)
        else:
            transaction.db.run(_MOVE_TASK, (*row[MOVING], *new))
    except apsw.ConstraintError as exc:
        was = TaskStatus(old[STATUS])
        raise IllegalTransition(record.task_id, was, record.handle.status, TRANSITIONS[was]) from exc
    if record.handle.status is TaskStatus.RUNNING:
        transaction.running[record.task_id] = (*row, total), record
    else:
        transaction.running.pop(record.task_id, None)
    transaction.told.append((change, record))
    return record


def tell_parent(transaction: Transaction, child: TaskRecord, move: Move) -> None:
    """Let the parent of a task note what became of it."""
    try:
        row, parent = read_for_update(transaction, child.handle.parent_id or "")
    except (UnknownTask, StoreDamaged) as exc:
        # Nobody is left to be told; or nobody can be told, and that must not keep the child from ending.
        logger.log(logging.ERROR if isinstance(exc, StoreDamaged) else logging.DEBUG, "no parent was told: %s", exc)
        return
    if (changed := move(parent).record) is not parent:
        update(transaction, row, changed)


def add_entries(transaction: Transaction, task_id: str, seq: int, entries: Sequence[Entry]) -> None:
    """Write to a task's journal."""
    for entry in entries:
        number, kind, at = transaction.next_entry(), entry.kind.value, micros(entry.at)
        total = checksum(number, task_id, seq, kind, entry.attempt, at, entry.body)
        transaction.db.run(_INSERT_ENTRY, (number, seq, kind, entry.attempt, at, entry.body, total))
