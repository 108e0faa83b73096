"""What a surface hands to an engine, and what it gets back: values only, so that they cost nothing to import."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.prompts import DEFAULT_GENERAL_PURPOSE_DESCRIPTION
from mcp_subagents.types import TaskHandle, TaskPriority, TaskStatus, TaskUsage

ACTIVE = frozenset(status for status in TaskStatus if not status.is_terminal)
"""The states of a task that has not ended."""
ENDED = frozenset(TaskStatus) - ACTIVE


DELEGATION_TOOLS = frozenset(
    {
        *("task", "check_task", "wait_tasks", "answer_subagent", "send_message_to_subagent"),
        *("list_active_tasks", "soft_cancel_task", "hard_cancel_task"),
    }
)
"""The tools by which hosts delegate, and subagents that may."""


GENERAL_PURPOSE = SubAgentConfig(
    name="general-purpose", description=DEFAULT_GENERAL_PURPOSE_DESCRIPTION, instructions=""
)
"""The subagent there is when nobody has defined one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """What a host wants done."""

    description: str
    subagent: str
    mode: Literal["sync", "async"] = "async"
    priority: TaskPriority = TaskPriority.NORMAL
    parent_id: str | None = None
    idempotency_key: str = ""
    continues: str = ""
    """The ended task whose history it goes on from."""

    @property
    def wish(self) -> tuple[str, str, str]:
        """What it is about, as in `TaskRecord.wish`."""
        return self.subagent, self.description, self.continues

    def __post_init__(self) -> None:
        for name in ("description", "subagent", "idempotency_key", "continues"):
            require_text(name, getattr(self, name))
        if not self.description.strip():
            raise ValueError("description is empty: say what the subagent is to do")
        if self.mode not in ("sync", "async"):
            raise ValueError(f"mode must be 'sync' or 'async', not {self.mode!r}")
        object.__setattr__(self, "priority", TaskPriority(self.priority))


@dataclass(frozen=True, kw_only=True, slots=True)
class Waited:
    """Where the tasks stand that somebody waited for."""

    tasks: Sequence[TaskHandle]
    timed_out: bool
    """Time ran out before what was waited for came about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How a task stands, with what its handle alone does not say."""

    handle: TaskHandle
    doing: str
    """What it is doing just now, in a few words."""
    queue_position: int | None = None
    """Its place in the queue, from 1, while it waits for its turn."""
    usage: TaskUsage = field(default_factory=TaskUsage)
    """What it has used, together with all tasks below it."""


class Delegates(Protocol):
    """Who takes tasks on, as far as a subagent that delegates is concerned. See `Engine` for what is promised."""

    async def submit(self, wanted: Submission, *, owner: str) -> TaskHandle: ...

    async def find(self, idempotency_key: str, *, owner: str) -> TaskHandle | None: ...

    async def child(self, task_id: str, *, of: str, owner: str) -> Standing: ...

    async def wait(self, task_ids: Sequence[str], *, timeout: float | None, owner: str) -> Waited: ...

    async def children(self, task_id: str, *, owner: str) -> Sequence[Standing]: ...

    async def answer(self, task_id: str, text: str, *, question_id: str, owner: str) -> TaskHandle: ...

    async def send(self, task_id: str, text: str, *, owner: str) -> TaskHandle: ...

    async def soft_cancel(self, task_id: str, *, owner: str) -> TaskHandle: ...

    async def hard_cancel(self, task_id: str, *, owner: str) -> TaskHandle: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class News:
    """Tasks that nobody has looked at since something happened to them."""

    count: int
    first: Sequence[str]
    """The ids of the oldest few."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unread:
    """What an owner has not seen yet."""

    ended: News
    asking: News


def require_text(name: str, value: object) -> None:
    """Raises: `TypeError` unless `value` is text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, not {type(value).__name__}")
