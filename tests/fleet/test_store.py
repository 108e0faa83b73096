"""Finding, choosing and acting on tasks: on every store, without anybody running one."""

from pathlib import Path

import anyio
import pytest
from paperwork import NOW, add, ask, complete, ids, start, task

from mcp_subagents.errors import NoTaskLike, NotWaiting, SeveralTasksLike, TaskEnded
from mcp_subagents.fleet.acting import answer, is_taken_up, see, send
from mcp_subagents.fleet.choosing import chosen, standings
from mcp_subagents.fleet.finding import find
from mcp_subagents.store import Store
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.types import TaskStatus


async def test_a_task_is_found_by_the_beginning_of_its_id(store: Store):
    await add(store, task("ab"), task("abc"), task("abd"), task("xyz"))
    assert (await find(store, "x")).task_id == "xyz"
    assert (await find(store, "ab")).task_id == "ab"  # whole, though others go on from there
    for unknown in ("", "X", "xyzz", "%", "\udcff"):
        with pytest.raises(NoTaskLike):
            await find(store, unknown)
    with pytest.raises(SeveralTasksLike, match=r"begin with 'a': ab, abc, abd\. Give more"):
        await find(store, "a")


async def test_open_tasks_come_before_ended_ones_and_the_newest_first(store: Store):
    await add(store, *(task(f"t{number}") for number in range(6)))
    for task_id in ("t4", "t5"):
        await store.change(task_id, complete(), lease=await start(store, task_id))
    some = await chosen(store, limit=5)
    assert (ids(some.records), some.more_open, some.more_ended) == (["t3", "t2", "t1", "t0", "t5"], 0, 1)
    few = await chosen(store, limit=3)
    assert (ids(few.records), few.more_open, few.more_ended) == (["t3", "t2", "t1"], 1, 2)
    ended = await chosen(store, statuses=frozenset({TaskStatus.COMPLETED}), limit=1)
    assert (ids(ended.records), ended.more_open, ended.more_ended) == (["t5"], 0, 1)


async def test_places_in_the_queue_are_told_unless_the_list_is_long(store: Store):
    await add(store, *(task(f"t{number}") for number in range(101)))
    fleet = await chosen(store, limit=100)
    assert [each.queue_position for each in await standings(store, fleet.records)][:2] == [101, 100]
    fleet = await chosen(store, limit=101)
    assert {each.queue_position for each in await standings(store, fleet.records)} == {None}


async def test_an_answer_a_message_and_a_look_change_the_task_and_start_nothing(store: Store):
    await add(store, task("t1"))
    await store.change("t1", ask("q1"), lease=await start(store))
    asking = (await store.read("t1")).handle
    assert (await store.read("t1")).unread
    await see(store, asking)
    assert not (await store.read("t1")).unread
    await answer(store, "t1", "This one.", "q1")
    await send(store, "t1", "Hurry.")
    record = await store.read("t1")
    assert (record.handle.status, record.handle.attempt, record.mail[0].text) == (TaskStatus.PENDING, 1, "Hurry.")
    with pytest.raises(NotWaiting):
        await answer(store, "t1", "This one.", "q1")


async def test_a_message_to_an_ended_task_is_refused(store: Store):
    await add(store, task("t1"))
    await store.change("t1", complete(), lease=await start(store))
    with pytest.raises(TaskEnded):
        await send(store, "t1", "Hurry.")


async def test_a_task_is_taken_up_as_soon_as_somebody_starts_it(store: Store):
    await add(store, task("t1"), task("t2"))
    found: list[bool] = []
    with anyio.fail_after(5):
        assert not await is_taken_up(store, "t1", within=0.05)
        async with anyio.create_task_group() as group:

            async def look() -> None:
                found.append(await is_taken_up(store, "t1", within=4))

            group.start_soon(look)
            await anyio.wait_all_tasks_blocked()
            await start(store, "t2", NOW)
            await anyio.wait_all_tasks_blocked()
            assert found == []
            await start(store, "t1", NOW)
    assert found == [True]


async def test_a_task_is_taken_up_if_others_are_busy(tmp_path: Path):
    with anyio.fail_after(10):
        async with open_sqlite(tmp_path / "tasks.db") as ours, open_sqlite(tmp_path / "tasks.db") as theirs:
            await add(ours, task("t1"), task("t2"))
            assert not await is_taken_up(ours, "t1", within=0.05)
            await start(theirs, "t2")
            assert await is_taken_up(ours, "t1", within=0.05)
