"""How a tool server is reached: over the pipes of a process of ours, or over HTTP."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TextIO

from fastmcp.client.transports import ClientTransport, SSETransport, StdioTransport, StreamableHttpTransport
from pydantic_ai.mcp import MCPToolset

from mcp_subagents.equipment.definitions import Expanded, ToolServerDefinition
from mcp_subagents.equipment.last_words import LastWords
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
        sink = stack.enter_context(words.listening()) if definition.kind == "stdio" else None
        toolset = MCPToolset[Any](
            _transport(definition) if sink is None else _process(definition, sink, words, lost),
            id=definition.name,
            tool_error_behavior="failed",
            init_timeout=_NEVER,
            read_timeout=definition.timeout,
        )
        await stack.enter_async_context(toolset)
        if sink is not None:
            sink.close()  # the process has its own copy, whose end tells of its death
        yield toolset


def _transport(definition: ToolServerDefinition) -> ClientTransport:
    if definition.kind == "sse":
        return SSETransport(definition.url, headers=dict(definition.headers))
    return StreamableHttpTransport(definition.url, headers=dict(definition.headers))


def _process(
    definition: ToolServerDefinition, stderr: TextIO, words: LastWords, lost: Callable[[str], None]
) -> ClientTransport:
    if sys.platform != "win32":
        return ProcessTransport(definition, stderr, words, lost)
    # There the SDK's own puts the process into a job, which ends with us.
    return StdioTransport(
        definition.command,
        list(definition.args),
        # The SDK adds PATH, HOME and the like, and nothing else of ours: no provider's key.
        env=dict(definition.env),
        cwd=definition.cwd,
        keep_alive=False,
        log_file=stderr,
    )
