"""Tells a task to stop, and all tasks below it."""

from collections.abc import Callable
from datetime import datetime

from mcp_subagents import moves
from mcp_subagents.delegation import ACTIVE
from mcp_subagents.past import unfinished
from mcp_subagents.records import TaskRecord
from mcp_subagents.store import Query, Store
from mcp_subagents.types import CancelKind, FailureType


def _nobody(_task_id: str) -> None:
    """Those who run it hear of it from the store."""


async def cancel_tree(
    store: Store,
    task_id: str,
    kind: CancelKind,
    now: Callable[[], datetime],
    *,
    ended: Callable[[str], None] = _nobody,
) -> TaskRecord:
    """Stop the task and all below it. `ended` is called with the id of each that has ended by that.

    Raises: `UnknownTask`.
    """
    failure = await unfinished(store, task_id, FailureType.CANCELLED, "The task was cancelled.")
    record = await store.change(task_id, moves.cancel(kind, failure, now()))
    if record.handle.status.is_terminal:
        ended(task_id)
    # From here on it takes no more tasks below it, so that these are all.
    for child in await store.select(Query(parent_id=task_id, statuses=ACTIVE)):
        await cancel_tree(store, child.task_id, kind, now, ended=ended)
    return record
