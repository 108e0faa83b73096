"""Submit, check, wait, answer, steer, cancel, list: everything a surface can ask for."""

import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import anyio
from anyio.abc import TaskStatus as StartStatus

from mcp_subagents import moves, telemetry
from mcp_subagents.agents import Roster
from mcp_subagents.ancestry import adoptions, ancestors
from mcp_subagents.budget import check_the_day
from mcp_subagents.config.limits import EngineSettings, Limits
from mcp_subagents.delegation import ACTIVE, Standing, Submission, Unread, Waited, require_text
from mcp_subagents.dispatch import Dispatcher
from mcp_subagents.dispatching import MakeDispatcher, Now, in_this_process
from mcp_subagents.ending import cancel_tree
from mcp_subagents.errors import KeyTaken, LeaseLost, UnknownTask
from mcp_subagents.housekeeping import Housekeeper
from mcp_subagents.looking import unread
from mcp_subagents.past import followed_up, lineage, stored_history
from mcp_subagents.prompts import first_prompt
from mcp_subagents.records import EntryKind, Mail, TaskRecord
from mcp_subagents.runner import Attempt, Surroundings
from mcp_subagents.standing import standing_of
from mcp_subagents.store import Capacity, Query, Store
from mcp_subagents.transcripts import transcript_of
from mcp_subagents.types import (
    AgentMessage,
    CancelKind,
    MessageType,
    TaskHandle,
    TaskStatus,
    utc_now,
)
from mcp_subagents.unfit import Unfit
from mcp_subagents.waking import Tally, Wakers

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

logger = logging.getLogger(__name__)


