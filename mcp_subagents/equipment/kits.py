"""From a subagent's definition to what its agent is built with."""

import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio.to_thread
from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.toolsets import AbstractToolset

from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.equipment.capabilities import capabilities_of
from mcp_subagents.equipment.context_files import context_of
from mcp_subagents.equipment.definitions import closed, definitions_of
from mcp_subagents.equipment.python_tools import python_tools_of
from mcp_subagents.equipment.served_tools import ServedTools, User
from mcp_subagents.equipment.soundness import require_workspace, workspace_of
from mcp_subagents.equipment.tool_lists import ToolLists
from mcp_subagents.equipment.tool_servers import ToolServers
from mcp_subagents.equipment.workspaces import file_tools, told_of


@dataclass(frozen=True, slots=True)
class Kit:
    """What an agent is built with, besides its model and its own instructions."""

    toolsets: Sequence[AbstractToolset[Any]] = ()
    capabilities: Sequence[AbstractCapability[Any]] = ()
    instructions: Sequence[str] = ()


@dataclass
class ContextFiles(AbstractCapability[Any]):
    """Puts files into the instructions, as they are when a run begins."""

    paths: Sequence[str]
    text: str = ""

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        return replace(self, text=await anyio.to_thread.run_sync(context_of, self.paths))

    def get_instructions(self) -> str | None:
        return self.text or None


class Equipment:
    """What the subagents of a process can be given."""

    def __init__(
        self,
        *,
        mcp_servers: Mapping[str, Mapping[str, Any]] | None = None,
        allow_python_tools: bool = False,
        base: Path | None = None,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self._shared = dict(mcp_servers or {})
        self._allow_python_tools = allow_python_tools
        self._base = base or Path.cwd()
        self._servers = ToolServers(env)

    @asynccontextmanager
    async def open(self, beside: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[None]:
        """Let tool servers run for as long as the block lasts; when it has ended, none is left."""
        async with self._servers.open(beside):
            yield

    def closed(self, config: SubAgentConfig) -> SubAgentConfig:
        """The same subagent, which means the same in every process. Raises: `ConfigError`."""
        return closed(config, self._shared, self._base)

    def kit(self, config: SubAgentConfig) -> Kit:
        """What the definition asks for. It starts nothing. Raises: `ConfigError`."""
        servers = definitions_of(config, self._shared, self._base)
        user = User(config.get("name", ""), frozenset(each.key for each in servers))
        toolsets: list[AbstractToolset[Any]] = [ServedTools(each, self._servers, user) for each in servers]
        toolsets += python_tools_of(config, allowed=self._allow_python_tools)
        capabilities = list(capabilities_of(config))
        instructions: list[str] = []
        require_workspace(config)
        if (workspace := workspace_of(config)) is not None:
            folder, read_only = workspace
            toolsets.append(file_tools(folder, read_only=read_only))
            instructions.append(told_of(folder, read_only=read_only))
        if paths := config.get("context_files"):
            capabilities.append(ContextFiles(paths))
        tools, disallowed = config.get("tools"), config.get("disallowed_tools") or []
        if tools is not None or disallowed:
            capabilities.append(ToolLists(config.get("name", ""), tools, disallowed))
        return Kit(toolsets, capabilities, instructions)
