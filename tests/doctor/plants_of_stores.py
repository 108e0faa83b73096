"""Planted in the store, and among its tasks."""

from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import apsw
from paperwork import USAGE, add, ask, entry, start, task
from planting import Ground, Plant, Plants

from mcp_subagents import moves
from mcp_subagents.store.sqlite import SqliteStore, open_sqlite

ELSEWHERE = "Name a file elsewhere: --store sqlite:///FILE, MCP_SUBAGENTS_STORE, or `store` in subagents.yaml."
DAMAGED = (
    "End all apps that use it, and copy the file if you want to look into it. The next server that starts keeps it "
    "aside and begins an empty store."
)


def path_in(ground: Ground) -> Path:
    return ground.home / "mcp-subagents/tasks.db"


def kept(ground: Ground, work: Callable[[SqliteStore], Awaitable[object]]) -> Path:
    """A store in which `work` was done, closed in order."""

    async def do() -> None:
        with anyio.fail_after(10):
            async with open_sqlite(path_in(ground)) as store:
                await work(store)

    anyio.run(do)
    return path_in(ground)


def raw(path: Path) -> Any:
    return closing(apsw.Connection(str(path)))


def tampered(ground: Ground, statement: str) -> None:
    path = kept(ground, lambda store: add(store, task()))
    with raw(path) as db:
        db.execute(statement)


def overwritten(ground: Ground) -> None:
    path = kept(ground, lambda store: add(store, task()))
    with path.open("rb+") as file:
        file.write(b"?" * 4096)


def another_program(ground: Ground) -> None:
    path_in(ground).parent.mkdir()
    with raw(path_in(ground)) as db:
        db.execute("CREATE TABLE bookmark (url TEXT)")


async def asks(store: SqliteStore) -> None:
    await add(store, task())
    await store.change("t1", ask("q1"), lease=await start(store))


async def runs(store: SqliteStore) -> None:
    await add(store, task())
    await start(store)


async def costs(store: SqliteStore) -> None:
    now = datetime.now(UTC)
    await add(store, task())
    usage = replace(USAGE, cost_usd=Decimal("2.5"))
    turn = moves.finish_turn(replace(entry(), at=now), number=1, usage=usage, seconds=0.5, delivered=frozenset())
    await store.change("t1", turn, lease=await start(store))
    await store.change("t1", moves.complete("done", usage=usage, seconds=0.5, at=now))


STORES: Plants = {
    "a store that was overwritten": Plant(
        check="store",
        plant=overwritten,
        says="problem The store {home}/mcp-subagents/tasks.db is damaged: file is not a database.",
        fix=DAMAGED,
    ),
    "a record that was changed": Plant(
        check="store",
        plant=lambda ground: tampered(ground, "UPDATE task SET owner = 'thief'"),
        says="problem The store {home}/mcp-subagents/tasks.db is damaged: task 't1' is not what was "
        "written. Everything else can be read.",
        fix=DAMAGED,
    ),
    "a store of a later version": Plant(
        check="store",
        plant=lambda ground: tampered(ground, "PRAGMA user_version = 99"),
        says="problem {home}/mcp-subagents/tasks.db was written by a later version of mcp-subagents. Upgrade "
        "mcp-subagents, or name another file.",
        fix=f"pip install --upgrade mcp-subagents # or: {ELSEWHERE}",
    ),
    "the database of another program": Plant(
        check="store",
        plant=another_program,
        says="problem {home}/mcp-subagents/tasks.db is the database of another program. Name another file for the "
        "store.",
        fix=ELSEWHERE,
    ),
    "a store below a file": Plant(
        check="store",
        plant=lambda ground: ground.put("notes", "x"),
        arguments=("--store", "sqlite:///notes/tasks.db"),
        says="problem {home}/notes/tasks.db cannot be made: {home}/notes is not a folder.",
        fix=ELSEWHERE,
    ),
    "a store that is a folder": Plant(
        check="store",
        plant=lambda ground: (ground.home / "notes").mkdir(),
        arguments=("--store", "sqlite:///notes"),
        says="problem {home}/notes is not a regular file.",
        fix=ELSEWHERE,
    ),
    "a day that has cost enough": Plant(
        check="store",
        plant=lambda ground: (kept(ground, costs), ground.configure(daily_cost_usd=2)),
        says="problem Today's tasks have cost $2.50, and `daily_cost_usd` allows $2.00.",
        fix="Raise `daily_cost_usd`, or wait until midnight UTC.",
    ),
    "a question that nobody answers": Plant(
        check="tasks",
        plant=lambda ground: kept(ground, asks),
        says="warning Task t1 (reviewer) waits for an answer until 2026-11-16 12:01 UTC.",
        fix="Answer it in your app, or here: mcp-subagents tasks answer t1",
    ),
    "a task of a process that is gone": Plant(
        check="tasks",
        plant=lambda ground: kept(ground, runs),
        says="warning Task t1 is not being worked on: no server is running.",
        fix="Start one, by opening your app or here: mcp-subagents",
    ),
    "tasks that are due with nobody there": Plant(
        check="tasks",
        plant=lambda ground: kept(ground, lambda store: add(store, *(task(f"t{number}") for number in range(1, 6)))),
        says="warning Tasks t1, t2, t3 and 2 more are not being worked on: no server is running.",
        fix="Start one, by opening your app or here: mcp-subagents",
    ),
    "a task that only some program can run": Plant(
        check="tasks",
        plant=lambda ground: kept(ground, lambda store: add(store, task(definition=None))),
        says="problem Task t1 is stuck: only a program that has reviewer in its Python code can run that.",
        fix="Start that program, or cancel the task: mcp-subagents tasks cancel t1",
    ),
}
