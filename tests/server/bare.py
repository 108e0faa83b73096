"""A small server as a process of its own, for tests of the transports."""

import argparse
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context, MCPServer

from mcp_subagents.server.network import serve_network
from mcp_subagents.server.stdio import LONGEST_LINE, serve_stdio
from mcp_subagents.stopping import leave, until_stopped


def note(what: str) -> None:
    os.write(2, f"{what}\n".encode())


@asynccontextmanager
async def lifespan(_: MCPServer[str]) -> AsyncGenerator[str]:
    note("opened")
    try:
        yield "open"
    finally:
        note("closed")


server = MCPServer("bare", version="1", lifespan=lifespan, log_level="WARNING")


@server.tool()
async def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
async def wait(ctx: Context[str]) -> None:
    """Wait for ever, and note how that ended."""
    note("waiting")
    await ctx.report_progress(1)
    try:
        await anyio.sleep_forever()
    except BaseException as end:
        note(type(end).__name__)
        raise


@server.tool()
async def babble() -> str:
    """Print to standard output, and let a child print and read there too."""
    sys.stdout.write("stray\n")
    os.write(1, b"stray descriptor\n")
    child = "import sys; print('stray child, read', repr(sys.stdin.read()))"
    await anyio.to_thread.run_sync(lambda: subprocess.run([sys.executable, "-c", child], check=True))
    return "babbled"


@server.tool()
async def state(ctx: Context[str]) -> str:
    """What the lifespan has opened."""
    return ctx.request_context.lifespan_context


@server.tool()
async def loaded() -> list[str]:
    """Which heavy libraries this process has imported."""
    return sorted({"pydantic_ai", "logfire"} & sys.modules.keys())


def left_behind() -> list[threading.Thread]:
    """The threads that do not end by themselves."""
    others = [each for each in threading.enumerate() if each is not threading.current_thread()]
    for each in others:
        each.join(2)
    return [each for each in others if each.is_alive()]


async def main(options: argparse.Namespace) -> None:
    async with until_stopped():
        if options.transport == "stdio":
            await serve_stdio(server, longest_line=options.longest_line)
        else:
            await serve_network(server, host="127.0.0.1", port=options.port, sse=options.transport == "sse")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("transport", choices=["stdio", "http", "sse"])
    parser.add_argument("--longest-line", type=int, default=LONGEST_LINE)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--farewell", action="store_true")
    given = parser.parse_args()
    anyio.run(main, given)
    if given.farewell and not left_behind():
        sys.stdout.write("farewell\n")
    leave(0)
