"""The tools of a tool server, as a subagent sees them."""

from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic import ValidationError
from pydantic_ai import ModelRetry, RunContext, ToolFailed
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from mcp_subagents.equipment.bounded_results import bounded
from mcp_subagents.equipment.definitions import ToolServerDefinition
from mcp_subagents.equipment.tool_names import tool_names
from mcp_subagents.equipment.tool_servers import Session, ToolServers
from mcp_subagents.errors import ConfigError, ToolServerDown
from mcp_subagents.texts import brief

_ANY_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
"""The server knows what its tools take."""
_CONNECTION_CLOSED = -32000
_TIMED_OUT = -32001
_MAY_HAVE_HAPPENED = "it may or may not have taken effect. Check that before you call it again."


@dataclass(frozen=True, slots=True)
class User:
    """A subagent as one that uses tool servers: these are all that its definition has."""

    subagent: str
    keys: frozenset[str]


class ServedTools(AbstractToolset[Any]):
    """Calls go to the server, wherever it is in its life; trouble with it is told to the model.

    The server belongs to the engine, not to a run: a run that enters this starts nothing, but as long as it is in
    there, the server is not ended as one that nobody wants any more.
    """

    def __init__(self, definition: ToolServerDefinition, servers: ToolServers, user: User) -> None:
        self._definition = definition
        self._servers = servers
        self._user = user
        self._known: dict[str, tuple[str, ToolDefinition]] = {}
        """What it offered when it was last asked: its own name for each tool, and ours."""

    @property
    def id(self) -> str:
        return self._definition.name

    @property
    def tool_name_conflict_hint(self) -> str:
        return f"Give the tool server {self.id!r} another name, or the other tool."

    async def __aenter__(self) -> Self:
        self._servers.take(self._definition.key, self._user.subagent, self._user.keys)
        return self

    async def __aexit__(self, *args: object) -> bool | None:
        self._servers.leave(self._definition.key)
        return None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Its tools. Raises: `ToolServerDown`, if it has never been up."""
        session: Session | None = None
        try:
            session = await self._session()
            offered = await session.toolset.get_tools(ctx)
        except (ConfigError, ToolServerDown):
            if not self._known:
                raise
        except Exception as exc:
            if session is not None:
                session.is_doubtful = True
            if not self._known:
                raise ToolServerDown(self.id, f"does not say what tools it has: {brief(str(exc))}") from exc
        else:
            self._known = {
                name: (own, replace(offered[own].tool_def, name=name))
                for name, own in tool_names(self.id, offered).items()
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
            with session.calling():
                return bounded(await session.toolset.call_tool(own_name, tool_args, ctx, tool))
        except ToolFailed as exc:
            raise ToolFailed(bounded(exc.message)) from exc
        except ModelRetry as exc:
            # With tool errors told as failures, this is the protocol's own trouble.
            raise ToolFailed(await self._told(session, exc.__cause__ or exc)) from exc
        except Exception as exc:
            raise ToolFailed(await self._told(session, exc)) from exc

    async def _session(self) -> Session:
        return await self._servers.server(self._definition).session()

    async def _told(self, session: Session, exc: BaseException) -> str:
        """What has become of a call: only what is known, since the model acts on it."""
        server, said = f"The tool server {self.id!r}", bounded(session.words.masked(str(exc)))
        code = getattr(getattr(exc, "error", None), "code", None)
        if isinstance(exc, ValidationError):
            return f"{server} answered with something that cannot be read ({brief(said)}): {_MAY_HAVE_HAPPENED}"
        if code not in (None, _CONNECTION_CLOSED, _TIMED_OUT):
            return f"{server} refused the call: {said}"
        session.is_doubtful = True
        if code == _TIMED_OUT:
            return f"{server} did not answer within {self._definition.timeout:g} seconds: {_MAY_HAVE_HAPPENED}"
        if await session.is_alive():
            # A code of that kind may be the server's own; and what else there is went wrong between it and us.
            return (
                f"{server} refused the call: {said}"
                if code is not None
                else f"A call to the tool server {self.id!r} went wrong ({brief(said)}): {_MAY_HAVE_HAPPENED}"
            )
        if self._definition.kind != "stdio":
            return f"The connection to the tool server {self.id!r} was lost during this call: {_MAY_HAVE_HAPPENED}"
        await session.ended()
        ending = f" ({session.ending})" if session.ending else ""
        last = f" Its last words: {session.words.text}." if session.words.text else ""
        return (
            f"{server} stopped during this call{ending}: {_MAY_HAVE_HAPPENED}{last} "
            "It is started again with the next call."
        )
