"""Subscribers hear of what changes: in both eras of the protocol, whichever process changed it, at their own pace."""

import json
import sys
from asyncio import Queue
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import scripted_server
from listening import listening
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.mcpserver import MCPServer
from mcp.server.runner import serve_loop
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import (
    EmptyResult,
    JSONRPCNotification,
    JSONRPCRequest,
    Request,
    ResourceUpdatedNotification,
    SubscribeRequest,
    SubscribeRequestParams,
    SubscriptionsAcknowledgedNotification,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
)
from native_host import MODERN, NativeHost, TakesTasks, Whole, hosting, serving
from office import subagent
from pydantic_ai.messages import ToolCallPart

from mcp_subagents.server import notices
from mcp_subagents.server.notices import Mailbox, TaskChanged
from mcp_subagents.testing import Line

ALL = "subagents://tasks"
PROGRAM = str(Path(scripted_server.__file__))
SENDER = "notices of a subscriber"


def one(task_id: str) -> str:
    return f"{ALL}/{task_id}"


def asking(*lines: Line) -> Any:
    return subagent(ToolCallPart("ask_parent", {"question": "Which river?"}, tool_call_id="q1"), *lines)


class Heard:
    """What a client was told: addresses that have changed, and acknowledgements."""

    def __init__(self) -> None:
        self.updates = Queue[str]()
        self.acknowledged = Queue[dict[str, Any]]()

    async def __call__(self, message: object) -> None:
        match message:
            case ResourceUpdatedNotification(params=params):
                await self.updates.put(str(params.uri))
            case SubscriptionsAcknowledgedNotification(params=params):
                await self.acknowledged.put(params.notifications.model_dump(by_alias=True, exclude_none=True))
            case _:
                pass

    async def until(self, uri: str) -> list[str]:
        """Wait for word of that address, and say of which others word came before."""
        others: list[str] = []
        while (heard := await self.updates.get()) != uri:
            others.append(heard)
        return others


async def delegate(client: Client, subagent_type: str = "worker") -> str:
    given = {"description": "Go.", "subagent_type": subagent_type, "mode": "async"}
    done = await client.call_tool("task", given)
    assert done.structured_content is not None
    return done.structured_content["task_id"]


async def answer(client: Client, task_id: str) -> None:
    assert not (await client.call_tool("answer_subagent", {"task_id": task_id, "answer": "The Rhine"})).is_error


async def subscribe(client: Client, uri: str) -> None:
    # The client's own method warns that the newer era has none.
    await client.session.send_request(SubscribeRequest(params=SubscribeRequestParams(uri=uri)), EmptyResult)


async def unsubscribe(client: Client, uri: str) -> None:
    await client.session.send_request(UnsubscribeRequest(params=UnsubscribeRequestParams(uri=uri)), EmptyResult)


async def status(client: Client, task_id: str) -> str:
    done = await client.call_tool("check_task", {"task_id": task_id})
    assert done.structured_content is not None
    return done.structured_content["status"]


async def until_asking(client: Client, task_id: str) -> None:
    waited = await client.call_tool("wait_tasks", {"task_ids": [task_id]})
    assert waited.structured_content is not None
    assert waited.structured_content["tasks"][0]["questions"]


@asynccontextmanager
async def legacy(server: Any, heard: Heard | None = None) -> AsyncGenerator[Client]:
    with anyio.fail_after(10):
        async with Client(server, mode="legacy", message_handler=heard) as client:
            yield client


async def test_a_client_of_the_older_era_subscribes_and_unsubscribes(tmp_path: Path):
    heard = Heard()
    async with legacy(serving(tmp_path, asking("Basel.")), heard) as client:
        assert client.server_capabilities.resources is not None
        assert client.server_capabilities.resources.subscribe is True
        task_id = await delegate(client)
        await until_asking(client, task_id)
        for uri in (one(task_id), f"{one(task_id)}/transcript", f"{one(task_id)}/result"):
            await subscribe(client, uri)
        await unsubscribe(client, one(task_id))
        await unsubscribe(client, "subagents://never/subscribed")
        await answer(client, task_id)
        assert set(await heard.until(f"{one(task_id)}/result")) == {f"{one(task_id)}/transcript"}
        assert await status(client, task_id) == "completed"


async def test_a_client_of_the_newer_era_listens(tmp_path: Path):
    with anyio.fail_after(10):
        async with Client(serving(tmp_path, asking("Basel.")), mode=MODERN) as client:
            task_id = await delegate(client)
            await until_asking(client, task_id)
            uris = [f"{one(task_id)}/result", "subagents://tasks/another"]
            async with client.listen(resource_subscriptions=uris, tools_list_changed=True) as changes:
                await answer(client, task_id)
                assert await anext(aiter(changes)) == ResourceUpdated(f"{one(task_id)}/result")
                assert await status(client, task_id) == "completed"


def listen_for(*task_ids: object) -> Request[dict[str, Any], str]:
    return Request[dict[str, Any], str](
        method="subscriptions/listen", params={"notifications": {"taskIds": [*task_ids]}}
    )


