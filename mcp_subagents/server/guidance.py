"""What a host's model is told about delegating: the server's instructions, and a prompt to paste."""

from collections.abc import Sequence
from typing import Any, cast

from mcp.server.mcpserver import MCPServer

from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.prompts import get_subagent_system_prompt
from mcp_subagents.server.addresses import AGENTS
from mcp_subagents.server.views import clipped

LONGEST = 2_000
"""Characters of instructions; some hosts cut them at 2 KB."""


NO_MODEL = (
    "No model is configured: tasks fail until MCP_SUBAGENTS_MODEL, or the key of a model provider, is set where this "
    "server is started.\n\n"
)


def get_server_instructions(subagents: Sequence[SubAgentConfig], *, lack_model: bool = False) -> str:
    """The roster and how to use it, as much of it as fits, and whether they `lack` a `model` to run on."""
    warning = NO_MODEL if lack_model else ""
    for longest in (None, 200, 80, 0):
        told = warning + get_subagent_system_prompt([_with_purpose(config, longest) for config in subagents])
        if len(told.encode()) < LONGEST:
            return told
    told = warning + get_subagent_system_prompt([])
    return told.replace(_NOBODY, f"Delegate work with the `task` tool; {AGENTS} lists its {len(subagents)} subagents.")


_NOBODY = "There is none to delegate to: do all the work yourself."


def _with_purpose(config: SubAgentConfig, longest: int | None) -> SubAgentConfig:
    purpose = "" if longest == 0 else clipped(config.get("description", ""), longest)
    return cast("SubAgentConfig", {**config, "description": purpose})


def add_prompts(server: MCPServer[Any], subagents: Sequence[SubAgentConfig]) -> None:
    """Let `server` offer a prompt that has work delegated."""

    @server.prompt(
        name="delegate",
        title="Delegate a goal",
        description="Split a goal into tasks for subagents, delegate them, and put the results together.",
    )
    def delegate(goal: str) -> str:
        return f"{_HOW}\n\n{get_server_instructions(subagents)}\n\n## The goal\n\n{goal}"


_HOW = """\
Reach the goal below with the help of subagents. Split it into pieces that can be described once and worked on \
independently; delegate them with `task`, several at a time with mode "async", and collect them with `wait_tasks`. \
Answer what they ask. Check what comes back before you rely on it, then put it together yourself.\
"""
