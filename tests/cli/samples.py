"""A store with a task in every state, as commands find it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio

from mcp_subagents import moves
from mcp_subagents.branches import adopt
from mcp_subagents.records import Entry, EntryKind, TaskRecord
from mcp_subagents.store import Capacity, Query, Store
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.types import (
    CancelKind,
    FailureType,
    Question,
    TaskFailure,
    TaskHandle,
    TaskStatus,
    TaskUsage,
    utc_now,
)

ROOMY = Capacity(most=1, in_all=1000)
USAGE = TaskUsage(requests=2, tool_calls=1, input_tokens=4_000, output_tokens=200, cost_usd=Decimal("0.0123"))
FAILURE = TaskFailure(
    failure_type=FailureType.LIMIT,
    is_retryable=False,
    message="It has used up its 2 requests.",
    attempted="2 turns.",
    partial_results="Half of\nthe answer.",
    alternatives=("Ask for less.",),
)
RESULT = "# Report\n\nAll is \x1b[31mwell\x1b[0m."
HOSTILE = "Clean\x1b[2J up \x1b]0;owned\x07the\r\n \u202etitle\x9b31m"

RUNNING, CHILD = "run4xYz0aaaaaaaaaaaaaa", "chi4xYz0aaaaaaaaaaaaaa"
ASKING, TORN = "ask4xYz0aaaaaaaaaaaaaa", "two4xYz0aaaaaaaaaaaaaa"
DONE, DASHED = "don4xYz0aaaaaaaaaaaaaa", "-ds4xYz0aaaaaaaaaaaaaa"
FAILED, STOPPED = "fai4xYz0aaaaaaaaaaaaaa", "can4xYz0aaaaaaaaaaaaaa"


def with_store(path: Path, look: Callable[[Store], Any]) -> Any:
    """What an async function finds in the store at `path`."""

    async def open_and_look() -> Any:
        with anyio.fail_after(20):
            async with open_sqlite(path) as store:
                return await look(store)

    return anyio.run(open_and_look)


async def put(
    store: Store, task_id: str, subagent: str, description: str, *, parent: str | None = None, definition: str = "{}"
) -> None:
    """A new task that was delegated three days ago, and that any process can run."""
    handle = TaskHandle(
        task_id, subagent, description, created_at=utc_now() - timedelta(days=3, hours=1), parent_id=parent
    )
    above = {} if parent is None else {parent: adopt(task_id, directly=True, most=None)}
    await store.create(
        TaskRecord(handle=handle, due_at=utc_now(), definition=definition), most_open=20_000, above=above
    )


async def started(store: Store, task_id: str) -> TaskRecord:
    [record] = (await store.claim(ROOMY, utc_now(), task_id=task_id)).records
    return record


async def a_turn(store: Store, record: TaskRecord) -> None:
    turn = Entry(kind=EntryKind.TURN, body="[]", at=utc_now(), attempt=1)
    move = moves.finish_turn(turn, number=1, usage=USAGE, seconds=1.0, delivered=frozenset())
    await store.change(record.task_id, move, lease=record.lease)


async def fill(store: Store) -> None:
    """One of each."""
    await put(store, FAILED, "reviewer", "Review everything.")
    record = await started(store, FAILED)
    await a_turn(store, record)
    failure = replace(FAILURE, usage=USAGE)
    await store.change(FAILED, moves.fail(failure, at=utc_now()), lease=record.lease)
    await put(store, STOPPED, "reviewer", "Review some of it.")
    stop = replace(FAILURE, failure_type=FailureType.CANCELLED, message="The task was cancelled.")
    await store.change(STOPPED, moves.cancel(CancelKind.SOFT, stop, utc_now()))
    for task_id, description in ((DASHED, "Begin with a dash."), (DONE, HOSTILE)):
        await put(store, task_id, "researcher", description)
        record = await started(store, task_id)
        await a_turn(store, record)
        await store.change(task_id, moves.complete(RESULT, usage=USAGE, seconds=1.0, at=utc_now()), lease=record.lease)
    for task_id, asked in ((TORN, ("First?", "Second?")), (ASKING, ("Which \x1b[31mregion\x1b[0m?",))):
        await put(store, task_id, "general-purpose", "Compare the prices of three clouds, region by region.")
        record = await started(store, task_id)
        await a_turn(store, record)
        questions = [Question(question_id=f"call_{number}", text=text) for number, text in enumerate(asked)]
        later = utc_now() + timedelta(days=1)
        await store.change(task_id, moves.ask(questions, seconds=1.0, at=utc_now(), until=later), lease=record.lease)
    await put(store, RUNNING, "researcher", "Compare caching libraries.")
    record = await started(store, RUNNING)
    await a_turn(store, record)
    await put(store, CHILD, "helper", "Read the first one.", parent=RUNNING)


async def statuses(store: Store) -> dict[str, TaskStatus]:
    return {each.task_id: each.handle.status for each in await store.select(Query())}
