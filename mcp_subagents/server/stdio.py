"""MCP over standard input and output, for clients of both protocol eras on one pipe."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.runner import serve_dual_era_loop, serve_loop
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    PROTOCOL_VERSION_META_KEY,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from mcp_subagents.server.framing import Lines, Refused, parse, refuse
from mcp_subagents.server.pipe import Pipe, standard_pipe

LONGEST_LINE = 16 * 2**20
MOST_OPEN = 2000
"""Requests that may be open at a time; each holds some memory until its answer is written."""
PATIENCE = 1.0
"""Seconds for which a request waits for room, while nothing else is read."""
LAST_ANSWERS = 0.5
"""Seconds for which requests that are open at the end of the input may still be answered."""
LAST_WORDS = 1.5
"""Seconds for a host that has gone silent to read what is left."""


async def serve_stdio(
    server: MCPServer[Any], *, longest_line: int = LONGEST_LINE, at_end: Callable[[], None] = lambda: None
) -> None:
    """Serve `server` on standard input and output until the input ends or the output is closed; then call `at_end`.

    The SDK serves a pipe in the era of its first request only. Some clients try the modern one first and then
    the handshake on the same pipe, so both are served here, side by side, with one lifespan.

    Raises:
        ConfigError: there is no standard input or output.
    """
    low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]  # as the SDK's own servers do; no public door
    with standard_pipe() as pipe:
        async with low.lifespan(low) as state:
            await _Conversation(pipe, longest_line).hold(low, state)
            at_end()


class OpenRequests:
    """The requests that wait for an answer, bounded in number and in size."""

    def __init__(self, most_bytes: int, most: int = MOST_OPEN) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._sizes: dict[RequestId, list[int]] = {}
        self._count = self._bytes = 0
        self._fewer = anyio.Event()

    def add(self, request_id: RequestId, size: int) -> None:
        """A request was taken. Nothing keeps a client from using an id twice, so each use counts."""
        self._sizes.setdefault(coerce_request_id(request_id), []).append(size)
        self._count += 1
        self._bytes += size

    def remove(self, request_id: RequestId) -> None:
        """A request was answered, or cancelled, after which it is not answered."""
        key = coerce_request_id(request_id)
        if key not in self._sizes:
            return
        self._bytes -= self._sizes[key].pop()
        self._count -= 1
        if not self._sizes[key]:
            del self._sizes[key]
        self._fewer.set()
        self._fewer = anyio.Event()

    async def has_room(self) -> bool:
        """Whether one more can be taken, now or soon."""
        with anyio.move_on_after(PATIENCE):
            while self._full():
                await self._fewer.wait()
        return not self._full()

    async def all_ended(self) -> None:
        """Wait until none is left."""
        while self._count:
            await self._fewer.wait()

    def _full(self) -> bool:
        return self._count >= self._most or self._bytes >= self._most_bytes


class _Conversation:
    """One pipe, its two eras, and what is under way between them."""

    def __init__(self, pipe: Pipe, longest_line: int) -> None:
        self._pipe = pipe
        self._lines = Lines(longest_line)
        self._open = OpenRequests(most_bytes=4 * longest_line)

    async def hold(self, low: Server[Any], state: object) -> None:
        """Serve until the input ends; then give what is under way a moment, and end it."""
        # Nothing is buffered: a host that does not read its answers is not read from either.
        answers, unwritten = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as group:
            group.start_soon(self._write, unwritten, group.cancel_scope, name="stdout")
            async with answers, _eras(low, state, answers) as (modern, handshake):
                async for line in self._read():
                    await self._take(line, modern, handshake, answers)
                with anyio.move_on_after(LAST_ANSWERS):
                    await self._open.all_ended()
            group.cancel_scope.deadline = anyio.current_time() + LAST_WORDS

    async def _read(self) -> AsyncGenerator[bytes | Refused]:
        while chunk := await self._pipe.read():
            for line in self._lines.feed(chunk):
                yield line
        for line in self._lines.finish():
            yield line

    async def _write(self, unwritten: MemoryObjectReceiveStream[SessionMessage], whole: anyio.CancelScope) -> None:
        async with unwritten:
            async for item in unwritten:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await self._pipe.write(text.encode() + b"\n")
                except OSError:
                    # The host has closed its end: there is nobody left to serve.
                    whole.cancel()
                    return
                if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
                    self._open.remove(item.message.id)

    async def _take(
        self,
        line: bytes | Refused,
        modern: MemoryObjectSendStream[SessionMessage | Exception],
        handshake: MemoryObjectSendStream[SessionMessage | Exception],
        answers: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        message = await self._admit(line)
        if isinstance(message, Refused):
            await answers.send(SessionMessage(message.answer))
            return
        item = SessionMessage(message)
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            cancelled = cancelled_request_id_from_params(message.params)
            await modern.send(item)
            await handshake.send(item)
            if cancelled is not None:
                self._open.remove(cancelled)
        elif _is_modern(message):
            await modern.send(item)
        else:
            await handshake.send(item)

    async def _admit(self, line: bytes | Refused) -> JSONRPCMessage | Refused:
        message = line if isinstance(line, Refused) else parse(line)
        if isinstance(message, JSONRPCRequest) and isinstance(line, bytes):
            if not await self._open.has_room():
                return refuse(INTERNAL_ERROR, "Too many requests are open; wait for some to be answered.", message.id)
            self._open.add(message.id, len(line))
        return message


@asynccontextmanager
async def _eras(
    low: Server[Any], state: object, answers: MemoryObjectSendStream[SessionMessage]
) -> AsyncGenerator[
    tuple[MemoryObjectSendStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage | Exception]]
]:
    """Serve both eras for as long as the block lasts: a stream for the modern one, a stream for the handshake."""
    modern, to_modern = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    handshake, to_handshake = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def serve_modern() -> None:
        await serve_dual_era_loop(low, to_modern, answers.clone(), lifespan_state=state)

    async def serve_handshake() -> None:
        await serve_loop(low, to_handshake, answers.clone(), lifespan_state=state)

    async with anyio.create_task_group() as group:
        group.start_soon(serve_modern, name="modern era")
        group.start_soon(serve_handshake, name="handshake era")
        async with modern, handshake:
            yield modern, handshake


def _is_modern(message: JSONRPCMessage) -> bool:
    """Whether it is a request in the envelope of 2026; `initialize` belongs to the handshake whatever it is in."""
    if not isinstance(message, JSONRPCRequest) or message.method == "initialize":
        return False
    meta: object = (message.params or {}).get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta
