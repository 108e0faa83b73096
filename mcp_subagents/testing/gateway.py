"""A model provider on loopback: real sockets, two wire formats, and faults on command."""

import asyncio
import json
import socket
import struct
import sys
import time
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Self

import anyio
from anyio import AsyncContextManagerMixin

from mcp_subagents.testing.delivery import Delivery, deliver, not_found
from mcp_subagents.testing.script import Received, Reply, Script, Status, WireName

if TYPE_CHECKING:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel

_USED_UP = Status(500, {"x-should-retry": "false"}, "script used up: the gateway has no reply left for this request")
_WIRES: dict[str, WireName] = {"/v1/chat/completions": "openai", "/v1/messages": "anthropic"}
# Closing a socket that lingers for no time resets the connection.
_NO_LINGER = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)


class Gateway(AsyncContextManagerMixin):
    """Answers models by a script, for as long as the block lasts.

    The block's end closes every connection, and the clients of the models made here. An error in the script
    ends the block, in an `ExceptionGroup`: a function that raises, a cut outside of what there is to cut.

        async with Gateway([Status(503), Text("42")]) as gateway:
            agent = Agent(gateway.openai_model())
            ...
    """

    url: str
    """Where it listens, without a path; known inside the block."""
    requests: list[Received]
    """Every request for a model's answer, in the order of arrival."""
    unscripted: list[Received]
    """Those that came when the script was used up, and were answered with a 500."""
    connections: int
    """How many TCP connections were accepted."""
    open_connections: int
    """How many of them neither side has closed."""

    def __init__(self, script: Script) -> None:
        self.requests = []
        self.unscripted = []
        self.connections = 0
        self.open_connections = 0
        self._choose = _chooser(script)
        self._clients = AsyncExitStack()

    def openai_model(self, name: str = "gpt-4o-mini") -> "OpenAIChatModel":
        """A model that sends its requests here, with the retries of a default client."""
        # Imported here: each provider's package is an optional dependency.
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        provider = OpenAIProvider(base_url=f"{self.url}/v1", api_key="sk-scripted")
        self._clients.push_async_callback(provider.client.close)
        return OpenAIChatModel(name, provider=provider)

    def anthropic_model(self, name: str = "claude-sonnet-5-5") -> "AnthropicModel":
        """The same for Anthropic. Unless its settings have a small `max_tokens`, this model always streams."""
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        provider = AnthropicProvider(base_url=self.url, api_key="sk-ant-scripted")
        self._clients.push_async_callback(provider.client.close)
        return AnthropicModel(name, provider=provider)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        failure: Exception | None = None
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with self._clients, anyio.create_task_group() as group:

                async def accept() -> None:
                    while True:
                        await anyio.wait_readable(listener)
                        group.start_soon(self._serve, listener.accept()[0], name="gateway connection")

                group.start_soon(accept, name="gateway listener")
                try:
                    yield self
                except Exception as exc:
                    # Raised again outside, or the task group would wrap it: the block's own error leaves as it is.
                    failure = exc
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _serve(self, connection: socket.socket) -> None:
        self.connections += 1
        self.open_connections += 1
        with connection:
            reader, writer = await asyncio.open_connection(sock=connection)
            # Nothing stays in the writer's buffer, so that what was drained was sent, whatever comes next.
            writer.transport.set_write_buffer_limits(0)
            try:
                # The client may leave at any point, and often does.
                with suppress(IncompleteReadError, ConnectionError):
                    while await self._exchange(connection, reader, writer):
                        pass
            finally:
                self.open_connections -= 1
                writer.transport.abort()

    async def _exchange(self, connection: socket.socket, reader: StreamReader, writer: StreamWriter) -> bool:
        """Answer one request, and say whether the connection is good for another."""
        delivery = await self._delivery(reader)
        for chunk in delivery.chunks:
            await anyio.sleep(delivery.pause)
            writer.write(chunk)
            await writer.drain()
        if delivery.then == "hang":
            await reader.read()
        elif delivery.then == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        return delivery.then == "keep"

    async def _delivery(self, reader: StreamReader) -> Delivery:
        path, headers = await _read_head(reader)
        content = await _read_body(reader, headers)
        if (wire := _WIRES.get(path.partition("?")[0])) is None:
            return not_found(path)
        body = json.loads(content)
        streamed = bool(body.get("stream"))
        received = Received(wire=wire, path=path, headers=headers, body=body, stream=streamed, at=time.monotonic())
        self.requests.append(received)
        reply = self._choose(received)
        if reply is None:
            self.unscripted.append(received)
            reply = _USED_UP
        return deliver(reply, received)


def _chooser(script: Script) -> Callable[[Received], Reply | None]:
    if callable(script):
        return script
    replies = iter(script)
    return lambda _: next(replies, None)


async def _read_head(reader: StreamReader) -> tuple[str, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    request_line, *lines = head.rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return request_line.split()[1], headers


async def _read_body(reader: StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    chunks: list[bytes] = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        chunks.append(await reader.readexactly(size))
        await reader.readuntil(b"\r\n")
    await reader.readuntil(b"\r\n")
    return b"".join(chunks)
