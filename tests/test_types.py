"""The values of a delegation: their shape is the seeds' contract, their moves are DESIGN §4."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, FrozenInstanceError, fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_subagents.errors import IllegalTransition
from mcp_subagents.trees import dump_usage, load_usage
from mcp_subagents.types import (
    TRANSITIONS,
    AgentMessage,
    ExecutionMode,
    FailureType,
    MessageType,
    Question,
    TaskCharacteristics,
    TaskFailure,
    TaskHandle,
    TaskPriority,
    TaskStatus,
    TaskUsage,
    utc_now,
)

PENDING, RUNNING, WAITING, COMPLETED, FAILED, CANCELLED, RETRYING = TaskStatus

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)
USAGE = TaskUsage(requests=2, input_tokens=30, output_tokens=7)
FAILURE = TaskFailure(failure_type=FailureType.LIMIT, is_retryable=False, message="Too many requests.", usage=USAGE)
FRESH = TaskHandle("t1", "reviewer", "Review it.", created_at=NOON)
WHICH = Question(question_id="q1", text="Which one?")
WHEN = Question(question_id="q2", text="When?")

LEGAL: Mapping[TaskStatus, set[TaskStatus]] = {
    PENDING: {RUNNING, CANCELLED},
    RUNNING: {PENDING, WAITING, RETRYING, COMPLETED, FAILED, CANCELLED},
    WAITING: {PENDING, FAILED, CANCELLED},
    RETRYING: {RUNNING, CANCELLED},
    COMPLETED: set(),
    FAILED: set(),
    CANCELLED: set(),
}

MOVES: Mapping[str, tuple[TaskStatus, Callable[[TaskHandle], TaskHandle]]] = {
    "started": (RUNNING, lambda task: task.started(NOON)),
    "asked": (WAITING, lambda task: task.asked(WHICH)),
    "answered": (PENDING, lambda task: task.answered("q1", "The red one.")),
    "released": (PENDING, TaskHandle.released),
    "retrying": (RETRYING, TaskHandle.retrying),
    "completed": (COMPLETED, lambda task: task.completed("Done.", at=LATER)),
    "failed": (FAILED, lambda task: task.failed(FAILURE, at=LATER)),
    "cancelled": (CANCELLED, lambda task: task.cancelled(at=LATER)),
}
STARTS: Mapping[str, set[TaskStatus]] = {"answered": {WAITING}, "released": {RUNNING}}
"""Where a move starts that shares its end with another one."""


def every_pair() -> list[Any]:
    return [
        pytest.param(start, to, id=f"from {start} to {to} is {'legal' if to in LEGAL[start] else 'illegal'}")
        for start in TaskStatus
        for to in TaskStatus
    ]


def can_move(start: TaskStatus, move: str) -> bool:
    return MOVES[move][0] in LEGAL[start] and start in STARTS.get(move, TaskStatus)


def every_move() -> list[Any]:
    return [
        pytest.param(start, move, id=f"a {start} task {'can' if can_move(start, move) else 'cannot'} be {move}")
        for start in TaskStatus
        for move in MOVES
    ]


@pytest.mark.parametrize(("start", "to"), every_pair())
def test_the_table_allows_exactly_the_legal_moves(start: TaskStatus, to: TaskStatus):
    assert (to in TRANSITIONS[start]) is (to in LEGAL[start])


@pytest.mark.parametrize(("start", "move"), every_move())
def test_a_task_moves_only_where_the_table_leads(start: TaskStatus, move: str):
    to, go = MOVES[move]
    task = replace(FRESH, status=start)
    if can_move(start, move):
        assert go(task).status is to
    else:
        with pytest.raises(IllegalTransition):
            go(task)
    assert task == replace(FRESH, status=start)


def test_the_table_cannot_be_changed():
    with pytest.raises(TypeError):
        TRANSITIONS[COMPLETED] = frozenset(TaskStatus)  # pyright: ignore[reportIndexIssue]  # the point of the test


def test_every_status_can_be_reached_by_a_move():
    assert {to for to, _ in MOVES.values()} == set(TaskStatus)


@pytest.mark.parametrize("status", TaskStatus)
def test_a_status_is_terminal_when_it_leads_nowhere(status: TaskStatus):
    assert status.is_terminal is (status in {COMPLETED, FAILED, CANCELLED})


@pytest.mark.parametrize(
    ("status", "message"),
    [
        pytest.param(
            PENDING,
            "Task 't1' cannot go from pending to completed. From pending it can go to: cancelled, running.",
            id="the moves there are",
        ),
        pytest.param(
            FAILED,
            "Task 't1' cannot go from failed to completed. From failed it can go to: nothing: it is terminal.",
            id="that there are none",
        ),
    ],
)
def test_an_illegal_move_says_what_would_be_legal(status: TaskStatus, message: str):
    with pytest.raises(IllegalTransition) as refused:
        replace(FRESH, status=status).completed("Done.")
    assert str(refused.value) == message
    assert (refused.value.task_id, refused.value.status, refused.value.to) == ("t1", status, COMPLETED)


@given(st.lists(st.sampled_from(sorted(MOVES)), max_size=30))
def test_any_life_keeps_its_counts_and_ends_once(wishes: Sequence[str]):
    task = FRESH
    made: list[str] = []
    for wish in wishes:
        try:
            following = MOVES[wish][1](task)
        except IllegalTransition:
            continue
        assert not task.status.is_terminal
        task = following
        made.append(wish)
    assert task.attempt == made.count("started")
    assert task.retry_count == made.count("retrying")
    assert task.started_at == (NOON if task.attempt else None)
    assert task.completed_at == (LATER if task.status.is_terminal else None)


# What each move changes


def test_a_start_counts_the_attempt_and_keeps_the_first_start():
    first = FRESH.started(NOON)
    assert first == replace(FRESH, status=RUNNING, attempt=1, started_at=NOON)
    assert first.released().started(LATER) == replace(first, attempt=2)


def test_a_question_is_kept_until_it_is_answered():
    asking = FRESH.started(NOON).asked(WHICH)
    assert asking == replace(FRESH.started(NOON), status=WAITING, pending_question="Which one?", questions=(WHICH,))
    answered = replace(WHICH, answer="The red one.")
    assert asking.answered("q1", "The red one.") == replace(
        asking, status=PENDING, pending_question=None, questions=(answered,)
    )


def test_a_task_with_several_questions_waits_for_the_last_answer():
    asking = FRESH.started(NOON).asked(WHICH, WHEN)
    first = asking.answered("q1", "The red one.")
    answered = replace(WHICH, answer="The red one.")
    assert first == replace(asking, pending_question="When?", questions=(answered, WHEN))
    assert first.answered("q2", "Now.") == replace(
        asking, status=PENDING, pending_question=None, questions=(answered, replace(WHEN, answer="Now."))
    )


@pytest.mark.parametrize("start", [status for status in TaskStatus if status is not WAITING])
def test_a_task_that_does_not_wait_cannot_be_answered_not_even_in_part(start: TaskStatus):
    with pytest.raises(IllegalTransition):
        replace(FRESH, status=start, questions=(WHICH, WHEN)).answered("q1", "The red one.")


def test_a_move_from_the_wrong_start_says_where_it_starts():
    with pytest.raises(IllegalTransition) as refused:
        FRESH.started(NOON).asked(WHICH).released()
    assert str(refused.value) == (
        "Task 't1' cannot go from waiting_for_answer to pending. This move starts from running."
    )


@pytest.mark.parametrize("move", ["failed", "cancelled"])
def test_a_task_that_ends_asks_nothing_any_more(move: str):
    assert MOVES[move][1](FRESH.started(NOON).asked(WHICH)).pending_question is None


def test_a_released_task_is_due_again_with_its_attempt_counted():
    running = FRESH.started(NOON)
    assert running.released() == replace(running, status=PENDING)


def test_a_retry_is_counted():
    running = FRESH.started(NOON)
    assert running.retrying() == replace(running, status=RETRYING, retry_count=1)
    assert running.retrying().started(LATER).retrying() == replace(running, status=RETRYING, attempt=2, retry_count=2)


def test_a_completed_task_has_its_result_and_usage():
    running = FRESH.started(NOON)
    assert running.completed("Done.", usage=USAGE, at=LATER) == replace(
        running, status=COMPLETED, result="Done.", usage=USAGE, completed_at=LATER
    )


def test_a_failed_task_has_its_failure_error_usage_and_end():
    running = FRESH.started(NOON)
    assert running.failed(FAILURE, at=LATER) == replace(
        running, status=FAILED, failure=FAILURE, error="Too many requests.", usage=USAGE, completed_at=LATER
    )


def test_a_cancelled_task_keeps_what_was_done_until_then():
    running = FRESH.started(NOON)
    stopped = replace(FAILURE, failure_type=FailureType.CANCELLED, message="Cancelled.", partial_results="Half.")
    assert running.cancelled(stopped, at=LATER) == replace(
        running, status=CANCELLED, failure=stopped, error="Cancelled.", usage=USAGE, completed_at=LATER
    )


def test_a_task_cancelled_before_it_began_has_no_failure():
    assert FRESH.cancelled(at=LATER) == replace(FRESH, status=CANCELLED, completed_at=LATER)


def test_an_end_without_usage_keeps_the_usage_known_before():
    running = replace(FRESH.started(NOON), usage=USAGE)
    ends = [running.completed("Done."), running.failed(replace(FAILURE, usage=None)), running.cancelled()]
    assert [end.usage for end in ends] == [USAGE] * 3


def test_the_present_is_put_where_no_time_is_given():
    done = TaskHandle("t1", "reviewer", "Review it.").started().completed("Done.")
    stamps = [done.created_at, done.started_at, done.completed_at, utc_now()]
    stamps.append(AgentMessage(MessageType.QUESTION, "a", "b", None, "t1").timestamp)
    assert [stamp and stamp.tzinfo for stamp in stamps] == [UTC] * 5


# The seeds' contract


def shape(cls: Any) -> list[tuple[str, Any]]:
    """The fields of a dataclass in order, each with its default; `...` where one is made for each instance."""
    return [(f.name, ... if f.default_factory is not MISSING else f.default) for f in fields(cls)]


def test_a_task_handle_has_the_seeds_fields_first():
    seeds = [
        *(("task_id", MISSING), ("subagent_name", MISSING), ("description", MISSING)),
        *(("status", PENDING), ("priority", TaskPriority.NORMAL), ("created_at", ...)),
        *(("started_at", None), ("completed_at", None), ("result", None), ("error", None)),
        *(("pending_question", None), ("usage", None), ("retry_count", 0)),
    ]
    ours = [
        *(("attempt", 0), ("failure", None), ("mode", "sync"), ("owner", "local"), ("parent_id", None), ("depth", 0)),
        *(("questions", ()), ("turns", 0), ("last_activity_at", None), ("cancel_requested", None)),
        *(("model", None), ("models_used", ()), ("is_structured", False)),
    ]
    assert shape(TaskHandle) == [*seeds, *ours]


def test_a_task_handle_takes_its_fields_by_position():
    by_position = TaskHandle(
        *("t1", "reviewer", "Review it.", RETRYING, TaskPriority.HIGH, NOON, NOON, LATER, "Half.", "Odd.", "Which?"),
        *(USAGE, 2, 3, FAILURE),
    )
    assert by_position == TaskHandle(
        task_id="t1",
        subagent_name="reviewer",
        description="Review it.",
        status=RETRYING,
        priority=TaskPriority.HIGH,
        created_at=NOON,
        started_at=NOON,
        completed_at=LATER,
        result="Half.",
        error="Odd.",
        pending_question="Which?",
        usage=USAGE,
        retry_count=2,
        attempt=3,
        failure=FAILURE,
    )


def test_a_message_has_the_seeds_fields():
    assert shape(AgentMessage) == [
        *(("type", MISSING), ("sender", MISSING), ("receiver", MISSING), ("payload", MISSING), ("task_id", MISSING)),
        *(("id", ...), ("timestamp", ...), ("correlation_id", None)),
    ]


def test_a_message_takes_its_fields_by_position():
    by_position = AgentMessage(MessageType.ANSWER, "host", "reviewer", {"answer": 42}, "t1", "m2", NOON, "m1")
    assert by_position == AgentMessage(
        type=MessageType.ANSWER,
        sender="host",
        receiver="reviewer",
        payload={"answer": 42},
        task_id="t1",
        id="m2",
        timestamp=NOON,
        correlation_id="m1",
    )


def test_every_message_has_an_id_of_its_own():
    assert len({AgentMessage(MessageType.QUESTION, "a", "b", None, "t1").id for _ in range(100)}) == 100


def test_characteristics_have_the_seeds_fields():
    assert shape(TaskCharacteristics) == [
        ("estimated_complexity", "moderate"),
        ("requires_user_context", False),
        ("is_time_sensitive", False),
        ("can_run_independently", True),
        ("may_need_clarification", False),
    ]


def test_characteristics_take_their_fields_by_position():
    assert TaskCharacteristics("complex", True, False, False, True) == TaskCharacteristics(
        estimated_complexity="complex",
        requires_user_context=True,
        is_time_sensitive=False,
        can_run_independently=False,
        may_need_clarification=True,
    )


@pytest.mark.parametrize(
    ("value", "field"),
    [
        pytest.param(FRESH, "status", id="a task handle"),
        pytest.param(AgentMessage(MessageType.QUESTION, "a", "b", None, "t1"), "payload", id="a message"),
        pytest.param(TaskCharacteristics(), "estimated_complexity", id="characteristics"),
        pytest.param(FAILURE, "message", id="a failure"),
        pytest.param(USAGE, "requests", id="usage"),
        pytest.param(WHICH, "answer", id="a question"),
    ],
)
def test_a_value_cannot_be_changed(value: object, field: str):
    with pytest.raises(FrozenInstanceError):
        setattr(value, field, None)


@pytest.mark.parametrize(
    ("enum", "values"),
    [
        pytest.param(
            TaskStatus,
            ["pending", "running", "waiting_for_answer", "completed", "failed", "cancelled", "retrying"],
            id="statuses",
        ),
        pytest.param(TaskPriority, ["low", "normal", "high", "critical"], id="priorities"),
        pytest.param(
            MessageType,
            [
                *("task_assigned", "task_update", "task_completed", "task_failed"),
                *("question", "answer", "cancel_request", "cancel_forced"),
            ],
            id="message types",
        ),
        pytest.param(
            FailureType, ["transient", "permanent", "validation", "limit", "timeout", "cancelled"], id="failure types"
        ),
    ],
)
def test_an_enum_has_exactly_the_values_of_the_seeds(enum: type[StrEnum], values: list[str]):
    assert [(member.name, member.value) for member in enum] == [(value.upper(), value) for value in values]


def test_there_are_three_execution_modes():
    assert ExecutionMode == Literal["sync", "async", "auto"]
    assert get_args(ExecutionMode) == ("sync", "async", "auto")


def test_the_total_of_tokens_is_what_went_in_and_came_out():
    assert USAGE.total_tokens == 37


PRICED, UNPRICED = TaskUsage(requests=1, cost_usd=Decimal("0.5")), TaskUsage(requests=1)


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (PRICED, PRICED, (Decimal("1.0"), False)),
        (PRICED, UNPRICED, (Decimal("0.5"), True)),
        (UNPRICED, PRICED, (Decimal("0.5"), True)),
        (UNPRICED, UNPRICED, (None, False)),
        (PRICED, TaskUsage(), (Decimal("0.5"), False)),
        (PRICED.plus(UNPRICED), PRICED, (Decimal("1.0"), True)),
    ],
)
def test_a_cost_that_is_known_in_part_says_so(
    one: TaskUsage, other: TaskUsage, together: tuple[Decimal | None, bool]
) -> None:
    both = one.plus(other)
    assert (both.cost_usd, both.is_cost_partial) == together
    assert load_usage(json.loads(json.dumps(dump_usage(both)))) == both
