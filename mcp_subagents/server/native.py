"""Native MCP tasks (`io.modelcontextprotocol/tasks`), as one more way to wait for ours.

A client that declares the extension gets a native task in place of a call that would block. It is a view of what is
in the store: nothing is kept here that a restart could lose.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.server import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import HEADER_MISMATCH, INVALID_PARAMS, CallToolRequestParams, CallToolResult, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from mcp_subagents.errors import SubagentsError, UnknownTask
from mcp_subagents.server.calls import Call
from mcp_subagents.server.desk import Desk, refused

TASKS = "io.modelcontextprotocol/tasks"
MODERN = frozenset(MODERN_PROTOCOL_VERSIONS)
POLL_EVERY_MS = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Native:
    """A native task as it stands; what it is waiting for, or how it ended."""

    task_id: str
    created_at: datetime
    updated_at: datetime
    doing: str = ""
    result: CallToolResult | None = None
    error: Mapping[str, Any] | None = None
    asks: Mapping[str, Any] | None = None
    is_cancelled: bool = False

    @property
    def status(self) -> str:
        if self.is_cancelled:
            return "cancelled"
        if self.error is not None:
            return "failed"
        if self.result is not None:
            return "completed"
        return "input_required" if self.asks else "working"

    def brief(self) -> dict[str, Any]:
        """The task without its outcome: a dict, for the SDK drops every `None` from a model, and `ttlMs` must stay."""
        said = {"statusMessage": self.doing} if self.doing else {}
        return {
            "taskId": self.task_id,
            "status": self.status,
            "createdAt": _stamp(self.created_at),
            "lastUpdatedAt": _stamp(self.updated_at),
            "ttlMs": None,
            "pollIntervalMs": POLL_EVERY_MS,
            **said,
        }

    def whole(self) -> dict[str, Any]:
        """The task with its outcome, or with what it asks."""
        match self.status:
            case "completed" if self.result is not None:
                outcome = {"result": self.result.model_dump(by_alias=True, mode="json", exclude_none=True)}
            case "failed":
                outcome = {"error": self.error}
            case "input_required":
                outcome = {"inputRequests": self.asks}
            case _:
                outcome = {}
        return {**self.brief(), **outcome}


class Foreground(Protocol):
    """A tool whose blocking call can be a native task."""

    def owns(self, task_id: str) -> bool:
        """Whether that native task is one of this tool."""
        ...

    async def begin(self, call: Call, arguments: Mapping[str, Any]) -> str | None:
        """Take the call on and name its native task; `None` for a call that does not block."""
        ...

    async def look(self, call: Call, task_id: str) -> Native:
        """How the native task stands. Raises: `UnknownTask`."""
        ...

    async def update(self, call: Call, task_id: str, said: Mapping[str, Any]) -> None:
        """Pass on what the client's user has said."""
        ...

    async def cancel(self, call: Call, task_id: str) -> None: ...

    def about(self, task_id: str) -> Sequence[str]:
        """The tasks of ours that the native task depends on."""
        ...


class TaskIdParams(RequestParams):
    task_id: str = Field(alias="taskId")


class UpdateParams(TaskIdParams):
    input_responses: dict[str, Any] = Field(alias="inputResponses")


class NativeTasks(Extension):
    """The extension, for the tools that block. The first of them that owns a task id serves it."""

    identifier = TASKS

    def __init__(self, desk: Desk, foreground: Mapping[str, Foreground]) -> None:
        self._desk = desk
        self._foreground = foreground

    def methods(self) -> Sequence[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskIdParams, self._get, MODERN),
            MethodBinding("tasks/update", UpdateParams, self._update, MODERN),
            MethodBinding("tasks/cancel", TaskIdParams, self._cancel, MODERN),
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        tool = self._foreground.get(params.name)
        if tool is None or not is_declared(ctx):
            return await call_next(ctx)
        try:
            call = await self._desk.call(Context(request_context=ctx, input_params=params))
            task_id = await tool.begin(call, params.arguments or {})
            if task_id is None:
                return await call_next(ctx)
            native = await tool.look(call, task_id)
        except SubagentsError as exc:
            return refused(str(exc))
        return {"resultType": "task", **native.brief()}

    async def look(self, ctx: ServerRequestContext[Any, Any], task_id: str) -> Native:
        """How a native task stands. Raises: `MCPError` for one that is not known."""
        call = await self._desk.call(Context(request_context=ctx))
        try:
            return await self._tool(task_id).look(call, task_id)
        except UnknownTask as exc:
            raise MCPError(code=INVALID_PARAMS, message=str(exc)) from exc

    def about(self, task_id: str) -> Sequence[str]:
        """The tasks of ours that the native task depends on."""
        return self._tool(task_id).about(task_id)

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskIdParams) -> dict[str, Any]:
        _admit(ctx, params.task_id)
        return {"resultType": "complete", **(await self.look(ctx, params.task_id)).whole()}

    async def _update(self, ctx: ServerRequestContext[Any, Any], params: UpdateParams) -> dict[str, Any]:
        _admit(ctx, params.task_id)
        await self.look(ctx, params.task_id)
        call = await self._desk.call(Context(request_context=ctx))
        await self._tool(params.task_id).update(call, params.task_id, params.input_responses)
        return {"resultType": "complete"}

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskIdParams) -> dict[str, Any]:
        _admit(ctx, params.task_id)
        await self.look(ctx, params.task_id)
        call = await self._desk.call(Context(request_context=ctx))
        await self._tool(params.task_id).cancel(call, params.task_id)
        return {"resultType": "complete"}

    def _tool(self, task_id: str) -> Foreground:
        return next(tool for tool in self._foreground.values() if tool.owns(task_id))


def is_declared(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client takes native tasks. In the older era it may say so, but cannot be sent one."""
    capabilities = ctx.session.client_capabilities
    return ctx.protocol_version in MODERN and capabilities is not None and TASKS in (capabilities.extensions or {})


def _admit(ctx: ServerRequestContext[Any, Any], task_id: str) -> None:
    require_client_extension(ctx, TASKS)
    headers = getattr(ctx.request, "headers", None)
    named = headers.get(MCP_NAME_HEADER) if headers is not None else None
    if named is not None and decode_header_value(named) != task_id:
        raise MCPError(code=HEADER_MISMATCH, message="The Mcp-Name header does not match params.taskId.")


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
