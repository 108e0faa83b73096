"""Every promise of the `Store` protocol, on every store."""

from dataclasses import replace
from datetime import timedelta

import anyio
import pytest
from paperwork import (
    FAILURE,
    MINUTE,
    NOW,
    ROOMY,
    USAGE,
    add,
    ask,
    complete,
    entry,
    finish_turn,
    ids,
    running,
    start,
    task,
    texts,
    unread,
)

from mcp_subagents import moves
from mcp_subagents.errors import (
    FollowedUp,
    IllegalTransition,
    LeaseLost,
    MailWaiting,
    NotWaiting,
    TaskEnded,
    TooManyTasks,
    UnknownTask,
)
from mcp_subagents.records import Change, EntryKind, Lease, Mail, TaskRecord
from mcp_subagents.store import Capacity, Claim, Query, Store
from mcp_subagents.store.watching import Changes
from mcp_subagents.types import CancelKind, TaskPriority, TaskStatus

# Creating


async def test_a_task_reads_as_it_was_created(store: Store):
    record = replace(task(), idempotency_key="k", limits={"requests": 3, "cost_usd": 0.5}, definition='{"a": "ü"}')

    assert await store.create(record, [entry("assigned")], most_open=1) == record

    assert await store.read("t1") == record
    assert await store.journal("t1") == [entry("assigned")]
    assert await store.last_entry("t1") == entry("assigned")


async def test_a_task_without_definition_or_limits_reads_as_it_was_created(store: Store):
    record = replace(task(), definition=None, limits=None, provider="")
    await add(store, record)

    assert await store.read("t1") == record


async def test_the_same_key_of_the_same_owner_is_the_same_task(store: Store):
    first = await store.create(task("t1", idempotency_key="k"), most_open=1)
    again = await store.create(task("t2", idempotency_key="k"), [entry("not stored")], most_open=1)

    assert again == first
    with pytest.raises(UnknownTask):
        await store.read("t2")
    assert await store.journal("t2") == []


async def test_the_same_key_finds_a_task_as_it_stands_now(store: Store):
    await store.create(task("t1", idempotency_key="k"), most_open=1)
    lease = await start(store)
    ended = await store.change("t1", complete(), lease=lease)

    assert await store.create(task("t2", idempotency_key="k"), most_open=1) == ended


async def test_a_task_is_found_by_its_key_as_it_stands(store: Store):
    await add(store, task("t1", idempotency_key="k"), task("t2"))
    await start(store)

    assert await store.by_key("local", "k") == await store.read("t1")
    assert await store.by_key("else", "k") is None
    assert await store.by_key("local", "l") is None
    assert await store.by_key("local", "") is None


async def test_a_task_has_one_open_follow_up_at_a_time(store: Store):
    await add(store, task("t1", continues="past", idempotency_key="k"))
    before = await store.read("t1")
    with pytest.raises(FollowedUp, match="'past' is being followed up already, by task 't1', which is pending"):
        await store.create(task("t2", continues="past"), [entry("not stored")], most_open=1000)
    assert await store.create(task("t3", continues="past", idempotency_key="k"), most_open=1000) == before
    await add(store, task("t4", continues="another"), task("t5", continues="past", owner="else"), task("t6"))

    lease = await start(store)
    await store.change("t1", complete(), lease=lease)
    await add(store, task("t7", continues="past"))

    assert ids(await store.select(Query())) == ["t1", "t4", "t5", "t6", "t7"]


async def test_keys_of_different_owners_and_empty_keys_do_not_meet(store: Store):
    await add(store, task("t1", idempotency_key="k"), task("t2", idempotency_key="k", owner="else"), task("t3"))
    await add(store, task("t4"))

    assert ids(await store.select(Query())) == ["t1", "t2", "t3", "t4"]


async def test_an_owner_can_have_only_so_many_open_tasks(store: Store):
    await store.create(task("t1"), most_open=2)
    await store.create(task("t2"), most_open=2)
    with pytest.raises(TooManyTasks, match="2 tasks are open"):
        await store.create(task("t3"), most_open=2)
    await store.create(task("t4", owner="else"), most_open=2)

    lease = await start(store)
    await store.change("t1", complete(), lease=lease)
    await store.create(task("t5"), most_open=2)

    assert ids(await store.select(Query())) == ["t1", "t2", "t4", "t5"]


