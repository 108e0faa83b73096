"""One file, several stores on it: what they see of each other, and who is alive."""

import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import anyio.lowlevel
import apsw
import pytest
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream
from paperwork import NOW, ROOMY, add, complete, entry, finish_turn, ids, running, start, task, texts, unread

from mcp_subagents import moves
from mcp_subagents.errors import LeaseLost
from mcp_subagents.records import Lease
from mcp_subagents.store import Claim, Query, Store
from mcp_subagents.store.sqlite import open_sqlite

SECOND = 1_000_000
OFTEN = timedelta(milliseconds=10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


class HandClock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000 * SECOND

    def __call__(self) -> int:
        return self.now


def raw(path: Path) -> Any:
    return closing(apsw.Connection(str(path)))


# Changes of others


async def test_a_change_of_another_store_is_told(path: Path):
    async with open_sqlite(path) as here, open_sqlite(path) as there, here.watch() as changes:
        lease = await running(there)
        done = await there.change("t1", complete(), lease=lease)

        with anyio.fail_after(5):
            while (told := await changes.receive()) != done:
                assert told.task_id == "t1"
        assert await here.read("t1") == done


async def test_changes_of_all_stores_are_told_in_the_order_of_their_commits_and_once(path: Path):
    async with open_sqlite(path) as here, open_sqlite(path) as there, here.watch() as changes:
        for number in range(30):
            await add((here, there)[number % 3 == 0], task(f"t{number}"))

        with anyio.fail_after(5):
            assert [(await changes.receive()).task_id for _ in range(30)] == [f"t{number}" for number in range(30)]
        await add(there, task("last"))
        with anyio.fail_after(5):
            assert (await changes.receive()).task_id == "last"


async def test_our_own_change_comes_after_those_made_before_it(path: Path):
    """Also when the others' have not been looked for yet."""
    async with open_sqlite(path) as here, open_sqlite(path) as there, here.watch() as changes:
        async with anyio.create_task_group() as group:
            for number in range(600):
                group.start_soon(add, there, task(f"there{number}"))
        await add(here, task("here"))

        told = unread(changes)
        assert (len(told), told[-1].task_id) == (601, "here")


async def hold_up_until(path: Path, status: str) -> None:
    """Hold up the event loop until a task is found in that status, so that nobody in this process is told of it."""
    await anyio.wait_all_tasks_blocked()
    await anyio.lowlevel.checkpoint()  # the loop has written what was wanted, and the thread commits it
    give_up_at = time.monotonic() + 5
    with raw(path) as db:
        while not db.execute("SELECT 1 FROM task WHERE status = ?", (status,)).fetchall():
            assert time.monotonic() < give_up_at


async def test_a_change_made_before_somebody_watches_is_not_told(path: Path):
    """Not even if its commit was so recent that nobody here knows of it yet."""
    async with open_sqlite(path) as store, anyio.create_task_group() as group:
        group.start_soon(add, store, task("t1"))
        await hold_up_until(path, "pending")
        async with store.watch() as changes:
            await anyio.wait_all_tasks_blocked()
            assert unread(changes) == []


async def test_our_own_changes_are_told_once_also_if_they_are_found_before(path: Path):
    async with open_sqlite(path) as store, store.watch() as changes, anyio.create_task_group() as group:
        await add(store, task("t1"))
        assert len(unread(changes)) == 1
        group.start_soon(store.claim, ROOMY, NOW)
        await hold_up_until(path, "running")
        async with store.watch():  # looks for changes, while this process does not know of its own
            assert unread(changes) == []
            await add(store, task("t2"))

        assert [(each.task_id, each.handle.status) for each in unread(changes)] == [
            ("t1", "running"),
            ("t2", "pending"),
        ]


async def test_who_catches_up_comes_after_the_claims_under_way(path: Path):
    """Whoever leaves has to know what was claimed in the last moment."""
    claimed: list[Claim] = []

    async def claim(store: Store) -> None:
        claimed.append(await store.claim(ROOMY, NOW))

    async with open_sqlite(path) as store, anyio.create_task_group() as group:
        await add(store, task("t1"))
        group.start_soon(claim, store)
        await hold_up_until(path, "running")
        assert not claimed
        await store.catch_up()
        assert len(claimed) == 1


async def test_what_others_did_after_our_own_change_is_told_after_it(path: Path):
    async def elsewhere() -> None:
        async with open_sqlite(path) as other:
            await add(other, task("there"))
            await start(other, "there")

    async with open_sqlite(path) as store, store.watch() as changes, anyio.create_task_group() as group:
        group.start_soon(add, store, task("here"))
        await hold_up_until(path, "pending")
        thread = Thread(target=anyio.run, args=(elsewhere,))
        thread.start()
        thread.join(5)
        async with store.watch():  # looks for changes, while this process does not know of its own
            with anyio.fail_after(5):
                assert [(await changes.receive()).task_id for _ in range(2)] == ["here", "there"]


async def test_those_who_watch_look_for_changes_only_when_somebody_has_written(path: Path):
    statements: list[str] = []
    looked = anyio.Event()

    def note(event: dict[str, Any]) -> None:
        statements.append("changes" if "task.changed >" in event["sql"] else event["sql"])
        if statements.count("PRAGMA data_version") == 4:
            looked.set()

    async with open_sqlite(path) as store:
        connection: Any = store.file.reader.connection
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, note)
        async with store.watch():
            with anyio.fail_after(5):
                await looked.wait()
        connection.trace_v2(0, None)
        assert statements[1:] == ["PRAGMA data_version", "changes", *["PRAGMA data_version"] * 3]


