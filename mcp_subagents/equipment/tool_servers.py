"""The tool servers of a process: each started when it is first needed, and stopped with the engine."""

import logging
import math
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.to_thread

from mcp_subagents.equipment.definitions import Expanded, ToolServerDefinition, expand
from mcp_subagents.equipment.last_words import LastWords
from mcp_subagents.equipment.restarts import WITHIN, seconds_to_start, wait_before_start
from mcp_subagents.errors import ConfigError, ToolServerDown

if TYPE_CHECKING:
    from pydantic_ai.mcp import MCPToolset

logger = logging.getLogger(__name__)

_CONNECTIONS = "mcp_subagents.equipment.connections"
_PARTING = 1.0
_PROBE = 5.0
"""Seconds for a server to say what tools it has, when it is in doubt whether it still answers at all."""


class Session:
    """One life of a tool server, from its start on."""

    def __init__(self, words: LastWords) -> None:
        self.words = words
        self.failure: ToolServerDown | None = None
        """Why it did not come to life."""
        self.started = anyio.Event()
        """It lives, or has failed to."""
        self.ending = ""
        """How its process ended, if it did so before its time."""
        self.is_doubtful = False
        """Whether a call has given reason to ask if it still answers."""
        self.calls = 0
        """How many calls it has not answered yet."""
        self._toolset: MCPToolset[Any] | None = None
        self._over = anyio.Event()
        # Only we end it, in our own time: a task of somebody else that is cancelled must not, and a stop of the whole
        # process must leave it the moment it needs to end its child.
        self._scope = anyio.CancelScope(shield=True)

    @property
    def toolset(self) -> "MCPToolset[Any]":
        assert self._toolset is not None, "asked only of one that lives"
        return self._toolset

    @property
    def is_over(self) -> bool:
        """Whether it is dead, or on its way to be."""
        return self.failure is not None or self._over.is_set()

    async def is_alive(self) -> bool:
        """Whether it can be called. If that is in doubt, it is asked."""
        if self.is_over:
            return False
        # It may have closed its standard error: dead, as a rule. Only an answer proves that it is not.
        if not (self.is_doubtful or self.words.is_over):
            return True
        with anyio.move_on_after(_PROBE):
            try:
                await self.toolset.client.list_tools()
            except Exception:
                return False
            self.is_doubtful = False
            return True
        # Silent. But others wait for an answer of it, and it may be busy with that.
        return self.calls > 0

    @contextmanager
    def calling(self) -> Generator[None]:
        """Know of a call, for as long as the block lasts."""
        self.calls += 1
        try:
            yield
        finally:
            self.calls -= 1

    async def ended(self) -> None:
        """Wait until it is known how its process ended and what it said last, but not for ever."""
        with anyio.move_on_after(_PARTING):
            await self._over.wait()
        await self.words.heard()

    def end(self) -> None:
        self._over.set()
        if self._toolset is None:
            self._scope.cancel()

    def lose(self, how: str) -> None:
        """Take note that its process has ended by itself."""
        self.ending = self.ending or how
        self._over.set()

    async def live(self, expanded: Expanded) -> None:
        """Run the server until `end`; when this returns, its process is gone."""
        name, seconds, failure = expanded.definition.name, seconds_to_start(expanded.definition.timeout), None
        try:
            with self._scope:
                # In a thread, since it loads for most of a second, and nobody else should stand still.
                connections: Any = await anyio.to_thread.run_sync(import_module, _CONNECTIONS)
                self._scope.deadline = anyio.current_time() + seconds
                async with connections.connected(expanded, self.words, self.lose) as self._toolset:
                    self._scope.deadline = math.inf
                    self.started.set()
                    await self._over.wait()
        except Exception as exc:
            failure = exc
            if self.started.is_set():
                logger.info("tool server %s ended badly: %s", name, self.words.masked(str(exc)))
        if not self.started.is_set():
            why = "we stop" if failure is None else self.words.masked(str(failure))
            if failure is None and not self._over.is_set():
                why = f"it did not answer within {seconds:g} seconds"
            with anyio.CancelScope(shield=True):
                self.failure = await _explained(expanded.definition, why, self)
            self.started.set()
        self._over.set()