@pytest.mark.parametrize("ending", ["completed", "failed", "cancelled while queued"])
async def test_a_task_is_open_until_it_ends_in_any_way(store: Store, ending: str):
    await store.create(task("t1"), most_open=1)
    if ending == "cancelled while queued":
        await store.change("t1", moves.cancel(CancelKind.HARD, FAILURE, NOW))
    else:
        lease = await start(store)
        move = complete() if ending == "completed" else moves.fail(FAILURE, at=NOW)
        await store.change("t1", move, lease=lease)

    assert (await store.create(task("t2"), most_open=1)).task_id == "t2"


# Reading


async def test_an_unknown_task_cannot_be_read_or_changed(store: Store):
    nobody = Lease(task_id="nobody", attempt=1)
    with pytest.raises(UnknownTask):
        await store.read("nobody")
    with pytest.raises(UnknownTask):
        await store.change("nobody", moves.see(task().handle))
    with pytest.raises(UnknownTask):
        await store.append(nobody, [entry()])

    assert await store.journal("nobody") == []
    assert await store.last_entry("nobody") is None
    assert await store.queue_position("nobody") is None


async def test_the_journal_keeps_its_order_and_can_be_filtered(store: Store):
    lease = await running(store)
    await store.append(lease, [entry("1", EntryKind.TOOL_STARTED), entry("2", EntryKind.TOOL_RESULT)])
    await store.change("t1", finish_turn("3"), lease=lease)
    await store.append(lease, [entry("4", EntryKind.TOOL_RESULT)])

    assert await texts(store) == ["1", "2", "3", "4"]
    only = frozenset({EntryKind.TURN, EntryKind.TOOL_STARTED})
    assert await store.journal("t1", only) == [entry("1", EntryKind.TOOL_STARTED), entry("3")]
    assert await store.journal("t1", frozenset()) == []
    assert await store.last_entry("t1") == entry("4", EntryKind.TOOL_RESULT)
    assert await store.last_entry("t1", only) == entry("3")
    assert await store.last_entry("t1", frozenset({EntryKind.HISTORY})) is None


async def test_journals_of_different_tasks_stay_apart(store: Store):
    one, two = await running(store, "t1"), await running(store, "t2")
    await store.append(one, [entry("one")])
    await store.append(two, [entry("two")])
    await store.append(one, [entry("one more")])

    assert await texts(store, "t1") == ["one", "one more"]
    assert await texts(store, "t2") == ["two"]


# Changing


async def test_a_change_stores_the_record_and_its_entries(store: Store):
    lease = await running(store)
    before = await store.read("t1")
    expected = finish_turn("first")(before)

    assert await store.change("t1", finish_turn("first"), lease=lease) == expected.record
    assert await store.read("t1") == expected.record
    assert await store.journal("t1") == list(expected.entries)


async def test_a_refused_change_leaves_no_trace(store: Store):
    lease = await running(store)
    before = await store.read("t1")

    def refuse(record: TaskRecord) -> Change:
        raise MailWaiting(record.mail)

    with pytest.raises(MailWaiting):
        await store.change("t1", refuse, lease=lease)

    assert await store.read("t1") == before
    assert await store.journal("t1") == []


async def test_an_illegal_move_is_refused(store: Store):
    await add(store, task())
    with pytest.raises(IllegalTransition):
        await store.change("t1", complete())
    assert await store.read("t1") == task()
    assert await store.journal("t1") == []


async def test_a_task_that_has_ended_stays_as_it_ended(store: Store):
    lease = await running(store)
    ended = await store.change("t1", complete("the result"), lease=lease)

    with pytest.raises(LeaseLost):
        await store.change("t1", complete("another"), lease=lease)
    with pytest.raises(LeaseLost):
        await store.append(lease, [entry("late")])
    for move in (complete("another"), moves.fail(FAILURE, at=NOW), moves.release(NOW), ask("q1")):
        with pytest.raises(IllegalTransition):
            await store.change("t1", move)
    with pytest.raises(TaskEnded):
        await store.change("t1", moves.send(Mail(mail_id="m1", text="hello"), NOW))
    assert await store.change("t1", moves.cancel(CancelKind.HARD, FAILURE, NOW)) == ended

    assert await store.read("t1") == ended


