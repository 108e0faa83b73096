"""Tells subscribers that a task has changed, in both eras of the protocol, whichever process changed it."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio
from anyio.abc import TaskGroup
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer
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
from mcp_subagents.server.native import NativeTasks
from mcp_subagents.server.room import EngineRoom
from mcp_subagents.types import TaskHandle

if TYPE_CHECKING:
    from mcp_subagents.engine import Engine

MOST_STREAMS = 1_024
MOST_WATCHED = 1_000
"""Addresses that one subscriber may name; one that wants more wants the list."""


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
        self._watched: dict[Connection, set[str]] = {}
        """What the clients of the older era have subscribed to."""
        self._senders: TaskGroup | None = None

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
            self._senders.start_soon(self._follow, engine, name="notices")
            try:
                yield
            finally:
                self._senders.cancel_scope.cancel()

    async def _follow(self, engine: "Engine") -> None:
        async with engine.watch(owner=OWNER) as changes:
            async for task in changes:
                for event in _events_of(task):
                    for mailbox in list(self._mailboxes):
                        mailbox.offer(event)

    async def _subscribe(self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        await self._room.engine()
        connection = ctx.session._connection  # pyright: ignore[reportPrivateUsage]  # outlives the request
        watched = self._watched.get(connection)
        if watched is None:
            watched = self._watched[connection] = set()
            connection.exit_stack.callback(self._watched.pop, connection, None)
            if self._senders is not None:
                self._senders.start_soon(self._send, connection, watched, name="notices of a subscriber")
        if len(watched) >= MOST_WATCHED:
            raise MCPError(code=INVALID_PARAMS, message=f"At most {MOST_WATCHED} subscriptions; try {TASKS}.")
        watched.add(str(params.uri))
        return EmptyResult()

    async def _unsubscribe(self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams) -> EmptyResult:
        connection = ctx.session._connection  # pyright: ignore[reportPrivateUsage]
        self._watched.get(connection, set()).discard(str(params.uri))
        return EmptyResult()

    async def _send(self, connection: Connection, watched: set[str]) -> None:
        with self._open(lambda event: isinstance(event, ResourceUpdated) and event.uri in watched) as mailbox:
            while connection in self._watched:
                for event in await mailbox.take():
                    assert isinstance(event, ResourceUpdated)
                    await connection.send_resource_updated(event.uri)

    async def _listen(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        if len(self._mailboxes) >= MOST_STREAMS:
            raise MCPError(code=INTERNAL_ERROR, message="Too many subscriptions are open.")
        wanted = _Wanted(params.notifications, self._native)
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
        natives = [await self._native.look(ctx, task_id) for task_id in wanted.natives_about(event)]
        return [TasksNotification(params={**native.whole(), "_meta": meta}) for native in natives]

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
        self._natives: dict[str, list[str]] = defaultdict(list)
        for native_id in (each for each in task_ids[:MOST_WATCHED] if isinstance(each, str)):
            for task_id in _about(native, native_id):
                self._natives[task_id].append(native_id)
        honored = list(dict.fromkeys(each for natives in self._natives.values() for each in natives))
        self.honored = SubscriptionFilter(
            tools_list_changed=asked.tools_list_changed or None,
            prompts_list_changed=asked.prompts_list_changed or None,
            resources_list_changed=asked.resources_list_changed or None,
            resource_subscriptions=uris or None,
            **({"taskIds": honored} if honored else {}),
        )

    def matches(self, event: Event) -> bool:
        if isinstance(event, TaskChanged):
            return event.task_id in self._natives
        return event_matches(self.honored, self._uris, event)

    def natives_about(self, event: TaskChanged) -> Sequence[str]:
        return self._natives[event.task_id]


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
