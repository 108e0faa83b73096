"""A client of HTTP that sends whatever it is given, and reads answers with care."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import h11
from anyio.abc import SocketStream

from tests.fuzz.requests import Request

FIRST_WORDS = 0.05
"""Seconds in which a stream without an end may say something, before it is left."""


@dataclass(slots=True)
class Answer:
    status: int = 0
    """None came if 0: the connection was closed."""
    headers: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    body: bytes = b""

    def messages(self) -> list[dict[str, Any]]:
        """The messages in it, whichever way they came."""
        if self.headers.get(b"content-type", b"").startswith(b"text/event-stream"):
            lines = [line[5:] for line in self.body.splitlines() if line.startswith(b"data:")]
            return [json.loads(line) for line in lines if line.strip().startswith(b"{")]
        if self.body and self.headers.get(b"content-type", b"").startswith(b"application/json"):
            return [json.loads(self.body)]
        return []


class Web:
    """One connection at a time to a server, opened anew whenever it is closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._stream: SocketStream | None = None
        self._protocol = h11.Connection(h11.CLIENT)

    async def send(self, request: Request, *, patience: float) -> Answer:
        """The answer to a request. Raises: `TimeoutError` if it does not end in time."""
        data = request.encoded()
        if request.cut_short:
            await self.close()
            with suppress(anyio.BrokenResourceError):
                await (await self._connection()).send(data)
            await self.close()
            return Answer()
        with anyio.fail_after(patience):
            answer = await self._exchange(request, data)
            if answer.status == 0 and self._stream is None:
                # A connection that was kept for us may just have been closed.
                answer = await self._exchange(request, data)
        return answer

    async def __aenter__(self) -> "Web":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            await stream.aclose()

    async def _connection(self) -> SocketStream:
        if self._stream is None:
            self._stream = await anyio.connect_tcp("127.0.0.1", self._port)
            self._protocol = h11.Connection(h11.CLIENT)
        return self._stream

    async def _exchange(self, request: Request, data: bytes) -> Answer:
        stream, answer = await self._connection(), Answer()
        try:
            await stream.send(data)
            # What h11 would have sent is not what we sent, but it has to know that there was something.
            method = request.method if request.method == b"HEAD" else b"POST"
            self._protocol.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
            self._protocol.send(h11.EndOfMessage())
            ended = await self._read(stream, request, answer)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, h11.RemoteProtocolError):
            # A connection may be closed before an answer, or with a refusal; an answer that began well is torn by it.
            if 200 <= answer.status < 400:
                raise
            ended = False
        if ended and self._protocol.their_state is h11.DONE and self._protocol.our_state is h11.DONE:
            self._protocol.start_next_cycle()
        else:
            await self.close()
        return answer

    async def _read(self, stream: SocketStream, request: Request, answer: Answer) -> bool:
        """Read the answer. False: it was left before its end."""
        while True:
            event = self._protocol.next_event()
            if event is h11.NEED_DATA:
                with anyio.move_on_after(FIRST_WORDS if answer.status and request.is_stream else None):
                    self._protocol.receive_data(await _received(stream))
                    continue
                return False
            match event:
                case h11.Response():
                    answer.status, answer.headers = event.status_code, dict(event.headers)
                case h11.Data():
                    answer.body += bytes(event.data)
                case h11.EndOfMessage():
                    return True
                case h11.ConnectionClosed():
                    return False
                case _:
                    pass


async def _received(stream: SocketStream) -> bytes:
    try:
        return await stream.receive()
    except anyio.EndOfStream:
        return b""


class Events:
    """An SSE connection: where to post to, and who waits for which answer."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._begun = b""
        self._awaited: dict[str, tuple[anyio.Event, list[dict[str, Any]]]] = {}
        self.endpoint = b""
        self.opened = anyio.Event()
        self.heard = 0

    def expect(self, identity: str) -> tuple[anyio.Event, list[dict[str, Any]]]:
        self._awaited[identity] = waiting = (anyio.Event(), list[dict[str, Any]]())
        return waiting

    async def listen(self) -> None:
        """Hear all there is, to the end of the connection."""
        while chunk := await _received(self._stream):
            *lines, self._begun = (self._begun + chunk).split(b"\r\n")
            for line in lines:
                if line.startswith(b"data:"):
                    self._take(line[5:].strip())

    def _take(self, data: bytes) -> None:
        if data.startswith(b"/messages/"):
            self.endpoint = data
            self.opened.set()
            return
        message = json.loads(data)
        self.heard += 1
        identity = message.get("id")
        if "method" not in message and isinstance(identity, str) and identity in self._awaited:
            event, answer = self._awaited.pop(identity)
            answer.append(message)
            event.set()


@asynccontextmanager
async def events(port: int) -> AsyncGenerator[Events]:
    """An SSE connection, for as long as the block lasts."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream, anyio.create_task_group() as group:
        await stream.send(b"GET /sse HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n")
        heard = Events(stream)
        group.start_soon(heard.listen)
        with anyio.fail_after(5):
            await heard.opened.wait()
        yield heard
        group.cancel_scope.cancel()