async def test_a_move_that_rewrites_the_end_of_a_task_is_refused(store: Store):
    def rewrite(record: TaskRecord) -> Change:
        return Change(record=record.with_handle(replace(record.handle, result="another")), entries=(entry("gone"),))

    lease = await running(store)
    ended = await store.change("t1", complete(), lease=lease)
    journal = await store.journal("t1")
    with pytest.raises(IllegalTransition):
        await store.change("t1", rewrite)
    assert await store.read("t1") == ended
    assert await store.journal("t1") == journal


async def test_the_end_of_a_task_can_be_seen(store: Store):
    lease = await running(store)
    ended = await store.change("t1", complete(), lease=lease)
    assert ended.unread

    seen = await store.change("t1", moves.see(ended.handle))

    assert seen == replace(ended, unread=False)
    assert await store.read("t1") == seen
    assert await store.change("t1", moves.see(ended.handle)) == seen


async def test_a_lease_ends_when_the_task_is_taken_over(store: Store):
    first = await running(store)
    await store.change("t1", moves.release(NOW), lease=first)
    with pytest.raises(LeaseLost):
        await store.append(first, [entry("released")])

    second = await start(store)
    assert second == Lease(task_id="t1", attempt=2)
    with pytest.raises(LeaseLost):
        await store.change("t1", finish_turn("stale"), lease=first)
    with pytest.raises(LeaseLost):
        await store.append(first, [entry("stale")])

    await store.append(second, [entry("fresh")])
    assert await texts(store) == ["fresh"]


async def test_a_lease_is_for_one_task(store: Store):
    lease = await running(store, "t1")
    await running(store, "t2")

    with pytest.raises(LeaseLost):
        await store.change("t2", finish_turn(), lease=lease)


async def test_appending_nothing_still_needs_a_lease(store: Store):
    lease = await running(store)
    await store.append(lease, [])
    await store.change("t1", complete(), lease=lease)

    with pytest.raises(LeaseLost):
        await store.append(lease, [])


async def test_mail_is_kept_until_a_turn_has_carried_it(store: Store):
    lease = await running(store)
    await store.change("t1", moves.send(Mail(mail_id="m1", text="one"), NOW))
    await store.change("t1", moves.send(Mail(mail_id="m2", text="two"), NOW))
    await store.change("t1", finish_turn(delivered=frozenset({"m1"})), lease=lease)

    assert (await store.read("t1")).mail == (Mail(mail_id="m2", text="two"),)
    with pytest.raises(MailWaiting):
        await store.change("t1", complete(), lease=lease)
    await store.change("t1", finish_turn(delivered=frozenset({"m2"})), lease=lease)
    assert (await store.change("t1", complete(), lease=lease)).handle.status is TaskStatus.COMPLETED


async def test_a_task_goes_on_when_all_its_questions_are_answered(store: Store):
    lease = await running(store)
    asked = await store.change("t1", ask("q1", "q2"), lease=lease)
    assert (asked.handle.status, asked.process, asked.unread) == (TaskStatus.WAITING_FOR_ANSWER, None, True)

    with pytest.raises(NotWaiting):
        await store.change("t1", moves.answer("which?", "", NOW))
    await store.change("t1", moves.answer("one", "q1", NOW))
    assert (await store.read("t1")).handle.pending_question == "q2?"
    answered = await store.change("t1", moves.answer("two", "", NOW + MINUTE))

    assert (answered.handle.status, answered.due_at) == (TaskStatus.PENDING, NOW + MINUTE)
    assert [each.answer for each in answered.handle.questions] == ["one", "two"]
    assert await store.read("t1") == answered
    assert (await start(store, now=NOW + MINUTE)).attempt == 2


async def test_changes_made_at_once_are_made_one_after_the_other(store: Store):
    lease = await running(store)
    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(lambda number=number: store.change("t1", finish_turn(str(number)), lease=lease))

    assert (await store.read("t1")).handle.turns == 50
    assert sorted(await texts(store), key=int) == [str(number) for number in range(50)]