class ToolServer:
    """One tool server, alive when it is needed."""

    def __init__(
        self,
        definition: ToolServerDefinition,
        group: anyio.abc.TaskGroup,
        *,
        env: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.definition = definition
        self.group = group
        self._env = env
        self._clock = clock
        self._session: Session | None = None
        self._starts: list[float] = []
        self._looking = anyio.Lock()

    async def session(self) -> Session:
        """The server, alive: started, or started again, if it has to be.

        Raises:
            ConfigError: a variable that it needs is not set.
            ToolServerDown: it cannot be started, or has died too often.
        """
        async with self._looking:
            session = self._session
            if session is None or (session.started.is_set() and not await session.is_alive()):
                if session is not None and session.failure is None:
                    logger.warning(
                        "tool server %s has stopped or does not answer; it is started again", self.definition.name
                    )
                self.end()
                session = self._session = self._start()
        await session.started.wait()
        if session.failure is not None:
            raise session.failure
        return session

    def _start(self) -> Session:
        name, now = self.definition.name, self._clock()
        if (wait := wait_before_start(self._starts, now)) > 0:
            raise ToolServerDown(
                name,
                f"was started {len(self._starts)} times within {WITHIN:.0f} seconds and did not stay; it is left alone "
                f"for {wait:.0f} seconds",
            )
        expanded = expand(self.definition, self._env)
        self._starts = [*(at for at in self._starts if now - at < WITHIN), now]
        session = Session(LastWords(name, expanded.secrets))
        # In a task of its own: whoever needs the server first may be cancelled, and the server lives on.
        self.group.start_soon(session.live, expanded, name=f"tool server {name}")
        return session

    def end(self) -> None:
        """Begin its end; when the block of its `ToolServers` has ended, its process is gone."""
        if self._session is not None:
            self._session.end()
            self._session = None


async def _explained(definition: ToolServerDefinition, why: str, session: Session) -> ToolServerDown:
    words = session.words
    await words.heard()
    how = f" ({session.ending})" if session.ending else ""
    said = f"; it said: {words.text}" if words.text else ""
    where = words.masked(definition.command if definition.kind == "stdio" else definition.url)
    what = "could not be started" if definition.kind == "stdio" else "cannot be reached"
    return ToolServerDown(definition.name, f"{what} ({where}): {why}{how}{said}")


class ToolServers:
    """All tool servers of a process. Two subagents that define the same one share it."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._env = env
        self._servers: dict[str, ToolServer] = {}
        self._groups: list[anyio.abc.TaskGroup] = []
        """Of those for whom servers may run; a server is started in the group of the one who came first."""
        self._runs = Counter[str]()
        """How many runs there are that may call a server."""
        self._wanted: dict[str, frozenset[str]] = {}
        """The servers of each subagent, as it was when it last began a run."""

    @asynccontextmanager
    async def open(self, beside: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[None]:
        """Let servers be started for as long as the block lasts; when the last such block has ended, none is left.

        `beside` is done meanwhile, and given up when the block ends. Of two blocks that overlap, the one that began
        first takes the servers with it that were started meanwhile; the other starts them again when it needs them.
        """
        failure: BaseException | None = None
        async with anyio.create_task_group() as group:
            self._groups.append(group)
            group.start_soon(beside)
            try:
                yield
            except BaseException as exc:
                # Raised again outside, or the task group would wrap it.
                failure = exc
            finally:
                self._groups.remove(group)
                self._end([key for key, server in self._servers.items() if server.group is group])
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def server(self, definition: ToolServerDefinition) -> ToolServer:
        """The server of that definition, which is not started by this."""
        if not self._groups:
            raise ConfigError("Tool servers run only as long as an engine does: open it with `run_engine`.")
        if definition.key not in self._servers:
            self._servers[definition.key] = ToolServer(definition, self._groups[0], env=self._env)
        return self._servers[definition.key]

    def take(self, key: str, subagent: str, servers: frozenset[str]) -> None:
        """Know of a run of `subagent`, whose definition now has these servers and which may call this one of them."""
        self._runs[key] += 1
        self._wanted[subagent] = servers
        self._end_unwanted()

    def leave(self, key: str) -> None:
        """Know that such a run is over."""
        self._runs[key] -= 1
        self._end_unwanted()

    def _end_unwanted(self) -> None:
        """End the servers of definitions that have been replaced meanwhile, once no run goes on with them."""
        wanted = frozenset[str]().union(*self._wanted.values())
        self._end([key for key in self._servers if not self._runs[key] and key not in wanted])

    def _end(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._servers.pop(key).end()
