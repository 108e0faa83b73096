"""The capability that an agent of ours is built with: one that does what would else take three.

For each capability of an agent pydantic-ai copies the context of the run, some fifty times in a small task; and it
gives every agent two of its own, unless it finds them among those that the agent has.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, Instrumentation, ToolSearch
from pydantic_ai.models import ModelRequestContext

from mcp_subagents.journal import JournalledTools

try:
    from pydantic_ai.capabilities._pending_messages import (
        PendingMessageDrainCapability,  # pyright: ignore[reportAssignmentType]  # the class below only stands in for it
    )
except ImportError:  # it is not public, and may move: pydantic-ai then adds it beside ours

    class PendingMessageDrainCapability(AbstractCapability[Any]):
        """Does nothing."""


WHERE_ORDER_MATTERS = ("wrap_tool_execute", "on_tool_execute_error", "handle_deferred_tool_calls")
"""The hooks of the journal. With another capability's there is an inside and an outside, a first and a last."""
MAY_BECOME_ANOTHER = ("for_agent", "for_run")
"""The hooks in which a capability puts another one in its place."""


class AllInOne(JournalledTools, ToolSearch[Any], PendingMessageDrainCapability):
    """Journals tool calls, lets a model search for tools, and delivers what tools have enqueued."""

    def get_ordering(self) -> CapabilityOrdering:
        # Inside of what traces a run, like the journal alone: a call that is replayed has a span too.
        return CapabilityOrdering(position="outermost", wrapped_by=[Instrumentation])

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        searched = await ToolSearch.before_model_request(self, ctx, request_context)
        return await PendingMessageDrainCapability.before_model_request(self, ctx, searched)

    def _realtime_uncalled_hooks(self) -> tuple[str, ...]:
        return ()  # as the parts of pydantic-ai say of theirs; and no subagent of ours is ever spoken to


def shadows_nothing(merged: type[AbstractCapability[Any]]) -> bool:
    """Whether `merged` defines every method that two of its bases define: Python calls the first and skips the other.

    A later pydantic-ai may add such a method. Then the journal stands alone, and pydantic-ai adds its own two.
    """
    parts = merged.__mro__[1 : merged.__mro__.index(AbstractCapability)]
    done = Counter(name for part in parts for name in vars(part))
    return all(times == 1 or name in vars(merged) for name, times in done.items())


_SHADOWS_NOTHING = shadows_nothing(AllInOne)


def capability_beside(others: Sequence[object]) -> JournalledTools:
    """What an agent of ours needs beside these capabilities: all in one where that makes no difference to them."""
    return AllInOne() if _SHADOWS_NOTHING and all(map(_is_indifferent, others)) else JournalledTools()


def _is_indifferent(other: object) -> bool:
    """Whether our capability may stand before this one instead of after it, and search for tools in its place."""
    if not isinstance(other, AbstractCapability):
        return False  # a function that makes one for each run
    leaves: list[AbstractCapability[Any]] = []
    cast("AbstractCapability[Any]", other).apply(leaves.append)
    return not any(
        isinstance(leaf, (ToolSearch, PendingMessageDrainCapability))
        or any(
            getattr(type(leaf), hook) is not getattr(AbstractCapability, hook)
            for hook in (*WHERE_ORDER_MATTERS, *MAY_BECOME_ANOTHER)
        )
        for leaf in leaves
    )
