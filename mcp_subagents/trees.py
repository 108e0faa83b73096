"""What a task knows of the tasks below it: values, and their JSON."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from mcp_subagents.types import TaskUsage


@dataclass(frozen=True, kw_only=True, slots=True)
class Child:
    """A task that was delegated from here and has not ended."""

    task_id: str
    asks: bool = False
    """It waits for an answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Awaited:
    """What one tool call waits for."""

    task_ids: tuple[str, ...]
    mode: Literal["all", "any"] = "all"
    call_id: str = ""
    """The call, among those of its turn."""

    def is_enough(self, still_open: Iterable[str]) -> bool:
        """Whether it has come about, if these tasks are still open."""
        left = set(self.task_ids) & set(still_open)
        return not left or (self.mode == "any" and len(left) < len(set(self.task_ids)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """The tasks below a task, as far as it has to know of them."""

    children: tuple[Child, ...] = ()
    awaited: tuple[Awaited, ...] = ()
    """What the task is parked for, one for each tool call of its last turn that waits."""
    descendants: int = 0
    """How many tasks have ever been delegated below it, on all levels."""
    used: TaskUsage = field(default_factory=TaskUsage)
    """What its ended children have used, with all below them."""
    seconds: float = 0.0
    """How long they have been running."""
    strays: tuple[str, ...] = ()
    """Tasks further down that outlived their own parent, and still have to be counted."""
    reminded: bool = False
    """It was told that children of its are still open, when it wanted to end."""

    @property
    def asks(self) -> bool:
        """Whether one that is waited for has a question."""
        wanted = {task_id for each in self.awaited for task_id in each.task_ids}
        return any(child.asks and child.task_id in wanted for child in self.children)

    @property
    def is_enough(self) -> bool:
        """Whether there is a reason to go on: all that was waited for has come about, or somebody asks."""
        still_open = [child.task_id for child in self.children]
        return self.asks or all(each.is_enough(still_open) for each in self.awaited)


def dump_usage(value: TaskUsage) -> list[Any]:
    cost = None if value.cost_usd is None else str(value.cost_usd)
    partial = [True] if value.is_cost_partial else []
    return [value.requests, value.tool_calls, value.input_tokens, value.output_tokens, cost, *partial]


def load_usage(value: Any) -> TaskUsage | None:
    if value is None:
        return None
    requests, tool_calls, input_tokens, output_tokens, cost, *partial = value
    return TaskUsage(
        requests=requests,
        tool_calls=tool_calls,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_usd=None if cost is None else Decimal(cost),
        is_cost_partial=bool(partial),
    )


def _awaited(task_ids: list[str], mode: Literal["all", "any"], call_id: str = "") -> Awaited:
    return Awaited(task_ids=tuple(task_ids), mode=mode, call_id=call_id)


def dump_tree(tree: Tree) -> dict[str, Any]:
    return {
        "children": [[child.task_id, child.asks] for child in tree.children],
        "awaited": [[list(each.task_ids), each.mode, each.call_id] for each in tree.awaited],
        "descendants": tree.descendants,
        "used": dump_usage(tree.used),
        "seconds": tree.seconds,
        "strays": list(tree.strays),
        "reminded": tree.reminded,
    }


def load_tree(value: dict[str, Any] | None) -> Tree | None:
    if value is None:
        return None
    return Tree(
        children=tuple(Child(task_id=task_id, asks=asks) for task_id, asks in value["children"]),
        awaited=tuple(_awaited(*each) for each in value["awaited"]),
        descendants=value["descendants"],
        used=load_usage(value["used"]) or TaskUsage(),
        seconds=value["seconds"],
        strays=tuple(value["strays"]),
        reminded=value["reminded"],
    )
