"""A task as it goes over the wire: the shape of `structuredContent`, and its schema."""

import json
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from mcp_subagents.delegation import Standing
from mcp_subagents.server.addresses import result_uri
from mcp_subagents.types import FailureType, TaskFailure, TaskHandle, TaskPriority, TaskStatus, TaskUsage

BUDGET = 20_000
"""Characters of results in one answer. More would flood the context of the model that reads it."""
LEAST = 1_000
"""What is left of each result when many share the budget."""
LONGEST_DESCRIPTION = 1_000


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


def view_of(standing: Standing, *, budget: int = BUDGET, whole_description: bool = False) -> TaskView:
    """How a task is shown, its result cut down to `budget` characters."""
    task = standing.handle
    result, omitted = _result(task, budget)
    longest = None if whole_description else LONGEST_DESCRIPTION
    return TaskView(
        task_id=task.task_id,
        subagent=task.subagent_name,
        description=clipped(task.description, longest),
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
        questions=open_questions(task),
        failure=None if task.failure is None else _failure(task.failure, budget),
        usage=_usage(task.usage or TaskUsage()),
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


def open_questions(task: TaskHandle) -> list[QuestionView]:
    """What the task waits to be told."""
    if task.status is not TaskStatus.WAITING_FOR_ANSWER:
        return []
    waiting = [each for each in task.questions if each.answer is None]
    return [QuestionView(question_id=each.question_id, question=each.text) for each in waiting]


def what_next(task: TaskHandle, omitted: int = 0) -> str:
    """One sentence: what the caller can do now."""
    match task.status:
        case TaskStatus.COMPLETED if omitted:
            return f"Use the result; all of it is at {result_uri(task.task_id)}."
        case TaskStatus.COMPLETED:
            return "Use the result: check it, and put it in your own words."
        case TaskStatus.FAILED if task.failure is not None and task.failure.is_retryable:
            return "It failed, but may succeed if you delegate it again; see failure for what was found until then."
        case TaskStatus.FAILED:
            return "It failed and would fail again unchanged: see failure.alternatives for what else you can do."
        case TaskStatus.CANCELLED:
            return "It was cancelled; what it had found is in failure.partial_results."
        case TaskStatus.WAITING_FOR_ANSWER:
            return f"It waits for you: answer with answer_subagent (task_id {task.task_id!r})."
        case TaskStatus.PENDING | TaskStatus.RUNNING | TaskStatus.RETRYING:
            return (
                f"It goes on by itself, do not delegate it again: call wait_tasks (task_ids [{task.task_id!r}]) "
                "when you need the result, or do something else first."
            )


def shortened(text: str, budget: int) -> tuple[str, int]:
    """`text` with its middle taken out if it is longer than `budget`, and how many characters that was."""
    if len(text) <= budget:
        return text, 0
    tail = budget // 4
    omitted = len(text) - budget
    return f"{text[: budget - tail]}\n\n[… {omitted:,} characters left out …]\n\n{text[len(text) - tail :]}", omitted


def clipped(text: str, longest: int | None) -> str:
    return text if longest is None or len(text) <= longest else f"{text[: longest - 1]}…"


def share_of(tasks: int) -> int:
    """The part of the budget that each of so many results gets."""
    return max(LEAST, BUDGET // max(1, tasks))


def _failure(failure: TaskFailure, budget: int) -> FailureView:
    return FailureView(
        failure_type=failure.failure_type,
        is_retryable=failure.is_retryable,
        message=failure.message,
        attempted=failure.attempted,
        partial_results=shortened(failure.partial_results, budget)[0],
        alternatives=list(failure.alternatives),
        retries=failure.retries,
        retry_after=failure.retry_after,
    )


def _usage(usage: TaskUsage) -> UsageView:
    return UsageView(
        requests=usage.requests,
        tool_calls=usage.tool_calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=None if usage.cost_usd is None else float(usage.cost_usd),
    )


_TASK = {
    "task_id": {"type": "string"},
    "status": {"enum": [status.value for status in TaskStatus]},
    "result": {"type": ["string", "object", "null"]},
    "questions": {"type": "array"},
    "failure": {"type": ["object", "null"]},
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
