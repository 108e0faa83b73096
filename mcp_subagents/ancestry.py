"""A task among those above and below it, and what they have used together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mcp_subagents import branches
from mcp_subagents.config.limits import Limits
from mcp_subagents.errors import DepthExceeded, UnknownTask
from mcp_subagents.records import Move, TaskRecord
from mcp_subagents.store import Store
from mcp_subagents.types import TaskHandle, TaskUsage


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """What a task has used, together with all tasks below it."""

    usage: TaskUsage
    seconds: float


async def ancestors(store: Store, handle: TaskHandle) -> Sequence[TaskRecord]:
    """The tasks above it, its parent first."""
    found: list[TaskRecord] = []
    while handle.parent_id is not None:
        record = await store.read(handle.parent_id)
        found.append(record)
        handle = record.handle
    return found


async def spent_by(store: Store, record: TaskRecord) -> Spent:
    """What a task and all below it have used.

    What has ended below it is counted in its own record. So only open tasks are read, and nothing is missing
    when ended ones are deleted.
    """
    usage, seconds = record.handle.usage or TaskUsage(), record.active_seconds
    if (tree := record.tree) is not None:
        # Calls that wait for tasks are counted when they return; until then they are at least not free.
        waiting = 0 if record.handle.status.is_terminal else len(tree.awaited)
        usage, seconds = usage.plus(tree.used).plus(TaskUsage(tool_calls=waiting)), seconds + tree.seconds
        for task_id in (*(child.task_id for child in tree.children), *tree.strays):
            try:
                below = await spent_by(store, await store.read(task_id))
            except UnknownTask:
                continue  # it outlived its parent, and its retention has ended
            usage, seconds = usage.plus(below.usage), seconds + below.seconds
    return Spent(usage=usage, seconds=seconds)


def adoptions(
    child_id: str, depth: int, above: Sequence[TaskRecord], limits_of: Callable[[TaskRecord], Limits]
) -> dict[str, Move]:
    """What a new task makes of each task above it. Raises: `DepthExceeded`."""
    moves: dict[str, Move] = {}
    for record in above:
        limits = limits_of(record)
        if depth - record.handle.depth > limits.depth:
            raise DepthExceeded(limits.depth)
        moves[record.task_id] = branches.adopt(child_id, directly=not moves, most=limits.descendants)
    return moves
