"""Mistakes of a client that the SDK takes for crashes of the server."""

from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import ValidationError

_LONGEST = 300


async def tell_mistakes(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """As a middleware: a prompt that is not there, or not fully described, is told to the client and not to the log."""
    try:
        return await call_next(ctx)
    except ValueError as wrong:
        if ctx.method != "prompts/get" or isinstance(wrong, ValidationError):
            raise
        raise MCPError(code=INVALID_PARAMS, message=str(wrong)[:_LONGEST]) from wrong