@asynccontextmanager
async def told_of(host: NativeHost, heard: Heard, *task_ids: object) -> AsyncGenerator[dict[str, Any]]:
    """Listen for these native tasks; what the server says it will tell of."""
    request = listen_for(*task_ids)
    async with anyio.create_task_group() as group:
        group.start_soon(host.client.session.send_request, request, Whole)
        yield await heard.acknowledged.get()
        group.cancel_scope.cancel()


@asynccontextmanager
async def native(server: Any) -> AsyncGenerator[tuple[NativeHost, Heard, Queue[dict[str, Any]]]]:
    """A host that takes native tasks, what it hears, and what it is told of them."""
    heard, takes = Heard(), TakesTasks()
    with anyio.fail_after(10):
        async with Client(
            server, mode=MODERN, extensions=[takes], message_handler=heard, elicitation_callback=_never
        ) as client:
            yield NativeHost(client), heard, takes.told


async def _never(context: Any, params: Any) -> Any:
    raise AssertionError("a server of the newer era never calls back")


async def test_native_tasks_are_told_of_whole_until_they_are_over(tmp_path: Path):
    async with native(serving(tmp_path, asking("Basel."))) as (host, heard, told):
        task_id = await host.task()
        await host.until(task_id, "input_required")
        waiting = (await host.begin("wait_tasks", task_ids=[task_id]))["taskId"]
        named: list[object] = [task_id, "no-such-task", 7, [], {}, "wait.broken", waiting]
        async with told_of(host, heard, *named) as honored:
            assert honored == {"taskIds": [task_id, "no-such-task", waiting]}
            await host.update(task_id, q1={"action": "accept", "content": {"answer": "The Rhine"}})
            last: dict[str, dict[str, Any]] = {}
            while {each["status"] for each in last.values()} != {"completed"} or len(last) < 2:
                each = await told.get()
                meta = each.pop("_meta")
                assert meta.keys() == {"io.modelcontextprotocol/subscriptionId"}
                assert last.get(each["taskId"], each)["status"] != "completed", "nothing follows the end"
                last[each["taskId"]] = each
            for native_id in (task_id, waiting):
                got = await host.get(native_id)
                assert got.pop("resultType") == "complete"
                assert {**last[native_id], "result": None} == {**got, "result": None}
            assert last[task_id]["result"]["structuredContent"]["result"] == "Basel."
            await host.client.call_tool("check_task", {"task_id": task_id})
        assert told.empty()


async def test_a_client_has_to_take_native_tasks_to_be_told_of_them(tmp_path: Path):
    with anyio.fail_after(10):
        async with Client(serving(tmp_path, subagent("Done.")), mode=MODERN) as client:
            with pytest.raises(MCPError) as refused:
                await client.session.send_request(listen_for("any"), Whole)
    assert refused.value.code == -32021


async def test_a_native_task_that_is_not_there_does_not_end_the_listening(tmp_path: Path):
    async with native(serving(tmp_path, asking("Basel."))) as (host, heard, told):
        task_id = await host.task()
        await host.until(task_id, "input_required")
        waiting = (await host.begin("wait_tasks", task_ids=[task_id]))["taskId"]
        forged = forged_wait(waiting)
        async with told_of(host, heard, forged, task_id) as honored:
            assert honored == {"taskIds": [forged, task_id]}
            await host.update(task_id, q1={"action": "accept", "content": {"answer": "The Rhine"}})
            while (each := await told.get())["status"] != "completed":
                assert each["taskId"] == task_id
            assert each["taskId"] == task_id


