"""Deletes what is due, in small steps, so that nobody has to wait for it for long."""

import logging

from mcp_subagents.errors import StoreDamaged
from mcp_subagents.store.sqlite_database import Row
from mcp_subagents.store.sqlite_rows import COMPLETED_AT, SEQ, record_of, tasks
from mcp_subagents.store.sqlite_transaction import LAST_CHANGE, Transaction
from mcp_subagents.store.sqlite_writer import Writer

logger = logging.getLogger(__name__)

_TASKS_AT_ONCE = 64
_PAGES_AT_ONCE = 1024

_ENDED = f"""
{tasks("task_ended")} WHERE task.completed_at < ? AND (task.completed_at, task.seq) > (?, ?)
ORDER BY task.completed_at, task.seq LIMIT {_TASKS_AT_ONCE}
"""


_KEEP_COUNT = f"UPDATE counter SET value = ({LAST_CHANGE}) WHERE name = 'changes'"
"""Lest the numbers of deleted changes are given out again."""


async def delete_ended(writer: Writer, before: int) -> int:
    """Delete the tasks that ended before then, and say how many."""
    deleted = 0
    last: Row | None = (-1, -1)
    while last is not None:
        number, last = await writer.run(_Deletion(before, last), takes_long=True)
        deleted += number
    return deleted


async def shrink(writer: Writer) -> None:
    """Give the room that is no longer needed back to the disk."""
    while await writer.run(_give_back, takes_long=True):
        pass


class _Deletion:
    """One step: the tasks that come after `last`."""

    def __init__(self, before: int, last: Row) -> None:
        self._before = before
        self._last = last

    def __call__(self, transaction: Transaction) -> tuple[int, Row | None]:
        """How many were deleted, and the last one that was looked at if there may be more."""
        rows = transaction.db.rows(_ENDED, (self._before, *self._last))
        sound = [row for row in rows if _is_sound(row)]
        if sound:
            transaction.db.run(_KEEP_COUNT)
        transaction.db.connection.executemany("DELETE FROM task WHERE seq = ?", [(row[SEQ],) for row in sound])
        more = len(rows) == _TASKS_AT_ONCE
        return len(sound), (rows[-1][COMPLETED_AT], rows[-1][SEQ]) if more else None


def _is_sound(row: Row) -> bool:
    """Whether the task really ended when its row says."""
    try:
        record_of(row)
    except StoreDamaged:
        logger.exception("a task is not deleted")
        return False
    return True


def _give_back(transaction: Transaction) -> bool:
    """Whether there may be more."""
    free = transaction.db.value("PRAGMA freelist_count")
    if free:
        transaction.db.rows(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")
    transaction.tidy = free <= _PAGES_AT_ONCE
    return free > _PAGES_AT_ONCE
