"""The writer's thread: what is committed together, and who fails alone."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from pathlib import Path
from threading import Event

import anyio
import anyio.to_thread
import apsw
import pytest
from paperwork import task

from mcp_subagents.errors import LeaseLost, StoreError, StoreUnavailable
from mcp_subagents.store.sqlite_file import StoreFile, open_file
from mcp_subagents.store.sqlite_writer import Told, Transaction, Write, Writer, run_writer


@pytest.fixture
def file(tmp_path: Path):
    opened = open_file(tmp_path / "tasks.db")
    yield opened
    opened.close()


@pytest.fixture
async def writer(file: StoreFile) -> AsyncGenerator[Writer]:
    untold: deque[Told] = deque()
    async with run_writer(file, untold, lambda told: None) as opened:
        yield opened


def put(name: str) -> Write[str]:
    def write(transaction: Transaction) -> str:
        transaction.db.run("INSERT INTO counter (name, value) VALUES (?, 1)", (name,))
        return name

    return write


def names(file: StoreFile) -> list[str]:
    return [name for (name,) in file.rows("SELECT name FROM counter WHERE name <> 'changes' ORDER BY name")]


async def together(writer: Writer, *writes: Write[str]) -> list[str | BaseException]:
    """What becomes of functions that are all queued before the first of them can be written."""
    outcomes: dict[int, str | BaseException] = {}
    begun, go = Event(), Event()

    def wait(transaction: Transaction) -> None:
        begun.set()
        assert go.wait(5)

    async def run(number: int, write: Write[str]) -> None:
        try:
            outcomes[number] = await writer.run(write)
        except BaseException as exc:
            outcomes[number] = exc

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run, wait)
            assert await anyio.to_thread.run_sync(begun.wait, 5)
            for number, write in enumerate(writes):
                group.start_soon(run, number, write)
            await anyio.wait_all_tasks_blocked()
            go.set()
    return [outcomes[number] for number in range(len(writes))]


async def test_what_comes_in_together_is_committed_together(file: StoreFile, writer: Writer):
    commits: list[None] = []
    file.writer.connection.set_commit_hook(lambda: commits.append(None) is not None)

    assert await together(writer, *[put(f"n{number}") for number in range(9)]) == [f"n{number}" for number in range(9)]

    assert len(commits) == 2  # the first one, which made the others wait, and all the others
    assert names(file) == [f"n{number}" for number in range(9)]


async def test_one_that_refuses_fails_alone(file: StoreFile, writer: Writer):
    def refuse(transaction: Transaction) -> str:
        raise LeaseLost("t1", 1)

    first, refused, last = await together(writer, put("a"), refuse, put("b"))

    assert (first, last) == ("a", "b")
    assert isinstance(refused, LeaseLost)
    assert names(file) == ["a", "b"]


@pytest.mark.parametrize("trouble", [LeaseLost("t1", 1), SystemExit("anything")], ids=["an error", "an exit"])
async def test_one_that_fails_halfway_fails_alone_and_leaves_nothing(
    file: StoreFile, writer: Writer, trouble: BaseException
):
    def write_and_fail(transaction: Transaction) -> str:
        put("half")(transaction)
        raise trouble

    outcomes = await together(writer, put("a"), write_and_fail, put("b"))

    assert outcomes == ["a", trouble, "b"]
    assert names(file) == ["a", "b"]


async def test_a_statement_that_fails_fails_alone(file: StoreFile, writer: Writer):
    outcomes = await together(writer, put("a"), put("a"), put("b"))

    assert outcomes[::2] == ["a", "b"]
    assert isinstance(outcomes[1], StoreError)
    assert names(file) == ["a", "b"]


async def test_a_commit_that_fails_fails_all_that_was_in_it(file: StoreFile, writer: Writer):
    def owe(transaction: Transaction) -> str:
        transaction.db.run("PRAGMA defer_foreign_keys = ON")
        transaction.db.run("INSERT INTO assignment (task, body, sum) VALUES (99, '', 0)")
        return "never"

    outcomes = await together(writer, put("a"), owe, put("b"))

    assert [type(each) for each in outcomes] == [StoreError] * 3
    assert names(file) == []
    assert await writer.run(put("c")) == "c"


async def test_a_caller_that_is_cancelled_does_not_disturb_the_others(file: StoreFile, writer: Writer):
    go = Event()

    def wait(transaction: Transaction) -> str:
        assert go.wait(5)
        return put("waited")(transaction)

    with anyio.fail_after(5):
        with anyio.move_on_after(0):
            await writer.run(wait)
        go.set()
        assert await writer.run(put("next")) == "next"

    assert names(file) == ["next", "waited"]


async def test_what_is_queued_when_the_block_ends_is_written(file: StoreFile):
    go = Event()

    def wait(transaction: Transaction) -> None:
        assert go.wait(5)

    async with anyio.create_task_group() as group:
        with anyio.fail_after(5):
            async with run_writer(file, deque(), lambda told: None) as writer:
                group.start_soon(writer.run, wait)
                for number in range(300):  # more than one batch
                    group.start_soon(writer.run, put(f"n{number:03}"))
                await anyio.wait_all_tasks_blocked()
                go.set()

    assert names(file) == [f"n{number:03}" for number in range(300)]


async def test_trouble_with_those_who_watch_is_not_the_callers(file: StoreFile):
    untold: deque[Told] = deque()
    trouble: list[object] = []

    def refuse(told: Told) -> None:
        raise ValueError("a bug")

    def write(transaction: Transaction) -> str:
        transaction.told.append((1, task()))
        return put("a")(transaction)

    asyncio.get_running_loop().set_exception_handler(lambda loop, context: trouble.append(context["exception"]))
    async with run_writer(file, untold, refuse) as writer:
        with anyio.fail_after(5):
            assert await writer.run(write) == "a"
    assert [str(each) for each in trouble] == ["a bug"]
    assert not untold


async def test_nothing_can_be_written_after_the_end(file: StoreFile):
    async with run_writer(file, deque(), lambda told: None) as writer:
        pass
    with pytest.raises(StoreUnavailable, match="has been closed"):
        await writer.run(put("late"))


async def test_a_cancelled_block_still_writes_what_is_queued(file: StoreFile):
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            async with run_writer(file, deque(), lambda told: None) as writer:
                group.start_soon(writer.run, put("a"))
                await anyio.wait_all_tasks_blocked()
                group.cancel_scope.cancel()

    assert names(file) == ["a"]


async def test_text_that_is_no_unicode_is_refused_in_words(file: StoreFile, writer: Writer):
    with pytest.raises(StoreError, match="not valid Unicode"):
        await writer.run(put("\ud800"))
    assert names(file) == []


async def test_a_bug_in_a_statement_is_called_one(writer: Writer):
    def write(transaction: Transaction) -> None:
        transaction.db.run("SELECT nonsense")

    with pytest.raises(StoreError, match="This is a bug") as caught:
        await writer.run(write)
    assert isinstance(caught.value.__cause__, apsw.SQLError)
