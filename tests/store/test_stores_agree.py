"""Whatever is done to them, and in whatever order, all stores give the same answers."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paperwork import FAILURE, MINUTE, NOW, ask, complete, entry, finish_turn, task, unread

from mcp_subagents import branches, moves
from mcp_subagents.errors import SubagentsError
from mcp_subagents.records import EntryKind, Lease, Mail, Move
from mcp_subagents.store import Capacity, Query, Store
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.trees import Awaited
from mcp_subagents.types import CancelKind, TaskPriority, TaskStatus

TASKS = [f"t{number}" for number in range(8)]


@dataclass(frozen=True)
class Step:
    """Something that is done to a store. It reads as what it does."""

    name: str
    act: Callable[[Store], Awaitable[Any]]

    def __repr__(self) -> str:
        return self.name


def create(task_id: str, priority: TaskPriority, subagent: str, provider: str, due: datetime, rest: tuple[str, ...]):
    owner, key, definition = rest
    parent = "t0" if task_id in ("t1", "t2") else None
    above = {parent: branches.adopt(task_id, directly=True, most=None)} if parent else {}
    record = task(
        task_id,
        owner=owner,
        subagent=subagent,
        priority=priority,
        provider=provider,
        due_at=due,
        idempotency_key=key,
        parent_id=parent,
        definition=definition or None,
    )

    async def act(store: Store) -> Any:
        try:  # ids are never used twice
            return await store.read(task_id)
        except SubagentsError:
            return await store.create(record, [entry("assigned", EntryKind.EVENT)], most_open=4, above=above)

    return Step(f"create({record})", act)


def claim(most: int, in_all: int, reviewers: int, resident: bool, but_not: str, now: datetime):
    capacity = Capacity(
        most=most,
        in_all=in_all,
        per_subagent={"reviewer": reviewers},
        subagents=frozenset({"writer"} if resident else ()),
        but_not=frozenset({but_not}),
    )
    return Step(f"claim({capacity}, {now})", lambda store: store.claim(capacity, now))


def claim_one(task_id: str, now: datetime):
    capacity = Capacity(most=9, in_all=9, subagents=frozenset({"writer"}))
    return Step(f"claim_one({task_id})", lambda store: store.claim(capacity, now, task_id=task_id))


def change(task_id: str, move: tuple[str, Move], attempt: int | None):
    lease = None if attempt is None else Lease(task_id=task_id, attempt=attempt)
    return Step(f"change({task_id}, {move[0]}, {lease})", lambda store: store.change(task_id, move[1], lease=lease))


def append(task_id: str, attempt: int):
    lease = Lease(task_id=task_id, attempt=attempt)
    return Step(f"append({lease})", lambda store: store.append(lease, [entry("a"), entry("b", EntryKind.TOOL_RESULT)]))


def cool_down(provider: str, until: datetime):
    return Step(f"cool_down({provider}, {until})", lambda store: store.cool_down(provider, until))


def prune(before: datetime):
    return Step(f"prune({before})", lambda store: store.prune(before))


MOVES: list[tuple[str, Move]] = [
    ("turn", finish_turn()),
    ("turn with mail", finish_turn(delivered=frozenset({"m"}))),
    ("complete", complete()),
    ("fail", moves.fail(FAILURE, at=NOW)),
    ("ask", ask("q1", "q2")),
    ("answer q1", moves.answer("one", "q1", NOW)),
    ("answer", moves.answer("two", "", NOW)),
    ("expire", moves.expire(FAILURE, at=NOW + MINUTE)),
    ("send", moves.send(Mail(mail_id="m", text="hello"), NOW)),
    ("retry", moves.retry_later(FAILURE, due_at=NOW + MINUTE, seconds=1.0, at=NOW)),
    ("release", moves.release(NOW)),
    ("soft cancel", moves.cancel(CancelKind.SOFT, FAILURE, NOW)),
    ("hard cancel", moves.cancel(CancelKind.HARD, FAILURE, NOW + MINUTE)),
    ("stop", moves.stop(FAILURE, at=NOW, seconds=1.0)),
    ("see", lambda record: moves.see(record.handle)(record)),
    ("park", branches.park([Awaited(task_ids=("t1", "t2"))], seconds=1.0, at=NOW, until=NOW + MINUTE)),
    ("park for any", branches.park([Awaited(task_ids=("t1", "t2"), mode="any")], seconds=1.0, at=NOW, until=NOW)),
    ("remind", branches.remind(Mail(mail_id="r", text="wait"))),
    ("warn", branches.warn(frozenset({"requests"}))),
]

task_ids = st.sampled_from(TASKS)
times = st.sampled_from([NOW + step * MINUTE for step in (-1, 0, 1, 2)])
small = st.integers(0, 3)
subagents, providers = st.sampled_from(["reviewer", "writer"]), st.sampled_from(["openai", "anthropic", ""])
rest = st.tuples(st.sampled_from(["local", "else"]), st.sampled_from(["", "", "k"]), st.sampled_from(["", "{}", "{}"]))
steps = st.one_of(
    st.builds(create, task_ids, st.sampled_from(TaskPriority), subagents, providers, times, rest),
    st.builds(claim, small, st.integers(0, 6), small, st.booleans(), task_ids, times),
    st.builds(claim_one, task_ids, times),
    st.builds(change, task_ids, st.sampled_from(MOVES), st.none() | st.integers(1, 2)),
    st.builds(change, task_ids, st.sampled_from(MOVES), st.none()),
    st.builds(append, task_ids, st.integers(1, 2)),
    st.builds(cool_down, providers, times),
    st.builds(prune, times),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.lists(steps, min_size=5, max_size=60))
def test_all_stores_agree(script: list[Step]):
    anyio.run(compare, script)


async def compare(script: Sequence[Step]) -> None:
    with TemporaryDirectory() as folder, anyio.fail_after(60):
        memory = MemoryStore()
        async with open_sqlite(Path(folder) / "tasks.db") as sqlite:
            memory.process = sqlite.process
            async with memory.watch() as expected, sqlite.watch() as told:
                for step in script:
                    assert await outcome(sqlite, step) == await outcome(memory, step), step
                    assert unread(told) == unread(expected), step
                assert await everything(sqlite) == await everything(memory)
        async with open_sqlite(Path(folder) / "tasks.db") as again:
            assert await everything(again) == await everything(memory)


async def outcome(store: Store, step: Step) -> Any:
    try:
        found = await step.act(store)
    except SubagentsError as exc:
        return str(exc)
    return found


async def everything(store: Store) -> dict[str, Any]:
    """All that can be asked of a store."""
    queries = [
        Query(),
        Query(owner="local", unread=True),
        Query(on_top=True),
        Query(parent_id="t0"),
        Query(prefix="t1"),
        *(Query(statuses=frozenset({status})) for status in TaskStatus),
        Query(owner="else", statuses=frozenset({TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.RETRYING})),
    ]
    found: dict[str, Any] = {str(query): (await store.select(query), await store.count(query)) for query in queries}
    for task_id in TASKS:
        found[task_id] = (
            await outcome(store, Step("read", lambda store, task_id=task_id: store.read(task_id))),
            [(each.kind, each.at, each.attempt, without_id(each.body)) for each in await store.journal(task_id)],
            await store.queue_position(task_id),
        )
    found["orphans"] = list(await store.orphans())
    found["overdue"] = list(await store.overdue(NOW + MINUTE))
    return found


def without_id(body: str) -> Any:
    """Events get an id of their own each time a move is made."""
    return {name: value for name, value in json.loads(body).items() if name != "id"}
