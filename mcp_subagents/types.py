"""The values that describe a delegation, and the moves a task may make."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal
from uuid import uuid4

from mcp_subagents.errors import IllegalTransition

ExecutionMode = Literal["sync", "async", "auto"]
"""How a task is delivered: `sync` waits for the result, `async` hands over its id, `auto` lets us choose."""


def utc_now() -> datetime:
    """The present, as the aware UTC timestamp used everywhere here."""
    return datetime.now(UTC)


class TaskStatus(StrEnum):
    """Where a task is in its life."""

    PENDING = "pending"
    """Stored and due: fresh, answered, or taken back from a lost process."""
    RUNNING = "running"
    """One attempt is at work on it."""
    WAITING_FOR_ANSWER = "waiting_for_answer"
    """It asked a question and holds nothing while it waits."""
    COMPLETED = "completed"
    """It ended with a result."""
    FAILED = "failed"
    """It ended without one; `TaskHandle.failure` says why and what there is."""
    CANCELLED = "cancelled"
    """It was told to stop."""
    RETRYING = "retrying"
    """A transient failure ended its attempt; the next one is due later."""

    @property
    def is_terminal(self) -> bool:
        """Whether the task has ended, so that it never changes again."""
        return not TRANSITIONS[self]


TRANSITIONS: Mapping[TaskStatus, frozenset[TaskStatus]] = MappingProxyType(
    {
        TaskStatus.PENDING: frozenset({TaskStatus.RUNNING, TaskStatus.CANCELLED}),
        TaskStatus.RUNNING: frozenset(set(TaskStatus) - {TaskStatus.RUNNING}),
        TaskStatus.WAITING_FOR_ANSWER: frozenset({TaskStatus.PENDING, TaskStatus.FAILED, TaskStatus.CANCELLED}),
        TaskStatus.RETRYING: frozenset({TaskStatus.RUNNING, TaskStatus.CANCELLED}),
        TaskStatus.COMPLETED: frozenset(),
        TaskStatus.FAILED: frozenset(),
        TaskStatus.CANCELLED: frozenset(),
    }
)
"""Every legal move. A status that leads nowhere is terminal."""


class TaskPriority(StrEnum):
    """Which of the waiting tasks goes first."""

    LOW = "low"
    """When nothing else is waiting."""
    NORMAL = "normal"
    """In its turn."""
    HIGH = "high"
    """Before the normal ones."""
    CRITICAL = "critical"
    """Before everything else."""


class FailureType(StrEnum):
    """What kind of failure it was, so that the caller can choose what to do about it."""

    TRANSIENT = "transient"
    """A transient fault outlasted the retries: the same task may succeed later."""
    PERMANENT = "permanent"
    """Asking again is futile until somebody changes the set-up."""
    VALIDATION = "validation"
    """The request or its answer was not acceptable: ask differently."""
    LIMIT = "limit"
    """A budget is used up: ask for less, or allow more."""
    TIMEOUT = "timeout"
    """Time ran out."""
    CANCELLED = "cancelled"
    """It was told to stop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskUsage:
    """What a task has used so far, in the terms of pydantic-ai's `RunUsage`."""

    requests: int = 0
    """Model requests that were answered."""
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal | None = None
    """`None` where the price of a model is not known."""
    is_cost_partial: bool = False
    """Whether some of it was done by models whose price is not known, so that it has cost more."""

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def plus(self, other: "TaskUsage") -> "TaskUsage":
        """Both together. A cost that is not known adds nothing to one that is."""
        known = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return TaskUsage(
            requests=self.requests + other.requests,
            tool_calls=self.tool_calls + other.tool_calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=sum(known, Decimal(0)) if known else None,
            is_cost_partial=bool(known) and (self._has_unpriced or other._has_unpriced),
        )

    @property
    def _has_unpriced(self) -> bool:
        return self.is_cost_partial or (self.cost_usd is None and self.requests > 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskFailure:
    """Why a task has no result, with all the context that helps to decide what to do next."""

    failure_type: FailureType
    is_retryable: bool
    """Whether the same task, delegated again unchanged, may succeed."""
    message: str
    """What went wrong, for a person: no secrets, no tracebacks, no provider bodies."""
    attempted: str = ""
    """What was tried, down to the last step."""
    partial_results: str = ""
    """The text of the turns that were finished."""
    alternatives: tuple[str, ...] = ()
    """What the caller could do instead, a sentence each."""
    retries: int = 0
    """How often it was retried before giving up."""
    retry_after: float | None = None
    """Seconds the provider asked to be left alone."""
    usage: TaskUsage | None = None


class CancelKind(StrEnum):
    """How a task is told to stop."""

    SOFT = "soft"
    """At its next turn boundary."""
    HARD = "hard"
    """Now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a subagent asked, and what it was told."""

    question_id: str
    """The id of the tool call that asked."""
    text: str
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class TaskHandle:
    """One task as it stands. Immutable: each move returns the next `TaskHandle`."""

    task_id: str
    subagent_name: str
    description: str
    status: TaskStatus = TaskStatus.PENDING
    priority: TaskPriority = TaskPriority.NORMAL
    created_at: datetime = field(default_factory=utc_now)
    started_at: datetime | None = None
    completed_at: datetime | None = None
    result: str | None = None
    error: str | None = None
    """The message of `failure`."""
    pending_question: str | None = None
    usage: TaskUsage | None = None
    retry_count: int = 0
    """Transient failures that were followed by another attempt."""
    attempt: int = 0
    """How often the task was started: first, after a retry, a take-over or an answer."""
    failure: TaskFailure | None = None
    mode: Literal["sync", "async"] = "sync"
    """The mode that was chosen."""
    owner: str = "local"
    """On whose behalf it runs."""
    parent_id: str | None = None
    """The task that delegated it, if a subagent did."""
    depth: int = 0
    """How many tasks are above it."""
    questions: tuple[Question, ...] = ()
    """The questions of its last turn, answered or not."""
    turns: int = 0
    last_activity_at: datetime | None = None
    cancel_requested: CancelKind | None = None
    model: str | None = None
    """The model that was asked for, if its name is known."""
    models_used: tuple[str, ...] = ()
    """The models that answered, each once, in the order of their first answer."""
    is_structured: bool = False
    """Whether `result` is a JSON object that fits the subagent's output schema."""

    def started(self, at: datetime | None = None) -> "TaskHandle":
        """Running: a new attempt has it."""
        started_at = self.started_at or at or utc_now()
        return self._moved(TaskStatus.RUNNING, attempt=self.attempt + 1, started_at=started_at)

    def asked(self, *questions: Question) -> "TaskHandle":
        """Waiting for the answers to `questions`."""
        return self._moved(TaskStatus.WAITING_FOR_ANSWER, **_open(questions))

    def answered(self, question_id: str, answer: str) -> "TaskHandle":
        """With one of its questions answered. Due again when it was the last open one."""
        questions = tuple(
            replace(each, answer=answer) if each.question_id == question_id else each for each in self.questions
        )
        due = self._moved(TaskStatus.PENDING, only_from=TaskStatus.WAITING_FOR_ANSWER)
        still_open = any(each.answer is None for each in questions)
        return replace(self if still_open else due, **_open(questions))

    def released(self) -> "TaskHandle":
        """Due again, because the process that ran it is gone or going."""
        return self._moved(TaskStatus.PENDING, only_from=TaskStatus.RUNNING)

    def retrying(self) -> "TaskHandle":
        """Waiting for its next attempt after a transient failure."""
        return self._moved(TaskStatus.RETRYING, retry_count=self.retry_count + 1)

    def completed(
        self, result: str, *, usage: TaskUsage | None = None, at: datetime | None = None, is_structured: bool = False
    ) -> "TaskHandle":
        """Ended, with `result`."""
        return self._ended(TaskStatus.COMPLETED, usage, at, result=result, is_structured=is_structured)

    def failed(self, failure: TaskFailure, *, at: datetime | None = None) -> "TaskHandle":
        """Ended by `failure`."""
        return self._ended(TaskStatus.FAILED, failure.usage, at, failure=failure, error=failure.message)

    def cancelled(self, failure: TaskFailure | None = None, *, at: datetime | None = None) -> "TaskHandle":
        """Ended because it was told to; `failure` holds what was done until then."""
        usage, error = (failure.usage, failure.message) if failure else (None, None)
        return self._ended(TaskStatus.CANCELLED, usage, at, failure=failure, error=error)

    def _ended(self, status: TaskStatus, usage: TaskUsage | None, at: datetime | None, **changes: Any) -> "TaskHandle":
        completed_at, usage = at or utc_now(), usage or self.usage
        return self._moved(status, completed_at=completed_at, pending_question=None, usage=usage, **changes)

    def _moved(self, to: TaskStatus, *, only_from: TaskStatus | None = None, **changes: Any) -> "TaskHandle":
        """`only_from` says where the move starts, when others lead to the same status."""
        legal = TRANSITIONS[self.status]
        if to not in legal:
            raise IllegalTransition(self.task_id, self.status, to, legal)
        if only_from is not None and self.status != only_from:
            raise IllegalTransition(self.task_id, self.status, to, legal, only_from=only_from)
        return replace(self, status=to, **changes)


def _open(questions: tuple[Question, ...]) -> dict[str, Any]:
    waiting = next((each.text for each in questions if each.answer is None), None)
    return {"questions": questions, "pending_question": waiting}


@dataclass(frozen=True, slots=True)
class TaskCharacteristics:
    """What is known of a task before it runs; `decide_execution_mode` judges by it."""

    estimated_complexity: Literal["simple", "moderate", "complex"] = "moderate"
    requires_user_context: bool = False
    """The user has to be at hand all along."""
    is_time_sensitive: bool = False
    can_run_independently: bool = True
    """It needs no further input."""
    may_need_clarification: bool = False


class MessageType(StrEnum):
    """What an `AgentMessage` says."""

    TASK_ASSIGNED = "task_assigned"
    TASK_UPDATE = "task_update"
    TASK_COMPLETED = "task_completed"
    TASK_FAILED = "task_failed"
    QUESTION = "question"
    ANSWER = "answer"
    CANCEL_REQUEST = "cancel_request"
    """Stop at the next turn boundary."""
    CANCEL_FORCED = "cancel_forced"
    """Stop now."""


@dataclass(frozen=True, slots=True)
class AgentMessage:
    """One event between a host and a subagent."""

    type: MessageType
    sender: str
    receiver: str
    payload: Any
    task_id: str
    id: str = field(default_factory=lambda: uuid4().hex)
    timestamp: datetime = field(default_factory=utc_now)
    correlation_id: str | None = None
    """The `id` of the message this one replies to."""
