"""How a tool server is reached: over the pipes of a process of ours, or over HTTP."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TextIO

from fastmcp.client.transports import ClientTransport, SSETransport, StdioTransport, StreamableHttpTransport
from pydantic_ai.mcp import MCPToolset

from mcp_subagents.equipment.definitions import Expanded, ToolServerDefinition
from mcp_subagents.equipment.last_words import LastWords

_PATIENCE = 60.0
"""Seconds until a server must have answered for the first time; `npx` may have to download it."""


@asynccontextmanager
async def connected(expanded: Expanded, words: LastWords) -> AsyncGenerator[MCPToolset[Any]]:
    """The server, started if we start it, for as long as the block lasts. What we started is gone after it."""
    definition = expanded.definition
    async with AsyncExitStack() as stack:
        sink = stack.enter_context(words.listening()) if definition.kind == "stdio" else None
        toolset = MCPToolset[Any](
            _transport(definition, sink),
            id=definition.name,
            tool_error_behavior="failed",
            init_timeout=_PATIENCE,
            read_timeout=definition.timeout,
        )
        await stack.enter_async_context(toolset)
        if sink is not None:
            sink.close()  # the process has its own copy, whose end tells of its death
        yield toolset


def _transport(definition: ToolServerDefinition, stderr: TextIO | None) -> ClientTransport:
    if definition.kind == "sse":
        return SSETransport(definition.url, headers=dict(definition.headers))
    if definition.kind == "http":
        return StreamableHttpTransport(definition.url, headers=dict(definition.headers))
    return StdioTransport(
        definition.command,
        list(definition.args),
        # The SDK adds PATH, HOME and the like, and nothing else of ours: no provider's key.
        env=dict(definition.env),
        cwd=definition.cwd,
        keep_alive=False,
        log_file=stderr,
    )