@pytest.mark.parametrize("steps", [1, 8], ids=["that there are any", "which they are"])
async def test_when_it_cannot_be_said_what_has_changed_it_is_told_later(
    path: Path, caplog: pytest.LogCaptureFixture, steps: int
):
    def refuse() -> bool:
        return True

    async with open_sqlite(path) as here, open_sqlite(path) as there, here.watch() as changes:
        connection: Any = here.file.reader.connection
        connection.set_progress_handler(refuse, steps)
        await add(there, task("there"))
        await add(here, task("here"))  # is written, and does not hang
        assert "cannot look for changes" in caplog.text
        assert unread(changes) == [task("here")]
        connection.set_progress_handler(None)
        with anyio.fail_after(5):
            assert [(await changes.receive()).task_id for _ in range(2)] == ["there", "here"]


async def test_numbers_of_changes_go_on_after_everything_was_pruned(path: Path):
    async with open_sqlite(path) as here, open_sqlite(path) as there, here.watch() as changes:
        lease = await running(there, "t1")
        await there.change("t1", complete(), lease=lease)
        with anyio.fail_after(5):
            while (await changes.receive()).handle.status != "completed":
                pass
        await there.prune(NOW + timedelta(days=1))
        await add(there, task("t2"))
        with anyio.fail_after(5):
            assert (await changes.receive()).task_id == "t2"


async def test_a_limit_on_running_tasks_holds_over_all_stores(path: Path):
    async with open_sqlite(path) as here, open_sqlite(path) as there:
        await add(here, *[task(f"t{number}") for number in range(5)])
        three = replace(ROOMY, in_all=3)

        assert len((await here.claim(three, NOW)).records) == 3
        assert len((await there.claim(three, NOW)).records) == 0


# Proof of life


async def test_tasks_of_a_store_that_is_silent_for_long_are_lost(path: Path):
    clock = HandClock()
    async with open_sqlite(path, clock=clock) as here, open_sqlite(path, clock=clock) as there:
        lease = await running(there, "t1")
        await running(here, "t2")

        clock.now += 3 * SECOND
        assert await here.lost(timedelta(seconds=3)) == []
        clock.now += 1
        assert await here.lost(timedelta(seconds=3)) == [lease]
        assert await there.lost(timedelta(seconds=3)) == [Lease(task_id="t2", attempt=1)]


async def test_a_beat_from_before_the_machine_was_started_proves_nothing(path: Path):
    clock = HandClock()
    async with open_sqlite(path, clock=clock) as here, open_sqlite(path, clock=clock) as there:
        lease = await running(there, "t1")
        clock.now -= 1
        assert await here.lost(timedelta(seconds=3)) == [lease]


