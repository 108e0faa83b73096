"""What happens between a task and those below it, as pure functions on their records.

A parent's record names its open children and says which of them ask. That is written in the same commit as what
becomes of the child, so that a parent that parks, or wants to end, sees how its children stand at that very moment.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from mcp_subagents.errors import DescendantsExceeded, StopRequested, TaskEnded
from mcp_subagents.records import Change, Mail, Move, TaskRecord
from mcp_subagents.trees import Awaited, Child, Tree
from mcp_subagents.types import TaskStatus, TaskUsage


def adopt(child_id: str, *, directly: bool, most: int | None) -> Move:
    """A task below it is taken on, `directly` or further down; `most` of them in all.

    Raises: `TaskEnded`, also when it was told to stop; `DescendantsExceeded`.
    """

    def move(record: TaskRecord) -> Change:
        if record.handle.status.is_terminal or record.handle.cancel_requested is not None:
            raise TaskEnded(record.handle)
        tree = record.tree or Tree()
        if most is not None and tree.descendants >= most:
            raise DescendantsExceeded(most)
        children = (*tree.children, Child(task_id=child_id)) if directly else tree.children
        return _with(record, replace(tree, children=children, descendants=tree.descendants + 1))

    return move


def park(awaited: Sequence[Awaited], *, seconds: float, at: datetime, until: datetime) -> Move:
    """It waits for tasks below it, until `until` at the most, and holds nothing meanwhile. Raises: `StopRequested`."""

    def move(record: TaskRecord) -> Change:
        if record.handle.cancel_requested is not None:
            raise StopRequested(record.task_id)
        tree = replace(record.tree or Tree(), awaited=tuple(awaited))
        changed = record.with_handle(
            replace(record.handle.released(), last_activity_at=at),
            process=None,
            due_at=at if tree.is_enough else until,
            active_seconds=record.active_seconds + seconds,
            tree=tree,
        )
        return Change(record=changed)

    return move


def upward(before: TaskRecord, after: TaskRecord) -> Move | None:
    """What the parent of a task has to note of a change; `None` if that is nothing to it."""
    if after.handle.parent_id is None:
        return None
    waiting = TaskStatus.WAITING_FOR_ANSWER
    ended = after.handle.status.is_terminal and not before.handle.status.is_terminal
    if not ended and (before.handle.status is waiting) == (after.handle.status is waiting):
        return None
    return _end(after) if ended else _ask(after)


def _ask(child: TaskRecord) -> Move:
    asks = child.handle.status is TaskStatus.WAITING_FOR_ANSWER

    def move(record: TaskRecord) -> Change:
        tree = record.tree or Tree()
        children = tuple(replace(each, asks=asks) if each.task_id == child.task_id else each for each in tree.children)
        return _woken(record, replace(tree, children=children), child)

    return move


def _end(child: TaskRecord) -> Move:
    below = child.tree or Tree()

    def move(record: TaskRecord) -> Change:
        tree = record.tree or Tree()
        noted = replace(
            tree,
            children=tuple(each for each in tree.children if each.task_id != child.task_id),
            used=tree.used.plus(child.handle.usage or TaskUsage()).plus(below.used),
            seconds=tree.seconds + child.active_seconds + below.seconds,
            strays=(*tree.strays, *(each.task_id for each in below.children), *below.strays),
        )
        return _woken(record, noted, child)

    return move


def _woken(record: TaskRecord, tree: Tree, child: TaskRecord) -> Change:
    """The parent with what it noted of `child`; due at once if that is what it is parked for."""
    if record.handle.status.is_terminal:
        return Change(record=record)  # what has ended stays as it is; `Tree.children` still lead to the child
    at = child.handle.completed_at or child.handle.last_activity_at
    parked = record.handle.status is TaskStatus.PENDING and bool(tree.awaited)
    if parked and tree.is_enough and at is not None and at < record.due_at:
        return _with(replace(record, due_at=at), tree)
    return _with(record, tree)


def cost_between(before: TaskRecord, after: TaskRecord) -> Decimal:
    """What was paid for between two states of a task."""
    if after.handle.usage is before.handle.usage:
        return Decimal(0)
    was, now = ((record.handle.usage or TaskUsage()).cost_usd or Decimal(0) for record in (before, after))
    return max(now - was, Decimal(0))


def remind(mail: Mail) -> Move:
    """It wanted to end, and is told once that tasks below it are still open."""

    def move(record: TaskRecord) -> Change:
        tree = record.tree or Tree()
        if tree.reminded:
            return Change(record=record)
        return _with(replace(record, mail=(*record.mail, mail)), replace(tree, reminded=True))

    return move


def warn(limits: frozenset[str]) -> Move:
    """It was told that it comes near these limits."""

    def move(record: TaskRecord) -> Change:
        return Change(record=replace(record, warned=tuple(sorted({*record.warned, *limits}))))

    return move


def _with(record: TaskRecord, tree: Tree) -> Change:
    return Change(record=replace(record, tree=tree))
