"""A task as it goes over the wire: the shape of `structuredContent`, and its schema."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mcp_subagents.addresses import result_uri
from mcp_subagents.delegation import Standing
from mcp_subagents.shortening import BUDGET, clipped, shares, shortened
from mcp_subagents.types import CancelKind, FailureType, TaskFailure, TaskHandle, TaskPriority, TaskStatus, TaskUsage

LONGEST_DESCRIPTION = 1_000
SHORTEST_DESCRIPTION = 120
DESCRIPTIONS = 6_000
"""Characters of descriptions in an answer about many tasks."""


class View(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True)


class QuestionView(View):
    question_id: str
    question: str


class FailureView(View):
    failure_type: FailureType
    is_retryable: bool
    message: str
    attempted: str
    partial_results: str
    alternatives: list[str]
    retries: int
    retry_after: float | None


class UsageView(View):
    requests: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    is_cost_partial: bool = Field(default=False, exclude=True)
    """Said in words alone: the fields of a task are a contract."""


class ActivityView(View):
    turns: int
    doing: str
    last_activity_at: datetime | None


class TaskView(View):
    task_id: str
    subagent: str
    description: str
    status: TaskStatus
    mode: Literal["sync", "async"]
    priority: TaskPriority
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    attempt: int
    retry_count: int
    model: str | None
    models_used: list[str]
    result: str | dict[str, Any] | None
    result_omitted_chars: int
    result_uri: str
    questions: list[QuestionView]
    failure: FailureView | None
    usage: UsageView
    activity: ActivityView
    queue_position: int | None
    next: str


class WaitView(View):
    mode: Literal["all", "any"]
    finished: int
    total: int
    timed_out: bool
    tasks: list[TaskView]


class ListView(View):
    tasks: list[TaskView]
    omitted: int = 0
    """Tasks that are left out, since there are so many."""


def views_of(standings: Sequence[Standing]) -> list[TaskView]:
    """How several tasks are shown in one answer, whose budget they share."""
    parts = shares([_length(each.handle) for each in standings])
    longest = max(SHORTEST_DESCRIPTION, min(LONGEST_DESCRIPTION, DESCRIPTIONS // max(1, len(standings))))
    return [
        view_of(each, budget=part, longest_description=longest) for each, part in zip(standings, parts, strict=True)
    ]


def view_of(
    standing: Standing, *, budget: int = BUDGET, longest_description: int | None = LONGEST_DESCRIPTION
) -> TaskView:
    """How a task is shown, with at most `budget` characters of what it has to say: result, leftovers or questions."""
    task = standing.handle
    result, omitted = _result(task, budget)
    failure, not_found = (None, 0) if task.failure is None else _failure(task.failure, budget)
    omitted += not_found
    return TaskView(
        task_id=task.task_id,
        subagent=task.subagent_name,
        description=task.description if longest_description is None else clipped(task.description, longest_description),
        status=task.status,
        mode=task.mode,
        priority=task.priority,
        created_at=task.created_at,
        started_at=task.started_at,
        completed_at=task.completed_at,
        attempt=task.attempt,
        retry_count=task.retry_count,
        model=task.model,
        models_used=list(task.models_used),
        result=result,
        result_omitted_chars=omitted,
        result_uri=result_uri(task.task_id),
        questions=open_questions(task, budget),
        failure=failure,
        usage=_usage(standing.usage),
        activity=ActivityView(turns=task.turns, doing=standing.doing, last_activity_at=task.last_activity_at),
        queue_position=standing.queue_position,
        next=what_next(task, omitted),
    )


def _result(task: TaskHandle, budget: int) -> tuple[str | dict[str, Any] | None, int]:
    """The result, and how much of it is left out. Half an object is none: if it is too long, it is shown as text."""
    if task.result is None:
        return None, 0
    if task.is_structured and len(task.result) <= budget:
        return json.loads(task.result), 0
    return shortened(task.result, budget)


def open_questions(task: TaskHandle, budget: int = BUDGET) -> list[QuestionView]:
    """What the task waits to be told."""
    if task.status is not TaskStatus.WAITING_FOR_ANSWER:
        return []
    waiting = [each for each in task.questions if each.answer is None]
    parts = shares([len(each.text) for each in waiting], budget)
    return [
        QuestionView(question_id=each.question_id, question=shortened(each.text, part)[0])
        for each, part in zip(waiting, parts, strict=True)
    ]


def _length(task: TaskHandle) -> int:
    """Characters of all that the task has to say."""
    found = task.failure.partial_results if task.failure else ""
    asked = sum(len(each.text) for each in task.questions if each.answer is None)
    return len(task.result or "") + len(found) + asked


def what_next(task: TaskHandle, omitted: int = 0) -> str:
    """What the caller can do now, in a sentence."""
    rest = f" All of it is at {result_uri(task.task_id)}; or ask for a part with continue_task_id." if omitted else ""
    match task.status:
        case TaskStatus.COMPLETED:
            return f"Use the result, but check it before you rely on it.{rest}"
        case TaskStatus.FAILED if task.failure is not None and task.failure.is_retryable:
            return (
                "It failed, but may succeed if you delegate it again; "
                f"failure.partial_results has what it found until then.{rest}"
            )
        case TaskStatus.FAILED:
            return f"It failed and would fail again unchanged: failure.alternatives says what else you can do.{rest}"
        case TaskStatus.CANCELLED:
            return f"It was cancelled: failure.partial_results has what it found until then.{rest}"
        case TaskStatus.WAITING_FOR_ANSWER:
            each = " for each question_id" if sum(each.answer is None for each in task.questions) > 1 else ""
            return f'It waits for you: call answer_subagent (task_id "{task.task_id}"){each}.'
        case TaskStatus.RUNNING if task.cancel_requested is CancelKind.SOFT:
            return (
                f'It stops at its next turn: call wait_tasks (task_ids ["{task.task_id}"]) for what it found, '
                "or hard_cancel_task if that takes too long."
            )
        case TaskStatus.PENDING | TaskStatus.RUNNING | TaskStatus.RETRYING:
            return (
                f'It goes on by itself, do not delegate it again: call wait_tasks (task_ids ["{task.task_id}"]) '
                "when you need the result, or do something else first."
            )


def _failure(failure: TaskFailure, budget: int) -> tuple[FailureView, int]:
    found, omitted = shortened(failure.partial_results, budget)
    view = FailureView(
        failure_type=failure.failure_type,
        is_retryable=failure.is_retryable,
        message=failure.message,
        attempted=failure.attempted,
        partial_results=found,
        alternatives=list(failure.alternatives),
        retries=failure.retries,
        retry_after=failure.retry_after,
    )
    return view, omitted


def _usage(usage: TaskUsage) -> UsageView:
    return UsageView(
        requests=usage.requests,
        tool_calls=usage.tool_calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=None if usage.cost_usd is None else float(usage.cost_usd),
        is_cost_partial=usage.is_cost_partial,
    )


# `anyOf`, not a list of types: some hosts map schemas onto dialects with one type each.
_TASK = {
    "task_id": {"type": "string"},
    "status": {"enum": [status.value for status in TaskStatus]},
    "result": {"anyOf": [{"type": "string"}, {"type": "object"}, {"type": "null"}]},
    "questions": {"type": "array"},
    "failure": {"anyOf": [{"type": "object"}, {"type": "null"}]},
    "usage": {"type": "object"},
    "next": {"type": "string"},
}
_TASKS = {"type": "array", "items": {"type": "object", "required": ["task_id", "status", "next"]}}

# Outlines, not every field: eight whole schemas would cost each host more of its context than all descriptions.
TASK_OUTLINE: dict[str, Any] = {"type": "object", "properties": _TASK, "required": list(_TASK)}
WAIT_OUTLINE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "mode": {"enum": ["all", "any"]},
        "finished": {"type": "integer"},
        "total": {"type": "integer"},
        "timed_out": {"type": "boolean"},
        "tasks": _TASKS,
    },
    "required": ["mode", "finished", "total", "timed_out", "tasks"],
}
LIST_OUTLINE: dict[str, Any] = {"type": "object", "properties": {"tasks": _TASKS}, "required": ["tasks"]}
