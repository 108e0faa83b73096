"""How a tool server is reached: over the pipes of a process of ours, or over HTTP."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastmcp.client.transports import ClientTransport, SSETransport, StdioTransport, StreamableHttpTransport
from pydantic_ai.mcp import MCPToolset

from mcp_subagents.equipment.definitions import Expanded, ToolServerDefinition
from mcp_subagents.equipment.last_words import LastWords
from mcp_subagents.equipment.process_groups import running
from mcp_subagents.equipment.process_transport import ProcessTransport

_NEVER = 10.0**9
"""Seconds. Whoever connects bounds that himself, once for all that belongs to it."""


@asynccontextmanager
async def connected(
    expanded: Expanded, words: LastWords, lost: Callable[[str], None]
) -> AsyncGenerator[MCPToolset[Any]]:
    """The server, started if we start it, for as long as the block lasts. What we started is gone after it.

    If its process ends before that, `lost` is told how.
    """
    definition = expanded.definition
    async with AsyncExitStack() as stack:
        toolset = MCPToolset[Any](
            await _transport(definition, words, lost, stack),
            id=definition.name,
            tool_error_behavior="failed",
            init_timeout=_NEVER,
            read_timeout=definition.timeout,
        )
        await stack.enter_async_context(toolset)
        yield toolset


async def _transport(
    definition: ToolServerDefinition, words: LastWords, lost: Callable[[str], None], stack: AsyncExitStack
) -> ClientTransport:
    if definition.kind == "sse":
        return SSETransport(definition.url, headers=dict(definition.headers))
    if definition.kind == "http":
        return StreamableHttpTransport(definition.url, headers=dict(definition.headers))
    stderr = stack.enter_context(words.listening())
    command, env = [definition.command, *definition.args], dict(definition.env)
    if sys.platform == "win32":
        # The SDK's own puts the process into a job, which ends with us.
        return StdioTransport(command[0], command[1:], env=env, cwd=definition.cwd, keep_alive=False, log_file=stderr)
    # Here and not in the transport: the client has no more patience than a few seconds when that is to end.
    process = await stack.enter_async_context(running(command, env=env, cwd=definition.cwd, stderr=stderr))
    stderr.close()  # the process has its own copy, whose end tells of its death
    return ProcessTransport(definition.name, process, words, lost)
