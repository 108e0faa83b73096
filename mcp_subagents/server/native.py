"""Native MCP tasks (`io.modelcontextprotocol/tasks`), as one more way to wait for ours.

A client that declares the extension gets a native task in place of a call that would block. It is a view of what is
in the store, and so survives this process as what it shows does.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.server import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    RequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from mcp_subagents.errors import SubagentsError, UnknownTask
from mcp_subagents.server.calls import Call
from mcp_subagents.server.desk import Desk

TASKS = "io.modelcontextprotocol/tasks"
MODERN = frozenset(MODERN_PROTOCOL_VERSIONS)
POLL_EVERY_MS = 1_000
OVER = frozenset({"completed", "failed", "cancelled"})
"""The states of a native task that it never leaves."""
LONGEST_ID = 4_000
"""A native id travels in a header."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Native:
    """A native task as it stands, without its result."""

    task_id: str
    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None
    """When what it shows has ended: from then on the time is counted for which it is kept."""
    doing: str = ""
    asks: Mapping[str, Any] | None = None
    """The requests it waits for, by their keys; with `input_required`."""
    error: Mapping[str, Any] | None = None
    """The JSON-RPC error it ended in; with `failed`."""

    @property
    def is_over(self) -> bool:
        return self.status in OVER


class Foreground(Protocol):
    """A tool whose blocking call can be a native task."""

    def owns(self, task_id: str) -> bool:
        """Whether that native task is one of this tool."""
        ...

    def about(self, task_id: str) -> Sequence[str]:
        """The tasks of ours that the native task depends on. Raises: `UnknownTask`."""
        ...

    async def begin(self, call: Call, arguments: Mapping[str, Any]) -> Native | None:
        """Take the call on; `None` if it is not one that blocks. Raises: what is wrong with the call."""
        ...

    async def look(self, call: Call, task_id: str) -> Native:
        """How the native task stands; nothing counts as seen by that. Raises: `UnknownTask`."""
        ...

    async def result(self, call: Call, task_id: str, *, unasked: bool) -> CallToolResult:
        """What the call returns, of a native task that is completed. The owner has seen it then."""
        ...

    async def update(self, call: Call, task_id: str, said: Mapping[str, Any]) -> None:
        """Pass on what the client's user has said."""
        ...

    async def cancel(self, call: Call, task_id: str) -> None:
        """Cancel the native task, which is not over."""
        ...


class TaskIdParams(RequestParams):
    task_id: str = Field(alias="taskId", max_length=LONGEST_ID)


class UpdateParams(TaskIdParams):
    input_responses: dict[str, Any] = Field(alias="inputResponses")


class NativeTasks(Extension):
    """The extension, for the tools that block."""

    identifier = TASKS

    def __init__(self, desk: Desk, foreground: Mapping[str, Foreground], *, retention: timedelta) -> None:
        self.foreground = dict(foreground)
        """The tools, by their names. The first of them that owns a task id serves it."""
        self._desk = desk
        # A century is for ever.
        self._retention = retention

    def methods(self) -> Sequence[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskIdParams, self._get, MODERN),
            MethodBinding("tasks/update", UpdateParams, self._update, MODERN),
            MethodBinding("tasks/cancel", TaskIdParams, self._cancel, MODERN),
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        tool = self.foreground.get(params.name)
        if tool is None or not is_declared(ctx):
            return await call_next(ctx)
        try:
            call = await self._desk.call(Context(request_context=ctx, input_params=params))
            native = await tool.begin(call, params.arguments or {})
        except SubagentsError:
            native = None  # the tool itself says best what is wrong with the call
        if native is None:
            return await call_next(ctx)
        return {"resultType": "task", **self._brief(native)}

    async def whole(
        self, ctx: ServerRequestContext[Any, Any], task_id: str, *, unasked: bool = False
    ) -> dict[str, Any]:
        """A native task with its outcome, or with what it asks. Raises: `MCPError` for one that is not known.

        What is sent `unasked` does not count as read: nobody may be listening.
        """
        with _in_terms_of_the_protocol():
            tool, call = self._tool(task_id), await self._call(ctx)
            native = await tool.look(call, task_id)
            match native.status:
                case "completed":
                    result = await tool.result(call, task_id, unasked=unasked)
                    outcome = {"result": result.model_dump(by_alias=True, mode="json", exclude_none=True)}
                case "failed":
                    outcome = {"error": native.error}
                case "input_required":
                    outcome = {"inputRequests": native.asks}
                case "working" | "cancelled":
                    outcome = {}
        return {**self._brief(native), **outcome}

    def about(self, task_id: str) -> Sequence[str]:
        """The tasks of ours that the native task depends on. Raises: `UnknownTask`."""
        return self._tool(task_id).about(task_id)

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskIdParams) -> dict[str, Any]:
        _admit(ctx, params.task_id)
        return {"resultType": "complete", **await self.whole(ctx, params.task_id)}

    async def _update(self, ctx: ServerRequestContext[Any, Any], params: UpdateParams) -> dict[str, Any]:
        _admit(ctx, params.task_id)
        with _in_terms_of_the_protocol():
            tool, call = self._tool(params.task_id), await self._call(ctx)
            if not (await tool.look(call, params.task_id)).is_over:
                await tool.update(call, params.task_id, params.input_responses)
        return {"resultType": "complete"}

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskIdParams) -> dict[str, Any]:
        _admit(ctx, params.task_id)
        with _in_terms_of_the_protocol():
            tool, call = self._tool(params.task_id), await self._call(ctx)
            if not (await tool.look(call, params.task_id)).is_over:
                await tool.cancel(call, params.task_id)
        return {"resultType": "complete"}

    async def _call(self, ctx: ServerRequestContext[Any, Any]) -> Call:
        return await self._desk.call(Context(request_context=ctx))

    def _tool(self, task_id: str) -> Foreground:
        return next(tool for tool in self.foreground.values() if tool.owns(task_id))

    def _brief(self, native: Native) -> dict[str, Any]:
        """The task without its outcome: a dict, for the SDK drops every `None` from a model, and `ttlMs` must stay."""
        said = {"statusMessage": native.doing} if native.doing else {}
        kept = native.ended_at - native.created_at + self._retention if native.ended_at else None
        return {
            "taskId": native.task_id,
            "status": native.status,
            "createdAt": _stamp(native.created_at),
            "lastUpdatedAt": _stamp(native.updated_at),
            # What has not ended is kept without limit.
            "ttlMs": None if kept is None else max(1, kept // timedelta(milliseconds=1)),
            "pollIntervalMs": POLL_EVERY_MS,
            **said,
        }


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


@contextmanager
def _in_terms_of_the_protocol() -> Generator[None]:
    try:
        yield
    except UnknownTask as exc:
        raise MCPError(code=INVALID_PARAMS, message=str(exc)) from exc
    except SubagentsError as exc:
        raise MCPError(code=INTERNAL_ERROR, message=str(exc)) from exc


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
