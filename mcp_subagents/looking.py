"""How tasks stand, as somebody sees it who looks in."""

import json

from mcp_subagents.delegation import ENDED, News, Standing, Unread
from mcp_subagents.records import Entry, EntryKind, TaskRecord
from mcp_subagents.store import Query, Store
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
_ASKING = frozenset({TaskStatus.WAITING_FOR_ANSWER})
_MOST_NAMED = 3


async def standing(store: Store, record: TaskRecord) -> Standing:
    """How the task stands, with what it is doing and its place in the queue."""
    handle = record.handle
    if handle.status is TaskStatus.RUNNING:
        return Standing(handle=handle, doing=_doing(await store.last_entry(handle.task_id, _DEEDS)))
    queued = handle.status in (TaskStatus.PENDING, TaskStatus.RETRYING)
    position = await store.queue_position(handle.task_id) if queued else None
    return Standing(handle=handle, doing=_AT_REST[handle.status], queue_position=position)


def _doing(last: Entry | None) -> str:
    tool = json.loads(last.body)["tool"] if last is not None and last.kind is EntryKind.TOOL_STARTED else None
    return f"calling {tool}" if tool else "asking the model"


async def unread(store: Store, owner: str) -> Unread:
    """What the owner has not seen yet."""
    return Unread(ended=await _news(store, owner, ENDED), asking=await _news(store, owner, _ASKING))


async def _news(store: Store, owner: str, statuses: frozenset[TaskStatus]) -> News:
    query = Query(owner=owner, statuses=statuses, unread=True, limit=_MOST_NAMED)
    count = await store.count(query)
    first = await store.select(query) if count else ()
    return News(count=count, first=[record.task_id for record in first])
