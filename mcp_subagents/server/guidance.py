"""What a host's model is told about delegating: the server's instructions, and a prompt to paste."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import Field

from mcp_subagents.addresses import AGENTS
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.errors import UnknownSubagent
from mcp_subagents.prompts import DUAL_MODE_SYSTEM_PROMPT, get_subagent_system_prompt
from mcp_subagents.shortening import clipped

LARGEST = 2_000
"""Bytes of guidance: some hosts cut it there."""


NO_MODEL = (
    "No model is configured: tasks fail until MCP_SUBAGENTS_MODEL, or the key of a model provider, is set where this "
    "server is started.\n\n"
)


def get_server_instructions(
    subagents: Sequence[SubAgentConfig], room: int = LARGEST, *, lack_model: bool = False
) -> str:
    """The roster and how to use it, as much of it as there is room for, and whether they `lack` a `model`."""
    warning = NO_MODEL if lack_model else ""
    return warning + _roster(subagents, room - len(warning))


def _roster(subagents: Sequence[SubAgentConfig], room: int) -> str:
    for longest in (1_000, 200, 80, 40):
        told = get_subagent_system_prompt([_with_purpose(config, longest) for config in subagents])
        if len(told.encode()) < room:
            return told
    named = ", ".join(f"`{config.get('name', '')}`" for config in subagents)
    told = _without_purposes(f"its `subagent_type` is one of {named}. {AGENTS} says what each is good for.")
    return told if len(told.encode()) < room else _without_purposes(f"{AGENTS} lists its {len(subagents)} subagents.")


def _with_purpose(config: SubAgentConfig, longest: int) -> SubAgentConfig:
    return cast("SubAgentConfig", {**config, "description": clipped(config.get("description", ""), longest)})


def _without_purposes(who: str) -> str:
    return f"## Subagents\n\nDelegate work with the `task` tool; {who}\n\n{DUAL_MODE_SYSTEM_PROMPT.rstrip()}"


def add_prompts(server: MCPServer[Any], subagents: Mapping[str, SubAgentConfig]) -> None:
    """Let `server` offer a prompt that has work delegated."""

    @server.prompt(
        name="delegate",
        title="Delegate a goal",
        description="Split a goal into tasks for subagents, delegate them, and put the results together.",
    )
    def delegate(
        goal: Annotated[str, Field(description="What is to be reached.")],
        subagent_type: Annotated[str, Field(description="The subagent that does it; without it, any.")] = "",
    ) -> str:
        if subagent_type and subagent_type not in subagents:
            raise MCPError(code=INVALID_PARAMS, message=str(UnknownSubagent(subagent_type, subagents)))
        chosen = [subagents[subagent_type]] if subagent_type else list(subagents.values())
        guidance = get_server_instructions(chosen, LARGEST - len(_HOW.encode()) - len(_GOAL))
        return f"{_HOW}{guidance}{_GOAL}{goal}"


_HOW = """\
Reach the goal below with the help of subagents. Split it into pieces that can be described once and worked on \
independently; delegate them with `task`, several at a time with mode "async", and collect them with `wait_tasks`. \
Answer what they ask. Check what comes back before you rely on it, then put it together yourself.

"""
_GOAL = "\n\n## The goal\n\n"
