"""Fetching from the web and searching it: by the model itself if it can, and else by us, with the packages for it."""

import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import pytest
from bench import at_work, ended, until
from pydantic_ai.capabilities import WebFetch

from mcp_subagents.config import SubAgentConfig
from mcp_subagents.testing import Gateway, Text, ToolCall, ToolCalls
from mcp_subagents.types import FailureType, TaskStatus

pytest.importorskip("pydantic_ai.models.anthropic")
pytest.importorskip("pydantic_ai.models.openai")
web_fetch = pytest.importorskip("pydantic_ai.common_tools.web_fetch")
pytest.importorskip("ddgs")

CHAT = "openai-chat:gpt-4o-mini"
CLAUDE = "anthropic:claude-haiku-5-5"
LOCAL = ("pydantic_ai.common_tools.web_fetch", "pydantic_ai.common_tools.duckduckgo")
PAGE = b"<html><head><title>Planets</title></head><body><h1>Mars</h1><p>It is <b>red</b>.</p></body></html>"


@asynccontextmanager
async def page() -> AsyncGenerator[str]:
    """The address of a page on this machine."""

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(PAGE)}\r\n\r\n"
            await stream.send(head.encode() + PAGE)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        yield f"http://127.0.0.1:{port}/mars.html"
        group.cancel_scope.cancel()


def browser(gateway: Gateway, model: str = CHAT, **more: Any) -> SubAgentConfig:
    url = gateway.url if model == CLAUDE else f"{gateway.url}/v1"
    config: Any = {"name": "worker", "description": "", "instructions": "", "model": model, "base_url": url}
    made: Any = {**config, "retry_initial_delay": 0.0, **more}
    return made


def fetching(address: str) -> list[Any]:
    return [ToolCalls([ToolCall("web_fetch", {"url": address})]), Text("done")]


def told(gateway: Gateway) -> str:
    """What the tool returned to the model."""
    return next(each["content"] for each in gateway.requests[-1].body["messages"] if each["role"] == "tool")


def without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bs4", "markdownify", "ddgs", *LOCAL):
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]  # how Python itself bars an import


async def test_a_subagent_reads_a_page():
    tool = web_fetch.web_fetch_tool(allow_local_urls=True)
    own = {"capabilities": [WebFetch[Any](local=tool)]}
    async with page() as address, Gateway(fetching(address)) as gateway:
        async with at_work(browser(gateway, agent_kwargs=own), seconds=30) as engine:
            task = await ended(engine)
    assert task.status is TaskStatus.COMPLETED
    assert "Planets" in told(gateway)
    assert "It is **red**." in told(gateway)


async def test_a_subagent_that_fetches_by_name_is_kept_from_this_machine_and_its_network():
    async with page() as address, Gateway(fetching(address)) as gateway:
        async with at_work(browser(gateway, capabilities=["WebFetch"]), seconds=30) as engine:
            task = await ended(engine)
    assert task.status is TaskStatus.COMPLETED
    assert f"Failed to fetch {address}" in told(gateway)
    assert "private" in told(gateway).lower()


@pytest.mark.parametrize(("capability", "tool"), [("WebFetch", "web_fetch"), ("WebSearch", "duckduckgo_search")])
async def test_a_model_that_cannot_do_it_is_offered_our_tool(capability: str, tool: str):
    async with Gateway([Text("done")]) as gateway:
        async with at_work(browser(gateway, capabilities=[capability], can_ask_questions=False), seconds=30) as engine:
            await ended(engine)
    assert [each["function"]["name"] for each in gateway.requests[0].body["tools"]] == [tool]


@pytest.mark.parametrize("installed", [True, False], ids=["installed", "not installed"])
async def test_a_model_that_can_fetch_does_so_itself_whatever_is_installed(
    installed: bool, monkeypatch: pytest.MonkeyPatch
):
    if not installed:
        without_packages(monkeypatch)
    async with Gateway([Text("done")]) as gateway:
        subagent = browser(gateway, CLAUDE, capabilities=["WebFetch", "WebSearch"], can_ask_questions=False)
        async with at_work(subagent, seconds=30) as engine:
            task = await ended(engine)
    assert task.failure is None, task.failure.message
    assert sorted(each["name"] for each in gateway.requests[0].body["tools"]) == ["web_fetch", "web_search"]
    assert all("type" in each for each in gateway.requests[0].body["tools"]), "they are the provider's own"


@pytest.mark.parametrize("capability", ["WebFetch", "WebSearch"])
async def test_what_is_not_installed_is_said_at_start_and_fails_the_task_before_the_model_is_asked(
    capability: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    without_packages(monkeypatch)
    said = f"The capability {capability} of 'worker' cannot be used: the model gpt-4o-mini cannot do it."
    async with Gateway([Text("never")]) as gateway:
        async with at_work(browser(gateway, capabilities=[capability]), seconds=30) as engine:
            await until(lambda: said in caplog.text)
            task = await ended(engine)
    assert task.failure is not None
    assert task.failure.failure_type is FailureType.PERMANENT
    assert said in task.failure.message
    assert "install mcp-subagents[web]" in task.failure.message
    assert [record.levelno for record in caplog.records if said in record.message] == [logging.ERROR]
    assert gateway.requests == []