async def test_those_that_are_refused_do_not_disturb_those_beside_them(store: Store):
    lease = await running(store)
    stale = Lease(task_id="t1", attempt=7)
    outcomes: list[str] = []

    async def attempt(number: int) -> None:
        try:
            if number % 3 == 0:
                await store.append(stale, [entry("stale")])
            elif number % 3 == 1:
                await store.create(task("t1"), most_open=0)
            else:
                await store.change("t1", finish_turn(str(number)), lease=lease)
            outcomes.append("done")
        except (LeaseLost, TooManyTasks) as exc:
            outcomes.append(type(exc).__name__)

    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(attempt, number)

    assert sorted(outcomes) == ["LeaseLost"] * 10 + ["TooManyTasks"] * 10 + ["done"] * 10
    assert sorted(await texts(store), key=int) == [str(number) for number in range(2, 30, 3)]


# Claiming


async def test_a_claim_starts_what_is_due(store: Store):
    await add(store, task("t1"))

    claim = await store.claim(ROOMY, NOW + MINUTE)

    started = moves.start(store.process, NOW + MINUTE)(task("t1")).record
    assert claim == Claim(records=[started])
    assert await store.read("t1") == started
    assert await store.claim(ROOMY, NOW + MINUTE) == Claim(records=[])


async def test_the_highest_priority_goes_first_and_then_the_oldest(store: Store):
    low, normal, high, critical = TaskPriority
    await add(store, task("t1", priority=normal), task("t2", priority=low), task("t3", priority=critical))
    await add(store, task("t4", priority=high), task("t5", priority=normal, subagent="writer"))
    await add(store, task("t6", priority=critical, provider="anthropic"))

    assert [await store.queue_position(f"t{number}") for number in range(1, 7)] == [4, 6, 1, 3, 5, 2]
    assert ids((await store.claim(ROOMY, NOW)).records) == ["t3", "t6", "t4", "t1", "t5", "t2"]
    assert await store.queue_position("t1") is None


async def test_a_claim_takes_no_more_than_fit(store: Store):
    await add(store, *[task(f"t{number}") for number in range(6)])

    assert ids((await store.claim(Capacity(most=2, in_all=3), NOW)).records) == ["t0", "t1"]
    assert ids((await store.claim(Capacity(most=2, in_all=3), NOW)).records) == ["t2"]
    assert ids((await store.claim(Capacity(most=2, in_all=3), NOW)).records) == []
    assert ids((await store.claim(Capacity(most=0, in_all=9), NOW)).records) == []


async def test_a_subagent_gets_no_more_than_its_share(store: Store):
    await add(store, *[task(f"r{number}", subagent="reviewer") for number in range(3)])
    await add(store, *[task(f"w{number}", subagent="writer") for number in range(2)])
    capacity = Capacity(most=9, in_all=9, per_subagent={"reviewer": 2})

    assert ids((await store.claim(capacity, NOW)).records) == ["r0", "r1", "w0", "w1"]
    assert ids((await store.claim(capacity, NOW)).records) == []
    await store.change("r0", complete(), lease=Lease(task_id="r0", attempt=1))
    assert ids((await store.claim(capacity, NOW)).records) == ["r2"]


async def test_a_subagent_without_a_share_gets_nothing(store: Store):
    await add(store, task("t1"))
    assert ids((await store.claim(Capacity(most=9, in_all=9, per_subagent={"reviewer": 0}), NOW)).records) == []


async def test_tasks_without_a_definition_go_only_to_processes_that_have_it(store: Store):
    await add(store, task("t1", subagent="python", definition=None), task("t2", subagent="python"))

    assert ids((await store.claim(ROOMY, NOW)).records) == ["t2"]
    assert ids((await store.claim(replace(ROOMY, subagents=frozenset({"python"})), NOW)).records) == ["t1"]


async def test_a_task_is_not_started_before_it_is_due(store: Store):
    await add(store, task("t1", due_at=NOW + MINUTE), task("t2", due_at=NOW + 2 * MINUTE))

    assert await store.claim(ROOMY, NOW) == Claim(records=[], next_due_at=NOW + MINUTE)
    claim = await store.claim(ROOMY, NOW + MINUTE)
    assert (ids(claim.records), claim.next_due_at) == (["t1"], NOW + 2 * MINUTE)


