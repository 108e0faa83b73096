"""What a task is doing, in a few words."""

import json

from mcp_subagents.ancestry import spent_by
from mcp_subagents.delegation import Standing
from mcp_subagents.records import Entry, EntryKind, TaskRecord
from mcp_subagents.store import Store
from mcp_subagents.types import TaskStatus

_AT_REST = {
    TaskStatus.PENDING: "waiting for its turn",
    TaskStatus.RETRYING: "waiting to try again",
    TaskStatus.WAITING_FOR_ANSWER: "waiting for an answer",
    TaskStatus.COMPLETED: "done",
    TaskStatus.FAILED: "failed",
    TaskStatus.CANCELLED: "cancelled",
}
_DEEDS = frozenset(EntryKind) - {EntryKind.EVENT}
"""What a task does itself; the rest is between it and its host."""


async def standing_of(store: Store, record: TaskRecord, *, with_place: bool = True) -> Standing:
    """How a task stands, with what it is doing, its place in the queue, and what it has used with all below it.

    To find the place of one task is quick, that of thousands is not: a long list goes without.
    """
    handle = record.handle
    usage = (await spent_by(store, record)).usage
    if handle.status is TaskStatus.RUNNING:
        return Standing(handle=handle, doing=doing(await store.last_entry(handle.task_id, _DEEDS)), usage=usage)
    if handle.status is TaskStatus.PENDING and record.tree is not None and record.tree.awaited:
        return Standing(handle=handle, doing="waiting for its subagents", usage=usage)
    queued = handle.status in (TaskStatus.PENDING, TaskStatus.RETRYING)
    position = await store.queue_position(handle.task_id) if queued and with_place else None
    return Standing(handle=handle, doing=_AT_REST[handle.status], queue_position=position, usage=usage)


def doing(last: Entry | None) -> str:
    """What a running task is doing, by what its journal says last."""
    tool = json.loads(last.body)["tool"] if last is not None and last.kind is EntryKind.TOOL_STARTED else None
    return f"calling {tool}" if tool else "asking the model"
