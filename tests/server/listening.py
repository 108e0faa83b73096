"""A server on the network as a process of its own, for tests of those who call it."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from subprocess import DEVNULL
from typing import Any

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

_SAID = b"mcp-subagents: listening on "


@asynccontextmanager
async def listening(*arguments: str, **options: Any) -> AsyncGenerator[list[str]]:
    """The addresses at which Python, run with `arguments`, serves for as long as the block lasts."""
    async with await anyio.open_process([sys.executable, *arguments], stdout=DEVNULL, **options) as process:
        assert process.stderr
        notes = BufferedByteReceiveStream(process.stderr)
        try:
            addresses = await _addresses(notes)
            async with anyio.create_task_group() as group:
                group.start_soon(_read_on, notes)
                yield addresses
                group.cancel_scope.cancel()
        finally:
            process.kill()


async def _addresses(notes: BufferedByteReceiveStream) -> list[str]:
    said: list[bytes] = []
    with anyio.fail_after(20):
        while not said or not said[-1].startswith(_SAID):
            try:
                said.append(await notes.receive_until(b"\n", 65536))
            except anyio.IncompleteRead:
                raise AssertionError(f"the server ended at its start: {b''.join(said).decode()}") from None
    return said[-1].removeprefix(_SAID).decode().split(" and ")


async def _read_on(notes: BufferedByteReceiveStream) -> None:
    """So that the server never waits for somebody to read what it notes."""
    with suppress(anyio.EndOfStream):
        while True:
            await notes.receive()
