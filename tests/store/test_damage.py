"""Nothing wrong is ever read in silence: a damaged record, page or file is an error, or reads as it was written."""

import os
import random
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from paperwork import FAILURE, MINUTE, NOW, ROOMY, add, ask, complete, entry, finish_turn, ids, running, task, texts

from mcp_subagents import moves
from mcp_subagents.errors import StoreDamaged, StoreError
from mcp_subagents.records import EntryKind, Mail
from mcp_subagents.store import Query, Store
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.types import CancelKind, TaskPriority, TaskStatus


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


def raw(path: Path) -> Any:
    return closing(apsw.Connection(str(path)))


def tamper(path: Path, *statements: str) -> None:
    """Change what is in a file, behind the back of everybody."""
    with raw(path) as db:
        db.execute("DROP TRIGGER task_moves_legally; DROP TRIGGER task_stays_ended; DROP TRIGGER task_closed")
        for statement in statements:
            db.execute(statement)


@pytest.mark.parametrize(
    "change",
    [
        "state = replace(state, '\"turns\":1', '\"turns\":2')",
        "status = 'completed'",
        "owner = 'thief'",
        "attempt = attempt + 1",
        "due_at = due_at - 1",
        "process = NULL",
        "provider = 'nobody'",
        "parent_id = 't2'",
        "subagent = 'writer'",
        "idempotency_key = 'k'",
        "rank = 0",
        "unread = 1",
        "declared = 0",
        "completed_at = 1",
        "changed = changed + 100",
        "sum = sum + 1",
    ],
)
async def test_a_record_that_was_changed_behind_our_back_is_not_believed(path: Path, change: str):
    async with open_sqlite(path) as writer, open_sqlite(path) as store:
        lease = await running(writer, "t1")
        await writer.change("t1", finish_turn(), lease=lease)
        await add(writer, task("t2"))
        before = await writer.read("t2")
        tamper(path, f"UPDATE task SET {change} WHERE id = 't1'")

        with pytest.raises(StoreDamaged, match="'t1'"):
            await store.read("t1")
        with pytest.raises(StoreDamaged, match="'t1'"):
            await store.change("t1", moves.see(task().handle))
        with pytest.raises(StoreDamaged, match="'t1'"):
            await store.select(Query())
        assert await store.read("t2") == before


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE assignment SET body = replace(body, 'Do', 'Undo') WHERE task = 1",
        "DELETE FROM assignment WHERE task = 1",
        "UPDATE assignment SET body = (SELECT body FROM assignment WHERE task = 2) WHERE task = 1",
        "UPDATE assignment SET (body, sum) = (SELECT body, sum FROM assignment WHERE task = 2) WHERE task = 1",
    ],
)
async def test_an_assignment_that_is_not_the_one_given_is_not_believed(path: Path, damage: str):
    async with open_sqlite(path) as writer, open_sqlite(path) as store:
        await add(writer, task("t1"), task("t2"))
        tamper(path, damage)

        with pytest.raises(StoreDamaged, match="'t1'"):
            await store.read("t1")
        assert (await store.read("t2")).handle.description == "Do t2."


@pytest.mark.parametrize(
    "change",
    ["body = replace(body, 'one', 'two')", "kind = 'event'", "attempt = 2", "at = at + 1", "id = 9", "task = 2"],
)
async def test_an_entry_that_was_changed_behind_our_back_is_not_believed(path: Path, change: str):
    async with open_sqlite(path) as store:
        lease = await running(store, "t1")
        await add(store, task("t2"))
        await store.append(lease, [entry("one")])
        tamper(path, f"UPDATE journal SET {change}")

        task_id = "t2" if change == "task = 2" else "t1"
        with pytest.raises(StoreDamaged, match=f"the journal of task '{task_id}'"):
            await store.journal(task_id)
        with pytest.raises(StoreDamaged, match=f"the journal of task '{task_id}'"):
            await store.last_entry(task_id)


async def test_a_damaged_task_does_not_keep_the_others_from_starting(path: Path, caplog: pytest.LogCaptureFixture):
    async with open_sqlite(path) as store:
        await add(store, task("t1"), task("t2"))
        tamper(path, "UPDATE task SET state = '{}' WHERE id = 't1'")

        assert ids((await store.claim(ROOMY, NOW)).records) == ["t2"]
        assert "a queued task cannot be started" in caplog.text


