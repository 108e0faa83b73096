"""What only the SQLite store promises: its schema, its guards, its speed and its size."""

import re
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from paperwork import MINUTE, NOW, ROOMY, add, complete, entry, finish_turn, ids, running, start, task, texts

from mcp_subagents import moves
from mcp_subagents.errors import LeaseLost, StoreError
from mcp_subagents.records import Change, Mail, TaskRecord
from mcp_subagents.store import Capacity, Claim, Query, Store
from mcp_subagents.store.sqlite import SqliteStore, open_sqlite
from mcp_subagents.store.sqlite_file import open_file
from mcp_subagents.store.sqlite_schema import APPLICATION_ID, expected_schema, migrations, schema
from mcp_subagents.types import TRANSITIONS, TaskStatus


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


def raw(path: Path) -> Any:
    return closing(apsw.Connection(str(path)))


# Schema


def test_migrations_are_numbered_without_a_gap():
    names = sorted(each.name for each in (files("mcp_subagents.store") / "migrations").iterdir())
    assert [int(name[:4]) for name in names] == list(range(1, len(migrations()) + 1))
    assert all(re.fullmatch(r"\d{4}_[a-z_]+\.sql", name) for name in names)


def test_a_new_file_is_what_all_migrations_make(path: Path):
    with closing(open_file(path)) as file:
        assert schema(file.writer) == expected_schema()
        settings = ["user_version", "application_id", "journal_mode", "synchronous", "auto_vacuum", "foreign_keys"]
        found = {name: file.writer.value(f"PRAGMA {name}") for name in settings}
    assert found == {
        "user_version": len(migrations()),
        "application_id": APPLICATION_ID,
        "journal_mode": "wal",
        "synchronous": 2,
        "auto_vacuum": 2,
        "foreign_keys": 1,
    }


def test_a_file_is_migrated_once(path: Path):
    for _ in range(2):
        with closing(open_file(path)) as file:
            assert file.writer.value("PRAGMA user_version") == len(migrations())


def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch):
    open_file(path).close()
    broken = (*migrations(), "CREATE TABLE added (x); CREATE TABLE task (x)")
    monkeypatch.setattr("mcp_subagents.store.sqlite_schema.migrations", lambda: broken)
    with pytest.raises(Exception, match="task already exists"):
        open_file(path)
    monkeypatch.undo()
    with closing(open_file(path)) as file:
        assert schema(file.writer) == expected_schema()


# Guards in SQL


def test_sql_knows_the_legal_moves(path: Path):
    with closing(open_file(path)) as file:
        legal = {(old.value, new.value) for old, to in TRANSITIONS.items() for new in to}
        assert set(file.rows("SELECT was, becomes FROM move")) == legal


@pytest.mark.parametrize(("old", "new"), list(product(TaskStatus, TaskStatus)))
async def test_sql_refuses_an_illegal_move(path: Path, old: TaskStatus, new: TaskStatus):
    async with open_sqlite(path) as store:
        await add(store, task())
        with raw(path) as db:
            if old in TRANSITIONS[TaskStatus.RUNNING]:
                db.execute("UPDATE task SET status = 'running'")
            db.execute("UPDATE task SET status = ?", (old,))
            if new in TRANSITIONS[old] or new == old:
                db.execute("UPDATE task SET status = ?", (new,))
            else:
                with pytest.raises(apsw.ConstraintError, match=r"illegal move|stays as it is"):
                    db.execute("UPDATE task SET status = ?", (new,))


@pytest.mark.parametrize(
    "change",
    ["state = replace(state, 'done', 'gone')", "completed_at = 0", "attempt = 9", "owner = 'thief'", "process = 'p'"],
)
async def test_sql_keeps_a_task_as_it_ended(path: Path, change: str):
    async with open_sqlite(path) as store:
        lease = await running(store)
        ended = await store.change("t1", complete("done"), lease=lease)
        with raw(path) as db, pytest.raises(apsw.ConstraintError, match="an ended task stays as it is"):
            db.execute(f"UPDATE task SET {change}")
        assert await store.read("t1") == ended


async def test_a_change_that_changes_nothing_writes_nothing(path: Path):
    async with open_sqlite(path) as store:
        await add(store, task())
        with raw(path) as db:
            before = db.execute("PRAGMA data_version").fetchall()
            await store.change("t1", moves.see(task().handle))
            await store.claim(Capacity(most=0, in_all=9), NOW)
            await store.catch_up()
            assert db.execute("PRAGMA data_version").fetchall() == before


# Speed


async def steps_of_a_claim(path: Path, queued: int) -> int:
    """What SQLite has to do to find one task among many that cannot start."""
    async with open_sqlite(path) as store:
        async with anyio.create_task_group() as group:
            for number in range(queued):
                record = task(f"t{number}", subagent=f"s{number % 5}", provider=f"p{number % 2}")
                group.start_soon(lambda record=record: store.create(record, most_open=10_000))
        await store.cool_down("p0", NOW + MINUTE)
        # The two that may start are full, but for one place.
        full = Capacity(most=9, in_all=99, per_subagent={f"s{number}": int(number == 3) for number in range(5)})
        steps = 0

        def count(profile: dict[str, Any]) -> None:
            nonlocal steps
            steps += profile["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

        connection: Any = store.file.writer.connection
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)
        claim = await store.claim(full, NOW)
        connection.trace_v2(0, None)
        assert (len(claim.records), claim.next_due_at) == (1, NOW + MINUTE)
        return steps


