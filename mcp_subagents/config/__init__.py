"""Definitions of subagents: what people write down, and the frozen values made of it."""

from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.config.subagent import AskUserCallback, SubAgentConfig, ToolsetFactory, UsageLimitsFactory

__all__ = ["AskUserCallback", "SubAgentConfig", "SubAgentSpec", "ToolsetFactory", "UsageLimitsFactory"]
