"""What a table and a page say of a task, and how what is typed is understood: rules on values."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from mcp_subagents.delegation import Standing
from mcp_subagents.errors import NoSuchQuestion
from mcp_subagents.fleet.choosing import arranged
from mcp_subagents.fleet.durations import age, duration
from mcp_subagents.fleet.finding import question_meant
from mcp_subagents.fleet.pages import clipped, facts_of, failure_lines, partial_lines
from mcp_subagents.fleet.rows import Row, cost_of, one_line, row_of
from mcp_subagents.records import TaskRecord
from mcp_subagents.types import (
    CancelKind,
    FailureType,
    Question,
    TaskFailure,
    TaskHandle,
    TaskStatus,
    TaskUsage,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TASK = TaskHandle("abcdefghijklmnopqrstuv", "reviewer", "Review\n it.", created_at=NOW - timedelta(minutes=5))
WHICH, WHEN = Question(question_id="q1", text="Which?"), Question(question_id="q2", text="When?")
ASKING = replace(TASK, status=TaskStatus.WAITING_FOR_ANSWER, questions=(WHICH, WHEN), pending_question="Which?")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000), (" 2w ", 1_209_600), ("0s", 0)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: int):
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "12", "h", "1.5h", "-1d", "1 d", "1y", "9999999d", "1D"])
def test_anything_else_is_no_duration(text: str):
    with pytest.raises(ValueError, match="is not a duration such as 12h, 30d or 2w"):
        duration(text)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (86_399, "23h"), (864_000, "10d")],
)
def test_an_age_is_told_in_its_largest_unit(seconds: float, told: str):
    assert age(timedelta(seconds=seconds)) == told


def test_a_row_has_what_a_table_shows():
    standing = Standing(handle=replace(TASK, status=TaskStatus.RUNNING, turns=3), doing="calling search")
    assert row_of(standing, NOW, depth=2) == Row(
        task_id="abcdefgh",
        status="running",
        subagent="  └ reviewer",
        turn="3",
        age="5m",
        cost="-",
        task="Review it.",
        doing="calling search",
    )


FAILED = replace(TASK, status=TaskStatus.FAILED, error="It\nbroke.")


@pytest.mark.parametrize(
    ("standing", "status", "doing"),
    [
        (Standing(handle=TASK, doing="waiting", queue_position=4), "pending", "number 4 in the queue"),
        (Standing(handle=TASK, doing="waiting for its subagents"), "pending", "waiting for its subagents"),
        (Standing(handle=ASKING, doing="waiting for an answer"), "asks ?", "? Which?"),
        (
            Standing(handle=replace(TASK, status=TaskStatus.RUNNING, cancel_requested=CancelKind.SOFT), doing="x"),
            "stopping",
            "x",
        ),
        (Standing(handle=replace(TASK, status=TaskStatus.RETRYING), doing="again"), "retrying", "again"),
        (Standing(handle=FAILED, doing="failed"), "failed", "It broke."),
        (Standing(handle=replace(TASK, status=TaskStatus.COMPLETED), doing="done"), "completed", ""),
        (Standing(handle=replace(TASK, status=TaskStatus.CANCELLED), doing="cancelled"), "cancelled", ""),
    ],
    ids=["queued", "parked", "asking", "told to stop", "retrying", "failed", "completed", "cancelled"],
)
def test_what_a_task_does_is_told_where_its_status_does_not_say_it(standing: Standing, status: str, doing: str):
    row = row_of(standing, NOW)
    assert (row.status, row.doing) == (status, doing)


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (TaskUsage(), "-"),
        (TaskUsage(cost_usd=Decimal(0)), "$0.0000"),
        (TaskUsage(cost_usd=Decimal("0.00001")), "<$0.0001"),
        (TaskUsage(cost_usd=Decimal("0.01234")), "$0.0123"),
        (TaskUsage(cost_usd=Decimal("12.345")), "$12.34"),
        (TaskUsage(input_tokens=900), "900 tok"),
        (TaskUsage(input_tokens=9_000, output_tokens=99), "9.1k tok"),
        (TaskUsage(input_tokens=2_500_000), "2.5M tok"),
    ],
)
def test_a_cost_is_money_where_the_price_is_known_and_tokens_elsewhere(usage: TaskUsage, told: str):
    assert cost_of(usage) == told


@pytest.mark.parametrize("text", ["a\x1b[31m b\r\n\tc\x00", "\x1b]0;title\x07a b  c", "a\u202e b\x9b c"])
def test_nothing_in_a_line_is_obeyed_by_a_terminal(text: str):
    line = one_line(text)
    assert line.isprintable()
    assert line.startswith("a b")


def test_a_line_is_not_longer_than_any_terminal_is_wide():
    assert len(one_line("x" * 1_000_000)) == 1_000


def record(task_id: str, parent: str | None = None, minutes: int = 0) -> TaskRecord:
    handle = TaskHandle(task_id, "a", "b", parent_id=parent, created_at=NOW + timedelta(minutes=minutes))
    return TaskRecord(handle=handle, due_at=NOW)


def test_tasks_follow_those_they_are_below():
    given = [
        record("young", "top", 9),
        record("alone"),
        record("top"),
        record("deep", "old"),
        record("old", "top", 1),
        record("stray", "elsewhere"),
    ]
    assert [(each.task_id, depth) for each, depth in arranged(given)] == [
        ("alone", 0),
        ("top", 0),
        ("old", 1),
        ("deep", 2),
        ("young", 1),
        ("stray", 0),
    ]


@pytest.mark.parametrize(("given", "meant"), [("q2", WHEN), ("1", WHICH), ("2", WHEN)])
def test_a_question_is_meant_by_its_id_or_its_number(given: str, meant: Question):
    assert question_meant(ASKING, given) == meant


def test_the_only_open_question_needs_no_name():
    assert question_meant(replace(ASKING, questions=(replace(WHICH, answer="This."), WHEN)), "") == WHEN


@pytest.mark.parametrize(
    ("task", "given", "told"),
    [
        (ASKING, "", "has several questions open. Name one with --question and its number: 1: Which?; 2: When?"),
        (ASKING, "3", "has no open question '3'. Name one"),
        (TASK, "", "asks nothing: it is pending."),
        (replace(ASKING, status=TaskStatus.COMPLETED), "", "asks nothing: it is completed."),
    ],
    ids=["several", "another", "none", "ended"],
)
def test_a_question_that_is_not_meant_clearly_is_refused(task: TaskHandle, given: str, told: str):
    with pytest.raises(NoSuchQuestion, match=told.replace("?", r"\?")):
        question_meant(task, given)


FAILURE = TaskFailure(
    failure_type=FailureType.TRANSIENT,
    is_retryable=True,
    message="Over\x1b[1mloaded.",
    attempted="2 turns.",
    partial_results="\n\x1b[1mHalf\n of it.\n",
    alternatives=("Wait.",),
    retry_after=7.0,
)


def test_a_failure_is_told_with_what_can_be_done():
    assert failure_lines(FAILURE) == [
        "Transient: Overloaded.",
        "Tried: 2 turns.",
        "The provider asks to be left alone for 7 s.",
        "You could: Wait.",
    ]
    assert failure_lines(TaskFailure(failure_type=FailureType.LIMIT, is_retryable=False, message="x")) == ["Limit: x"]


def test_what_was_found_keeps_its_lines():
    assert partial_lines(FAILURE) == ["What it had found until then:", "Half", " of it."]
    assert partial_lines(replace(FAILURE, partial_results="")) == []


def test_a_page_leaves_out_what_there_is_not():
    facts = facts_of(Standing(handle=replace(TASK, owner="someone"), doing="waiting for its turn"), [FAILED])
    names = "task, status, subagent, asked for, delegated, owner, below it, doing, used"
    assert ", ".join(name for name, _ in facts) == names
    assert dict(facts)["below it"] == "abcdefgh (failed)"


def test_a_long_text_says_that_there_is_more():
    assert clipped("x" * 2_000) == "x" * 2_000
    assert clipped("x" * 2_001) == f"{'x' * 2_000}…"
