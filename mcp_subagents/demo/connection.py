"""A server as a process of its own, and an MCP client on its pipes: what a host has, but for its process id."""

import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import TextContent, jsonrpc_message_adapter

from mcp_subagents.demo.promises import BrokenPromise

_Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
_LONGEST_LINE = 2**24
_PATIENCE = 4.0
"""Seconds for a server to leave by itself when its standard input is closed."""
_GONE = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


@dataclass(frozen=True, slots=True)
class Connection:
    """A server that is running, and the way to it."""

    process: Process
    client: Client

    @property
    def pid(self) -> int:
        return self.process.pid

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What the tool says, in its structured form. Raises: `BrokenPromise`, if that is an error."""
        result = await self.client.call_tool(tool, arguments)
        if result.is_error or result.structured_content is None:
            said = " ".join(each.text for each in result.content if isinstance(each, TextContent))
            raise BrokenPromise(f"{tool} does what it says", said)
        return result.structured_content

    async def kill(self) -> None:
        """SIGKILL: the server has no time for anything. Returns when it is gone."""
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def connected(command: Sequence[str], env: Mapping[str, str], log: Path) -> AsyncGenerator[Connection]:
    """Start a server and greet it. However the block ends, the server has ended, too.

    Raises:
        BrokenPromise: it does not answer; maybe in an exception group.
    """
    with log.open("ab") as noted:
        process = await anyio.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=noted,
            env=env,
            start_new_session=True,  # so that Ctrl-C is for us, and we end it in order
        )
        try:
            async with Client(_pipes(process)) as client:
                yield Connection(process, client)
        except* MCPError as why:
            raise BrokenPromise("the server answers", f"it did not: {_first(why)}") from why
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)


def _first(group: BaseExceptionGroup[MCPError]) -> MCPError:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


@asynccontextmanager
async def _pipes(process: Process) -> AsyncGenerator[_Streams]:
    """The standard input and output of `process`, as the SDK wants them."""
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    came_in, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, goes_out = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        lines = BufferedByteReceiveStream(stdout)
        with suppress(*_GONE):
            async with came_in:
                while True:
                    line = await lines.receive_until(b"\n", _LONGEST_LINE)
                    await came_in.send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))

    async def write() -> None:
        with suppress(*_GONE):
            async with goes_out:
                async for each in goes_out:
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await stdin.send(text.encode() + b"\n")

    async with came_in, incoming, outgoing, goes_out, anyio.create_task_group() as group:
        group.start_soon(read, name="from the server")
        group.start_soon(write, name="to the server")
        yield incoming, outgoing
        group.cancel_scope.cancel()


async def _end(process: Process) -> None:
    with suppress(*_GONE), anyio.move_on_after(_PATIENCE):
        if process.stdin is not None:
            await process.stdin.aclose()
        await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()
