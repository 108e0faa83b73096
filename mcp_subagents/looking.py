"""What has happened to the tasks of an owner that nobody has looked at yet."""

from mcp_subagents.delegation import ENDED, News, Unread
from mcp_subagents.store import Query, Store
from mcp_subagents.types import TaskStatus

_ASKING = frozenset({TaskStatus.WAITING_FOR_ANSWER})
_MOST_NAMED = 3


async def unread(store: Store, owner: str) -> Unread:
    """What the owner has not seen yet."""
    return Unread(ended=await _news(store, owner, ENDED), asking=await _news(store, owner, _ASKING))


async def _news(store: Store, owner: str, statuses: frozenset[TaskStatus]) -> News:
    query = Query(owner=owner, statuses=statuses, unread=True, on_top=True, limit=_MOST_NAMED)
    count = await store.count(query)
    first = await store.select(query) if count else ()
    return News(count=count, first=[record.task_id for record in first])
