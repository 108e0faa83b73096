"""A host that cancels its sync call cancels the task; one that leaves, or only stops waiting, does not.

In the newer era a client in the same process sends no word of a cancel: there these go over a wire.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from front import AT_ONCE, PASS, Gate, ask, call, connected, delegate, server_of, subagent
from mcp import Client, MCPError
from mcp.client._memory import InMemoryTransport
from mcp.client._transport import TransportStreams
from mcp.server.connection import Connection
from mcp_types import CancelledNotification, CancelledNotificationParams

from mcp_subagents.server.cancels import Cancels
from mcp_subagents.store.memory import MemoryStore


async def status_of(host: Client) -> str:
    """How the only task stands, as soon as it runs or has ended."""
    return (await only_task(host))["status"]


async def only_task(host: Client) -> dict[str, Any]:
    [contents] = (await host.read_resource("subagents://tasks")).contents
    [task] = json.loads(getattr(contents, "text", ""))["tasks"]
    return await call(host, "check_task", task_id=task["task_id"])


@asynccontextmanager
async def calling(host: Client, tool: str, **arguments: Any) -> AsyncGenerator[anyio.CancelScope]:
    """A call that is under way in the block; the scope cancels it."""
    async with anyio.create_task_group() as group:
        scope = anyio.CancelScope()

        async def run() -> None:
            with scope:
                await host.call_tool(tool, arguments)

        group.start_soon(run)
        yield scope


async def test_a_cancelled_call_cancels_its_task(era: str):
    gate = Gate()
    async with connected(server_of(subagent(PASS, tools=[gate.gate])), era, wire=True) as host:
        async with calling(host, "task", description="Go.") as scope:
            await gate.reached.wait()
            scope.cancel()
        task = await only_task(host)
        while task["status"] == "running":
            task = await only_task(host)
    assert (task["status"], task["failure"]["failure_type"]) == ("cancelled", "cancelled")


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("User pressed Escape", "cancelled"),
        (None, "cancelled"),
        ("", "cancelled"),
        ("Request timed out", "running"),
        ("timeout of 60000ms exceeded", "running"),
        ("timed out after 2s", "running"),
        ("MCP error -32001: Request timed out", "running"),
    ],
)
async def test_the_reason_tells_a_cancel_from_a_client_that_gives_up(reason: str | None, status: str, era: str):
    gate = Gate()
    async with connected(server_of(subagent(PASS, tools=[gate.gate])), era, wire=True) as host:
        async with calling(host, "task", description="Go.") as scope:
            await gate.reached.wait()
            request_id = await in_flight(host)
            params = CancelledNotificationParams(request_id=request_id, reason=reason)
            await host.session.send_notification(CancelledNotification(params=params))
            await call(host, "list_active_tasks")  # the word of the cancel was before it
            while (now := await status_of(host)) == "running" and status != "running":
                await anyio.lowlevel.checkpoint()
            scope.cancel()
    assert now == status


async def test_a_cancel_that_comes_after_the_call_has_returned_cancels_nothing(era: str):
    gate = Gate()
    server = server_of(subagent(PASS, tools=[gate.gate]), delivery=AT_ONCE)
    async with connected(server, era, wire=True) as host:
        await call(host, "task", description="Go.")
        await gate.reached.wait()
        for request_id in range(10):
            params = CancelledNotificationParams(request_id=request_id, reason="User pressed Escape")
            await host.session.send_notification(CancelledNotification(params=params))
        await call(host, "list_active_tasks")
        assert await status_of(host) == "running"


async def in_flight(host: Client) -> Any:
    """The id of the only request under way."""
    dispatcher: Any = host.session._dispatcher  # pyright: ignore[reportPrivateUsage]
    [request_id] = dispatcher._pending
    return request_id


async def test_a_cancelled_wait_cancels_nothing(era: str):
    gate = Gate()
    async with connected(server_of(subagent(PASS, tools=[gate.gate])), era, wire=True) as host:
        task_id = await delegate(host)
        await gate.reached.wait()
        async with calling(host, "wait_tasks", task_ids=[task_id]) as scope:
            await call(host, "list_active_tasks")
            scope.cancel()
        await call(host, "list_active_tasks")
        assert await status_of(host) == "running"


async def test_a_cancelled_answer_to_a_sync_task_cancels_it(era: str):
    gate = Gate()
    server = server_of(subagent(ask("Which?"), PASS, tools=[gate.gate]))
    async with connected(server, era, wire=True) as host:
        task = await call(host, "task", description="Go.")
        async with calling(host, "answer_subagent", task_id=task["task_id"], answer="This.") as scope:
            await gate.reached.wait()
            scope.cancel()
        while await status_of(host) == "running":
            await anyio.lowlevel.checkpoint()
        assert await status_of(host) == "cancelled"


async def test_a_cancel_that_comes_while_the_task_is_stored_finds_it(era: str):
    class SlowStore(MemoryStore):
        async def create(self, *args: Any, **more: Any) -> Any:
            storing.set()
            await store_it.wait()
            return await super().create(*args, **more)

    storing, store_it = anyio.Event(), anyio.Event()
    server = server_of(subagent("Done."), store=SlowStore())
    async with connected(server, era, wire=True) as host:
        async with calling(host, "task", description="Go.") as scope:
            await storing.wait()
            scope.cancel()
        await call(host, "list_active_tasks")
        store_it.set()
        while "cancelled" not in str((await host.read_resource("subagents://tasks")).contents):
            await anyio.lowlevel.checkpoint()
        assert await status_of(host) == "cancelled"


class Cable(InMemoryTransport):
    """A connection that can be cut."""

    async def __aenter__(self) -> TransportStreams:
        self.streams = await super().__aenter__()
        return self.streams

    async def cut(self) -> None:
        await self.streams[1].aclose()


async def test_a_lost_connection_cancels_nothing(era: str):
    gate = Gate()
    server = server_of(subagent(PASS, "Done.", tools=[gate.gate]))
    cable = Cable(server)

    async def lose() -> None:
        async with Client(cable, mode=era) as host:  # pyright: ignore[reportArgumentType]
            with pytest.raises(MCPError, match="Connection closed"):
                await host.call_tool("task", {"description": "Go."})

    async with connected(server, era) as other, anyio.create_task_group() as group:
        group.start_soon(lose)
        await gate.reached.wait()
        await cable.cut()
        assert await status_of(other) == "running"
        gate.open.set()
        while await status_of(other) == "running":
            await anyio.lowlevel.checkpoint()
        assert (await only_task(other))["result"] == "Done."


async def test_nobody_cancels_the_calls_of_others(era: str):
    gate = Gate()
    server = server_of(subagent(PASS, tools=[gate.gate]))
    async with connected(server, era, wire=True) as host, connected(server, era, wire=True) as other:
        async with calling(host, "task", description="Go.") as scope:
            await gate.reached.wait()
            for request_id in range(10):
                params = CancelledNotificationParams(request_id=request_id, reason="no")
                await other.session.send_notification(CancelledNotification(params=params))
            await call(other, "list_active_tasks")
            assert await status_of(other) == "running"
            scope.cancel()


async def test_nobody_cancels_by_a_mere_number_where_nothing_ties_requests_together():
    """Over HTTP the requests of the newer era have no connection in common, whoever sends them."""
    room: Any = SimpleNamespace(engine=None)
    cancels = Cancels(room)

    def request(**more: Any) -> Any:
        connection = Connection.from_envelope("2026-07-28", None, None)
        return SimpleNamespace(session=SimpleNamespace(_connection=connection), **more)

    async def nothing_more(ctx: Any) -> None: ...

    with cancels.heard(request(request_id=1)) as sync:
        word = request(method="notifications/cancelled", params={"requestId": 1})
        await cancels(word, nothing_more)
    assert not sync.is_cancelled


async def test_a_read_timeout_says_so_to_the_server(era: str):
    """What the SDK's own client says when it gives up is what we take for giving up."""
    gate = Gate()
    async with connected(server_of(subagent(PASS, tools=[gate.gate])), era, wire=True) as host:
        await call(host, "list_active_tasks")
        with pytest.raises(MCPError):
            await host.call_tool("task", {"description": "Go."}, read_timeout_seconds=0.3)
        await gate.reached.wait()
        await call(host, "list_active_tasks")
        assert await status_of(host) == "running"
