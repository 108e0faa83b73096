"""The tools of a tool server, as a subagent sees them."""

import hashlib
import re
from dataclasses import replace
from typing import Any

from pydantic_ai import ModelRetry, RunContext, ToolFailed
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from mcp_subagents.equipment.definitions import ToolServerDefinition
from mcp_subagents.equipment.tool_servers import Session, ToolServers
from mcp_subagents.errors import ConfigError, ToolServerDown

_LONGEST_NAME = 64
"""What the strictest provider takes."""
_ANY_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
"""The server knows what its tools take."""
_CONNECTION_CLOSED = -32000
_TIMED_OUT = -32001
_MAY_HAVE_HAPPENED = "it may or may not have taken effect. Check that before you call it again."


def tool_name(server: str, tool: str) -> str:
    """`server__tool`, in characters and of a length that every provider takes."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}__{tool}")
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


class ServedTools(AbstractToolset[Any]):
    """Calls go to the server, wherever it is in its life; trouble with it is told to the model.

    The server belongs to the engine, not to a run: entering and leaving this starts and stops nothing.
    """

    def __init__(self, definition: ToolServerDefinition, servers: ToolServers) -> None:
        self._definition = definition
        self._servers = servers
        self._known: dict[str, tuple[str, ToolDefinition]] = {}
        """What it offered when it was last asked: its own name for each tool, and ours."""

    @property
    def id(self) -> str:
        return self._definition.name

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Its tools. Raises: `ToolServerDown`, if it has never been up."""
        try:
            session = await self._session()
            offered = await session.toolset.get_tools(ctx)
        except (ConfigError, ToolServerDown):
            if not self._known:
                raise
        except Exception as exc:
            if not self._known:
                raise ToolServerDown(self.id, f"does not say what tools it has: {exc}") from exc
        else:
            named = ((name, tool.tool_def) for name, tool in offered.items())
            self._known = {
                tool_name(self.id, name): (name, replace(tool_def, name=tool_name(self.id, name)))
                for name, tool_def in named
            }
        # One that was up before and is not now keeps its tools: whoever calls one is told.
        return {
            name: ToolsetTool(
                toolset=self,
                tool_def=tool_def,
                max_retries=ctx.max_retries,
                args_validator=_ANY_ARGUMENTS,
            )
            for name, (_, tool_def) in self._known.items()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """What the server makes of the call. Raises: `ToolFailed`, in words for the model."""
        if name not in self._known:
            raise ToolFailed(f"The tool server {self.id!r} has no {name!r} any more.")
        own_name, _ = self._known[name]
        try:
            session = await self._session()
        except (ConfigError, ToolServerDown) as exc:
            raise ToolFailed(f"{exc} The call was not made.") from exc
        try:
            return await session.toolset.call_tool(own_name, tool_args, ctx, tool)
        except ToolFailed:
            raise
        except ModelRetry as exc:
            # With tool errors told as failures, this is the protocol's own trouble.
            raise ToolFailed(await self._told(session, exc.__cause__ or exc)) from exc
        except Exception as exc:
            session.is_lost = True
            raise ToolFailed(await self._told(session, exc)) from exc

    async def _session(self) -> Session:
        return await self._servers.server(self._definition).session()

    async def _told(self, session: Session, exc: BaseException) -> str:
        code = getattr(getattr(exc, "error", None), "code", None)
        if code == _TIMED_OUT:
            seconds = self._definition.timeout
            return f"The tool server {self.id!r} did not answer within {seconds:g} seconds: {_MAY_HAVE_HAPPENED}"
        if code is not None and code != _CONNECTION_CLOSED:
            return f"The tool server {self.id!r} refused the call: {session.words.masked(str(exc))}"
        session.is_lost = True
        await session.words.heard()
        said = f" Its last words: {session.words.text}." if session.words.text else ""
        return (
            f"The tool server {self.id!r} stopped during this call: {_MAY_HAVE_HAPPENED}{said} "
            "It is started again with the next call."
        )
