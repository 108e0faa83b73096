"""The tool servers of a process: each started when it is first needed, and stopped with the engine."""

import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.to_thread

from mcp_subagents.equipment.definitions import Expanded, ToolServerDefinition, expand
from mcp_subagents.equipment.last_words import LastWords
from mcp_subagents.equipment.restarts import WITHIN, wait_before_start
from mcp_subagents.errors import ConfigError, ToolServerDown

if TYPE_CHECKING:
    from pydantic_ai.mcp import MCPToolset

logger = logging.getLogger(__name__)

_CONNECTIONS = "mcp_subagents.equipment.connections"


class Session:
    """One life of a tool server, from its start on."""

    def __init__(self, words: LastWords) -> None:
        self.words = words
        self.is_lost = False
        """Whether a call has found it dead."""
        self.failure: ToolServerDown | None = None
        """Why it did not come to life."""
        self.started = anyio.Event()
        """It lives, or has failed to."""
        self._toolset: MCPToolset[Any] | None = None
        self._over = anyio.Event()
        # Only we end it, in our own time: a task of somebody else that is cancelled must not, and a stop of the whole
        # process must leave it the moment it needs to end its child.
        self._scope = anyio.CancelScope(shield=True)

    @property
    def toolset(self) -> "MCPToolset[Any]":
        assert self._toolset is not None, "asked only of one that lives"
        return self._toolset

    async def is_alive(self) -> bool:
        if self.failure is not None or self.is_lost or self._over.is_set():
            return False
        if self.words.is_over:
            # It has closed its standard error: dead, as a rule. Only an answer proves that it is not.
            try:
                await self.toolset.client.list_tools()
            except Exception:
                return False
        return True

    def end(self) -> None:
        self._over.set()
        if self._toolset is None:
            self._scope.cancel()

    async def live(self, expanded: Expanded) -> None:
        """Run the server until `end`; when this returns, its process is gone."""
        name, failure = expanded.definition.name, None
        try:
            with self._scope:
                # In a thread, since it loads for most of a second, and nobody else should stand still.
                connections: Any = await anyio.to_thread.run_sync(import_module, _CONNECTIONS)
                async with connections.connected(expanded, self.words) as self._toolset:
                    self.started.set()
                    await self._over.wait()
        except Exception as exc:
            failure = exc
            if self.started.is_set():
                self.is_lost = True
                logger.info("tool server %s ended badly: %s", name, self.words.masked(str(exc)))
        if not self.started.is_set():
            with anyio.CancelScope(shield=True):
                self.failure = await _explained(expanded.definition, failure, self.words)
            self.started.set()


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
        self._group = group
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
                    logger.warning("tool server %s has stopped; it is started again", self.definition.name)
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
        self._group.start_soon(session.live, expanded, name=f"tool server {name}")
        return session

    def end(self) -> None:
        """Begin its end; when the block of its `ToolServers` has ended, its process is gone."""
        if self._session is not None:
            self._session.end()
            self._session = None


async def _explained(definition: ToolServerDefinition, exc: Exception | None, words: LastWords) -> ToolServerDown:
    await words.heard()
    why = words.masked(str(exc)) if exc is not None else "we stop"
    said = f"; it said: {words.text}" if words.text else ""
    where = words.masked(definition.command if definition.kind == "stdio" else definition.url)
    what = "could not be started" if definition.kind == "stdio" else "cannot be reached"
    return ToolServerDown(definition.name, f"{what} ({where}): {why}{said}")


class ToolServers:
    """All tool servers of an engine. Two subagents that define the same one share it."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._env = env
        self._servers: dict[str, ToolServer] = {}
        self._group: anyio.abc.TaskGroup | None = None

    @asynccontextmanager
    async def open(self, beside: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[None]:
        """Let servers be started for as long as the block lasts; when it has ended, none is left.

        `beside` is done meanwhile, and given up when the block ends.
        """
        failure: BaseException | None = None
        async with anyio.create_task_group() as group:
            self._group = group
            group.start_soon(beside)
            try:
                yield
            except BaseException as exc:
                # Raised again outside, or the task group would wrap it.
                failure = exc
            finally:
                for server in self._servers.values():
                    server.end()
                self._servers.clear()
                group.cancel_scope.cancel()
        self._group = None
        if failure is not None:
            raise failure

    def server(self, definition: ToolServerDefinition) -> ToolServer:
        """The server of that definition, which is not started by this."""
        if self._group is None:
            raise ConfigError("Tool servers run only as long as an engine does: open it with `run_engine`.")
        if definition.key not in self._servers:
            self._servers[definition.key] = ToolServer(definition, self._group, env=self._env)
        return self._servers[definition.key]