async def test_who_has_no_room_left_is_not_told_what_falls_due_next(store: Store):
    await add(store, task("t1"), task("t2"), task("t3", due_at=NOW + MINUTE))

    assert (await store.claim(replace(ROOMY, most=1), NOW)).next_due_at is None
    claim = await store.claim(replace(ROOMY, most=2), NOW)
    assert (ids(claim.records), claim.next_due_at) == (["t2"], NOW + MINUTE)


async def test_a_retry_starts_when_it_is_due(store: Store):
    lease = await running(store)
    retry = moves.retry_later(FAILURE, due_at=NOW + MINUTE, seconds=1.0, at=NOW)
    await store.change("t1", retry, lease=lease)

    assert await store.claim(ROOMY, NOW) == Claim(records=[], next_due_at=NOW + MINUTE)
    assert (await start(store, now=NOW + MINUTE)).attempt == 2


async def test_one_task_can_be_claimed_by_its_id(store: Store):
    await add(store, task("t1"), task("t2"), task("t3", due_at=NOW + MINUTE), task("t4", definition=None))

    assert ids((await store.claim(ROOMY, NOW, task_id="t2")).records) == ["t2"]
    assert ids((await store.claim(ROOMY, NOW, task_id="t2")).records) == []
    assert ids((await store.claim(ROOMY, NOW, task_id="t3")).records) == []
    assert ids((await store.claim(ROOMY, NOW, task_id="t4")).records) == []
    assert ids((await store.claim(Capacity(most=9, in_all=1), NOW, task_id="t1")).records) == []
    assert ids((await store.claim(ROOMY, NOW, task_id="nobody")).records) == []


async def test_a_task_that_is_spoken_for_is_left_to_who_asks_for_it_by_name(store: Store):
    await add(store, task("t1"), task("t2"))
    spoken_for = Capacity(most=1, in_all=9, but_not=frozenset({"t1"}))

    assert ids((await store.claim(spoken_for, NOW)).records) == ["t2"]
    assert ids((await store.claim(spoken_for, NOW)).records) == []
    assert ids((await store.claim(spoken_for, NOW, task_id="t1")).records) == ["t1"]


async def test_a_provider_that_cools_down_is_left_alone(store: Store):
    await add(store, task("t1", provider="openai"), task("t2", provider="anthropic"))
    await store.cool_down("openai", NOW + MINUTE)

    claim = await store.claim(ROOMY, NOW)
    assert (ids(claim.records), claim.next_due_at) == (["t2"], NOW + MINUTE)
    assert ids((await store.claim(ROOMY, NOW, task_id="t1")).records) == []
    assert ids((await store.claim(ROOMY, NOW + MINUTE)).records) == ["t1"]


async def test_a_cooldown_is_never_shortened(store: Store):
    await add(store, task("t1"))
    await store.cool_down("openai", NOW + 2 * MINUTE)
    await store.cool_down("openai", NOW + MINUTE)

    assert await store.claim(ROOMY, NOW + MINUTE) == Claim(records=[], next_due_at=NOW + 2 * MINUTE)


async def test_what_is_due_after_its_providers_cooldown_is_waited_for(store: Store):
    await add(store, task("t1", due_at=NOW + 3 * MINUTE), task("t2", provider="anthropic", due_at=NOW + 4 * MINUTE))
    await store.cool_down("openai", NOW + MINUTE)

    assert (await store.claim(ROOMY, NOW)).next_due_at == NOW + 3 * MINUTE


async def test_claims_made_at_once_never_start_a_task_twice(store: Store):
    await add(store, *[task(f"t{number}") for number in range(40)])
    started: list[str] = []

    async def claim() -> None:
        started.extend(ids((await store.claim(Capacity(most=3, in_all=40), NOW)).records))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(claim)

    assert sorted(started) == sorted(f"t{number}" for number in range(40))


# Listing


