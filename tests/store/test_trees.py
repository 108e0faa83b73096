"""What every store promises of tasks below other tasks, and of what they cost."""

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

import pytest
from paperwork import FAILURE, MINUTE, NOW, add, ask, complete, ids, start, task, unread

from mcp_subagents import branches, moves
from mcp_subagents.ancestry import spent_by
from mcp_subagents.errors import DescendantsExceeded, TaskEnded, UnknownTask
from mcp_subagents.records import Entry, EntryKind, Mail, Move
from mcp_subagents.store import Query, Store
from mcp_subagents.trees import Awaited, Child, Tree
from mcp_subagents.types import CancelKind, TaskStatus, TaskUsage

LATER = NOW + timedelta(hours=1)


async def family(store: Store, *children: str, most: int | None = None) -> None:
    """A parent that runs, and children that run."""
    await add(store, task("parent"))
    await start(store, "parent")
    for child in children:
        above = {"parent": branches.adopt(child, directly=True, most=most)}
        await store.create(task(child, parent_id="parent"), most_open=100, above=above)
        await start(store, child)


async def tree(store: Store, task_id: str = "parent") -> Tree:
    found = (await store.read(task_id)).tree
    assert found is not None
    return found


def park(*children: str, mode: str = "all") -> Move:
    awaited = Awaited(task_ids=children, mode=mode)  # pyright: ignore[reportArgumentType]
    return branches.park([awaited], seconds=0.5, at=NOW, until=LATER)


def paid(cost: str, number: int = 1, day: int = 0) -> Move:
    entry = Entry(kind=EntryKind.TURN, body="[]", at=NOW + timedelta(days=day))
    usage = TaskUsage(requests=number, cost_usd=Decimal(cost))
    return moves.finish_turn(entry, number=number, usage=usage, seconds=1.0, delivered=frozenset())


async def test_a_parent_knows_its_children_from_the_moment_they_are_there(store: Store):
    await family(store, "a", "b")

    assert await tree(store) == Tree(children=(Child(task_id="a"), Child(task_id="b")), descendants=2)


async def test_a_child_that_its_parent_refuses_is_not_stored(store: Store):
    await family(store, "a", most=1)
    above = {"parent": branches.adopt("b", directly=True, most=1)}

    with pytest.raises(DescendantsExceeded):
        await store.create(task("b", parent_id="parent"), most_open=100, above=above)

    with pytest.raises(UnknownTask):
        await store.read("b")
    assert (await tree(store)).descendants == 1


@pytest.mark.parametrize("kind", CancelKind)
async def test_a_parent_that_stops_takes_no_more_children(store: Store, kind: CancelKind):
    await family(store)
    await store.change("parent", moves.cancel(kind, FAILURE, NOW))

    above = {"parent": branches.adopt("a", directly=True, most=None)}
    with pytest.raises(TaskEnded):
        await store.create(task("a", parent_id="parent"), most_open=100, above=above)

    assert await store.count(Query()) == 1


async def test_the_same_key_is_the_same_child_and_is_counted_once(store: Store):
    await family(store)
    for name in ("a", "b"):
        above = {"parent": branches.adopt(name, directly=True, most=1)}
        record = task(name, parent_id="parent", idempotency_key="k")
        assert (await store.create(record, most_open=100, above=above)).task_id == "a"

    assert await tree(store) == Tree(children=(Child(task_id="a"),), descendants=1)


async def test_a_parent_notes_how_its_child_ended_and_what_it_used(store: Store):
    await family(store, "a", "b")

    await store.change("a", complete())

    noted = await tree(store)
    assert (noted.children, noted.used) == (
        (Child(task_id="b"),),
        TaskUsage(requests=1, input_tokens=10, output_tokens=2),
    )
    assert noted.seconds == 0.5


async def test_a_parent_knows_which_of_its_children_ask(store: Store):
    await family(store, "a")

    await store.change("a", ask("q"))
    assert (await tree(store)).children == (Child(task_id="a", asks=True),)

    await store.change("a", moves.answer("yes", "q", NOW))
    assert (await tree(store)).children == (Child(task_id="a"),)


async def test_a_parked_parent_holds_nothing_and_is_due_when_the_last_one_has_ended(store: Store):
    await family(store, "a", "b")
    parked = await store.change("parent", park("a", "b"))
    assert (parked.handle.status, parked.process, parked.due_at) == (TaskStatus.PENDING, None, LATER)

    await store.change("a", complete())
    assert (await store.read("parent")).due_at == LATER
    await store.change("b", moves.fail(FAILURE, at=NOW))

    assert (await store.read("parent")).due_at == NOW
    assert await start(store, "parent")


async def test_a_parked_parent_is_due_when_any_has_ended(store: Store):
    await family(store, "a", "b")
    await store.change("parent", park("a", "b", mode="any"))

    await store.change("b", complete())

    assert (await store.read("parent")).due_at == NOW


