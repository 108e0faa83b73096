"""A gateway on loopback: it speaks the lines of the story, fails when it is told to, and counts every request."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import responses

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic_ai.messages import ModelMessagesTypeAdapter

from mcp_subagents.demo.conversation import Conversation, conversation_of
from mcp_subagents.demo.ledger import Asked, Outcome
from mcp_subagents.demo.model import PROCESS
from mcp_subagents.demo.script import line_for, spoken

_LARGEST_HEAD = 65_536
_GONE = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError)


@dataclass(slots=True)
class Gate:
    """Where the request for one turn waits until somebody lets it through."""

    arrived: anyio.Event = field(default_factory=anyio.Event)
    opened: anyio.Event = field(default_factory=anyio.Event)
    left: anyio.Event = field(default_factory=anyio.Event)
    """Whoever asked is gone, before there was an answer."""


class Witness:
    """Answers and counts. What is in its ledger nobody else has written."""

    url: str
    ledger: list[Asked]
    in_flight: int
    """Requests that are here just now, not answered yet."""

    def __init__(self) -> None:
        self.ledger = []
        self.in_flight = 0
        self._gates: dict[tuple[str, int], Gate] = {}
        self._refusals: dict[tuple[str, int], list[int]] = {}
        self._changed = anyio.Event()

    def hold(self, task: str, turn: int) -> Gate:
        """Keep the next request for that turn waiting."""
        return self._gates.setdefault((task, turn), Gate())

    def refuse(self, task: str, turn: int, *statuses: int) -> None:
        """Answer the next requests for that turn with these statuses, one after the other."""
        self._refusals[task, turn] = list(statuses)

    def about(self, task: str) -> list[Asked]:
        """All requests for one task, in order."""
        return [asked for asked in self.ledger if asked.task == task]

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until the ledger makes it so."""
        while not is_so():
            changed = self._changed
            await changed.wait()

    async def serve(self, stream: SocketStream) -> None:
        """Answer the one request of a connection. Whoever asks may be killed at any point, and will be."""
        async with stream:
            with suppress(*_GONE):
                try:
                    process, body = await _received(stream)
                    messages = ModelMessagesTypeAdapter.validate_json(body)
                except (ValueError, anyio.DelimiterNotFound):
                    # Whoever that is, it is no model of this story.
                    await stream.send(_response(400, b"This is the gateway of a demo."))
                    return
                await self._answer(stream, conversation_of(messages), process)

    async def _answer(self, stream: SocketStream, asked: Conversation, process: int) -> None:
        entry = len(self.ledger)
        turn = asked.turns + 1
        self.ledger.append(Asked(task=asked.task, turn=turn, process=process, told=asked.told))
        self.in_flight += 1
        try:
            self._tell()
            is_there = await self._held(stream, self._gates.pop((asked.task, turn), None))
            outcome, status, content = self._outcome(asked) if is_there else ("cut off", 0, b"")
        finally:
            self.in_flight -= 1
        if is_there:
            await stream.send(_response(status, content))
        self.ledger[entry] = replace(self.ledger[entry], outcome=outcome)
        self._tell()

    async def _held(self, stream: SocketStream, gate: Gate | None) -> bool:
        """Wait at the gate, and say whether the one who asked is still there."""
        if gate is None:
            return True
        gate.arrived.set()
        async with anyio.create_task_group() as group:

            async def notice_the_end() -> None:
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    await stream.receive()
                gate.left.set()
                group.cancel_scope.cancel()

            group.start_soon(notice_the_end, name="hang-up")
            await gate.opened.wait()
            group.cancel_scope.cancel()
        return not gate.left.is_set()

    def _outcome(self, asked: Conversation) -> tuple[Outcome, int, bytes]:
        if refusals := self._refusals.get((asked.task, asked.turns + 1)):
            status = refusals.pop(0)
            return "refused", status, responses[status].encode()
        try:
            line = line_for(asked)
        except KeyError:
            return "refused", 404, b"The story has no such task."
        return "answered", 200, ModelMessagesTypeAdapter.dump_json([spoken(line, asked)])

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


async def _received(stream: SocketStream) -> tuple[int, bytes]:
    """Who asks, and the messages."""
    reader = BufferedByteReceiveStream(stream)
    head = (await reader.receive_until(b"\r\n\r\n", _LARGEST_HEAD)).decode("latin-1")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head.split("\r\n"))}
    return int(headers.get(PROCESS, "0")), await reader.receive_exactly(int(headers.get("content-length", "0")))


def _response(status: int, content: bytes) -> bytes:
    head = f"HTTP/1.1 {status} {responses[status]}\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
    return head.encode() + content


@asynccontextmanager
async def open_witness() -> AsyncGenerator[Witness]:
    """A witness that listens for as long as the block lasts."""
    witness = Witness()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    witness.url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/"
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, witness.serve, name="gateway")
        yield witness
        group.cancel_scope.cancel()
