"""What can happen to a task, and what cannot."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mcp_subagents import moves
from mcp_subagents.errors import IllegalTransition, MailWaiting, NotWaiting, StopRequested, TaskEnded
from mcp_subagents.records import Change, Entry, EntryKind, Mail, Move, TaskRecord
from mcp_subagents.types import (
    AgentMessage,
    CancelKind,
    FailureType,
    MessageType,
    Question,
    TaskFailure,
    TaskHandle,
    TaskStatus,
    TaskUsage,
)

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
THEN = NOW + timedelta(minutes=1)
USAGE = TaskUsage(requests=2, input_tokens=7)
FAILURE = TaskFailure(failure_type=FailureType.TRANSIENT, is_retryable=True, message="overloaded", usage=USAGE)
MAIL = Mail(mail_id="m1", text="hurry")
TURN = Entry(kind=EntryKind.TURN, body="[]", at=THEN, attempt=1)
ONE, TWO = Question(question_id="q1", text="Which?"), Question(question_id="q2", text="When?")


def fresh() -> TaskRecord:
    handle = TaskHandle(task_id="t1", subagent_name="reviewer", description="Do it.", created_at=NOW)
    return TaskRecord(handle=handle, due_at=NOW)


def made(record: TaskRecord, *steps: Move) -> TaskRecord:
    for step in steps:
        record = step(record).record
    return record


STARTED = moves.start("p1", NOW)
COMPLETE = moves.complete("done", usage=USAGE, seconds=2.0, at=THEN)
ASK = moves.ask([ONE, TWO], seconds=2.0, at=NOW, until=THEN)
RETRY = moves.retry_later(FAILURE, due_at=THEN, seconds=2.0, at=NOW)
RELEASE = moves.release(THEN, seconds=2.0)
FAIL = moves.fail(FAILURE, at=THEN, seconds=2.0)
STOP = moves.stop(FAILURE, at=THEN, seconds=2.0)
SOFT, HARD = (moves.cancel(kind, FAILURE, THEN) for kind in CancelKind)
SEND = moves.send(MAIL, THEN)

STATES = {
    TaskStatus.PENDING: fresh(),
    TaskStatus.RUNNING: made(fresh(), STARTED),
    TaskStatus.WAITING_FOR_ANSWER: made(fresh(), STARTED, ASK),
    TaskStatus.RETRYING: made(fresh(), STARTED, RETRY),
    TaskStatus.COMPLETED: made(fresh(), STARTED, COMPLETE),
    TaskStatus.FAILED: made(fresh(), STARTED, FAIL),
    TaskStatus.CANCELLED: made(fresh(), HARD),
}
PENDING, RUNNING, WAITING, RETRYING, COMPLETED, FAILED, CANCELLED = STATES.values()


def told(change: Change) -> list[tuple[MessageType, str, object]]:
    """What the journal says of it: type, sender, payload."""
    found: list[tuple[MessageType, str, object]] = []
    for entry in change.entries:
        assert (entry.kind, entry.attempt) == (EntryKind.EVENT, change.record.handle.attempt)
        message = moves.message_of("t1", entry)
        assert {message.sender, message.receiver} == {"host", "reviewer"}
        found.append((message.type, message.sender, message.payload))
    return found


def test_the_states_are_what_they_are_called():
    assert {status: record.handle.status for status, record in STATES.items()} == {each: each for each in TaskStatus}


# What moves do


def test_an_attempt_starts():
    change = STARTED(PENDING)
    handle = replace(PENDING.handle, status=TaskStatus.RUNNING, attempt=1, started_at=NOW)
    assert change == Change(record=replace(PENDING, handle=handle, process="p1"))


def test_the_next_attempt_keeps_the_time_of_the_first():
    again = made(RETRYING, moves.start("p2", THEN))
    assert (again.handle.attempt, again.handle.started_at, again.process) == (2, NOW, "p2")


def test_a_turn_is_recorded_with_what_it_used_and_carried():
    before = replace(RUNNING, mail=(MAIL, Mail(mail_id="m2", text="later")), failures=3, active_seconds=1.0)

    change = moves.finish_turn(TURN, number=1, usage=USAGE, seconds=2.5, delivered=frozenset({"m1"}))(before)

    handle = replace(before.handle, usage=USAGE, turns=1, last_activity_at=THEN)
    after = replace(before, handle=handle, mail=(before.mail[1],), failures=0, active_seconds=3.5)
    assert change == Change(record=after, entries=(TURN,))


def test_a_turn_leaves_the_questions_of_the_last_one_behind():
    answered = made(WAITING, moves.answer("this", "q1", NOW), moves.answer("now", "q2", NOW), STARTED)
    assert len(answered.handle.questions) == 2
    assert (
        made(
            answered, moves.finish_turn(TURN, number=1, usage=USAGE, seconds=0, delivered=frozenset())
        ).handle.questions
        == ()
    )


def test_a_task_asks_and_holds_nothing_while_it_waits():
    change = ASK(RUNNING)
    handle = replace(
        RUNNING.handle,
        status=TaskStatus.WAITING_FOR_ANSWER,
        questions=(ONE, TWO),
        pending_question="Which?",
        last_activity_at=NOW,
    )
    assert change.record == replace(RUNNING, handle=handle, process=None, due_at=THEN, unread=True, active_seconds=2.0)
    assert told(change) == [
        (MessageType.QUESTION, "reviewer", {"question_id": "q1", "question": "Which?"}),
        (MessageType.QUESTION, "reviewer", {"question_id": "q2", "question": "When?"}),
    ]


def test_an_answer_is_kept_and_the_last_one_makes_the_task_due():
    first = moves.answer("this", "q1", NOW)(WAITING)
    assert (first.record.handle.status, first.record.due_at) == (TaskStatus.WAITING_FOR_ANSWER, THEN)
    assert first.record.handle.pending_question == "When?"
    assert not first.record.unread
    assert told(first) == [(MessageType.ANSWER, "host", {"question_id": "q1", "answer": "this"})]

    last = moves.answer("now", "", NOW)(first.record)
    assert (last.record.handle.status, last.record.due_at) == (TaskStatus.PENDING, NOW)
    assert last.record.handle.questions == (replace(ONE, answer="this"), replace(TWO, answer="now"))
    assert last.record.handle.pending_question is None


@pytest.mark.parametrize("status", [each for each in TaskStatus if not each.is_terminal])
def test_mail_can_be_sent_until_a_task_ends(status: TaskStatus):
    change = SEND(STATES[status])
    assert change.record == replace(STATES[status], mail=(MAIL,))
    assert told(change) == [(MessageType.TASK_UPDATE, "host", {"message": "hurry"})]


def test_a_retry_is_a_time_and_no_process():
    change = RETRY(replace(RUNNING, failures=1, active_seconds=1.0))
    handle = replace(RUNNING.handle, status=TaskStatus.RETRYING, retry_count=1, last_activity_at=NOW)
    assert change.record == replace(RUNNING, handle=handle, process=None, due_at=THEN, failures=2, active_seconds=3.0)
    payload = {"retrying": "overloaded", "due_at": THEN.isoformat()}
    assert told(change) == [(MessageType.TASK_UPDATE, "reviewer", payload)]


def test_a_released_task_is_due_at_once():
    change = RELEASE(RUNNING)
    handle = replace(RUNNING.handle, status=TaskStatus.PENDING)
    assert change == Change(record=replace(RUNNING, handle=handle, process=None, due_at=THEN, active_seconds=2.0))


@pytest.mark.parametrize(
    ("move", "expected", "type"),
    [
        (COMPLETE, RUNNING.handle.completed("done", usage=USAGE, at=THEN), MessageType.TASK_COMPLETED),
        (FAIL, RUNNING.handle.failed(FAILURE, at=THEN), MessageType.TASK_FAILED),
        (STOP, RUNNING.handle.cancelled(FAILURE, at=THEN), MessageType.TASK_FAILED),
    ],
    ids=["completed", "failed", "stopped"],
)
def test_a_task_ends_unread_and_holds_nothing(move: Move, expected: TaskHandle, type: MessageType):
    change = move(RUNNING)
    assert change.record == replace(
        RUNNING,
        handle=replace(expected, last_activity_at=THEN),
        process=None,
        unread=True,
        active_seconds=2.0,
    )
    [(said, sender, _)] = told(change)
    assert (said, sender) == (type, "reviewer")


def test_a_task_does_not_complete_before_it_has_read_its_mail():
    with pytest.raises(MailWaiting) as caught:
        COMPLETE(made(RUNNING, SEND))
    assert list(caught.value.mail) == [MAIL]


def test_a_failing_task_need_not_read_its_mail():
    assert made(RUNNING, SEND, FAIL).mail == ()


@pytest.mark.parametrize("kind", CancelKind)
@pytest.mark.parametrize("status", [TaskStatus.PENDING, TaskStatus.WAITING_FOR_ANSWER, TaskStatus.RETRYING])
def test_what_does_not_run_is_cancelled_at_once(status: TaskStatus, kind: CancelKind):
    before = made(STATES[status], SEND)
    change = moves.cancel(kind, FAILURE, THEN)(before)
    handle = replace(before.handle.cancelled(FAILURE, at=THEN), cancel_requested=kind, last_activity_at=THEN)
    assert change.record == replace(before, handle=handle, mail=(), process=None, unread=False)
    type = MessageType.CANCEL_REQUEST if kind is CancelKind.SOFT else MessageType.CANCEL_FORCED
    assert told(change) == [(type, "host", {})]


def test_a_running_task_is_asked_to_stop_and_told_once():
    change = SOFT(RUNNING)
    assert change.record == replace(RUNNING, handle=replace(RUNNING.handle, cancel_requested=CancelKind.SOFT))
    assert told(change) == [(MessageType.CANCEL_REQUEST, "host", {})]
    again = SOFT(change.record)
    assert again.record is change.record
    assert again.entries == ()


def test_a_hard_cancel_ends_a_running_task_also_after_a_soft_one():
    for before in (RUNNING, made(RUNNING, SOFT)):
        after = made(before, HARD)
        assert (after.handle.status, after.process) == (TaskStatus.CANCELLED, None)
        assert after.handle.failure == FAILURE


def test_a_question_expires_when_its_time_is_over():
    expire = moves.expire(FAILURE, at=THEN)
    assert expire(WAITING).record.handle.status is TaskStatus.FAILED
    early = moves.expire(FAILURE, at=NOW)(WAITING)
    assert (early.record, early.entries) == (WAITING, ())


@pytest.mark.parametrize("record", [PENDING, RUNNING, COMPLETED], ids=["answered", "running again", "ended"])
def test_an_answer_at_the_last_moment_wins_over_the_expiry(record: TaskRecord):
    assert moves.expire(FAILURE, at=THEN)(record).record is record


def test_what_was_seen_is_no_longer_unread():
    see = moves.see(COMPLETED.handle)
    assert see(COMPLETED) == Change(record=replace(COMPLETED, unread=False))
    seen = made(COMPLETED, see)
    assert see(seen).record is seen


def test_what_happened_after_one_looked_stays_unread():
    waiting = replace(COMPLETED.handle, status=TaskStatus.WAITING_FOR_ANSWER)
    assert moves.see(waiting)(COMPLETED).record is COMPLETED
    before = replace(COMPLETED.handle, attempt=COMPLETED.handle.attempt - 1)
    assert moves.see(before)(COMPLETED).record is COMPLETED


def test_a_turn_that_is_done_again_is_done_once():
    turn = moves.finish_turn(TURN, number=1, usage=USAGE, seconds=1.0, delivered=frozenset())
    once = made(RUNNING, turn)
    again = turn(once)
    assert again.record is once
    assert again.entries == ()


def test_what_was_told_to_stop_neither_asks_nor_tries_again():
    for move in (ASK, RETRY):
        with pytest.raises(StopRequested):
            move(made(RUNNING, SOFT))


def test_a_lost_task_is_released_until_it_has_cost_too_many_processes():
    lose = moves.lose(FAILURE, THEN)
    record = RUNNING
    for number in range(1, moves.MOST_LOSSES + 1):
        record = made(record, lose)
        assert (record.handle.status, record.losses, record.due_at) == (TaskStatus.PENDING, number, THEN)
        record = made(record, STARTED)
    assert made(record, lose).handle.failure == FAILURE

    turn = moves.finish_turn(TURN, number=1, usage=USAGE, seconds=1.0, delivered=frozenset())
    assert made(record, turn, lose).losses == 1


def test_nothing_leaves_a_task_as_it_is():
    assert moves.nothing(RUNNING).record is RUNNING
    assert moves.nothing(RUNNING).entries == ()


def test_two_moves_can_be_made_as_one():
    change = moves.both(SEND, SOFT)(RUNNING)
    assert change.record == made(RUNNING, SEND, SOFT)
    assert [type for type, _, _ in told(change)] == [MessageType.TASK_UPDATE, MessageType.CANCEL_REQUEST]
    with pytest.raises(MailWaiting):
        moves.both(SEND, COMPLETE)(RUNNING)


# What moves refuse

LEGAL: Sequence[tuple[Move, set[TaskStatus]]] = (
    (STARTED, {TaskStatus.PENDING, TaskStatus.RETRYING}),
    (COMPLETE, {TaskStatus.RUNNING}),
    (ASK, {TaskStatus.RUNNING}),
    (RETRY, {TaskStatus.RUNNING}),
    (RELEASE, {TaskStatus.RUNNING}),
    (FAIL, {TaskStatus.RUNNING, TaskStatus.WAITING_FOR_ANSWER}),
)
NAMES = ("start", "complete", "ask", "retry", "release", "fail")


@pytest.mark.parametrize(
    ("move", "status"),
    [
        pytest.param(move, status, id=f"{name} a task that is {status}")
        for name, (move, legal) in zip(NAMES, LEGAL, strict=True)
        for status in TaskStatus
        if status not in legal
    ],
)
def test_a_move_from_the_wrong_place_is_refused(move: Move, status: TaskStatus):
    with pytest.raises((IllegalTransition, StopRequested)):
        move(STATES[status])


@pytest.mark.parametrize("record", [COMPLETED, FAILED, CANCELLED], ids=["completed", "failed", "cancelled"])
def test_what_has_ended_hears_nothing_more(record: TaskRecord):
    with pytest.raises(TaskEnded):
        SEND(record)
    for move in (SOFT, HARD):
        assert move(record).record is record
    with pytest.raises(IllegalTransition):
        STOP(record)


@pytest.mark.parametrize(
    ("record", "question_id"),
    [(RUNNING, ""), (RUNNING, "q1"), (WAITING, ""), (WAITING, "q9"), (COMPLETED, "q1")],
    ids=["asks nothing", "asks nothing of that name", "several are open", "no such question", "has ended"],
)
def test_an_answer_that_fits_no_open_question_is_refused(record: TaskRecord, question_id: str):
    with pytest.raises(NotWaiting):
        moves.answer("this", question_id, NOW)(record)


def test_a_question_is_answered_once():
    with pytest.raises(NotWaiting):
        made(WAITING, moves.answer("this", "q1", NOW), moves.answer("that", "q1", NOW))


def test_an_event_is_a_message():
    [entry] = SEND(RUNNING).entries
    body = json.loads(entry.body)
    assert moves.message_of("t1", entry) == AgentMessage(
        type=MessageType.TASK_UPDATE,
        sender="host",
        receiver="reviewer",
        payload={"message": "hurry"},
        task_id="t1",
        id=body["id"],
        timestamp=THEN,
    )
