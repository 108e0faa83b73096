"""A result that is JSON is announced as JSON, read by read; a template of the SDK has one type for all."""

import re
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from mcp_subagents.addresses import RESULT
from mcp_subagents.errors import SubagentsError
from mcp_subagents.server.calls import OWNER
from mcp_subagents.server.room import EngineRoom

_RESULT = re.compile(re.escape(RESULT).replace(re.escape("{task_id}"), "([^/]+)"))


class ResultTypes:
    """As a middleware: says of each result that is read what it is."""

    def __init__(self, room: EngineRoom) -> None:
        self._room = room

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        answer = await call_next(ctx)
        if ctx.method != "resources/read" or not isinstance(answer, dict):
            return answer
        found = _RESULT.fullmatch(str((ctx.params or {}).get("uri", "")))
        if found is None or not await self._is_structured(found[1]):
            return answer
        contents: list[dict[str, Any]] = answer.get("contents", [])
        return {**answer, "contents": [{**each, "mimeType": "application/json"} for each in contents]}

    async def _is_structured(self, task_id: str) -> bool:
        try:
            return (await (await self._room.engine()).check(task_id, owner=OWNER)).is_structured
        except SubagentsError:
            return False  # it was there a moment ago
