"""Requests that are broken, cut short, sent twice or too late: each gets its answer, and the log stays quiet."""

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import anyio
import httpx2
import pytest
from mcp.server.mcpserver import MCPServer
from processes import BARE, INITIALIZE, INITIALIZED, call, cancelled, started
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_subagents.server.http import network_app
from mcp_subagents.server.requests import OneIdEach

# Each starts a server.
pytestmark = pytest.mark.slow

JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
HOST = (b"host", b"127.0.0.1:8000")


@asynccontextmanager
async def running(server: MCPServer[Any]) -> AsyncGenerator[ASGIApp]:
    app = network_app(server, sse=True)
    with anyio.fail_after(5):
        async with app.router.lifespan_context(app):
            yield app


def bare() -> MCPServer[Any]:
    return MCPServer("bare", log_level="WARNING")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "The line is not JSON"),
        (b"[]", "Batches are not part of MCP"),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', '"id" must be a text'),
    ],
    ids=["no JSON", "a batch", "no id"],
)
async def test_what_is_no_message_is_refused_over_sse_in_our_words(
    body: bytes, told: str, caplog: pytest.LogCaptureFixture
):
    async with running(bare()) as app, httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as client:
        url = f"http://127.0.0.1:8000/messages/?session_id={uuid4().hex}"
        answer = await client.post(url, content=body, headers=JSON)
        assert answer.status_code == 400
        assert told in answer.json()["error"]["message"]
    assert caplog.records == []


@pytest.mark.parametrize("path", ["/mcp", "/messages/"])
@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
async def test_a_client_that_leaves_in_the_middle_of_a_post_is_no_crash(
    path: str, era: str, caplog: pytest.LogCaptureFixture
):
    coming: list[Message] = [
        {"type": "http.request", "body": b'{"jsonrpc"', "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return coming.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [HOST, *((name.encode(), value.encode()) for name, value in JSON.items())]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "server": ("127.0.0.1", 8000)}
    async with running(bare()) as app:
        await app(scope | {"headers": [*headers, (b"mcp-protocol-version", era.encode())]}, receive, send)
    assert sent == []
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_an_id_that_is_in_use_is_refused_and_its_first_request_still_answered():
    async with started(BARE, "http") as talk, anyio.create_task_group() as group:
        assert await talk.noted() == "opened"
        url = (await talk.noted()).removeprefix("mcp-subagents: listening on ")
        async with httpx2.AsyncClient(headers=JSON) as client:

            async def post(message: dict[str, Any], session: str = "") -> httpx2.Response:
                return await client.post(
                    url, content=json.dumps(message), headers={"mcp-session-id": session} if session else {}
                )

            session = (await post(INITIALIZE)).headers["mcp-session-id"]
            await post(INITIALIZED, session)
            other = (await post(INITIALIZE)).headers["mcp-session-id"]
            group.start_soon(post, call(7, "wait"), session)
            assert await talk.noted() == "waiting"

            refused = await post(call(7, "echo", text="again"), session)
            elsewhere = await post(call(7, "echo", text="elsewhere"), other)
            await post(cancelled(7), session)
            assert await talk.noted() == "CancelledError"
            assert (refused.status_code, refused.json()["id"]) == (400, 7)
            assert refused.json()["error"]["message"] == "The id 7 is that of a request still open."
            assert "elsewhere" in elsewhere.text
            group.cancel_scope.cancel()


async def test_an_id_is_free_again_before_its_answer_is_out():
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    each_once = OneIdEach(app)
    codes: list[int] = []

    async def post(again: int) -> None:
        async def receive() -> Message:
            return {"type": "http.request", "body": json.dumps(call(7, "echo")).encode()}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                codes.append(message["status"])
            elif again:
                await post(again - 1)

        scope = {"type": "http", "method": "POST", "headers": [(b"mcp-session-id", b"s")]}
        await each_once(scope, receive, send)

    await post(3)
    assert codes == [200, 200, 200, 200]


async def test_a_client_that_comes_back_for_past_events_gets_those_to_come():
    async with started(BARE, "http") as talk:
        assert await talk.noted() == "opened"
        url = (await talk.noted()).removeprefix("mcp-subagents: listening on ")
        async with httpx2.AsyncClient(headers=JSON) as client:
            session = (await client.post(url, content=json.dumps(INITIALIZE))).headers["mcp-session-id"]
            back = {"mcp-session-id": session, "last-event-id": "7"}
            async with client.stream("GET", url, headers=back) as answer:
                assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
