"""From a call to its result: the tool is run, and what comes of it is said in both forms, with the unread mail."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, InputRequiredResult, TextContent

from mcp_subagents.arguments import Given, parsed
from mcp_subagents.errors import SubagentsError
from mcp_subagents.server.calls import Call, DeliverySettings
from mcp_subagents.server.mail import unread
from mcp_subagents.server.room import EngineRoom
from mcp_subagents.server.tools import Answer
from mcp_subagents.shortening import shortened
from mcp_subagents.types import utc_now
from mcp_subagents.views import ListView, TaskView, WaitView
from mcp_subagents.words import list_in_words, task_in_words, wait_in_words

logger = logging.getLogger(__name__)

_LONGEST_REFUSAL = 4_000
_CRASHED = "The server made a mistake, which its log describes. Nothing is lost: `list_active_tasks` shows your tasks."

ToolMethod = Callable[[Call, Given], Awaitable[Answer]]


class Desk:
    """Where the calls of all hosts arrive."""

    def __init__(self, room: EngineRoom, settings: DeliverySettings) -> None:
        self._room = room
        self._settings = settings

    async def call(self, context: Context[Any, Any]) -> Call:
        """The call that is served in `context`. Raises: what keeps the engine from running."""
        return Call(engine=await self._room.engine(), context=context, settings=self._settings)

    async def serve(
        self, tool: ToolMethod[Given], takes: type[Given], arguments: Mapping[str, Any], context: Context[Any, Any]
    ) -> CallToolResult | InputRequiredResult:
        """Run one call. Whatever is wrong with it is said in the result."""
        try:
            call = await self.call(context)
            try:
                answer = await tool(call, parsed(takes, arguments))
            except SubagentsError as exc:
                return refused(str(exc), await unread(call.engine, owner=call.owner))
            return answer if isinstance(answer, InputRequiredResult) else await self.told(call, answer)
        except SubagentsError as exc:
            return refused(str(exc))
        except Exception:
            # The one catch-all: a broken call must not take the connection down.
            logger.exception("a call of %r crashed", tool.__name__)
            return refused(_CRASHED)

    async def told(self, call: Call, view: TaskView | WaitView | ListView) -> CallToolResult:
        """A view in both forms, each complete by itself."""
        structured = view.model_dump(mode="json")
        if isinstance(view, ListView) and not view.omitted:
            del structured["omitted"]
        text = _in_words(view, utc_now())
        if mail := await unread(call.engine, owner=call.owner):
            structured["unread"] = mail
            text = f"{text}\n\n{mail}"
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)


def refused(why: str, mail: str = "") -> CallToolResult:
    """A call that was not carried out, in words that say what would be right."""
    # Text alone: some clients hold the structured form of an error, too, against the schema of a result.
    said = shortened(why, _LONGEST_REFUSAL)[0]
    text = f"{said}\n\n{mail}" if mail else said
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def _in_words(view: TaskView | WaitView | ListView, now: datetime) -> str:
    match view:
        case TaskView():
            return task_in_words(view, now)
        case WaitView():
            return wait_in_words(view, now)
        case ListView():
            return list_in_words(view, now)