def forged_wait(waiting: str) -> str:
    """The id of a wait for one more task, which never was."""
    encoded = waiting.removeprefix("wait.")
    said = json.loads(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    text = json.dumps([*said, "never-was"], separators=(",", ":"))
    return "wait." + urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.slow
async def test_changes_by_another_process_are_told_of_in_both_eras(tmp_path: Path):
    heard, store = Heard(), str(tmp_path / "tasks.db")
    server = serving(tmp_path, subagent())
    other = StdioServerParameters(command=sys.executable, args=[PROGRAM, "stdio", store])
    async with (
        legacy(server, heard) as old,
        native(server) as (new, new_heard, told),
        Client(stdio_client(other)) as elsewhere,
    ):
        task_id = await delegate(elsewhere, "asker")
        await until_asking(elsewhere, task_id)
        await subscribe(old, f"{one(task_id)}/result")
        async with told_of(new, new_heard, task_id):
            await answer(elsewhere, task_id)
            await heard.until(f"{one(task_id)}/result")
            while (each := await told.get())["status"] != "completed":
                pass
        assert each["result"]["structuredContent"]["result"] == "Then The Rhine."


@pytest.mark.slow
async def test_two_clients_of_different_eras_and_transports_see_the_same_change(tmp_path: Path):
    heard = Heard()
    async with listening(PROGRAM, "network", str(tmp_path / "tasks.db")) as [http, sse]:
        async with legacy(sse_client(sse), heard) as old, Client(http, mode=MODERN) as new:
            task_id = await delegate(old, "asker")
            await until_asking(new, task_id)
            await subscribe(old, f"{one(task_id)}/result")
            async with new.listen(resource_subscriptions=[f"{one(task_id)}/result"]) as changes:
                await answer(new, task_id)
                await heard.until(f"{one(task_id)}/result")
                assert await anext(aiter(changes)) == ResourceUpdated(f"{one(task_id)}/result")
            assert [await status(client, task_id) for client in (old, new)] == ["completed", "completed"]


class Silent:
    """A host of the older era that speaks for itself, and reads only when told to."""

    def __init__(self, read: Any, write: Any) -> None:
        self._read = read
        self._write = write

    async def ask(self, number: int, method: str, **params: Any) -> None:
        await self._write.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)))

    async def note(self, method: str) -> None:
        await self._write.send(SessionMessage(JSONRPCNotification(jsonrpc="2.0", method=method)))

    async def hear(self) -> dict[str, Any]:
        return (await self._read.receive()).message.model_dump(by_alias=True)

    async def subscribe(self, uri: str) -> None:
        info = {"name": "silent", "version": "1"}
        await self.ask(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
        assert (await self.hear())["id"] == 1
        await self.note("notifications/initialized")
        await self.ask(2, "resources/subscribe", uri=uri)
        assert (await self.hear())["id"] == 2


@asynccontextmanager
async def silent_host(server: MCPServer[Any]) -> AsyncGenerator[Silent]:
    """Connected by streams without any buffer; the block may last 10 seconds."""
    low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]  # the SDK's own in-memory client buffers
    with anyio.fail_after(10):
        async with (
            create_client_server_memory_streams() as (ours, theirs),
            low.lifespan(low) as state,
            anyio.create_task_group() as group,
        ):
            group.start_soon(lambda: serve_loop(low, *theirs, lifespan_state=state))
            yield Silent(*ours)
            group.cancel_scope.cancel()


async def test_a_subscriber_that_never_reads_holds_nobody_up_and_is_told_the_least(tmp_path: Path):
    server = serving(tmp_path, subagent(*["Done."] * 20))
    async with silent_host(server) as silent, Client(server, mode=MODERN) as busy:
        await silent.subscribe(ALL)
        for _ in range(20):
            task_id = await delegate(busy)
            await busy.call_tool("wait_tasks", {"task_ids": [task_id]})
        await silent.ask(3, "ping")
        told = 0
        while (message := await silent.hear()).get("id") != 3:
            assert message["params"]["uri"] == ALL
            told += 1
        assert told <= 3, "one on its way, one in the mailbox, and one since"


def test_a_mailbox_holds_each_thing_once():
    mailbox = Mailbox(lambda event: event != TaskChanged("unwanted"))
    for number in range(10_000):
        mailbox.offer(TaskChanged(str(number % 3)))
        mailbox.offer(TaskChanged("unwanted"))
    assert anyio.run(mailbox.take) == [TaskChanged("0"), TaskChanged("1"), TaskChanged("2")]


def senders() -> int:
    return sum(task.name == SENDER for task in anyio.get_running_tasks())


async def test_a_subscriber_is_forgotten_with_its_connection(tmp_path: Path):
    server = serving(tmp_path, subagent("Done."))
    async with legacy(server) as staying:
        async with legacy(server) as going:
            for uri in (ALL, one("a"), one("b")):
                await subscribe(going, uri)
            assert senders() == 1
        assert senders() == 0
        await subscribe(staying, ALL)
        assert senders() == 1


async def test_a_listener_makes_room_when_it_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(notices, "MOST_STREAMS", 1)
    with anyio.fail_after(10):
        async with Client(serving(tmp_path, subagent("Done.")), mode=MODERN) as client:
            async with client.listen(resource_subscriptions=[ALL]):
                with pytest.raises(MCPError, match="Too many subscriptions"):
                    async with client.listen(resource_subscriptions=[ALL]):
                        raise AssertionError("it was acknowledged")
            await until_room(client)


async def until_room(client: Client) -> None:
    while True:
        try:
            async with client.listen(resource_subscriptions=[ALL]):
                return
        except MCPError:
            continue


async def test_a_subscriber_may_name_many_addresses_but_not_any_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(notices, "MOST_WATCHED", 2)
    async with legacy(serving(tmp_path, subagent("Done."))) as client:
        for uri in (one("a"), one("b")):
            await subscribe(client, uri)
        with pytest.raises(MCPError, match=f"At most 2 subscriptions; try {ALL}"):
            await subscribe(client, one("c"))
        await unsubscribe(client, one("a"))
        await subscribe(client, one("c"))


async def test_nothing_that_changes_after_the_acknowledgement_is_missed(tmp_path: Path):
    """Even before anything else has wanted the engine."""
    with anyio.fail_after(10):
        async with (
            hosting(serving(tmp_path, subagent("Done."))) as host,
            host.client.listen(resource_subscriptions=[ALL]) as changes,
        ):
            async with hosting(serving(tmp_path, subagent("Done."))) as elsewhere:
                await elsewhere.until(await elsewhere.task(), "completed")
            assert await anext(aiter(changes)) == ResourceUpdated(ALL)
