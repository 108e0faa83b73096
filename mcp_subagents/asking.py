"""The tool with which a subagent asks its parent."""

from collections.abc import Sequence
from typing import Any

from pydantic_ai import CallDeferred, FunctionToolset, RunContext, Tool, ToolFailed
from pydantic_ai.messages import ModelMessage, ToolCallPart

from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.journal import journal_at_work


async def ask_parent(ctx: RunContext[Any], question: str) -> str:
    """Ask your parent, and wait for the answer. For what you cannot decide for yourself."""
    journal = journal_at_work()
    if journal is None or not journal.may_ask(ctx.tool_call_id):
        raise ToolFailed("You have asked all the questions you may ask. Decide for yourself.")
    raise CallDeferred(metadata={"question": question})


# Made once: to infer the schema of a tool takes about as long as to run a small task.
ASK_PARENT = Tool[Any](ask_parent, metadata={"asks_parent": True})
ASKING = FunctionToolset[Any]([ASK_PARENT])
"""For agents that others have built."""


def questions_before(history: Sequence[ModelMessage], call_id: str | None) -> int:
    """How many questions a task has asked before the call of this id."""
    calls = (part for message in history for part in message.parts if isinstance(part, ToolCallPart))
    asked = [call.tool_call_id for call in calls if call.tool_name == ASK_PARENT.name]
    return asked.index(call_id) if call_id in asked else len(asked)


def may_ever_ask(config: SubAgentConfig) -> bool:
    """Whether the subagent is given the tool at all."""
    return config.get("can_ask_questions", True) and config.get("max_questions", 1) > 0