@pytest.mark.parametrize("damage", ["DELETE FROM process", "UPDATE process SET beat = beat + 1"])
async def test_without_a_sound_proof_of_life_a_task_is_lost(path: Path, damage: str):
    async with open_sqlite(path, clock=HandClock()) as there:
        lease = await running(there, "t1")
        with raw(path) as db:
            db.execute(damage)
        later = HandClock()
        later.now += 1
        async with open_sqlite(path, clock=later) as here:
            assert await here.lost(timedelta(seconds=3)) == [lease]


async def test_what_a_store_leaves_running_when_it_closes_is_lost_at_once(path: Path):
    async with open_sqlite(path) as here:
        async with open_sqlite(path) as there:
            lease = await running(there, "t1")
            assert await here.lost(timedelta(seconds=3)) == []
        assert await here.lost(timedelta(seconds=3)) == [lease]


async def test_a_lost_task_is_taken_over_and_the_old_lease_is_worth_nothing(path: Path):
    clock = HandClock()
    async with open_sqlite(path, clock=clock) as here, open_sqlite(path, clock=clock) as there:
        old = await running(there, "t1")
        clock.now += 9 * SECOND
        [lost] = await here.lost(timedelta(seconds=3))
        await here.change("t1", moves.release(NOW), lease=lost)
        new = await start(here, "t1")

        with pytest.raises(LeaseLost):
            await there.append(old, [entry("late")])
        with pytest.raises(LeaseLost):
            await there.change("t1", finish_turn(), lease=old)
        with pytest.raises(LeaseLost):
            await there.change("t1", moves.release(NOW), lease=lost)
        await here.append(new, [entry("on it")])
        assert await texts(here) == ["on it"]


def wait_for_a_beat(path: Path) -> None:
    """Hold up the event loop until the writer's thread has given another sign of life."""
    with raw(path) as db:
        first = db.execute("SELECT beat FROM process").fetchall()
        give_up_at = time.monotonic() + 5
        while db.execute("SELECT beat FROM process").fetchall() == first:
            assert time.monotonic() < give_up_at


async def test_a_process_whose_event_loop_is_busy_is_alive(path: Path):
    async with open_sqlite(path, beat_every=OFTEN) as store:
        await running(store)
        wait_for_a_beat(path)
        wait_for_a_beat(path)


async def test_a_process_with_nothing_to_do_gives_no_signs_of_life(path: Path):
    looks: list[int] = []

    def clock() -> int:
        looks.append(0)
        return time.monotonic_ns() // 1000

    async with open_sqlite(path, beat_every=timedelta(0), clock=clock) as store:
        lease = await running(store)
        wait_for_a_beat(path)
        await store.change("t1", complete(), lease=lease)
        await store.claim(ROOMY, NOW)  # finds nothing, and by then nor does the next beat
        with raw(path) as db:
            before = db.execute("PRAGMA data_version").fetchall(), len(looks)
            for _ in range(5):
                await store.claim(ROOMY, NOW)
            assert (db.execute("PRAGMA data_version").fetchall(), len(looks)) == before
        await running(store, "t2")
        wait_for_a_beat(path)


async def test_a_process_has_company_while_another_is_at_work(path: Path):
    clock, soon = HandClock(), timedelta(seconds=3)
    async with open_sqlite(path, clock=clock) as here, open_sqlite(path, clock=clock) as there:
        assert not await here.others_at_work(soon)
        await running(there)
        assert (await here.others_at_work(soon), await there.others_at_work(soon)) == (True, False)
        clock.now += 4_000_000
        assert not await here.others_at_work(soon)


