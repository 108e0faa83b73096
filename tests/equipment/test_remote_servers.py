"""MCP servers that run elsewhere, reached over HTTP."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
import uvicorn
from bench import at_work, ended, returned, worker
from mcp.server.mcpserver import Context, MCPServer
from pydantic_ai.messages import ToolCallPart

from mcp_subagents.testing import ScriptedModel


def lookout() -> MCPServer[Any]:
    server = MCPServer[Any]("lookout", log_level="CRITICAL")

    @server.tool()
    def seen(ctx: Context[Any, Any]) -> str:  # pyright: ignore[reportUnusedFunction]  # the server calls it
        """The key it was shown."""
        assert ctx.headers is not None
        return str(ctx.headers["x-key"])

    return server


@dataclass
class Served:
    """A web server at work."""

    url: str
    web: uvicorn.Server
    gone: anyio.Event

    async def stop(self) -> None:
        self.web.should_exit = True
        await self.gone.wait()


@asynccontextmanager
async def served(kind: str) -> AsyncGenerator[Served]:
    """The lookout on a port of this machine, until the block ends or it is stopped."""
    server = lookout()
    app = server.sse_app() if kind == "sse" else server.streamable_http_app()
    listening = socket.create_server(("127.0.0.1", 0))
    web = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on", timeout_graceful_shutdown=1))
    gone = anyio.Event()

    async def serve() -> None:
        await web.serve([listening])
        listening.close()
        gone.set()

    async with anyio.create_task_group() as group:
        group.start_soon(serve)
        port = listening.getsockname()[1]
        remote = Served(f"http://127.0.0.1:{port}/{'sse' if kind == 'sse' else 'mcp'}", web, gone)
        yield remote
        await remote.stop()


@pytest.mark.parametrize("kind", ["http", "sse"], ids=["Streamable HTTP", "SSE"])
async def test_a_server_elsewhere_is_reached_with_its_headers(kind: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOOKOUT_KEY", "open-sesame")
    model = ScriptedModel(ToolCallPart("lookout__seen", {}), "done")
    async with served(kind) as lookout:
        remote = {"url": lookout.url, "headers": {"X-Key": "${LOOKOUT_KEY}"}}
        async with at_work(worker(model=model, mcp_servers={"lookout": remote})) as engine:
            task = await ended(engine)
    assert (task.result, returned(model)) == ("done", ["open-sesame"])


async def test_a_server_that_is_gone_between_two_calls_is_told_to_the_model():
    model = ScriptedModel(ToolCallPart("lookout__seen", {}), "one", *[ToolCallPart("lookout__seen", {})] * 2, "two")
    async with served("http") as lookout:
        remote = {"url": lookout.url, "headers": {"X-Key": "k"}}
        async with at_work(worker(model=model, mcp_servers={"lookout": remote})) as engine:
            await ended(engine)
            await lookout.stop()
            task = await ended(engine)
    assert task.result == "two"
    lost, unreached = returned(model)
    assert lost.startswith("The connection to the tool server 'lookout' was lost during this call: it may or may not")
    assert "The tool server 'lookout' cannot be reached" in unreached
    assert unreached.endswith("The call was not made.")


async def test_a_server_that_cannot_be_reached_fails_the_task_with_its_address():
    nobody = {"url": "http://127.0.0.1:9/mcp"}
    async with at_work(worker("never", mcp_servers={"lookout": nobody})) as engine:
        task = await ended(engine)
    assert task.failure is not None
    assert "'lookout' cannot be reached (http://127.0.0.1:9/mcp)" in task.failure.message
