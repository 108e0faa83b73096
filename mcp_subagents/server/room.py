"""One engine behind all connections of a server."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from mcp_subagents.errors import EngineStopped, SubagentsError
from mcp_subagents.store import Store
from mcp_subagents.texts import brief

if TYPE_CHECKING:
    from mcp_subagents.engine import Engine

logger = logging.getLogger(__name__)

OpenStore = Callable[[], AbstractAsyncContextManager[Store]]
OpenEngine = Callable[[Store], AbstractAsyncContextManager["Engine"]]


class EngineRoom:
    """Where the engine of a server runs: opened for the first connection, closed after the last."""

    def __init__(self, open_store: OpenStore, open_engine: OpenEngine, *, before_work: float = 0.5) -> None:
        self._open_store = open_store
        self._open_engine = open_engine
        self._before_work = before_work
        self._users = 0
        self._shift: _Shift | None = None
        self._changing = anyio.Lock()

    @asynccontextmanager
    async def use(self) -> AsyncGenerator[None]:
        """Keep the engine for as long as the block lasts. Raises: `StoreError`."""
        async with self._changing:
            if self._shift is None:
                self._shift = await _Shift.begin(self._open_store, self._open_engine, self._before_work)
            self._users += 1
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self._leave()

    async def engine(self) -> "Engine":
        """The engine, as soon as it runs. Raises: `SubagentsError`, which says what kept it from running."""
        if self._shift is None:
            raise RuntimeError("the engine is wanted outside the lifespan of its server")
        return await self._shift.engine()

    async def _leave(self) -> None:
        async with self._changing:
            self._users -= 1
            if not self._users and self._shift is not None:
                shift, self._shift = self._shift, None
                await shift.end()


class _Shift:
    """One run of the engine.

    The store is opened at once, so that trouble with it is told at once. The engine itself starts when it is first
    wanted, or soon after: to load pydantic-ai takes longer than all else, and a host that has just started us wants
    to hear of our tools first.
    """

    def __init__(self) -> None:
        self._opened = anyio.Event()
        self._wanted = anyio.Event()
        self._running = anyio.Event()
        self._over = anyio.Event()
        self._engine: Engine | None = None
        self._failure: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def begin(cls, open_store: OpenStore, open_engine: OpenEngine, before_work: float) -> "_Shift":
        shift = cls()
        work = shift._work(open_store, open_engine, before_work)
        # Its life is that of all connections together, and no block of theirs is around it: `end` ends it.
        shift._task = asyncio.create_task(work, context=Context())  # noqa: TID251
        try:
            await shift._opened.wait()
        except BaseException:
            # Whoever wanted it is gone, and nobody else would end it.
            with anyio.CancelScope(shield=True):
                await shift.end()
            raise
        if shift._failure is not None:
            raise shift._failure
        return shift

    async def engine(self) -> "Engine":
        self._wanted.set()
        await self._running.wait()
        if self._engine is None:
            raise EngineStopped if self._failure is None else _in_words(self._failure)
        return self._engine

    async def end(self) -> None:
        self._over.set()
        self._wanted.set()
        if self._task is not None:
            await self._task

    async def _work(self, open_store: OpenStore, open_engine: OpenEngine, before_work: float) -> None:
        try:
            async with open_store() as store:
                self._opened.set()
                with anyio.move_on_after(before_work):
                    await self._wanted.wait()
                if self._over.is_set():
                    return
                await anyio.to_thread.run_sync(import_module, "mcp_subagents.engine")
                async with open_engine(store) as self._engine:
                    self._running.set()
                    await self._over.wait()
        except Exception as exc:
            if self._opened.is_set():
                logger.exception("the engine has stopped")
            self._failure = exc
        finally:
            self._engine = None
            self._opened.set()
            self._running.set()


def _in_words(failure: Exception) -> SubagentsError:
    match failure:
        case SubagentsError():
            return failure
        case ExceptionGroup(exceptions=[Exception() as alone]):
            return _in_words(alone)
        case _:
            pass
    why = f"{type(failure).__name__}: {brief(str(failure))}"
    return SubagentsError(f"The engine is not running ({why}). Tell the user: the log of this server says more.")
