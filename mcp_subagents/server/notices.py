"""Tells subscribers that a task has changed, in both eras of the protocol, whichever process changed it."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio
from anyio.abc import TaskGroup
from anyio.abc import TaskStatus as StartStatus
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.server import require_client_extension
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY, ResourceUpdated, ServerEvent, SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import event_matches, event_to_notification
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    EmptyResult,
    Notification,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from mcp_subagents.addresses import TASKS, result_uri, task_uri, transcript_uri
from mcp_subagents.errors import UnknownTask
from mcp_subagents.server.calls import OWNER
from mcp_subagents.server.native import OVER, NativeTasks
from mcp_subagents.server.native import TASKS as NATIVE
from mcp_subagents.server.room import EngineRoom
from mcp_subagents.types import TaskHandle

if TYPE_CHECKING:
    from mcp_subagents.engine import Engine

MOST_STREAMS = 1_024
MOST_WATCHED = 1_000
"""Addresses that one subscriber may name; one that wants more wants the list."""


_WATCHED = "mcp_subagents.watched"
"""Where a connection of the older era keeps the addresses that its client has subscribed to."""


@dataclass(frozen=True, slots=True)
class TaskChanged:
    """A task of ours is not as it was."""

    task_id: str


Event = ServerEvent | TaskChanged


class TasksNotification(Notification[dict[str, Any], Literal["notifications/tasks"]]):
    """A native task, whole, as it stands now."""

    method: Literal["notifications/tasks"] = "notifications/tasks"
    params: dict[str, Any]


class Mailbox:
    """What one subscriber has yet to be told. However slow it is, each thing is in here once."""

    def __init__(self, wants: Callable[[Event], bool]) -> None:
        self._wants = wants
        self._events: dict[Event, None] = {}
        self._filled = anyio.Event()

    def offer(self, event: Event) -> None:
        if self._wants(event):
            self._events[event] = None
            self._filled.set()

    async def take(self) -> Sequence[Event]:
        """All that has come in, as soon as there is something."""
        await self._filled.wait()
        self._filled = anyio.Event()
        taken, self._events = list(self._events), {}
        return taken


class Notices:
    """All subscribers, and what they are told."""

    def __init__(self, room: EngineRoom, native: NativeTasks, bus: SubscriptionBus) -> None:
        self._room = room
        self._native = native
        self._bus = bus
        self._mailboxes: set[Mailbox] = set()
        self._senders: TaskGroup | None = None
        """There as soon as the engine runs."""

    def install(self, server: MCPServer[Any]) -> None:
        """Serve subscriptions in both eras. The SDK has no public way to do so for the older one."""
        low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]
        low.add_request_handler("resources/subscribe", SubscribeRequestParams, self._subscribe)
        low.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)
        low.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._listen)

    @asynccontextmanager
    async def told_of(self, engine: "Engine") -> AsyncGenerator[None]:
        """Tell every subscriber of what changes in `engine`, for as long as the block lasts."""
        async with anyio.create_task_group() as self._senders:
            await self._senders.start(self._follow, engine, name="notices")
            try:
                yield
            finally:
                self._senders.cancel_scope.cancel()

    async def _follow(self, engine: "Engine", *, task_status: StartStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with engine.watch(owner=OWNER) as changes:
            task_status.started()
            async for task in changes:
                for event in _events_of(task):
                    for mailbox in list(self._mailboxes):
                        mailbox.offer(event)

    async def _subscribe(self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        await self._room.engine()
        connection = ctx.session._connection  # pyright: ignore[reportPrivateUsage]  # outlives the request
        watched = _watched(connection)
        if watched is None:
            watched = self._begin(connection)
        if len(watched) >= MOST_WATCHED:
            raise MCPError(code=INVALID_PARAMS, message=f"At most {MOST_WATCHED} subscriptions; try {TASKS}.")
        watched.add(str(params.uri))
        return EmptyResult()

    def _begin(self, connection: Connection) -> set[str]:
        """Tell a client of the older era of what it watches, until its connection closes."""
        assert self._senders is not None
        watched = connection.state[_WATCHED] = set[str]()
        scope = anyio.CancelScope()
        connection.exit_stack.callback(scope.cancel)
        self._senders.start_soon(self._send, connection, watched, scope, name="notices of a subscriber")
        return watched

    async def _unsubscribe(self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams) -> EmptyResult:
        connection = ctx.session._connection  # pyright: ignore[reportPrivateUsage]
        (_watched(connection) or set()).discard(str(params.uri))
        return EmptyResult()

    async def _send(self, connection: Connection, watched: set[str], scope: anyio.CancelScope) -> None:
        with scope, self._open(lambda event: isinstance(event, ResourceUpdated) and event.uri in watched) as mailbox:
            while True:
                for event in await mailbox.take():
                    assert isinstance(event, ResourceUpdated)
                    await connection.send_resource_updated(event.uri)

    async def _listen(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        if len(self._mailboxes) >= MOST_STREAMS:
            raise MCPError(code=INTERNAL_ERROR, message="Too many subscriptions are open.")
        wanted = _Wanted(params.notifications, self._native)
        if wanted.names_natives:
            require_client_extension(ctx, NATIVE)
        await self._room.engine()  # from the acknowledgement on, no change is missed
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        with self._open(wanted.matches) as mailbox:
            acknowledged = SubscriptionsAcknowledgedNotificationParams(notifications=wanted.honored, _meta=meta)
            await ctx.session.send_notification(
                SubscriptionsAcknowledgedNotification(params=acknowledged), related_request_id=ctx.request_id
            )
            while True:
                for event in await mailbox.take():
                    for notification in await self._notifications(ctx, wanted, event, meta):
                        await ctx.session.send_notification(notification, related_request_id=ctx.request_id)

    async def _notifications(
        self, ctx: ServerRequestContext[Any, Any], wanted: "_Wanted", event: Event, meta: dict[str, Any]
    ) -> Sequence[Any]:
        if not isinstance(event, TaskChanged):
            return [event_to_notification(event, meta)]
        told: list[TasksNotification] = []
        for native_id in wanted.natives_about(event):
            try:
                native = await self._native.whole(ctx, native_id, unasked=True)
            except MCPError:
                continue  # a task it depends on is gone, or never was
            told.append(TasksNotification(params={**native, "_meta": meta}))
            if native["status"] in OVER:
                wanted.end(native_id)
        return told

    @contextmanager
    def _open(self, wants: Callable[[Event], bool]) -> Generator[Mailbox]:
        mailbox = Mailbox(wants)
        self._mailboxes.add(mailbox)
        stop = self._bus.subscribe(mailbox.offer)
        try:
            yield mailbox
        finally:
            stop()
            self._mailboxes.discard(mailbox)


class _Wanted:
    """What a client of the newer era has asked to hear of, and is told it will hear of."""

    def __init__(self, asked: SubscriptionFilter, native: NativeTasks) -> None:
        named = (asked.model_extra or {}).get("taskIds")
        task_ids = cast("list[object]", named) if isinstance(named, list) else []
        uris = (asked.resource_subscriptions or [])[:MOST_WATCHED]
        self._uris = frozenset(uris)
        self._natives: dict[str, set[str]] = defaultdict(set)
        for native_id in (each for each in task_ids[:MOST_WATCHED] if isinstance(each, str)):
            for task_id in _about(native, native_id):
                self._natives[task_id].add(native_id)
        self.names_natives = bool(task_ids)
        known = {each for natives in self._natives.values() for each in natives}
        honored = [each for each in task_ids if isinstance(each, str) and each in known]
        self.honored = SubscriptionFilter(
            tools_list_changed=asked.tools_list_changed or None,
            prompts_list_changed=asked.prompts_list_changed or None,
            resources_list_changed=asked.resources_list_changed or None,
            resource_subscriptions=uris or None,
            **({"taskIds": honored} if honored else {}),
        )

    def matches(self, event: Event) -> bool:
        if isinstance(event, TaskChanged):
            return bool(self._natives.get(event.task_id))
        return event_matches(self.honored, self._uris, event)

    def natives_about(self, event: TaskChanged) -> Sequence[str]:
        return sorted(self._natives.get(event.task_id, ()))

    def end(self, native_id: str) -> None:
        """It is over, and nothing follows: what shows through it may live on."""
        for natives in self._natives.values():
            natives.discard(native_id)


def _watched(connection: Connection) -> set[str] | None:
    return connection.state.get(_WATCHED)


def _about(native: NativeTasks, native_id: str) -> Sequence[str]:
    try:
        return native.about(native_id)
    except UnknownTask:
        return []


def _events_of(task: TaskHandle) -> Iterator[Event]:
    yield TaskChanged(task.task_id)
    yield ResourceUpdated(TASKS)
    yield ResourceUpdated(task_uri(task.task_id))
    yield ResourceUpdated(transcript_uri(task.task_id))
    if task.status.is_terminal:
        yield ResourceUpdated(result_uri(task.task_id))