async def test_a_parked_parent_is_due_when_one_asks_that_it_waits_for(store: Store):
    await family(store, "a", "b")
    await store.change("parent", park("a"))

    await store.change("b", ask("q"))
    assert (await store.read("parent")).due_at == LATER
    await store.change("a", ask("q"))

    assert (await store.read("parent")).due_at == NOW


async def test_a_parent_that_parks_too_late_is_due_at_once(store: Store):
    await family(store, "a")
    await store.change("a", complete())

    assert (await store.change("parent", park("a"))).due_at == NOW


async def test_a_parked_parent_is_due_when_its_time_is_up(store: Store):
    await family(store, "a")
    await store.change("parent", park("a"))

    assert await start(store, "parent", now=LATER)


async def test_both_changes_are_told_the_child_first(store: Store):
    await family(store, "a")
    async with store.watch() as changes:
        await store.change("a", complete())
        assert ids(unread(changes)) == ["a", "parent"]


async def test_a_parent_that_has_ended_stays_as_it_is_when_its_child_ends(store: Store):
    await family(store, "a")
    ended = await store.change("parent", moves.fail(FAILURE, at=NOW))

    await store.change("a", complete())

    assert await store.read("parent") == ended


async def test_a_child_of_a_deleted_parent_can_still_end(store: Store):
    await family(store, "a")
    await store.change("parent", moves.fail(FAILURE, at=NOW))
    await store.prune(NOW + MINUTE)

    assert (await store.change("a", complete())).handle.status is TaskStatus.COMPLETED


async def test_what_outlives_a_child_is_still_counted_above(store: Store):
    await family(store, "a")
    above = {
        "a": branches.adopt("deep", directly=True, most=None),
        "parent": branches.adopt("deep", directly=False, most=None),
    }
    await store.create(task("deep", parent_id="a"), most_open=100, above=above)

    await store.change("a", moves.fail(FAILURE, at=NOW))

    noted = await tree(store)
    assert (noted.children, noted.strays, noted.descendants) == ((), ("deep",), 2)


async def test_what_outlives_several_levels_is_still_counted_on_top(store: Store):
    await family(store, "a")
    above = {"a": branches.adopt("b", directly=True, most=None)}
    await store.create(task("b", parent_id="a"), most_open=100, above=above)
    above = {"b": branches.adopt("deep", directly=True, most=None)}
    await store.create(task("deep", parent_id="b"), most_open=100, above=above)
    await start(store, "b")
    await start(store, "deep")
    await store.change("b", moves.fail(FAILURE, at=NOW))
    await store.change("a", moves.fail(FAILURE, at=NOW))
    before = await spent_by(store, await store.read("parent"))

    await store.change("deep", paid("0.25"))

    noted = await tree(store)
    assert (noted.children, noted.strays) == ((), ("deep",))
    used = await spent_by(store, await store.read("parent"))
    assert used.usage == before.usage.plus(TaskUsage(requests=1, cost_usd=Decimal("0.25")))
    assert used.seconds == before.seconds + 1.0


async def test_orphans_are_open_tasks_whose_parent_has_ended(store: Store):
    await family(store, "a", "b")
    await store.change("b", complete())
    assert await store.orphans() == []

    await store.change("parent", moves.fail(FAILURE, at=NOW))

    assert await store.orphans() == ["a"]


async def test_tasks_on_top_can_be_listed_alone(store: Store):
    await family(store, "a")
    await store.change("a", complete())

    assert ids(await store.select(Query(on_top=True))) == ["parent"]
    assert await store.count(Query(owner="local", unread=True, on_top=True)) == 0
    assert ids(await store.select(Query(unread=True))) == ["a"]


async def test_what_was_spent_is_kept_day_by_day_and_survives_the_tasks(store: Store):
    await add(store, task("t1"), task("t2"))
    for task_id in ("t1", "t2"):
        await start(store, task_id)
        await store.change(task_id, paid("0.000000001"))
        await store.change(task_id, paid("0.25", 2))
    await store.change("t1", paid("1.25", 3, day=1))
    assert await store.spent(NOW.date()) == Decimal("0.5")
    assert await store.spent(NOW.date() + timedelta(days=1)) == Decimal(1)
    assert await store.spent(date(2020, 1, 1)) == 0

    await store.change("t2", moves.fail(replace(FAILURE, usage=None), at=NOW))
    await store.prune(NOW + MINUTE)

    assert await store.spent(NOW.date()) == Decimal("0.5")


async def test_a_task_is_reminded_of_its_open_children_once(store: Store):
    await family(store, "a")
    first = await store.change("parent", branches.remind(Mail(mail_id="m1", text="Wait.")))
    again = await store.change("parent", branches.remind(Mail(mail_id="m2", text="Wait.")))

    assert again == first
    assert [mail.mail_id for mail in first.mail] == ["m1"]
