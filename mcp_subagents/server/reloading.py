"""Follows the files of the subagents when somebody is about to use them, and tells hosts of the change."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from mcp.server import NotificationOptions
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.tools import Tool
from mcp.server.subscriptions import ResourceUpdated, SubscriptionBus, ToolsListChanged

from mcp_subagents.addresses import AGENTS
from mcp_subagents.config.live import LiveRoster

USES = frozenset({"initialize", "server/discover", "tools/list", "tools/call", "resources/read"}) | {
    "prompts/get",
    "completion/complete",
}
"""Requests whose answers depend on who the subagents are."""
_PATIENCE = 5.0
"""Seconds in which a host takes a notice; whoever is slower looks for itself."""


class Reloading:
    """Keeps what a server says of its subagents true to their files."""

    def __init__(self, roster: LiveRoster, bus: SubscriptionBus) -> None:
        self._roster = roster
        self._bus = bus
        self._older: set[Connection] = set()
        """Connections of the older era, which hear of changes without asking."""
        self._changed = anyio.Event()

    def install(
        self,
        server: MCPServer[Any],
        tools: Sequence[Tool],
        fresh: Callable[[], Sequence[Tool]],
        instructions: Callable[[], str],
    ) -> None:
        """Renew the `tools` and `instructions` of `server`, whenever the subagents change; `fresh` makes the tools."""
        low: Any = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]  # there is no public way
        make_options = low.create_initialization_options

        def create_initialization_options(notification_options: Any = None, *others: Any, **more: Any) -> Any:
            return make_options(notification_options or NotificationOptions(tools_changed=True), *others, **more)

        low.create_initialization_options = create_initialization_options

        def renew() -> None:
            for tool, renewed in zip(tools, fresh(), strict=True):
                tool.parameters = renewed.parameters
            low.instructions = instructions()
            self._changed.set()

        self._roster.on_change.append(renew)

    @asynccontextmanager
    async def telling(self) -> AsyncGenerator[None]:
        """Tell hosts of changes, for as long as the block lasts: whoever finds one may be gone before all know."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._tell, name="notices of new subagents")
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def _tell(self) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            await self._bus.publish(ToolsListChanged())
            await self._bus.publish(ResourceUpdated(AGENTS))
            async with anyio.create_task_group() as group:
                for connection in list(self._older):
                    group.start_soon(_send, connection)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """As a middleware: look at the files before an answer depends on them."""
        if ctx.method == "notifications/initialized":
            connection = ctx.session._connection  # pyright: ignore[reportPrivateUsage]  # outlives the request
            self._older.add(connection)
            connection.exit_stack.callback(self._older.discard, connection)
        if ctx.method in USES:
            await self._roster.refresh()
        return await call_next(ctx)


async def _send(connection: Connection) -> None:
    with anyio.move_on_after(_PATIENCE), suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await connection.send_tool_list_changed()
