"""Tasks and entries for tests of the stores."""

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio

from mcp_subagents import moves
from mcp_subagents.records import Change, Entry, EntryKind, Lease, Move, TaskRecord
from mcp_subagents.store import Capacity, Store
from mcp_subagents.store.watching import Changes
from mcp_subagents.types import (
    FailureType,
    Question,
    TaskFailure,
    TaskHandle,
    TaskPriority,
    TaskUsage,
)

NOW = datetime(2026, 11, 16, 12, 0, 0, 123456, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ROOMY = Capacity(most=1000, in_all=1000)
USAGE = TaskUsage(requests=1, input_tokens=10, output_tokens=2)
FAILURE = TaskFailure(failure_type=FailureType.TRANSIENT, is_retryable=True, message="overloaded", usage=USAGE)


def task(
    task_id: str = "t1",
    *,
    owner: str = "local",
    subagent: str = "reviewer",
    priority: TaskPriority = TaskPriority.NORMAL,
    parent_id: str | None = None,
    **rest: Any,
) -> TaskRecord:
    """A new task that any process can run, due at `NOW`."""
    handle = TaskHandle(
        task_id=task_id,
        subagent_name=subagent,
        description=f"Do {task_id}.",
        priority=priority,
        created_at=NOW,
        owner=owner,
        parent_id=parent_id,
    )
    given: dict[str, Any] = {"due_at": NOW, "definition": "{}", "provider": "openai", **rest}
    return TaskRecord(handle=handle, **given)


def entry(text: str = "", kind: EntryKind = EntryKind.TURN, *, attempt: int = 1) -> Entry:
    return Entry(kind=kind, body=json.dumps({"text": text}), at=NOW, attempt=attempt)


async def add(store: Store, *records: TaskRecord) -> None:
    for record in records:
        await store.create(record, most_open=1000)


async def running(store: Store, task_id: str = "t1") -> Lease:
    """The lease of a new task, started just now."""
    await add(store, task(task_id))
    return await start(store, task_id)


async def start(store: Store, task_id: str = "t1", now: datetime = NOW) -> Lease:
    [record] = (await store.claim(ROOMY, now, task_id=task_id)).records
    return record.lease


async def texts(store: Store, task_id: str = "t1") -> list[str]:
    """What the journal holds, but for events."""
    return [json.loads(each.body)["text"] for each in await store.journal(task_id) if each.kind is not EntryKind.EVENT]


def unread(changes: Changes) -> list[TaskRecord]:
    """What has been told and not read yet."""
    found: list[TaskRecord] = []
    with suppress(anyio.WouldBlock):
        while True:
            found.append(changes.receive_nowait())
    return found


def ids(records: Sequence[TaskRecord]) -> list[str]:
    return [record.task_id for record in records]


def finish_turn(text: str = "a turn", delivered: frozenset[str] = frozenset()) -> Move:
    """The next turn, whichever that is."""

    def move(record: TaskRecord) -> Change:
        number = record.handle.turns + 1
        turn = moves.finish_turn(entry(text), number=number, usage=USAGE, seconds=0.5, delivered=delivered)
        return turn(record)

    return move


def complete(result: str = "done", at: datetime = NOW) -> Move:
    return moves.complete(result, usage=USAGE, seconds=0.5, at=at)


def ask(*question_ids: str, until: datetime = NOW + MINUTE) -> Move:
    questions = [Question(question_id=each, text=f"{each}?") for each in question_ids]
    return moves.ask(questions, seconds=0.5, at=NOW, until=until)
