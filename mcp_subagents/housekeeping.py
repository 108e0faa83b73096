"""What has to be done now and then, so that no task is forgotten and no store grows for ever."""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta

import anyio

from mcp_subagents import moves
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.dispatch import Dispatcher
from mcp_subagents.errors import LeaseLost, StoreError, StoreUnavailable
from mcp_subagents.grace import Grace
from mcp_subagents.past import unfinished
from mcp_subagents.records import Lease
from mcp_subagents.store import Query, Store
from mcp_subagents.types import CancelKind, FailureType, TaskStatus

logger = logging.getLogger(__name__)

_EVERY = 1.0
_PRUNE_EVERY = 3600.0
"""Seconds."""


class Housekeeper:
    """Looks after the tasks that nobody else does."""

    def __init__(
        self, store: Store, dispatcher: Dispatcher, settings: EngineSettings, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._settings = settings
        self._now = now
        self.grace = Grace()
        self._stranded: set[Lease] = set()
        self._idle: set[Lease] = set()
        self._bell = anyio.Event()

    def strand(self, lease: Lease) -> None:
        """An attempt broke down and could not even give its task back: see to it."""
        self._stranded.add(lease)

    def hurry(self) -> None:
        """Look around now."""
        self._bell.set()

    async def keep_house(self) -> None:
        """Give back what broken attempts and lost processes have left, end what waits in vain, and prune."""
        prune_at = anyio.current_time()
        while True:
            self._bell = bell = anyio.Event()
            try:
                if anyio.current_time() >= prune_at:
                    prune_at += _PRUNE_EVERY
                    await self.prune()
                await self._look_around()
            except StoreError as exc:
                logger.error("housekeeping is put off: %s", exc)
            with anyio.move_on_after(_EVERY):
                await bell.wait()

    async def prune(self) -> int:
        """Delete the tasks whose retention has ended, and say how many."""
        return await self._store.prune(self._now() - self._settings.retention)

    async def leave_nothing_behind(self) -> None:
        """Give back what was claimed here in the last moment, when nobody was left to run it."""
        self.grace.begin()
        with self.grace.shield(), suppress(StoreError):
            await self._store.catch_up()  # with claims that are under way
            for lease in await self._held_here():
                with suppress(LeaseLost):
                    await self._store.change(lease.task_id, moves.release(self._now()), lease=lease)

    async def _look_around(self) -> None:
        lost = await self._store.lost(timedelta(seconds=self._settings.dead_after))
        for lease in {*self._stranded, *lost, *await self._forgotten()}:
            with self._alone(lease.task_id):
                await self._give_back(lease)
        for task_id in await self._store.overdue(self._now()):
            with self._alone(task_id):
                late = await unfinished(
                    self._store, task_id, FailureType.TIMEOUT, "Nobody answered the question in time."
                )
                await self._store.change(task_id, moves.expire(late, at=self._now()))

        for task_id in await self._store.orphans():
            with self._alone(task_id):
                if (await self._store.read(task_id)).handle.cancel_requested is not None:
                    continue  # it stops at its next turn
                alone = await unfinished(
                    self._store, task_id, FailureType.CANCELLED, "The task that delegated this one has ended."
                )
                await self._store.change(task_id, moves.cancel(CancelKind.SOFT, alone, self._now()))

    async def _forgotten(self) -> set[Lease]:
        """Tasks that count as running here, though nobody here runs them: twice in a row, so none is just starting."""
        idle = {lease for lease in await self._held_here() if not self._dispatcher.runs(lease.task_id)}
        forgotten, self._idle = idle & self._idle, idle
        return forgotten

    async def _held_here(self) -> list[Lease]:
        """What counts as running in this process."""
        running = await self._store.select(Query(statuses=frozenset({TaskStatus.RUNNING})))
        return [record.lease for record in running if record.process == self._store.process]

    @contextmanager
    def _alone(self, task_id: str) -> Generator[None]:
        """What is wrong with one task stays with it; what is wrong with the store is everybody's."""
        try:
            yield
        except StoreUnavailable:
            raise
        except Exception:
            logger.exception("task %s: left as it is", task_id)

    async def _give_back(self, lease: Lease) -> None:
        message = "The process that ran the task was lost again and again; the task may be the cause."
        failure = await unfinished(self._store, lease.task_id, FailureType.PERMANENT, message)
        with suppress(LeaseLost):  # somebody else was faster
            await self._store.change(lease.task_id, moves.lose(failure, self._now()), lease=lease)
            logger.warning("task %s: given back, since its attempt %d was lost", lease.task_id, lease.attempt)
        self._stranded.discard(lease)
