"""What a model reads of a task, where no client is needed to see it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from mcp_subagents.delegation import Standing
from mcp_subagents.types import CancelKind, FailureType, TaskFailure, TaskHandle, TaskStatus, TaskUsage
from mcp_subagents.views import ListView, TaskView, WaitView, view_of, what_next
from mcp_subagents.words import list_in_words, progress_in_words, task_in_words, wait_in_words

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
TASK = TaskHandle("t1", "worker", "Go.", created_at=NOW - timedelta(minutes=5))
RUNNING = replace(TASK, status=TaskStatus.RUNNING, started_at=NOW - timedelta(seconds=90), attempt=1)
FAILURE = TaskFailure(failure_type=FailureType.TRANSIENT, is_retryable=True, message="The provider is overloaded.")


def shown(task: TaskHandle, doing: str = "", position: int | None = None) -> TaskView:
    return view_of(Standing(handle=task, doing=doing, queue_position=position, usage=task.usage or TaskUsage()))


def usage(tokens: int, cost: str | None = None) -> TaskUsage:
    return TaskUsage(input_tokens=tokens, cost_usd=None if cost is None else Decimal(cost))


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (shown(TASK, "waiting for its turn", 3), "waiting for its turn · number 3 in the queue"),
        (shown(RUNNING, "asking the model"), "turn 1 · asking the model"),
        (
            shown(replace(RUNNING, turns=3, usage=usage(2_100, "0.004")), "calling web_fetch"),
            "turn 3 · calling web_fetch · 2.1k tokens · $0.0040",
        ),
        (
            shown(replace(RUNNING, turns=3, usage=usage(999)), "asking the model"),
            "turn 4 · asking the model · 999 tokens",
        ),
        (
            shown(replace(RUNNING, status=TaskStatus.RETRYING, turns=2), "waiting to try again", 1),
            "turn 2 · waiting to try again",
        ),
    ],
)
def test_progress_is_worth_reading(view: TaskView, words: str):
    assert progress_in_words(view) == words


@pytest.mark.parametrize(
    ("view", "head"),
    [
        (shown(TASK, position=2), "queued, number 2."),
        (shown(TASK), "pending."),
        (shown(RUNNING, "calling grep"), "running, calling grep, last activity 1 min 30 s ago."),
        (
            shown(replace(RUNNING, last_activity_at=NOW - timedelta(seconds=4)), "asking the model"),
            "running, asking the model, last activity 4 s ago.",
        ),
        (
            shown(replace(RUNNING, last_activity_at=NOW + timedelta(seconds=4)), "asking the model"),
            "running, asking the model, last activity 0 s ago.",
        ),
        (
            shown(replace(RUNNING, status=TaskStatus.RETRYING, retry_count=2)),
            "retrying after a fault (2 so far).",
        ),
        (shown(RUNNING.failed(FAILURE)), "failed (transient)."),
        (shown(RUNNING.cancelled()), "cancelled."),
    ],
)
def test_the_first_line_says_how_it_stands(view: TaskView, head: str):
    assert task_in_words(view, NOW).split("\n")[0] == f"Task t1 (worker): {head}"


def test_what_it_took_is_the_second_line():
    done = replace(
        RUNNING.completed("Done.", at=NOW),
        turns=2,
        retry_count=1,
        usage=TaskUsage(tool_calls=1, input_tokens=1_200_000, output_tokens=1, cost_usd=Decimal("1.5")),
    )
    facts = task_in_words(shown(done), NOW).split("\n")[1]
    assert facts == "2 turns · 1 tool call · 1.2M tokens · $1.5000 · 1 min 30 s · 1 retry"


def test_a_cost_that_is_known_in_part_is_called_so():
    known = TaskUsage(requests=1, cost_usd=Decimal("0.5"))
    for used, is_partial in ((known, False), (known.plus(TaskUsage(requests=1)), True)):
        view = shown(replace(RUNNING, usage=used))
        assert ("models whose price is not known" in task_in_words(view, NOW)) is is_partial
        assert "is_cost_partial" not in view.model_dump()["usage"]


def test_a_failure_says_all_it_knows():
    failure = replace(
        FAILURE,
        attempted="The third request.",
        partial_results="Two of three.",
        alternatives=("Ask for less.", "Ask later."),
        retry_after=3_700.0,
    )
    assert task_in_words(shown(RUNNING.failed(failure, at=NOW)), NOW).split("\n")[2:] == [
        "",
        "The provider is overloaded.",
        "Tried: The third request.",
        "The provider asks to be left alone for 1 h 1 min.",
        "You could: Ask for less.",
        "You could: Ask later.",
        "",
        "What it had found until then:",
        "Two of three.",
        "",
        "Next: It failed, but may succeed if you delegate it again; "
        "failure.partial_results has what it found until then.",
    ]


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(RUNNING.completed("x" * 500, at=NOW), id="a result"),
        pytest.param(RUNNING.failed(replace(FAILURE, partial_results="x" * 500), at=NOW), id="partial results"),
    ],
)
def test_where_there_is_no_room_at_all_it_says_how_much_is_left_out(task: TaskHandle):
    view = view_of(Standing(handle=task, doing=""), budget=10)
    assert view.result_omitted_chars == 500
    assert "[… 500 characters left out …]" in task_in_words(view, NOW).split("\n")
    assert view.next.endswith(" All of it is at subagents://tasks/t1/result; or ask for a part with continue_task_id.")


@pytest.mark.parametrize(
    ("finished", "total", "timed_out", "words"),
    [
        (1, 1, False, "1 of 1 task has ended."),
        (0, 1, True, "0 of 1 task has ended; time is up, it goes on."),
        (1, 3, True, "1 of 3 tasks have ended; time is up, the others go on."),
        (1, 3, False, "1 of 3 tasks have ended."),
    ],
)
def test_the_head_of_a_wait(finished: int, total: int, timed_out: bool, words: str):
    view = WaitView(mode="all", finished=finished, total=total, timed_out=timed_out, tasks=[])
    assert wait_in_words(view, NOW) == words


def test_a_list_that_leaves_some_out_says_so():
    words = list_in_words(ListView(tasks=[shown(TASK)], omitted=3), NOW).split("\n")
    assert (words[0], words[-1]) == ("4 open:", "… and 3 more.")


@pytest.mark.parametrize("status", TaskStatus)
def test_there_is_always_something_to_do_next(status: TaskStatus):
    words = what_next(replace(TASK, status=status))
    assert words.endswith(".")
    assert "All of it is at" not in words


def test_a_task_that_was_told_to_stop_is_not_waited_for_as_if_it_went_on():
    stopping: Any = replace(RUNNING, cancel_requested=CancelKind.SOFT)
    assert what_next(stopping).startswith("It stops at its next turn")
