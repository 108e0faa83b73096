"""Over the network, nobody but this machine is let in without the token."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from listening import listening
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from processes import INITIALIZE

from mcp_subagents.config.admission import Admission, admission_in
from mcp_subagents.errors import ConfigError
from mcp_subagents.server.gate import admits
from mcp_subagents.server.http import network_app, require_admission

TOKEN = "0123456789abcdef" * 2
OTHER = "fedcba9876543210" * 2
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
SHOWN = {**JSON, "authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("sent", "admitted"),
    [
        pytest.param([f"Bearer {TOKEN}"], True, id="the token"),
        pytest.param([f"bearer  {TOKEN} "], True, id="the token, written otherwise"),
        pytest.param([], False, id="nothing"),
        pytest.param([""], False, id="an empty header"),
        pytest.param(["Bearer"], False, id="no token"),
        pytest.param(["Bearer "], False, id="an empty token"),
        pytest.param([TOKEN], False, id="no scheme"),
        pytest.param([f"Basic {TOKEN}"], False, id="another scheme"),
        pytest.param([f"Bearer {OTHER}"], False, id="another token"),
        pytest.param([f"Bearer {TOKEN[:-1]}"], False, id="the beginning of the token"),
        pytest.param([f"Bearer {TOKEN}0"], False, id="more than the token"),
        pytest.param([f"Bearer {TOKEN.upper()}"], False, id="the token in capitals"),
        pytest.param(["Bearer \u00e9" + TOKEN[1:]], False, id="what is not ASCII"),
        pytest.param([f"Bearer {TOKEN}", f"Bearer {OTHER}"], False, id="two headers"),
    ],
)
def test_a_caller_is_admitted_who_shows(sent: list[str], admitted: bool):
    assert admits(sent, TOKEN) is admitted


@pytest.mark.parametrize(
    ("env", "admission"),
    [
        ({}, Admission()),
        ({"MCP_SUBAGENTS_TOKEN": "", "MCP_SUBAGENTS_ALLOWED_HOSTS": " "}, Admission()),
        ({"MCP_SUBAGENTS_TOKEN": f" {TOKEN}\n"}, Admission(token=TOKEN)),
        (
            {"MCP_SUBAGENTS_TOKEN": TOKEN, "MCP_SUBAGENTS_ALLOWED_HOSTS": "subagents, a.example.com,[fd00::1]"},
            Admission(token=TOKEN, names=("subagents", "a.example.com", "[fd00::1]")),
        ),
    ],
)
def test_the_environment_says_who_is_let_in(env: dict[str, str], admission: Admission):
    assert admission_in(env) == admission


@pytest.mark.parametrize("token", ["short", TOKEN[:31], f"{TOKEN} {TOKEN}", f"{TOKEN}\u00e9"])
def test_a_token_that_is_easy_to_guess_or_cannot_be_sent_is_refused_and_not_shown(token: str):
    with pytest.raises(ConfigError, match="at least 32 ASCII characters without spaces") as refused:
        admission_in({"MCP_SUBAGENTS_TOKEN": token})
    assert token not in str(refused.value)


@pytest.mark.parametrize("name", ["https://a.example.com", "a.example.com:80", "a/b", "*", "*.a.com", "-a", "a b"])
def test_a_name_that_is_none_is_refused(name: str):
    with pytest.raises(ConfigError, match="is no name of a host; write it without scheme, port and path"):
        admission_in({"MCP_SUBAGENTS_TOKEN": TOKEN, "MCP_SUBAGENTS_ALLOWED_HOSTS": f"good,{name}"})


def test_other_names_need_a_token():
    with pytest.raises(ConfigError, match="MCP_SUBAGENTS_ALLOWED_HOSTS: needs MCP_SUBAGENTS_TOKEN"):
        admission_in({"MCP_SUBAGENTS_ALLOWED_HOSTS": "a.example.com"})


def test_the_token_is_not_in_what_is_printed_of_it():
    assert TOKEN not in repr(Admission(token=TOKEN))


@pytest.mark.parametrize("admission", [None, Admission()])
def test_an_address_that_others_can_reach_needs_a_token(admission: Admission | None):
    require_admission("127.0.0.1", admission)
    require_admission("0.0.0.0", Admission(token=TOKEN))
    with pytest.raises(ConfigError, match="or set MCP_SUBAGENTS_TOKEN to a secret that callers must know"):
        require_admission("0.0.0.0", admission)


@asynccontextmanager
async def served(admission: Admission, name: str = "127.0.0.1:8000", **more: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    server: MCPServer[None] = MCPServer("bare", log_level="WARNING")
    app = network_app(server, host="0.0.0.0", sse=True, admission=admission, **more)
    transport = httpx2.ASGITransport(app)
    with anyio.fail_after(5):
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url=f"http://{name}") as at,
        ):
            yield at


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/mcp"), ("GET", "/mcp"), ("GET", "/sse"), ("POST", "/messages/"), ("GET", "/nowhere")],
)
async def test_nothing_is_read_of_a_stranger(method: str, path: str):
    async with served(Admission(token=TOKEN), max_body=10) as client:
        # Its body is too large, which nobody finds out who is not let in.
        answer = await client.request(method, path, headers=JSON, json=INITIALIZE)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Bearer realm="mcp-subagents"')
    assert "Authorization, as Bearer TOKEN" in answer.text


async def test_who_shows_the_token_is_served_and_the_health_is_open_to_all():
    async with served(Admission(token=TOKEN)) as client:
        answer = await client.post("/mcp", headers=SHOWN, json=INITIALIZE)
        health = await client.get("/healthz")
    assert (answer.status_code, health.status_code) == (200, 200)


@pytest.mark.parametrize(
    ("name", "status"),
    [("subagents:8000", 200), ("subagents", 200), ("evil.example.com", 421), ("subagents.evil.example.com", 421)],
)
async def test_the_token_is_good_by_the_names_that_are_allowed(name: str, status: int):
    async with served(Admission(token=TOKEN, names=("subagents",)), name) as client:
        assert (await client.post("/mcp", headers=SHOWN, json=INITIALIZE)).status_code == status


async def test_a_web_page_elsewhere_is_refused_though_it_knows_the_token():
    async with served(Admission(token=TOKEN, names=("subagents",))) as client:
        answer = await client.post("/mcp", headers={**SHOWN, "origin": "https://evil.example.com"}, json=INITIALIZE)
    assert answer.status_code == 403


@pytest.mark.slow
async def test_the_command_listens_on_all_addresses_with_a_token_and_serves_who_shows_it(home: Path):
    arguments = ("-m", "mcp_subagents", "--transport", "http", "--host", "0.0.0.0", "--port", "0")
    env = {**os.environ, "MCP_SUBAGENTS_TOKEN": TOKEN}
    async with listening(*arguments, env=env) as [said]:
        address = said.strip().replace("0.0.0.0", "127.0.0.1")
        with anyio.fail_after(20):
            async with httpx2.AsyncClient() as stranger:
                assert (await stranger.post(address, headers=JSON, json=INITIALIZE)).status_code == 401
            async with (
                httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}) as known,
                Client(streamable_http_client(address, http_client=known)) as client,
            ):
                assert "task" in [tool.name for tool in (await client.list_tools()).tools]
