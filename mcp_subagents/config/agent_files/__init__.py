"""Agents that were written for other apps, as subagents."""

from mcp_subagents.config.agent_files.drafts import Ground
from mcp_subagents.config.agent_files.folders import Asked, Folder, folders, introduce, read_agents, read_path
from mcp_subagents.config.agent_files.reading import AgentFile

__all__ = ["AgentFile", "Asked", "Folder", "Ground", "folders", "introduce", "read_agents", "read_path"]
