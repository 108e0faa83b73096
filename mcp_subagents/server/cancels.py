"""A host that cancels its sync call cancels the task; one that only stops waiting does not."""

import logging
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.dispatcher import as_request_id, coerce_request_id

from mcp_subagents.errors import SubagentsError
from mcp_subagents.server.calls import OWNER
from mcp_subagents.server.room import EngineRoom

logger = logging.getLogger(__name__)

_GAVE_UP = re.compile(r"deadline exceeded|timed?[ -]?out", re.IGNORECASE)
"""What clients say when their own clock ran out: `timed out after 2s`, `Request timed out`, `timeout`."""


@dataclass(eq=False, slots=True)
class Sync:
    """A call that stands and falls with a task."""

    task_id: str | None = None
    is_cancelled: bool = False


class Cancels:
    """Which call waits for which task, so that a cancel of the one reaches the other."""

    def __init__(self, room: EngineRoom) -> None:
        self._room = room
        # Ids count within a connection, and go with it. In the newer era each request has a `Connection` of its own,
        # over one channel.
        self._waiting: WeakKeyDictionary[object, dict[object, Sync]] = WeakKeyDictionary()

    @contextmanager
    def heard(self, ctx: ServerRequestContext[Any, Any]) -> Generator[Sync]:
        """Listen for a cancel of this call, for as long as the block lasts and a little longer."""
        call = Sync()
        calls = self._calls(ctx)
        key = _key(ctx.request_id)
        calls[key] = call
        # Forgotten when it ends, but not when it is cancelled: the word of that comes after.
        try:
            yield call
        except Exception:
            calls.pop(key, None)
            raise
        calls.pop(key, None)

    async def found(self, call: Sync, task_id: str) -> None:
        """`call` waits for that task, if it has not been cancelled meanwhile."""
        call.task_id = task_id
        if call.is_cancelled:
            await self._cancel(task_id)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """As a middleware: hear of cancels."""
        if ctx.method == "notifications/cancelled" and ctx.params is not None:
            call = self._calls(ctx).pop(_key(ctx.params.get("requestId")), None)
            if call is not None and not _GAVE_UP.search(str(ctx.params.get("reason", ""))):
                call.is_cancelled = True
                if call.task_id is not None:
                    await self._cancel(call.task_id)
        return await call_next(ctx)

    async def _cancel(self, task_id: str) -> None:
        try:
            await (await self._room.engine()).hard_cancel(task_id, owner=OWNER)
        except SubagentsError as exc:
            logger.warning("task %s could not be cancelled: %s", task_id, exc)

    def _calls(self, ctx: ServerRequestContext[Any, Any]) -> dict[object, Sync]:
        connection = ctx.session._connection  # pyright: ignore[reportPrivateUsage]
        if not connection.has_standalone_channel:
            # Nothing ties the requests of one client together here, so that nobody may cancel by a mere number.
            return {}
        return self._waiting.setdefault(connection.outbound, {})


@contextmanager
def uninterrupted() -> Generator[None]:
    """What is begun in this block is finished, whoever cancels it."""
    with anyio.CancelScope(shield=True):
        yield


def _key(request_id: object) -> object:
    known = as_request_id(request_id)
    return None if known is None else coerce_request_id(known)
