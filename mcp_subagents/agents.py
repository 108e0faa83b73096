"""A subagent's definition together with the agent made from it."""

from dataclasses import dataclass

from mcp_subagents.config.subagent import SubAgentConfig


@dataclass(frozen=True, slots=True)
class CompiledSubAgent:
    """A subagent that is ready to run."""

    name: str
    description: str
    config: SubAgentConfig
    agent: object | None = None
    """The pydantic-ai agent; typed loosely, so that holding one does not import pydantic-ai."""