async def test_processes_that_ended_long_ago_are_forgotten(path: Path):
    clock = HandClock()
    async with open_sqlite(path, clock=clock) as here, open_sqlite(path, clock=clock) as idle:
        async with open_sqlite(path, clock=clock) as working:
            lease = await running(idle, "t1")
            await idle.change("t1", complete(), lease=lease)
            await running(working, "t2")
            await running(here, "t3")

            async def known() -> set[str]:
                await here.prune(NOW - timedelta(days=1))
                with raw(path) as db:
                    return {name for (name,) in db.execute("SELECT id FROM process").fetchall()}

            assert await known() == {here.process, idle.process, working.process}
            clock.now += 3601 * SECOND
            assert await known() == {here.process, working.process}
            await running(idle, "t4")
            assert await known() == {here.process, working.process, idle.process}


# Real processes


@asynccontextmanager
async def process(path: Path, what: str) -> AsyncGenerator[Process]:
    command = [sys.executable, str(Path(__file__).with_name("other.py")), str(path), what]
    async with await anyio.open_process(command, stderr=None) as child:
        try:
            yield child
        finally:
            if child.returncode is None:
                child.kill()


async def output(child: Process) -> str:
    """What a process has said when it has ended."""
    assert child.stdout is not None
    return "".join([text async for text in TextReceiveStream(child.stdout)])


async def until_written(child: Process) -> None:
    assert child.stdout is not None
    assert (await TextReceiveStream(child.stdout).receive()).startswith("written")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["create", "work"])
async def test_what_was_acknowledged_is_there_after_a_kill(path: Path, what: str):
    with anyio.fail_after(20):
        async with process(path, what) as child:
            await until_written(child)
            child.kill()
            await child.wait()
        async with open_sqlite(path) as store:
            assert ids(await store.select(Query())) == ["t1"]
            if what == "work":
                assert await texts(store) == ["a turn", "a tool"]
                assert (await store.read("t1")).handle.turns == 1


@pytest.mark.slow
async def test_four_processes_never_start_a_task_twice(path: Path):
    async with open_sqlite(path) as store:
        await add(store, *[task(f"t{number}") for number in range(500)])
        said: list[str] = []

        async def claim() -> None:
            async with process(path, "claim") as child:
                said.append(await output(child))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for _ in range(4):
                    group.start_soon(claim)

        started = "".join(said).split()
        assert sorted(started) == sorted(f"t{number}" for number in range(500))
        assert {each.handle.attempt for each in await store.select(Query())} == {1}


@pytest.mark.slow
async def test_processes_that_start_at_once_make_one_store(path: Path):
    said: list[str] = []

    async def open_it() -> None:
        async with process(path, "leave") as child:
            said.append(await output(child))
            assert await child.wait() == 0

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(open_it)

    assert said == ["open\n"] * 6


@pytest.mark.slow
async def test_a_change_of_another_process_is_noticed_within_a_second(path: Path):
    async with open_sqlite(path) as store, store.watch() as changes:
        async with process(path, "create") as child:
            with anyio.fail_after(20):
                await until_written(child)
            with anyio.fail_after(1):
                assert (await changes.receive()).task_id == "t1"


@pytest.mark.slow
async def test_a_frozen_process_loses_its_tasks_and_a_living_one_does_not(path: Path):
    dead_after = timedelta(seconds=2.5)

    async def becomes(store: Store, lost: list[Lease]) -> None:
        while await store.lost(dead_after) != lost:  # noqa: ASYNC110 - see below
            await anyio.sleep(0.05)  # it is a promise about time, and nobody tells when it is kept

    async with open_sqlite(path) as store:
        async with process(path, "work") as child:
            with anyio.fail_after(20):
                await until_written(child)
                with anyio.move_on_after(4):
                    await becomes(store, [Lease(task_id="t1", attempt=1)])
                    pytest.fail("a living process was taken for dead")
                child.send_signal(signal.SIGSTOP)
                await becomes(store, [Lease(task_id="t1", attempt=1)])
                child.send_signal(signal.SIGCONT)
                await becomes(store, [])


async def test_a_sign_of_life_does_not_take_a_goodbye_back(path: Path):
    async with open_sqlite(path) as store:
        lease = await running(store, "t1")
        store._writer.pulse._due_at = 0.0  # pyright: ignore[reportPrivateUsage]  # one is due in this moment
    async with open_sqlite(path) as other:
        assert await other.lost(timedelta(hours=1)) == [lease]