async def test_a_damaged_cooldown_does_not_keep_tasks_from_starting(path: Path, caplog: pytest.LogCaptureFixture):
    async with open_sqlite(path) as store:
        await add(store, task("t1"))
        await store.cool_down("openai", NOW + MINUTE)
        tamper(path, "UPDATE cooldown SET until = until * 2")

        assert ids((await store.claim(ROOMY, NOW)).records) == ["t1"]
        assert "the cooldown of provider 'openai' is damaged" in caplog.text


async def test_a_damaged_task_is_not_pruned(path: Path, caplog: pytest.LogCaptureFixture):
    async with open_sqlite(path) as store:
        for task_id in ("t1", "t2"):
            lease = await running(store, task_id)
            await store.change(task_id, complete(at=NOW + MINUTE), lease=lease)
        tamper(path, "UPDATE task SET completed_at = 1 WHERE id = 't1'")

        assert await store.prune(NOW + 2 * MINUTE) == 1
        assert await store.count(Query()) == 1
        assert "a task is not deleted" in caplog.text


async def test_a_damaged_change_of_another_process_is_passed_over(path: Path, caplog: pytest.LogCaptureFixture):
    async with open_sqlite(path) as store, store.watch() as changes:
        async with open_sqlite(path) as other:
            with raw(path) as db:
                db.execute("CREATE TRIGGER rot AFTER INSERT ON task BEGIN UPDATE task SET sum = 0 WHERE id = 't1'; END")
            await add(other, task("t1"), task("t2"))
            with anyio.fail_after(5):
                assert (await changes.receive()).task_id == "t2"
    assert "a change cannot be told" in caplog.text


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("DROP INDEX task_queue", "tables"),
        ("DROP TRIGGER task_opened", "tables"),
        ("UPDATE task SET sum = sum + 1", "task 't1'"),
        ("DELETE FROM move WHERE becomes = 'running'", "table of moves"),
        ("UPDATE counter SET value = value + 1 WHERE name = 'open/local'", "counter 'open/local'"),
        ("PRAGMA user_version = 0", "version"),
        ("PRAGMA user_version = -1", "version"),
    ],
)
async def test_a_file_that_is_not_as_it_was_made_is_kept_aside(path: Path, damage: str, told: str):
    async with open_sqlite(path) as store:
        await add(store, task("t1"))
    with raw(path) as db:
        db.execute(damage)

    with pytest.raises(StoreDamaged, match=told):
        async with open_sqlite(path):
            pass
    assert [name.startswith("tasks.db.damaged-") for name in os.listdir(path.parent)] == [True]


async def test_what_is_too_much_in_an_index_is_found(path: Path):
    async with open_sqlite(path) as store:
        await add(store, task("t1"))
    with raw(path) as db:
        [(right,)] = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'task_waiting'").fetchall()
        db.execute("DROP INDEX task_waiting; CREATE INDEX task_waiting ON task (due_at) WHERE status = 'pending'")
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'task_waiting'", (right,))

    with pytest.raises(StoreDamaged, match="the index task_waiting is wrong"):
        async with open_sqlite(path):
            pass


async def test_the_contents_of_a_large_file_are_not_checked_but_what_is_read_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with open_sqlite(path) as store:
        await add(store, task("t1"))
    with raw(path) as db:
        db.execute("UPDATE task SET sum = sum + 1")
    monkeypatch.setattr("mcp_subagents.store.sqlite_check.CHECKED_UP_TO", 0)

    async with open_sqlite(path) as store:
        with pytest.raises(StoreDamaged, match="'t1'"):
            await store.read("t1")


# Whole files


async def fill(store: Store) -> None:
    """A bit of everything."""
    for number in range(40):
        priority = list(TaskPriority)[number % 4]
        provider = ["openai", "anthropic"][number % 2]
        record = task(f"t{number}", priority=priority, provider=provider, limits={"requests": number})
        await store.create(record, [entry("assigned", EntryKind.EVENT)], most_open=99)
    for record in (await store.claim(ROOMY, NOW)).records[:30]:
        number, lease = int(record.task_id[1:]), record.lease
        await store.change(record.task_id, finish_turn("x" * number * 300), lease=lease)
        await store.append(lease, [entry("y" * 50, EntryKind.TOOL_RESULT)])
        ends = [
            complete("z" * number * 200),
            ask("q1", "q2"),
            moves.fail(FAILURE, at=NOW),
            moves.retry_later(FAILURE, due_at=NOW + MINUTE, seconds=1.0, at=NOW),
            moves.send(Mail(mail_id="m", text="hello"), NOW),
            moves.cancel(CancelKind.SOFT, FAILURE, NOW),
        ]
        await store.change(record.task_id, ends[number % len(ends)], lease=lease)
    await add(store, *[task(f"late{number}") for number in range(20)])


