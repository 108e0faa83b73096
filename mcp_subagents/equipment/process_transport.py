"""MCP over the pipes of a process that we start: its death is noticed at once, and its idle talk does no harm."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastmcp.client.transports import ClientTransport
from fastmcp.client.transports.base import TransportOptions
from mcp.shared.message import SessionMessage

from mcp_subagents.equipment.last_words import LastWords
from mcp_subagents.equipment.process_groups import death
from mcp_subagents.equipment.server_lines import LONGEST_LINE, Lines, LineTooLong, NoMessage, message_on

if TYPE_CHECKING:
    from mcp import ClientSession

logger = logging.getLogger(__name__)

_LATE = 0.5
"""Seconds for what a dead process has said to be read, while a child of it may hold the pipe for ever."""
_MOST_COMPLAINTS = 3
_SHOWN = 200

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


class ProcessTransport(ClientTransport):
    """Speaks with a tool server over the pipes of its process, which others start and end."""

    def __init__(self, name: str, process: anyio.abc.Process, words: LastWords, lost: Callable[[str], None]) -> None:
        self._name = name
        self._process = process
        self._words = words
        self._lost = lost
        self._complaints = 0

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Any
    ) -> "AsyncGenerator[ClientSession]":
        """A session with the process; when it is over before its time, `lost` is told how it ended."""
        options = transport_options or TransportOptions()
        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        from_session, to_server = anyio.create_memory_object_stream[SessionMessage](0)
        with to_session, from_server, from_session, to_server:
            async with anyio.create_task_group() as group:
                group.start_soon(self._listen, to_session)
                group.start_soon(self._speak, to_server, to_session)
                try:
                    async with options.session_class(from_server, from_session, **session_kwargs) as session:
                        yield session
                finally:
                    group.cancel_scope.cancel()

    async def _listen(self, to_session: Incoming) -> None:
        """Pass on what the server says, until it has nothing more to say or is dead."""
        how = "it closed its standard output"
        async with anyio.create_task_group() as group:

            async def read() -> None:
                await self._read(to_session)
                with anyio.move_on_after(_LATE):
                    await watched.wait()
                group.cancel_scope.cancel()

            async def watch() -> None:
                nonlocal how
                code = await death(self._process)
                how = f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
                watched.set()
                await anyio.sleep(_LATE)
                group.cancel_scope.cancel()

            watched = anyio.Event()
            group.start_soon(read)
            group.start_soon(watch)
        # In one go: at the next chance the session sees its end, fails what it waits for, and ends us.
        to_session.close()
        self._lost(how)

    async def _read(self, to_session: Incoming) -> None:
        assert self._process.stdout is not None
        lines = Lines()
        try:
            while True:
                for line in lines.feed(await self._process.stdout.receive()):
                    match message_on(line):
                        case NoMessage() as wrong:
                            self._complain(wrong.text)
                            if wrong.answer is not None:
                                await to_session.send(SessionMessage(wrong.answer))
                        case message:
                            await to_session.send(SessionMessage(message))
        except LineTooLong:
            logger.warning(
                "tool server %s has written a line of more than %d bytes; it is ended",
                self._name,
                LONGEST_LINE,
            )
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            return

    def _complain(self, text: str) -> None:
        self._complaints += 1
        level = logging.WARNING if self._complaints <= _MOST_COMPLAINTS else logging.DEBUG
        more = "; further ones are logged at level debug" if self._complaints == _MOST_COMPLAINTS else ""
        logger.log(
            level,
            "tool server %s wrote a line to its standard output that is no message, and was not heeded%s: %s",
            self._name,
            more,
            self._words.masked(text[: 10 * _SHOWN])[:_SHOWN],
        )

    async def _speak(self, to_server: Outgoing, to_session: Incoming) -> None:
        assert self._process.stdin is not None
        async with to_server:
            async for each in to_server:
                data = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await self._process.stdin.send(f"{data}\n".encode())
                except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
                    # Dead, as a rule, which is noticed elsewhere. If it lives and does not listen, nothing that waits
                    # for an answer will get one.
                    await anyio.sleep(2 * _LATE)
                    await to_session.aclose()
                    self._lost("it closed its standard input")
                    return
