"""Which tasks a list shows, and in which order."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mcp_subagents.delegation import ACTIVE, ENDED, Standing
from mcp_subagents.records import TaskRecord
from mcp_subagents.standing import standing_of
from mcp_subagents.store import Query, Store
from mcp_subagents.types import TaskStatus

EVERY = frozenset(TaskStatus)
_MOST_PLACED = 100
"""Tasks of a list whose places in the queue are looked up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """Tasks that were chosen, and how many more there are."""

    records: Sequence[TaskRecord] = ()
    more_open: int = 0
    more_ended: int = 0


async def chosen(store: Store, *, statuses: frozenset[TaskStatus] = EVERY, limit: int) -> Fleet:
    """Tasks in these states: those that have not ended, then those that have, the newest first of both."""
    open_ones, open_in_all = await _newest(store, statuses & ACTIVE, limit)
    ended, ended_in_all = await _newest(store, statuses & ENDED, limit - len(open_ones))
    return Fleet(
        records=[*open_ones, *ended],
        more_open=open_in_all - len(open_ones),
        more_ended=ended_in_all - len(ended),
    )


async def _newest(store: Store, statuses: frozenset[TaskStatus], limit: int) -> tuple[Sequence[TaskRecord], int]:
    query = Query(statuses=statuses, newest_first=True, limit=limit)
    return await store.select(query), await store.count(query)


async def standings(store: Store, records: Sequence[TaskRecord]) -> list[Standing]:
    """How each of them stands; with their places in the queue, unless there are very many."""
    few = len(records) <= _MOST_PLACED
    return [await standing_of(store, record, with_place=few) for record in records]


def arranged(records: Iterable[TaskRecord]) -> list[tuple[TaskRecord, int]]:
    """The same tasks, each followed by those below it, the oldest first, and how deep each of them is among these."""
    given = {record.task_id: record for record in records}
    below: defaultdict[str, list[TaskRecord]] = defaultdict(list)
    tops: list[TaskRecord] = []
    for record in given.values():
        parent = record.handle.parent_id
        (below[parent] if parent in given else tops).append(record)

    def walk(record: TaskRecord, depth: int) -> Iterator[tuple[TaskRecord, int]]:
        yield record, depth
        for child in sorted(below[record.task_id], key=lambda each: each.handle.created_at):
            yield from walk(child, depth + 1)

    return [each for top in tops for each in walk(top, 0)]