def questions() -> dict[str, Callable[[Store], Awaitable[Any]]]:
    """All that can be asked of the store."""
    asked: dict[str, Callable[[Store], Awaitable[Any]]] = {
        "everything": lambda store: store.select(Query()),
        "overdue": lambda store: store.overdue(NOW + MINUTE),
        "unread": lambda store: store.count(Query(owner="local", unread=True)),
    }
    for status in TaskStatus:
        query = Query(statuses=frozenset({status}), owner="local")
        asked[f"count {status}"] = lambda store, query=query: store.count(query)
    for task_id in [*(f"t{number}" for number in range(40)), *(f"late{number}" for number in range(20))]:
        asked[f"read {task_id}"] = lambda store, task_id=task_id: store.read(task_id)
        asked[f"journal {task_id}"] = lambda store, task_id=task_id: store.journal(task_id)
        asked[f"last entry {task_id}"] = lambda store, task_id=task_id: store.last_entry(task_id)
        asked[f"position {task_id}"] = lambda store, task_id=task_id: store.queue_position(task_id)
    return asked


async def answers(store: Store) -> dict[str, Any]:
    return {name: await question(store) for name, question in questions().items()}


async def wrong_answers(path: Path, right: dict[str, Any]) -> list[str]:
    """What a damaged file says that was never written. An error is a good answer."""
    wrong: list[str] = []
    try:
        async with open_sqlite(path) as store:
            for name, question in questions().items():
                try:
                    if await question(store) != right[name]:
                        wrong.append(name)
                except StoreError:
                    pass
    except StoreError:
        pass
    return wrong


def damaged(content: bytes, chance: random.Random, page: int = 4096) -> bytes:
    data = bytearray(content)
    pages = len(data) // page
    match chance.randrange(6):
        case 0:  # a flipped bit
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        case 1:  # some flipped bytes
            for _ in range(chance.randint(2, 50)):
                data[chance.randrange(len(data))] ^= chance.randrange(1, 256)
        case 2:  # pages full of zeros
            for _ in range(chance.randint(1, 3)):
                start = chance.randrange(pages) * page
                data[start : start + page] = bytes(page)
        case 3:  # two pages that changed places
            one, two = (chance.randrange(pages) * page for _ in range(2))
            data[one : one + page], data[two : two + page] = data[two : two + page], data[one : one + page]
        case 4:  # a page that was written twice, once in the wrong place
            one, two = (chance.randrange(pages) * page for _ in range(2))
            data[one : one + page] = data[two : two + page]
        case _:  # a file cut short
            del data[chance.randrange(len(data)) :]
    return bytes(data)


def put(path: Path, content: bytes, log: bytes = b"") -> None:
    for each in path.parent.iterdir():
        each.unlink()
    path.write_bytes(content)
    path.chmod(0o600)
    if log:
        Path(f"{path}-wal").write_bytes(log)


@pytest.mark.slow
async def test_of_300_damaged_files_none_is_misread(path: Path):
    async with open_sqlite(path) as store:
        await fill(store)
        right = await answers(store)
    content = read(path)
    assert await wrong_answers(path, right) == []

    for seed in range(300):
        put(path, damaged(content, random.Random(seed)))
        assert await wrong_answers(path, right) == [], seed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
async def test_a_damaged_log_is_an_error_or_reads_as_the_store_once_was(tmp_path: Path, seed: int):
    """The log of a process that was killed: SQLite cannot tell a damaged end from one that was never finished."""
    path, copy = tmp_path / "tasks.db", tmp_path / "copy" / "tasks.db"
    once: list[list[str]] = [[]]
    async with open_sqlite(path) as store:
        lease = await running(store, "t1")
        for number in range(20):
            await store.append(lease, [entry(str(number))])
            once.append(await texts(store))
        copy.parent.mkdir()
        log = damaged(read(Path(f"{path}-wal")), random.Random(seed))
        put(copy, read(path), log)

    try:
        async with open_sqlite(copy) as store:
            found = await texts(store) if await store.count(Query()) else []
    except StoreError:
        return
    assert found in once


def read(path: Path) -> bytes:
    return path.read_bytes()