async def test_tasks_are_listed_by_everything_that_is_given(store: Store):
    await add(store, task("t1"), task("t2", owner="else"), task("t3", parent_id="t1"), task("t4"))
    lease = await start(store, "t4")
    await store.change("t4", complete(), lease=lease)
    await start(store, "t3")
    ended = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED})
    active = frozenset({TaskStatus.PENDING, TaskStatus.RUNNING})
    expected = {
        Query(): ["t1", "t2", "t3", "t4"],
        Query(owner="local"): ["t1", "t3", "t4"],
        Query(owner="nobody"): [],
        Query(statuses=ended): ["t4"],
        Query(statuses=active): ["t1", "t2", "t3"],
        Query(statuses=active | ended, owner="local"): ["t1", "t3", "t4"],
        Query(statuses=active, owner="local"): ["t1", "t3"],
        Query(statuses=frozenset()): [],
        Query(parent_id="t1"): ["t3"],
        Query(parent_id="t1", statuses=ended): [],
        Query(unread=True): ["t4"],
        Query(unread=True, owner="else"): [],
        Query(unread=False, owner="local"): ["t1", "t3"],
        Query(prefix="t"): ["t1", "t2", "t3", "t4"],
        Query(prefix="t2"): ["t2"],
        Query(prefix="T"): [],
        Query(prefix="t", owner="local", statuses=active): ["t1", "t3"],
        Query(prefix="t", parent_id="t1"): ["t3"],
        Query(ended_before=NOW): [],
        Query(ended_before=NOW + MINUTE): ["t4"],
        Query(ended_before=NOW + MINUTE, owner="else"): [],
    }

    assert {query: ids(await store.select(query)) for query in expected} == expected
    assert {query: await store.count(query) for query in expected} == {q: len(found) for q, found in expected.items()}


async def test_a_limit_bounds_the_list_but_not_the_count(store: Store):
    await add(store, *[task(f"t{number}") for number in range(5)])

    assert ids(await store.select(Query(limit=2))) == ["t0", "t1"]
    assert ids(await store.select(Query(limit=2, newest_first=True))) == ["t4", "t3"]
    assert await store.count(Query(limit=2)) == 5


async def test_a_long_list_is_complete(store: Store):
    await add(store, *[task(f"t{number}") for number in range(250)])

    assert ids(await store.select(Query())) == [f"t{number}" for number in range(250)]


# Housekeeping


async def test_what_this_process_runs_is_not_lost(store: Store):
    await running(store)
    assert list(await store.lost(timedelta(0))) == []


async def test_a_question_is_overdue_when_it_has_waited_long_enough(store: Store):
    for task_id, until in (("t1", NOW + MINUTE), ("t2", NOW + 2 * MINUTE)):
        lease = await running(store, task_id)
        await store.change(task_id, ask("q", until=until), lease=lease)
    await add(store, task("t3"))

    assert list(await store.overdue(NOW)) == []
    assert list(await store.overdue(NOW + MINUTE)) == ["t1"]
    assert list(await store.overdue(NOW + 2 * MINUTE)) == ["t1", "t2"]
    await store.change("t1", moves.expire(FAILURE, at=NOW + MINUTE))
    assert list(await store.overdue(NOW + 2 * MINUTE)) == ["t2"]


async def test_pruning_deletes_what_ended_before_and_nothing_else(store: Store):
    for task_id, at in (("t1", NOW), ("t2", NOW + MINUTE)):
        lease = await running(store, task_id)
        await store.change(task_id, finish_turn(), lease=lease)
        await store.change(task_id, complete(at=at), lease=lease)
    await running(store, "t3")
    await add(store, task("t4"))

    assert await store.prune(NOW + MINUTE) == 1

    assert ids(await store.select(Query())) == ["t2", "t3", "t4"]
    assert await store.journal("t1") == []
    assert await texts(store, "t2") == ["a turn"]
    with pytest.raises(UnknownTask):
        await store.read("t1")
    assert await store.prune(NOW + MINUTE) == 0


async def test_pruning_deletes_many(store: Store):
    await add(store, *[task(f"t{number}") for number in range(150)])
    for record in (await store.claim(ROOMY, NOW)).records:
        await store.change(record.task_id, complete(), lease=record.lease)

    assert await store.prune(NOW + MINUTE) == 150
    assert await store.count(Query()) == 0


async def test_a_key_is_free_again_once_its_task_is_pruned(store: Store):
    await store.create(task("t1", idempotency_key="k"), most_open=1)
    lease = await start(store)
    await store.change("t1", complete(), lease=lease)
    await store.prune(NOW + MINUTE)

    assert (await store.create(task("t2", idempotency_key="k"), most_open=1)).task_id == "t2"


# Watching


