"""A task as a line of a table: everything in it is fit for a terminal."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from mcp_subagents.delegation import Standing
from mcp_subagents.fleet.durations import age
from mcp_subagents.fleet.finding import SHORT
from mcp_subagents.texts import plain
from mcp_subagents.types import CancelKind, TaskHandle, TaskStatus, TaskUsage

_LEAST_SHOWN = Decimal("0.0001")
_LONGEST_LOOK = 1_000
"""Characters of a text that one line could show."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """What a table says of a task."""

    task_id: str
    """The beginning of its id."""
    status: str
    subagent: str
    turn: str
    age: str
    """Since it was delegated."""
    cost: str
    task: str
    """What it was asked to do."""
    doing: str = ""
    """What is going on, unless its status says it all."""


def row_of(standing: Standing, now: datetime, *, depth: int = 0) -> Row:
    """The line for a task that is so deep below others in the table."""
    task = standing.handle
    branch = f"{'  ' * (depth - 1)}└ " if depth else ""
    return Row(
        task_id=task.task_id[:SHORT],
        status=status_of(task),
        subagent=f"{branch}{one_line(task.subagent_name)}",
        turn=str(task.turns) if task.turns else "-",
        age=age(now - task.created_at),
        cost=cost_of(standing.usage),
        task=one_line(task.description),
        doing=doing_of(standing),
    )


def status_of(task: TaskHandle) -> str:
    """Where it is in its life, in a word. A question has its mark."""
    match task.status:
        case TaskStatus.WAITING_FOR_ANSWER:
            return "asks ?"
        case TaskStatus.RUNNING if task.cancel_requested is CancelKind.SOFT:
            return "stopping"
        case other:
            return other.value


def doing_of(standing: Standing) -> str:
    """What is going on that the status does not say."""
    task = standing.handle
    match task.status:
        case TaskStatus.WAITING_FOR_ANSWER:
            return one_line(f"? {task.pending_question or ''}")
        case TaskStatus.FAILED:
            return one_line(task.error or "")
        case TaskStatus.PENDING if standing.queue_position:
            return f"number {standing.queue_position} in the queue"
        case TaskStatus.COMPLETED | TaskStatus.CANCELLED:
            return ""
        case TaskStatus.RUNNING | TaskStatus.PENDING | TaskStatus.RETRYING:
            return one_line(standing.doing)


def cost_of(usage: TaskUsage) -> str:
    """What it cost; where nobody knows the price, the tokens it took."""
    if usage.cost_usd is not None:
        if 0 < usage.cost_usd < _LEAST_SHOWN:
            return "<$0.0001"
        return f"${usage.cost_usd:.4f}" if usage.cost_usd < 1 else f"${usage.cost_usd:.2f}"
    return f"{_short(usage.total_tokens)} tok" if usage.total_tokens else "-"


def one_line(text: str) -> str:
    """As much of `text` as a line could hold, with single spaces and nothing that a terminal would obey."""
    return " ".join(plain(text[:_LONGEST_LOOK]).split())


def _short(number: int) -> str:
    if number < 1_000:
        return str(number)
    return f"{number / 1_000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"
