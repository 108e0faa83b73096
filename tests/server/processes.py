"""Real servers for tests: started, spoken to line by line, and gone afterwards."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

BARE = str(Path(__file__).with_name("bare.py"))

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(number: int, method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def call(number: int, tool: str, /, *, modern: bool = False, **arguments: object) -> dict[str, Any]:
    meta = {"_meta": ENVELOPE} if modern else {}
    return request(number, "tools/call", name=tool, arguments=arguments, **meta)


def cancelled(number: int | str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}


INITIALIZE = request(
    0,
    "initialize",
    protocolVersion="2025-11-25",
    capabilities={},
    clientInfo={"name": "test", "version": "1"},
)
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Talk:
    """What a host and a server say to each other over pipes."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin
        assert process.stderr
        self.process = process
        self._stdin = process.stdin
        self._stdout = BufferedByteReceiveStream(process.stdout or process.stderr)
        self._stderr = BufferedByteReceiveStream(process.stderr)

    async def say(self, *messages: dict[str, Any] | bytes) -> None:
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
            await self._stdin.send(line)

    async def hear(self) -> dict[str, Any]:
        """The next message; anything on the wire that is none fails the test."""
        return json.loads(await self._stdout.receive_until(b"\n", 2**25))

    async def hang_up(self) -> None:
        await self._stdin.aclose()

    async def rest(self) -> bytes:
        """All that is still on standard output, once it is closed."""
        return await _all(self._stdout)

    async def noted(self) -> str:
        """The next line on standard error."""
        return (await self._stderr.receive_until(b"\n", 65536)).decode().rstrip()

    async def notes(self) -> list[str]:
        """All lines that are still to come on standard error, up to the end of the process."""
        return (await _all(self._stderr)).decode().splitlines()

    async def shake_hands(self) -> None:
        await self.say(INITIALIZE)
        assert (await self.hear())["id"] == 0
        await self.say(INITIALIZED)


async def _all(stream: BufferedByteReceiveStream) -> bytes:
    read = b""
    try:
        while True:
            read += await stream.receive()
    except anyio.EndOfStream:
        return read


@asynccontextmanager
async def started(*arguments: str, **options: Any) -> AsyncGenerator[Talk]:
    """Run Python with `arguments` for as long as the block lasts, which may be 20 seconds."""
    with anyio.fail_after(20):
        process = await anyio.open_process([sys.executable, *arguments], **options)
        async with process:
            try:
                yield Talk(process)
            finally:
                if process.returncode is None:
                    process.kill()
