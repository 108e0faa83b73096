"""A task in lines that a person reads: what `show` says of it, and why it has no result."""

from collections.abc import Sequence
from datetime import datetime

from mcp_subagents.delegation import Standing
from mcp_subagents.fleet.finding import SHORT, waiting_questions
from mcp_subagents.fleet.rows import one_line, status_of
from mcp_subagents.texts import plain
from mcp_subagents.types import TaskFailure, TaskHandle
from mcp_subagents.views import view_of
from mcp_subagents.words import facts, progress_in_words

Fact = tuple[str, str]
"""What it is, and what it says; both fit for a terminal."""
_LONGEST_TEXT = 2_000
_TIME = "%Y-%m-%d %H:%M:%S"


def progress(standing: Standing) -> str:
    """How it goes, in one line."""
    return one_line(progress_in_words(view_of(standing, budget=0)))


def took(standing: Standing) -> str:
    """How it ended and what it took, in one line."""
    return one_line(f"{status_of(standing.handle)} · {facts(view_of(standing, budget=0))}")


def facts_of(standing: Standing, below: Sequence[TaskHandle]) -> list[Fact]:
    """All there is to say of a task, but for its result."""
    task, view = standing.handle, view_of(standing, budget=0)
    found: list[Fact] = [
        ("task", task.task_id),
        ("status", status_of(task)),
        ("subagent", one_line(task.subagent_name)),
        ("model", one_line(", ".join(task.models_used) or task.model or "")),
        ("asked for", clipped(task.description)),
        ("delegated", _when(task.created_at)),
        ("ended", _when(task.completed_at)),
        ("owner", "" if task.owner == "local" else one_line(task.owner)),
        ("above it", task.parent_id or ""),
        ("below it", ", ".join(f"{each.task_id[:SHORT]} ({status_of(each)})" for each in below)),
        ("doing", "" if task.status.is_terminal else progress(standing)),
        ("used", facts(view)),
    ]
    return [(name, said) for name, said in found if said]


def questions_of(task: TaskHandle) -> list[Fact]:
    """What it waits to be told: the number of each question, and the question."""
    return [(str(number), clipped(each.text)) for number, each in enumerate(waiting_questions(task), start=1)]


def failure_lines(failure: TaskFailure) -> list[str]:
    """Why there is no result, what was tried, and what could be done instead."""
    lines = [one_line(f"{failure.failure_type.value.capitalize()}: {failure.message}")]
    if failure.attempted:
        lines.append(one_line(f"Tried: {failure.attempted}"))
    if failure.retry_after is not None:
        lines.append(f"The provider asks to be left alone for {failure.retry_after:.0f} s.")
    return [*lines, *(one_line(f"You could: {each}") for each in failure.alternatives)]


def partial_lines(failure: TaskFailure) -> list[str]:
    """What it had found until then; nothing if that is nothing."""
    found = plain(failure.partial_results).strip("\n")
    return ["What it had found until then:", *found.split("\n")] if found else []


def clipped(text: str) -> str:
    """As much of a text as one looks at."""
    shown = plain(text[:_LONGEST_TEXT]).strip("\n")
    return shown if len(text) <= _LONGEST_TEXT else f"{shown}…"


def _when(at: datetime | None) -> str:
    return "" if at is None else at.astimezone().strftime(_TIME)
