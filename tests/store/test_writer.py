"""The writer: what is committed together, who fails alone, and who waits for whom."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Event, get_ident
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import apsw
import pytest
from paperwork import task

from mcp_subagents.errors import LeaseLost, StoreError, StoreUnavailable
from mcp_subagents.store import sqlite_writer
from mcp_subagents.store.sqlite_database import Database
from mcp_subagents.store.sqlite_file import StoreFile, open_file
from mcp_subagents.store.sqlite_transaction import Told, Transaction, Write
from mcp_subagents.store.sqlite_writer import Writer, run_writer


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


@pytest.fixture(params=[False, True], ids=["in the loop", "in the thread"])
def takes_long(request: pytest.FixtureRequest) -> bool:
    """Where it is written."""
    return request.param


async def together(writer: Writer, *writes: Write[str], takes_long: bool) -> list[str | BaseException]:
    """What becomes of functions that are all queued before the first of them can be written."""
    outcomes: dict[int, str | BaseException] = {}
    begun, go = Event(), Event()

    def wait(transaction: Transaction) -> None:
        begun.set()
        assert go.wait(5)

    async def run(number: int, write: Write[str]) -> None:
        try:
            outcomes[number] = await writer.run(write, takes_long=takes_long)
        except BaseException as exc:
            outcomes[number] = exc

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(partial(writer.run, wait, takes_long=True))
            assert await anyio.to_thread.run_sync(begun.wait, 5)
            for number, write in enumerate(writes):
                group.start_soon(run, number, write)
            await anyio.wait_all_tasks_blocked()
            go.set()
    return [outcomes[number] for number in range(len(writes))]


async def test_what_comes_in_together_is_committed_together(file: StoreFile, writer: Writer, takes_long: bool):
    commits: list[None] = []
    file.writer.connection.set_commit_hook(lambda: commits.append(None) is not None)

    wanted = [f"n{number}" for number in range(9)]
    assert await together(writer, *map(put, wanted), takes_long=takes_long) == wanted

    assert len(commits) == 2  # the first one, which made the others wait, and all the others
    assert names(file) == wanted


async def test_one_that_refuses_fails_alone(file: StoreFile, writer: Writer, takes_long: bool):
    def refuse(transaction: Transaction) -> str:
        raise LeaseLost("t1", 1)

    first, refused, last = await together(writer, put("a"), refuse, put("b"), takes_long=takes_long)

    assert (first, last) == ("a", "b")
    assert isinstance(refused, LeaseLost)
    assert names(file) == ["a", "b"]


@pytest.mark.parametrize("trouble", [LeaseLost("t1", 1), SystemExit("anything")], ids=["an error", "an exit"])
async def test_one_that_fails_halfway_fails_alone_and_leaves_nothing(
    file: StoreFile, writer: Writer, trouble: BaseException, takes_long: bool
):
    def write_and_fail(transaction: Transaction) -> str:
        put("half")(transaction)
        raise trouble

    outcomes = await together(writer, put("a"), write_and_fail, put("b"), takes_long=takes_long)

    assert outcomes == ["a", trouble, "b"]
    assert names(file) == ["a", "b"]


async def test_a_statement_that_fails_fails_alone(file: StoreFile, writer: Writer, takes_long: bool):
    outcomes = await together(writer, put("a"), put("a"), put("b"), takes_long=takes_long)

    assert outcomes[::2] == ["a", "b"]
    assert isinstance(outcomes[1], StoreError)
    assert names(file) == ["a", "b"]


async def test_a_commit_that_fails_fails_all_that_was_in_it(file: StoreFile, writer: Writer, takes_long: bool):
    def owe(transaction: Transaction) -> str:
        transaction.db.run("PRAGMA defer_foreign_keys = ON")
        transaction.db.run("INSERT INTO assignment (task, body, sum) VALUES (99, '', 0)")
        return "never"

    outcomes = await together(writer, put("a"), owe, put("b"), takes_long=takes_long)

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
            await writer.run(wait, takes_long=True)
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
                group.start_soon(partial(writer.run, wait, takes_long=True))
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


async def test_the_loop_writes_and_the_thread_does_what_takes_long(writer: Writer):
    def here(transaction: Transaction) -> int:
        return get_ident()

    assert await writer.run(here) == get_ident()
    assert await writer.run(here, takes_long=True) != get_ident()


async def test_the_loop_goes_on_while_the_thread_commits(file: StoreFile, writer: Writer):
    begun, go = Event(), Event()

    def hold_up() -> bool:
        begun.set()
        assert go.wait(5)
        return False

    file.writer.connection.set_commit_hook(hold_up)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run, put("a"))
            assert await anyio.to_thread.run_sync(begun.wait, 5)
            group.start_soon(writer.run, put("b"))
            await anyio.wait_all_tasks_blocked()
            assert names(file) == []
            go.set()

    assert names(file) == ["a", "b"]


async def test_the_loop_goes_on_while_another_process_writes(file: StoreFile, writer: Writer):
    other = Database(str(file.path), flags=apsw.SQLITE_OPEN_READWRITE)
    with anyio.fail_after(5), closing(other):
        for number in range(3):  # whoever did not wait in the loop waits in the thread, every time
            other.run("BEGIN IMMEDIATE")
            async with anyio.create_task_group() as group:
                group.start_soon(writer.run, put(f"n{number}"))
                await anyio.wait_all_tasks_blocked()
                await anyio.lowlevel.checkpoint()
                assert len(names(file)) == number  # and here we are, though the file is locked
                other.run("COMMIT")

    assert names(file) == ["n0", "n1", "n2"]


async def test_a_job_whose_error_no_future_takes_is_told_of_it_all_the_same(file: StoreFile, writer: Writer):
    def stop(transaction: Transaction) -> str:
        raise StopIteration

    with anyio.fail_after(5):
        with pytest.raises(RuntimeError, match="raised StopIteration"):
            await writer.run(stop)
        assert await writer.run(put("a")) == "a"


async def test_jobs_that_take_long_all_together_do_not_hold_up_the_loop(
    file: StoreFile, writer: Writer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sqlite_writer, "_AT_A_STRETCH", 0.0)
    commits: list[None] = []
    file.writer.connection.set_commit_hook(lambda: commits.append(None) is not None)

    wanted = [f"n{number}" for number in range(9)]
    assert await together(writer, *map(put, wanted), takes_long=False) == wanted

    assert len(commits) == 10  # each by itself, with everything else in between
    assert names(file) == wanted


async def test_commits_that_nobody_could_be_told_of_are_not_told_later(file: StoreFile):
    untold: deque[Told] = deque()
    told: list[Told] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)

    def refuse_once(news: Told) -> None:
        told.append(news)
        if len(told) == 1:
            raise ValueError("a bug")

    def change(name: str, number: int) -> Write[str]:
        def write(transaction: Transaction) -> str:
            transaction.told.append((number, task(name)))
            return put(name)(transaction)

        return write

    with anyio.fail_after(5):
        async with run_writer(file, untold, refuse_once) as writer:
            # The second one fails halfway, so that each has a commit of its own.
            await together(writer, change("a", 1), change("a", 2), change("b", 3), takes_long=False)
            assert not untold
            await writer.run(change("c", 4))
            assert not untold
    assert told[-1][0][0] == 4


async def test_an_interrupt_while_the_loop_writes_leaves_a_writer_that_works(
    file: StoreFile, monkeypatch: pytest.MonkeyPatch
):
    async with run_writer(file, deque(), lambda told: None) as writer:
        begin_now, interrupts = file.writer.begin_now, [KeyboardInterrupt()]

        def interrupted() -> bool:
            if interrupts:
                raise interrupts.pop()
            return begin_now()

        monkeypatch.setattr(file.writer, "begin_now", interrupted)
        outcome = asyncio.ensure_future(writer.run(put("a")))
        await anyio.lowlevel.checkpoint()
        with pytest.raises(KeyboardInterrupt):
            writer._go_on()  # pyright: ignore[reportPrivateUsage]  # called by the loop, it would end the test run
        with anyio.fail_after(5):
            assert await outcome == "a"
            assert await writer.run(put("b")) == "b"


async def test_an_interrupt_in_the_middle_of_a_job_is_no_doing_of_the_job(file: StoreFile, writer: Writer):
    interrupts = [KeyboardInterrupt()]

    def write(transaction: Transaction) -> str:
        put("a")(transaction)
        if interrupts:
            raise interrupts.pop()
        return "a"

    outcome = asyncio.ensure_future(writer.run(write))
    await anyio.lowlevel.checkpoint()
    with pytest.raises(KeyboardInterrupt):
        writer._go_on()  # pyright: ignore[reportPrivateUsage]  # called by the loop, it would end the test run
    with anyio.fail_after(5):
        assert await outcome == "a"
    assert names(file) == ["a"]


async def test_what_is_on_disk_is_acknowledged_whatever_the_tidying_comes_to(
    file: StoreFile, writer: Writer, caplog: Any
):
    def write(transaction: Transaction) -> str:
        transaction.tidy = True
        return put("a")(transaction)

    class Full:
        """A connection that cannot shorten its log."""

        def __getattr__(self, name: str) -> Any:
            return getattr(connection, name)

        def wal_checkpoint(self, mode: int) -> None:
            raise apsw.FullError("no space left")

    connection, file.writer.connection = file.writer.connection, Full()
    assert await writer.run(write) == "a"
    file.writer.connection = connection
    assert "could not be shortened: no space left" in caplog.text


async def test_a_sign_of_life_goes_with_what_is_written_anyway(file: StoreFile, writer: Writer):
    """In one commit: by itself it might have to wait for another process, and those who have written with it."""
    commits: list[None] = []
    beats: list[None] = []

    def beat(transaction: Transaction) -> bool:
        beats.append(None)
        return True

    file.writer.connection.set_commit_hook(lambda: commits.append(None) is not None)
    await writer.run(lambda transaction: writer.pulse.keep(beat, timedelta(hours=1)))
    writer.pulse._due_at = 0.0  # pyright: ignore[reportPrivateUsage]  # an hour later
    commits.clear()
    await writer.run(put("a"))
    await writer.run(put("b"))

    assert (len(beats), len(commits)) == (1, 2)


async def test_a_pulse_goes_on_if_what_ended_it_came_to_nothing(file: StoreFile, writer: Writer):
    alive = [True, False, True, False]
    pulse = writer.pulse

    async def beat_with(name: str) -> bool:
        pulse._due_at = 0.0  # pyright: ignore[reportPrivateUsage]  # long after
        await writer.run(put(name))
        return pulse.seconds_left is not None

    await writer.run(lambda transaction: pulse.keep(lambda transaction: alive.pop(0), timedelta(hours=1)))
    assert await beat_with("a")
    file.writer.connection.set_commit_hook(lambda: True)  # as on a full disk
    with pytest.raises(StoreError):
        await beat_with("b")
    file.writer.connection.set_commit_hook(None)
    assert await beat_with("c")
    assert not await beat_with("d")


async def test_a_pulse_that_fades_is_kept_by_who_needs_it_in_the_same_commit(writer: Writer):
    pulse = writer.pulse
    await writer.run(lambda transaction: pulse.keep(lambda transaction: False, timedelta(hours=1)))
    pulse._due_at = 0.0  # pyright: ignore[reportPrivateUsage]  # an hour later
    await writer.run(lambda transaction: pulse.keep(lambda transaction: True, timedelta(hours=1)))
    assert pulse.seconds_left is not None