class Engine:
    """The tasks of a store, at the service of a surface. Opened by `run_engine`."""

    def __init__(
        self,
        store: Store,
        roster: Roster,
        settings: EngineSettings,
        dispatcher: Dispatcher,
        housekeeper: Housekeeper,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._roster = roster
        self._settings = settings
        self._dispatcher = dispatcher
        self._now = now
        self._wakers = Wakers()
        self._housekeeper = housekeeper
        self._unfit = Unfit(store, dispatcher, settings.dead_after, now)
        self._around = Surroundings(
            store=store,
            settings=settings,
            grace=housekeeper.grace,
            now=now,
            stay_at_hand=self._stay_at_hand,
            other_subagents=lambda name: sorted(set(roster.configs) - {name}),
            delegates=self,
        )

    async def submit(self, wanted: Submission, *, owner: str = "local") -> TaskHandle:
        """Take on a task. When this returns, it is stored, and will be worked on whatever happens.

        A repetition, by its idempotency key, returns the task that is there, whatever else would be in its way by now.

        Raises:
            KeyTaken: the owner has another task with that key.
            UnknownSubagent: there is no subagent of that name.
            ConfigError: its definition names what is not there.
            TooManyTasks: the owner has too many open tasks.
            DepthExceeded, DescendantsExceeded: the task is too far below the host's, or one too many.
            TaskEnded: its parent has ended, or was told to stop.
            DailyCostReached: what may be spent in a day is spent.
            UnknownTask, NotEnded: there is nothing to follow up.
            FollowedUp: another follow-up of the same task has not ended.
        """
        self._wakers.require_open()
        require_text("owner", owner)
        known = await self._store.by_key(owner, wanted.idempotency_key)
        stored = known or await self._take_on(wanted, owner)
        if stored.wish != wanted.wish:
            raise KeyTaken(stored.handle, wanted.idempotency_key)
        self._dispatcher.ring()
        return stored.handle

    async def _take_on(self, wanted: Submission, owner: str) -> TaskRecord:
        parent = None if wanted.parent_id is None else await self._owned(wanted.parent_id, owner)
        chosen = self._roster.assignment(wanted.subagent, parent and parent.definition)
        await check_the_day(self._store, self._settings, now := self._now())
        above = [] if parent is None else [parent, *await ancestors(self._store, parent.handle)]
        record = TaskRecord(
            handle=TaskHandle(
                secrets.token_urlsafe(16),
                wanted.subagent,
                wanted.description,
                priority=wanted.priority,
                created_at=now,
                mode=wanted.mode,
                owner=owner,
                parent_id=wanted.parent_id,
                depth=len(above),
                model=chosen.model,
            ),
            due_at=now,
            definition=chosen.definition,
            provider=chosen.provider,
            idempotency_key=wanted.idempotency_key,
            limits=chosen.config.get("limits"),
            continues=wanted.continues,
            home=self._store.process,
            trace=telemetry.current_trace(),
        )
        entries = [moves.event(record, MessageType.TASK_ASSIGNED, {}, now, from_host=True)]
        if wanted.continues:
            past = (await self._owned(wanted.continues, owner)).handle
            entries.append(await followed_up(self._store, past, first_prompt(chosen.config, wanted.description), now))
        adopted = adoptions(record.task_id, len(above), above, self._limits_of)
        return await self._store.create(record, entries, most_open=self._settings.max_open_tasks, above=adopted)

    async def find(self, idempotency_key: str, *, owner: str = "local") -> TaskHandle | None:
        """The task that the owner has delegated with this key; an empty key is none."""
        known = await self._store.by_key(owner, idempotency_key)
        return None if known is None else known.handle

    async def check(self, task_id: str, *, owner: str = "local") -> TaskHandle:
        """The task as it stands. Raises: `UnknownTask`, also for a task of somebody else."""
        return (await self._owned(task_id, owner)).handle

    async def look(self, task_id: str, *, owner: str = "local") -> Standing:
        """The task as it stands, with what it is doing and its place in the queue. Raises: `UnknownTask`."""
        return await standing_of(self._store, await self._owned(task_id, owner))

    async def active(self, *, owner: str = "local") -> Sequence[Standing]:
        """How the owner's tasks stand that have not ended, the oldest first; not those that subagents delegated."""
        records = await self._store.select(Query(owner=owner, statuses=ACTIVE, on_top=True))
        return [await standing_of(self._store, record) for record in records]

    async def children(self, task_id: str, *, owner: str = "local") -> Sequence[Standing]:
        """How the tasks stand that a task has delegated and that have not ended, the oldest first."""
        records = await self._store.select(Query(owner=owner, parent_id=task_id, statuses=ACTIVE))
        return [await standing_of(self._store, record) for record in records]

    async def child(self, task_id: str, *, of: str, owner: str = "local") -> Standing:
        """How a task stands that `of` has delegated, or that one has which `of` follows up. Raises: `UnknownTask`."""
        record = await self._owned(task_id, owner)
        if record.handle.parent_id not in await lineage(self._store, of):
            raise UnknownTask(task_id)
        return await standing_of(self._store, record)

    async def unread(self, *, owner: str = "local") -> Unread:
        """Which of the owner's tasks have ended or asked, and nobody has seen it yet; not those of subagents."""
        return await unread(self._store, owner)

    async def list(self, *, owner: str = "local", statuses: frozenset[TaskStatus] = ACTIVE) -> Sequence[TaskHandle]:
        """The owner's tasks in these states, the oldest first."""
        return [record.handle for record in await self._store.select(Query(owner=owner, statuses=statuses))]

    async def latest(self, most: int, *, owner: str = "local") -> Sequence[TaskHandle]:
        """The owner's tasks in any state, the newest first."""
        newest = await self._store.select(Query(owner=owner, newest_first=True, limit=most))
        return [record.handle for record in newest]

    async def count(self, *, owner: str = "local") -> int:
        """How many tasks the owner has, ended ones included."""
        return await self._store.count(Query(owner=owner))

    async def wait(
        self,
        task_ids: Sequence[str],
        *,
        mode: Literal["all", "any"] = "all",
        timeout: float | None = None,
        owner: str = "local",
    ) -> Waited:
        """Wait until all of the tasks have ended, or any has; or until one asks something, or time is up.

        Raises: `UnknownTask`, `EngineStopped`.
        """
        if isinstance(task_ids, str):
            raise TypeError("task_ids is a list of ids, not one id")
        if mode not in ("all", "any"):
            raise ValueError(f"mode must be 'all' or 'any', not {mode!r}")
        task_ids = list(task_ids)
        with self._wakers.join(task_ids) as waker:
            tasks = {task_id: await self.check(task_id, owner=owner) for task_id in task_ids}
            tally = Tally(tasks.values())
            with anyio.move_on_after(timeout):
                while not tally.is_enough(mode):
                    for told in await waker.changed():
                        # What has ended stays as it is.
                        task = told if told.status.is_terminal else await self.check(told.task_id, owner=owner)
                        tasks[task.task_id] = task
                        tally.update([task])
        return Waited(tasks=[tasks[task_id] for task_id in task_ids], timed_out=not tally.is_enough(mode))

    async def answered(self, task_id: str, *, owner: str = "local") -> TaskHandle:
        """The task, as soon as it waits for no answer any more. Raises: `UnknownTask`, `EngineStopped`."""
        with self._wakers.join([task_id]) as waker:
            while (task := await self.check(task_id, owner=owner)).status is TaskStatus.WAITING_FOR_ANSWER:
                await waker.changed()
        return task

    async def answer(self, task_id: str, text: str, *, question_id: str = "", owner: str = "local") -> TaskHandle:
        """Answer a question of the task. Raises: `UnknownTask`, `NotWaiting`."""
        require_text("answer", text)
        await self._owned(task_id, owner)
        record = await self._store.change(task_id, moves.answer(text, question_id, self._now()))
        self._dispatcher.ring()
        return record.handle

    async def send(self, task_id: str, text: str, *, owner: str = "local") -> TaskHandle:
        """Tell the task something it did not ask for. Raises: `UnknownTask`, `TaskEnded`."""
        require_text("message", text)
        await self._owned(task_id, owner)
        mail = Mail(mail_id=secrets.token_urlsafe(8), text=text)
        return (await self._store.change(task_id, moves.send(mail, self._now()))).handle

    async def soft_cancel(self, task_id: str, *, owner: str = "local") -> TaskHandle:
        """Stop the task and all below it at the next turn boundary; at once where none is running."""
        return await self._cancel(task_id, CancelKind.SOFT, owner)

    async def hard_cancel(self, task_id: str, *, owner: str = "local") -> TaskHandle:
        """Stop the task and all below it now."""
        return await self._cancel(task_id, CancelKind.HARD, owner)

    async def see(self, shown: TaskHandle, *, owner: str = "local") -> None:
        """Note that the owner has seen how the task ended, or what it asks; what came after that is news."""
        if (await self._owned(shown.task_id, owner)).unread:
            await self._store.change(shown.task_id, moves.see(shown))

    @asynccontextmanager
    async def watch(self, *, owner: str = "local") -> "AsyncGenerator[AsyncGenerator[TaskHandle]]":
        """The owner's tasks as they change from now on, by any process: of each task the newest state not yet seen."""
        async with self._store.watch() as changes:

            async def handles() -> "AsyncGenerator[TaskHandle]":
                async for record in changes:
                    if record.handle.owner == owner:
                        yield record.handle

            yield handles()

    async def prune(self) -> int:
        """Delete the tasks whose retention has ended, and say how many."""
        return await self._housekeeper.prune()

    def stop(self) -> None:
        """Take nothing more on, and tell those who wait."""
        self._housekeeper.grace.begin()
        self._wakers.close()

    async def execute(self, record: TaskRecord) -> None:
        """Run one attempt of a claimed task. Whatever goes wrong with it stays with it."""
        attempt: Attempt | None = None
        try:
            try:
                subagent = self._roster.compiled(record.handle.subagent_name, record.definition)
                attempt = Attempt(record, subagent, self._around)
            except Exception as exc:
                await self._unfit.settle(record, exc)
            else:
                await self._run(attempt, record)
        except LeaseLost:
            return
        except Exception:
            # The one catch-all: a broken attempt must not take the engine down, nor keep its task.
            logger.exception("task %s: attempt %d crashed", record.task_id, record.handle.attempt)
            self._housekeeper.strand(record.lease if attempt is None else attempt.lease)

    async def _run(self, attempt: Attempt, record: TaskRecord) -> None:
        if not telemetry.is_on():
            return await attempt.run()
        with telemetry.attempt_span(record) as span:
            await attempt.run()
            status = (await self._store.read(record.task_id)).handle.status
            telemetry.note_status(span, status)

    async def listen(self, *, task_status: StartStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Wake those who wait for a change, and act on what other processes have changed."""
        async with self._store.watch() as changes:
            task_status.started()
            while True:
                self._heed(await changes.receive())
                # What has come in together is heeded together, without a turn of the event loop for each.
                with suppress(anyio.WouldBlock):
                    while True:
                        self._heed(changes.receive_nowait())

    def _heed(self, record: TaskRecord) -> None:
        if record.handle.status is not TaskStatus.RUNNING:
            # Nobody waits for a task to run on, and nothing falls due by it.
            self._wakers.wake(record.handle)
            self._dispatcher.ring()
        if record.handle.status.is_terminal and record.tree is not None and record.tree.children:
            self._housekeeper.hurry()
        if record.handle.status.is_terminal or record.process not in {None, self._store.process}:
            self._dispatcher.abort(record.task_id)

    async def _cancel(self, task_id: str, kind: CancelKind, owner: str) -> TaskHandle:
        await self._owned(task_id, owner)
        return (await cancel_tree(self._store, task_id, kind, self._now, ended=self._dispatcher.abort)).handle

    async def history(self, task_id: str, *, owner: str = "local") -> "Sequence[ModelMessage]":
        """All messages of the task's finished turns."""
        await self._owned(task_id, owner)
        return await stored_history(self._store, task_id)

    async def messages(self, task_id: str, *, owner: str = "local") -> Sequence[AgentMessage]:
        """All that has passed between host and subagent, in order."""
        await self._owned(task_id, owner)
        events = await self._store.journal(task_id, frozenset({EntryKind.EVENT}))
        return [moves.message_of(task_id, entry) for entry in events]

    async def transcript(self, task_id: str, *, owner: str = "local") -> str:
        """What happened in the task, as a person reads it; without secrets."""
        handle = await self.check(task_id, owner=owner)
        return await transcript_of(handle, await self._store.journal(task_id))

    async def _owned(self, task_id: str, owner: str) -> TaskRecord:
        record = await self._store.read(task_id)
        if record.handle.owner != owner:
            raise UnknownTask(task_id)
        return record

    def _limits_of(self, record: TaskRecord) -> Limits:
        return Limits.of(record.limits, self._settings.limits)

    @asynccontextmanager
    async def _stay_at_hand(self, task_id: str) -> AsyncGenerator[Capacity]:
        async with self._dispatcher.hold(task_id):
            with self._wakers.join([task_id]) as waker, anyio.move_on_after(self._settings.hot_wait):
                while (await self._store.read(task_id)).handle.status is TaskStatus.WAITING_FOR_ANSWER:
                    await waker.changed()
            yield self._dispatcher.capacity(1)


@asynccontextmanager
async def run_engine(
    store: Store,
    roster: Roster,
    settings: EngineSettings | None = None,
    *,
    dispatch: MakeDispatcher = in_this_process,
    now: Now = utc_now,
) -> AsyncGenerator[Engine]:
    """Work the store for as long as the block lasts.

    Attempts still running when the block ends are cancelled and given back; the next engine on the same
    store goes on with them. What cannot be given back in time, since the store is locked, is taken over.
    """
    settings = settings or EngineSettings()
    dispatcher = dispatch(store, roster, settings, now)
    housekeeper = Housekeeper(store, dispatcher, settings, now)
    engine = Engine(store, roster, settings, dispatcher, housekeeper, now)
    failure: Exception | None = None
    try:
        async with roster.open(), anyio.create_task_group() as group:
            await group.start(engine.listen, name="engine listener")
            group.start_soon(housekeeper.keep_house, name="housekeeping")
            group.start_soon(dispatcher.serve, engine.execute, name="dispatcher")
            try:
                yield engine
            except Exception as exc:
                # Raised again outside, or the task group would wrap it: the block's own error leaves as it is.
                failure = exc
            finally:
                engine.stop()
                group.cancel_scope.cancel()
    finally:
        await housekeeper.leave_nothing_behind()
    if failure is not None:
        raise failure
