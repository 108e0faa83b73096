"""The tool with which a subagent asks its parent."""

from typing import Any

from pydantic_ai import CallDeferred, FunctionToolset, RunContext, Tool, ToolFailed

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


def may_ever_ask(config: SubAgentConfig) -> bool:
    """Whether the subagent is given the tool at all."""
    return config.get("can_ask_questions", True) and config.get("max_questions", 1) > 0