async def test_every_change_is_told_to_a_watcher_that_keeps_up(store: Store):
    await add(store, task("before"))
    async with store.watch() as changes:
        created = await store.create(task("t1"), most_open=9)
        assert unread(changes) == [created]
        lease = await start(store)
        assert unread(changes) == [await store.read("t1")]
        await store.append(lease, [entry("not a change of the record")])
        assert unread(changes) == []
        turned = await store.change("t1", finish_turn(), lease=lease)
        assert unread(changes) == [turned]
        stopping = await store.change("t1", moves.cancel(CancelKind.SOFT, FAILURE, NOW))
        assert unread(changes) == [stopping]
        await store.change("t1", moves.cancel(CancelKind.SOFT, FAILURE, NOW))
        assert unread(changes) == []
        ended = await store.change("t1", moves.stop(FAILURE, at=NOW, seconds=1.0), lease=lease)
        assert unread(changes) == [ended]


async def test_a_watcher_that_falls_behind_keeps_the_last_state_of_each_task_and_no_more(store: Store):
    async with store.watch() as changes:
        leases = [await running(store, f"t{number}") for number in range(3)]
        for _ in range(100):
            for lease in leases:
                await store.change(lease.task_id, finish_turn(), lease=lease)
        done = await store.change("t1", complete(), lease=leases[1])

        # Whoever changed last comes last, so that nobody sees an effect before its cause.
        assert unread(changes) == [await store.read("t0"), await store.read("t2"), done]


async def test_a_watcher_that_falls_behind_is_told_of_what_changes_again_after_it_has_read(store: Store):
    async with store.watch() as changes:
        lease = await running(store, "t1")
        await add(store, task("t2"))
        with anyio.fail_after(5):
            assert await changes.receive() == await store.read("t1")
            done = await store.change("t1", complete(), lease=lease)
            assert [await changes.receive() for _ in range(2)] == [task("t2"), done]


async def test_somebody_who_waits_for_a_change_is_woken_by_the_next(store: Store):
    read: list[TaskRecord] = []

    async def read_all(changes: Changes) -> None:
        async for record in changes:
            read.append(record)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            async with store.watch() as changes:
                group.start_soon(read_all, changes)
                group.start_soon(read_all, changes)
                for task_id in ("t1", "t2"):
                    await anyio.wait_all_tasks_blocked()
                    await add(store, task(task_id))
                await anyio.wait_all_tasks_blocked()

    assert ids(read) == ["t1", "t2"]  # and when nobody tells them any more, they end


async def test_every_watcher_is_told_and_only_of_what_comes_after_it(store: Store):
    async with store.watch() as early:
        await add(store, task("t1"))
        async with store.watch() as late:
            await add(store, task("t2"))
            with anyio.fail_after(5):
                assert [(await early.receive()).task_id for _ in range(2)] == ["t1", "t2"]
                assert (await late.receive()).task_id == "t2"
        await add(store, task("t3"))
        with anyio.fail_after(5):
            assert (await early.receive()).task_id == "t3"


async def test_a_watcher_that_stops_listening_does_not_disturb_the_others(store: Store):
    async with store.watch() as deaf, store.watch() as changes:
        await deaf.aclose()
        await add(store, task("t1"))
        with anyio.fail_after(5):
            assert (await changes.receive()).task_id == "t1"


async def test_changes_are_told_to_those_who_begin_to_watch_again(store: Store):
    async with store.watch():
        await add(store, task("t1"))
    await add(store, task("t2"))
    async with store.watch() as changes:
        await add(store, task("t3"))
        with anyio.fail_after(5):
            assert (await changes.receive()).task_id == "t3"


async def test_what_was_not_written_is_not_told(store: Store):
    async with store.watch() as changes:
        with pytest.raises(TooManyTasks):
            await store.create(task("t1"), most_open=0)
        assert unread(changes) == []
        await add(store, task("t2"))
        assert unread(changes) == [task("t2")]
        with pytest.raises(IllegalTransition):
            await store.change("t2", complete())
        assert unread(changes) == []


async def test_usage_and_failures_read_as_they_were_written(store: Store):
    lease = await running(store)
    failed = await store.change("t1", moves.fail(FAILURE, at=NOW), lease=lease)

    assert (await store.read("t1")).handle == failed.handle
    assert failed.handle.failure == FAILURE
    assert failed.handle.usage == USAGE