async def test_a_claim_takes_no_longer_when_the_queue_is_long(tmp_path: Path):
    short = await steps_of_a_claim(tmp_path / "short.db", 100)
    long = await steps_of_a_claim(tmp_path / "long.db", 2000)
    assert long < 1.2 * short


async def test_a_claim_asks_no_more_often_when_many_cannot_start(path: Path):
    asked: list[Any] = []

    async def claim(store: SqliteStore, *task_ids: str) -> int:
        asked.clear()
        assert ids((await store.claim(ROOMY, NOW)).records) == [*task_ids]
        return len(asked)

    async with open_sqlite(path) as store:
        connection: Any = store.file.writer.connection
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, asked.append)
        await add(store, task("t1"))
        await claim(store, "t1")  # with the first sign of life
        await add(store, task("t2"))
        alone = await claim(store, "t2")
        await add(
            store, *[task(f"w{number}", subagent=f"s{number}", definition=None) for number in range(9)], task("t3")
        )
        assert await claim(store, "t3") == alone
        connection.trace_v2(0, None)


async def test_a_claim_that_finds_no_queue_waits_for_nobody(path: Path):
    async with open_sqlite(path, busy_timeout=timedelta(0)) as store:
        await running(store, "t1")
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            assert await store.claim(ROOMY, NOW) == Claim(records=[])
            other.execute("ROLLBACK")


async def test_a_task_that_is_known_is_not_parsed_to_be_started(path: Path):
    async with open_sqlite(path) as store:
        definition = f'{{"name": "{path.name}"}}'
        await store.create(task("t1", definition=definition), most_open=9)
        [started] = (await store.claim(ROOMY, NOW)).records
    assert started.definition is definition


# Size


async def test_pruning_gives_room_back_to_the_disk(path: Path):
    async with open_sqlite(path) as store:
        await fill(store, 60)
        await store.prune(NOW)  # writes the log back into the file
        full = size(path)
        assert await store.prune(NOW + MINUTE) == 60
        assert size(path) < full / 5
        assert size(path, "-wal") == 0


async def test_the_log_does_not_grow_without_bound(path: Path):
    async with open_sqlite(path) as store:
        for _ in range(3):
            await fill(store, 60)
            assert await store.prune(NOW + MINUTE) == 60
        assert size(path) + size(path, "-wal") < 1_000_000


async def fill(store: Store, number: int) -> None:
    for each in range(number):
        lease = await running(store, f"t{each}")
        await store.change(lease.task_id, finish_turn("x" * 80_000), lease=lease)
        await store.change(lease.task_id, complete(), lease=lease)


def size(path: Path, suffix: str = "") -> int:
    return Path(f"{path}{suffix}").stat().st_size


async def test_a_store_opens_again_as_it_was_closed(path: Path):
    async with open_sqlite(path) as store:
        await add(store, task("t1"), task("t2"))
        await start(store, "t1")
        before = await store.select(Query())
    async with open_sqlite(path) as store:
        assert await store.select(Query()) == before
        assert ids((await store.claim(ROOMY, NOW)).records) == ["t2"]


# What is known of the file while nobody else writes to it


async def test_what_another_process_did_to_a_task_at_work_is_seen_by_the_next_write(path: Path):
    async with open_sqlite(path) as ours, open_sqlite(path) as theirs:
        lease = await running(ours)
        await ours.append(lease, [entry("before")])
        await theirs.change("t1", moves.send(Mail(mail_id="m1", text="hello"), NOW))
        assert (await ours.append(lease, [entry("after")])).mail == (Mail(mail_id="m1", text="hello"),)
        await theirs.change("t1", moves.release(NOW), lease=lease)
        with pytest.raises(LeaseLost):
            await ours.append(lease, [entry("late")])
        assert await texts(ours) == ["before", "after"]


async def test_numbers_are_given_out_once_whoever_writes(path: Path):
    async with open_sqlite(path) as ours, open_sqlite(path) as theirs:
        for number in range(3):
            await add(ours, task(f"ours{number}"))
            await add(theirs, task(f"theirs{number}"))
    with raw(path) as db:
        assert db.execute("SELECT seq, changed FROM task ORDER BY seq").fetchall() == [(n, n) for n in range(1, 7)]


async def test_what_was_rolled_back_is_not_taken_for_written(path: Path):
    async with open_sqlite(path) as store:
        lease = await running(store)

        def half_done(record: TaskRecord) -> Change:
            done = finish_turn()(record)
            return replace(done, entries=[*done.entries, replace(entry(), body=None)])  # pyright: ignore[reportArgumentType]  # what no column takes

        with pytest.raises(StoreError):
            await store.change("t1", half_done, lease=lease)
        assert (await store.append(lease, [entry("next")])).handle.turns == 0
        assert await texts(store) == ["next"]
