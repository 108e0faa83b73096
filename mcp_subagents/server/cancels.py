"""A host that cancels its sync call cancels the task; one that only stops waiting does not."""

import logging
import re
from collections import OrderedDict
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from mcp_subagents.errors import SubagentsError
from mcp_subagents.server.calls import OWNER
from mcp_subagents.server.room import EngineRoom

logger = logging.getLogger(__name__)

_MOST_REMEMBERED = 10_000
_GAVE_UP = re.compile(r"tim(?:ed?|e)[ -]?out", re.IGNORECASE)
"""What clients say when their own clock ran out: `timed out after 2s`, `Request timed out`, `timeout`."""


class Cancels:
    """Which call waits for which task, so that a cancel of the one reaches the other."""

    def __init__(self, room: EngineRoom) -> None:
        self._room = room
        # A call is forgotten when it ends, not when it is cancelled: the word of it comes after.
        self._waiting: OrderedDict[tuple[int, object], str] = OrderedDict()

    def note(self, ctx: ServerRequestContext[Any, Any], task_id: str) -> None:
        """This call waits for that task."""
        self._waiting[_key(ctx, ctx.request_id)] = task_id
        if len(self._waiting) > _MOST_REMEMBERED:
            self._waiting.popitem(last=False)

    def forget(self, ctx: ServerRequestContext[Any, Any]) -> None:
        self._waiting.pop(_key(ctx, ctx.request_id), None)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """As a middleware: hear of cancels."""
        if ctx.method == "notifications/cancelled" and ctx.params is not None:
            task_id = self._waiting.pop(_key(ctx, ctx.params.get("requestId")), None)
            if task_id is not None and not _GAVE_UP.search(str(ctx.params.get("reason", ""))):
                await self._cancel(task_id)
        return await call_next(ctx)

    async def _cancel(self, task_id: str) -> None:
        try:
            await (await self._room.engine()).hard_cancel(task_id, owner=OWNER)
        except SubagentsError as exc:
            logger.warning("task %s could not be cancelled: %s", task_id, exc)


def _key(ctx: ServerRequestContext[Any, Any], request_id: object) -> tuple[int, object]:
    # Ids count within a connection. In the newer era each request has a `Connection` of its own, over one channel.
    connection = ctx.session._connection  # pyright: ignore[reportPrivateUsage]
    return id(connection.outbound), request_id
