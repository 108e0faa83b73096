"""A host that takes native tasks, by the SDK's own client."""

from asyncio import Queue
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.lowlevel
import pytest
from mcp.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, NotificationBinding, ResultClaim
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitResult, Request, Result
from office import SETTINGS
from pydantic import BaseModel, ConfigDict

from mcp_subagents import SubAgentConfig, create_server

TASKS = "io.modelcontextprotocol/tasks"
MODERN = "2026-07-28"
OVER = {"completed", "failed", "cancelled"}


class Whole(Result):
    """A result with all that is in it."""

    model_config = ConfigDict(extra="allow")

    def said(self) -> dict[str, Any]:
        """All but what the SDK says of the server in every result."""
        return self.model_dump(by_alias=True, exclude_unset=True, exclude={"meta"})


class Created(Whole):
    """What stands in place of a result: a native task."""

    result_type: Literal["task"] = "task"


class OfATask(Request[dict[str, Any], str]):
    """`tasks/get`, `tasks/update` or `tasks/cancel`; its task is named in a header too."""

    name_param = "taskId"


class Told(BaseModel):
    """The parameters of `notifications/tasks`."""

    model_config = ConfigDict(extra="allow")


class TakesTasks(ClientExtension):
    """What a client has to say and to know to be given native tasks."""

    identifier = TASKS

    def __init__(self) -> None:
        self.told = Queue[dict[str, Any]]()
        """What it was told of native tasks."""

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Created, resolve=_awaited)]

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        return [NotificationBinding(method="notifications/tasks", params_type=Told, handler=self._hear)]

    async def _hear(self, params: Told) -> None:
        await self.told.put(params.model_dump())


async def _awaited(created: Created, context: ClaimContext) -> CallToolResult:
    request = OfATask(method="tasks/get", params={"taskId": created.said()["taskId"]})
    while True:
        task = (await context.session.send_request(request, Whole)).said()
        if task["status"] in OVER:
            return CallToolResult.model_validate(task["result"])


class NativeHost:
    """Calls tools, and looks after the native tasks that come of it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def begin(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and have a native task."""
        created = await self.client.session.call_tool(tool, arguments, allow_claimed=True, allow_input_required=True)
        assert isinstance(created, Created), created
        return created.said()

    async def task(self, description: str = "Go.", **more: Any) -> str:
        """Delegate, and have the id of the native task."""
        return (await self.begin("task", description=description, subagent_type="worker", **more))["taskId"]

    async def get(self, task_id: str) -> dict[str, Any]:
        return await self.send("tasks/get", taskId=task_id)

    async def update(self, task_id: str, **said: object) -> dict[str, Any]:
        return await self.send("tasks/update", taskId=task_id, inputResponses=said)

    async def cancel(self, task_id: str) -> dict[str, Any]:
        return await self.send("tasks/cancel", taskId=task_id)

    async def until(self, task_id: str, *statuses: str) -> dict[str, Any]:
        """The native task, as soon as it is in one of these states; it is asked after as hosts do."""
        while (task := await self.get(task_id))["status"] not in statuses:
            assert task["status"] not in OVER, task
            await anyio.lowlevel.checkpoint()
        return task

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        request = OfATask(method=method, params=params)
        return (await self.client.session.send_request(request, Whole)).said()

    async def refusal(self, method: str, **params: Any) -> int:
        """The code of the error that comes back."""
        with pytest.raises(MCPError) as refused:
            await self.send(method, **params)
        assert len(refused.value.message) < 5_000, "what was sent is not sent back"
        return refused.value.code


def serving(folder: Path, *subagents: SubAgentConfig) -> MCPServer[Any]:
    """A server of ours whose tasks are in a file there."""
    return create_server(subagents, store=folder / "tasks.db", settings=SETTINGS)


@asynccontextmanager
async def hosting(server: Any, *, asks_user: bool = True) -> AsyncGenerator[NativeHost]:
    """A host in the newer era that takes native tasks; the block may last 10 seconds."""
    with anyio.fail_after(10):
        async with Client(
            server,
            mode=MODERN,
            extensions=[TakesTasks()],
            elicitation_callback=_never if asks_user else None,
            cache=None,
        ) as client:
            yield NativeHost(client)


async def _never(context: Any, params: Any) -> ElicitResult:
    raise AssertionError("a server of the newer era never calls back")


def accepted(answer: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"answer": answer}}
