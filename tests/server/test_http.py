"""MCP over HTTP and SSE: one app, one lifespan, closed to strangers, and gone in time."""

import signal
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.server.mcpserver import MCPServer
from processes import BARE, INITIALIZE, Talk, call, started
from starlette.applications import Starlette

from mcp_subagents.errors import ConfigError
from mcp_subagents.server.http import network_app
from mcp_subagents.server.network import listen

# Each starts a server.
pytestmark = pytest.mark.slow

JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


async def listening(talk: Talk) -> list[str]:
    """The addresses at which a server that was just started says it listens."""
    assert await talk.noted() == "opened"
    said = await talk.noted()
    assert said.startswith("mcp-subagents: listening on http://127.0.0.1:")
    return said.removeprefix("mcp-subagents: listening on ").split(" and ")


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_sdk_client_is_served_over_http_and_sse_with_one_lifespan(mode: str):
    async with started(BARE, "sse") as talk:
        http, sse = await listening(talk)
        for transport in (http, sse_client(sse), sse_client(sse)):
            async with Client(transport, mode=mode) as client:
                result = await client.call_tool("echo", {"text": "hello"})
                assert result.structured_content == {"result": "hello"}
                assert (await client.call_tool("state", {})).structured_content == {"result": "open"}
        talk.process.terminate()
        assert await talk.notes() == ["closed"]


@pytest.mark.parametrize("told_by", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_it_leaves_in_time_though_streams_are_open_and_calls_under_way(transport: str, told_by: signal.Signals):
    async with started(BARE, transport) as talk, anyio.create_task_group() as group:
        addresses = await listening(talk)

        async def wait_for_ever(mode: str) -> None:
            connection: Any = addresses[0] if transport == "http" else sse_client(addresses[1])
            with pytest.raises(Exception):  # noqa: B017, PT011  # how a client tells of a lost server is its own affair
                async with Client(connection, mode=mode) as client:
                    await client.call_tool("wait", {})

        group.start_soon(wait_for_ever, "legacy")
        group.start_soon(wait_for_ever, "2026-07-28")
        assert [await talk.noted(), await talk.noted()] == ["waiting", "waiting"]
        talk.process.send_signal(told_by)
        with anyio.fail_after(5):
            notes = await talk.notes()
            assert [notes.count(each) for each in ("CancelledError", "closed")] == [2, 1]
            assert not any("Traceback" in line for line in notes)
            assert await talk.process.wait() == 0
        group.cancel_scope.cancel()


def bare_server(seen: list[str]) -> MCPServer[None]:
    @asynccontextmanager
    async def lifespan(_: MCPServer[None]) -> AsyncGenerator[None]:
        seen.append("opened")
        yield
        seen.append("closed")

    return MCPServer("bare", lifespan=lifespan, log_level="WARNING")


@asynccontextmanager
async def calling(app: Starlette, **headers: str) -> AsyncGenerator[httpx2.AsyncClient]:
    with anyio.fail_after(5):
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1:8000", headers=headers
            ) as client,
        ):
            yield client


async def test_the_health_is_told_to_anybody_here():
    async with calling(network_app(bare_server([]))) as client:
        answer = await client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "version": version("mcp-subagents")})


async def test_sse_is_off_unless_asked_for():
    async with calling(network_app(bare_server([]))) as client:
        assert [(await client.get(path)).status_code for path in ("/sse", "/messages/")] == [404, 404]


@pytest.mark.parametrize("sse", [False, True], ids=["HTTP", "SSE too"])
async def test_the_lifespan_is_that_of_the_app(sse: bool):
    seen: list[str] = []
    async with calling(network_app(bare_server(seen), sse=sse)):
        assert seen == ["opened"]
    assert seen == ["opened", "closed"]


EVERY_DOOR: dict[str, Callable[[httpx2.AsyncClient], Any]] = {
    "/healthz": lambda client: client.get("/healthz"),
    "/mcp": lambda client: client.post("/mcp", json=INITIALIZE, headers=JSON),
    "/mcp of 2026": lambda client: client.post(
        "/mcp", json=call(1, "echo", modern=True), headers=JSON | {"mcp-protocol-version": "2026-07-28"}
    ),
    "/sse": lambda client: client.get("/sse"),
    "/messages/": lambda client: client.post("/messages/", json=INITIALIZE),
}


@pytest.mark.parametrize("door", EVERY_DOOR)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
async def test_no_web_page_gets_in_by_any_door(host: str, door: str):
    app = network_app(bare_server([]), host=host, sse=True)
    async with calling(app, host="evil.example:8000") as client:
        assert (await EVERY_DOOR[door](client)).status_code == 421
    app = network_app(bare_server([]), host=host, sse=True)
    async with calling(app, origin="http://evil.example") as client:
        assert (await EVERY_DOOR[door](client)).status_code == 403


@pytest.mark.parametrize("name", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000", "localhost", "127.0.0.2:80"])
async def test_pages_and_clients_of_this_machine_get_in(name: str):
    async with calling(network_app(bare_server([]), host="127.0.0.2"), host=name, origin=f"http://{name}") as client:
        assert (await EVERY_DOOR["/mcp"](client)).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.com", "", "localhost.example.com"])
def test_an_address_that_others_can_reach_is_refused(host: str):
    with pytest.raises(ConfigError, match=r"could reach it.* Use 127\.0\.0\.1.* or set MCP_SUBAGENTS_TOKEN"):
        network_app(bare_server([]), host=host)
    with pytest.raises(ConfigError, match="other machines could reach it"):
        listen(host, 0)


@pytest.mark.parametrize("path", ["/mcp", "/messages/"])
@pytest.mark.parametrize("declared", [True, False], ids=["of a declared size", "of unknown size"])
async def test_a_body_that_is_too_large_is_refused(path: str, declared: bool):
    async def in_pieces() -> AsyncGenerator[bytes]:
        for _ in range(11):
            yield b"x" * 100

    async with calling(network_app(bare_server([]), sse=True, max_body=1000)) as client:
        body = b"x" * 1100 if declared else in_pieces()
        assert (await client.post(path, content=body, headers=JSON)).status_code == 413


async def test_sessions_are_bounded():
    async with calling(network_app(bare_server([]), max_sessions=2)) as client:
        codes = [(await EVERY_DOOR["/mcp"](client)).status_code for _ in range(3)]
    assert codes == [200, 200, 503]


async def test_sse_connections_are_bounded():
    app = network_app(bare_server([]), sse=True, max_sessions=1)
    opened, left = anyio.Event(), anyio.Event()
    codes: list[int] = []

    async def receive() -> dict[str, Any]:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            codes.append(message["status"])
            opened.set()

    async def connect() -> None:
        headers = [(b"host", b"localhost:8000")]
        await app({"type": "http", "method": "GET", "path": "/sse", "headers": headers}, receive, send)

    with anyio.fail_after(5):
        async with app.router.lifespan_context(app):
            async with anyio.create_task_group() as group:
                group.start_soon(connect)
                await opened.wait()
                await connect()
                left.set()
            await connect()
    assert codes == [200, 503, 200]


def test_a_port_in_use_is_said_in_one_line():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"^Port {port} on localhost is in use\. Choose another one"):
            listen("localhost", port)


def test_a_port_that_cannot_be_is_said():
    with pytest.raises(ConfigError, match=r"^Cannot listen on 127\.0\.0\.1, port 70000: "):
        listen("127.0.0.1", 70000)
