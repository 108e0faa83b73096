"""Which tasks a query describes, in SQL."""

from typing import Any

from mcp_subagents.records import EntryKind
from mcp_subagents.store import Query
from mcp_subagents.store.sqlite_rows import micros, tasks
from mcp_subagents.types import TaskStatus

_LAST = "\U0010ffff"
"""Comes after whatever an id may go on with."""
_BY_ID = "sqlite_autoindex_task_1"
"""SQLite's own name for the index that keeps ids unique."""


def selection(query: Query) -> tuple[str, list[Any]]:
    """Statement and values for the rows that `record_of` takes, in their order."""
    where, values = _where(query)
    order = "DESC" if query.newest_first else "ASC"
    return f"{tasks(_index(query))} WHERE {where} ORDER BY task.seq {order} LIMIT ?", [*values, query.limit]


def counting(query: Query) -> tuple[str, list[Any]]:
    """Statement and values for the number of tasks."""
    where, values = _where(query)
    index = _index(query)
    return f"SELECT count(*) FROM task {index and f'INDEXED BY {index}'} WHERE {where}", values


def literals(values: frozenset[TaskStatus] | frozenset[EntryKind]) -> str:
    """Spelt out, since an index on some of the rows is only used where SQLite can see that it fits."""
    return ", ".join(f"'{each.value}'" for each in sorted(values))


def _where(query: Query) -> tuple[str, list[Any]]:
    ended_before = None if query.ended_before is None else micros(query.ended_before)
    given: list[tuple[str, Any]] = [
        ("task.owner = ?", query.owner),
        ("task.parent_id = ?", query.parent_id),
        ("task.id >= ?", query.prefix or None),
        ("task.id < ?", f"{query.prefix}{_LAST}" if query.prefix else None),
        ("task.completed_at < ?", ended_before),
    ]
    conditions = [condition for condition, value in given if value is not None]
    if query.statuses is not None:
        conditions.append(f"task.status IN ({literals(query.statuses)})")
    if _only_open(query):
        conditions.append("task.status NOT IN ('completed', 'failed', 'cancelled')")
    if query.on_top:
        conditions.append("task.parent_id IS NULL")
    if query.unread is not None:
        conditions.append(f"task.unread = {int(query.unread)}")
    return " AND ".join(conditions) or "1", [value for _, value in given if value is not None]


def _index(query: Query) -> str:
    """The index that leads to the fewest rows. SQLite knows of no difference between them.

    Ended tasks are many, and what is open, unread or below one parent is little.
    """
    if query.prefix:
        return _BY_ID
    if query.ended_before is not None:
        return "task_ended"
    if query.parent_id is not None:
        return "task_parent"
    if query.unread:
        return "task_unread"
    if _only_open(query):
        return "task_open"
    return "" if query.owner is None else "task_owner"


def _only_open(query: Query) -> bool:
    return bool(query.statuses) and not any(status.is_terminal for status in query.statuses)
