"""Helpers to reach subagents as a host does: through an MCP client."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp.client._memory as memory
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, Implementation, TextContent
from pydantic_ai import Agent
from pydantic_ai.messages import ToolCallPart

from mcp_subagents.config import SubAgentConfig
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.server import DeliverySettings, create_server
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.testing import Line, ScriptedModel

SETTINGS = EngineSettings(hot_wait=0.01)
PATIENT = DeliverySettings(sync_patience=60)
AT_ONCE = DeliverySettings(sync_patience=0)
"""A host that cannot wait at all."""


def subagent(*lines: Line, tools: Any = (), name: str = "general-purpose", **more: Any) -> SubAgentConfig:
    """A subagent whose model speaks these lines."""
    config: Any = {
        "name": name,
        "description": f"What {name} does.",
        "instructions": "",
        "retry_initial_delay": 0.0,
        "agent": Agent(ScriptedModel(*lines), tools=tools),
    }
    return SubAgentConfig(**{**config, **more})


def requests_of(config: SubAgentConfig) -> list[list[Any]]:
    """The messages of every request that the model of a `subagent` has got."""
    return config.get("agent").model.requests  # pyright: ignore[reportOptionalMemberAccess]


def ask(question: str, question_id: str = "q1") -> ToolCallPart:
    return ToolCallPart("ask_parent", {"question": question}, tool_call_id=question_id)


class Gate:
    """A tool that lets nobody pass until it is opened."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self.open = anyio.Event()

    async def gate(self) -> str:
        self.reached.set()
        await self.open.wait()
        return "passed"


PASS = ToolCallPart("gate", {}, tool_call_id="g1")


def server_of(
    *subagents: SubAgentConfig, delivery: DeliverySettings = PATIENT, store: Any = None, **more: Any
) -> MCPServer[Any]:
    given: Any = {"settings": SETTINGS, **more}
    return create_server(subagents, delivery=delivery, store=MemoryStore() if store is None else store, **given)


@asynccontextmanager
async def connected(
    server: MCPServer[Any], era: str, *, host: str = "a host", wire: bool = False, **more: Any
) -> AsyncGenerator[Client]:
    """A client of `server`. In the newer era it calls handlers directly, unless `wire`: then messages are sent."""
    door: Any = memory.InMemoryTransport(server) if wire else server
    info = Implementation(name=host, version="1")
    with anyio.fail_after(10):
        async with Client(door, mode=era, client_info=info, **more) as client:  # pyright: ignore[reportArgumentType]
            yield client


@asynccontextmanager
async def host_of(
    *subagents: SubAgentConfig, era: str, delivery: DeliverySettings = PATIENT, **more: Any
) -> AsyncGenerator[Client]:
    """A client of a server with these subagents."""
    async with connected(server_of(*subagents, delivery=delivery), era, **more) as client:
        yield client


def said(result: CallToolResult) -> str:
    """The text of a result."""
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


def view(result: CallToolResult) -> dict[str, Any]:
    """The structured form of a result that is no error."""
    assert not result.is_error, said(result)
    assert result.structured_content is not None
    return result.structured_content


def refusal(result: CallToolResult) -> str:
    """The words of a result that is an error."""
    assert result.is_error
    assert result.structured_content is None
    return said(result)


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    return view(await client.call_tool(tool, arguments))


async def delegate(client: Client, description: str = "Go.", **more: Any) -> str:
    """The id of a new task that runs in the background."""
    return (await call(client, "task", description=description, **{"mode": "async", **more}))["task_id"]


async def outcome(client: Client, task_id: str) -> dict[str, Any]:
    """The task, when it has ended or asks. It is read by that."""
    return (await call(client, "wait_tasks", task_ids=[task_id]))["tasks"][0]


class User:
    """Someone in front of a host, who answers forms."""

    def __init__(self, *answers: ElicitResult | str) -> None:
        self.asked: list[str] = []
        self._answers = [
            ElicitResult(action="accept", content={"answer": a}) if isinstance(a, str) else a for a in answers
        ]

    async def __call__(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        return self._answers.pop(0)
