"""The command as a process of its own: what it serves, where, and how it leaves."""

import signal
import socket
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.client.sse import sse_client
from processes import INITIALIZE, INITIALIZED, request, started

from mcp_subagents.config.providers import PROVIDERS

pytestmark = [pytest.mark.usefixtures("home"), pytest.mark.slow]


@pytest.mark.parametrize("told_by", [signal.SIGTERM, signal.SIGINT, None], ids=["SIGTERM", "SIGINT", "hanging up"])
async def test_on_stdio_it_serves_until_it_is_told_to_stop(home: Path, told_by: signal.Signals | None):
    store = home / "mine.db"
    async with started("-m", "mcp_subagents", "serve", "--store", f"sqlite:///{store}") as talk:
        await talk.say(INITIALIZE)
        assert (await talk.hear())["result"]["serverInfo"]["name"] == "mcp-subagents"
        await talk.say(INITIALIZED, request(1, "tools/list"))
        assert "task" in [each["name"] for each in (await talk.hear())["result"]["tools"]]
        if told_by is None:
            await talk.hang_up()
        else:
            talk.process.send_signal(told_by)
        with anyio.fail_after(5):
            assert (await talk.notes(), await talk.rest()) == ([], b"")
            assert await talk.process.wait() == 0
    assert sqlite3.connect(store).execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_without_a_model_it_serves_and_says_once_what_to_set(monkeypatch: pytest.MonkeyPatch):
    for name in ("MCP_SUBAGENTS_MODEL", *(provider.variable for provider in PROVIDERS)):
        monkeypatch.delenv(name, raising=False)
    async with started("-m", "mcp_subagents") as talk:
        await talk.say(INITIALIZE)
        assert "No model is configured" in (await talk.hear())["result"]["instructions"]
        await talk.hang_up()
        with anyio.fail_after(5):
            [line] = await talk.notes()
    assert line.startswith("mcp-subagents: WARNING: There is no model to run tasks on. Set MCP_SUBAGENTS_MODEL")


@pytest.mark.parametrize("told_by", [signal.SIGTERM, signal.SIGINT])
async def test_it_leaves_at_once_while_it_is_still_loading(told_by: signal.Signals):
    program = """if True:
        import sys, time
        from mcp_subagents import cli

        class Slow:
            def find_spec(self, name, *_):
                if name == "mcp_subagents.cli.serving":
                    print("loading", file=sys.stderr, flush=True)
                    time.sleep(20)

        sys.meta_path.insert(0, Slow())
        sys.exit(cli.main([]))
    """
    async with started("-c", program) as talk:
        assert await talk.noted() == "loading"
        talk.process.send_signal(told_by)
        with anyio.fail_after(5):
            assert (await talk.notes(), await talk.process.wait()) == ([], 0)


async def test_the_first_answer_does_not_wait_for_the_agents(home: Path):
    program = """if True:
        import sys, threading
        import mcp_subagents.server.stdio as stdio
        from mcp_subagents.cli import main

        class Watched(stdio.Pipe):
            async def write(self, data):
                assert "pydantic_ai" not in sys.modules, "the agents were loaded before the first answer"
                await super().write(data)

        import mcp_subagents.server.pipe as pipe
        pipe.Pipe = Watched
        sys.exit(main([]))
    """
    async with started("-c", program) as talk:
        await talk.say(INITIALIZE)
        assert (await talk.hear())["id"] == 0


@pytest.mark.parametrize(("name", "addresses"), [("http", 1), ("streamable-http", 1), ("sse", 2)])
async def test_over_the_network_it_says_where_it_listens_and_serves(home: Path, name: str, addresses: int):
    async with started("-m", "mcp_subagents", "--transport", name, "--port", "0") as talk:
        said = await talk.noted()
        places = said.removeprefix("mcp-subagents: listening on ").split(" and ")
        assert len(places) == addresses
        for place in places:
            connection: Any = sse_client(place) if place.endswith("/sse") else place
            async with Client(connection) as client:
                assert "task" in [each.name for each in (await client.list_tools()).tools]
        talk.process.terminate()
        with anyio.fail_after(5):
            assert await talk.process.wait() == 0
        assert (await talk.notes(), await talk.rest()) == ([], b"")


async def refused(*arguments: str) -> list[str]:
    async with started("-m", "mcp_subagents", *arguments) as talk:
        notes = await talk.notes()
        assert (await talk.process.wait(), await talk.rest()) == (2, b"")
    return notes


async def test_what_cannot_be_served_is_said_in_one_line(home: Path):
    (home / "broken.db").write_text("this is no database, however long it may be" * 100)
    [line] = await refused("--store", "sqlite:///broken.db")
    assert line.startswith("mcp-subagents: ")
    assert "broken.db" in line
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        [line] = await refused("--transport", "http", "--port", str(port))
        assert line.startswith(f"mcp-subagents: Port {port} on 127.0.0.1 is in use.")
    [line] = await refused("--transport", "http", "--host", "0.0.0.0")
    assert "set MCP_SUBAGENTS_TOKEN" in line


async def test_what_is_logged_takes_one_line_and_holds_no_secret(home: Path):
    program = """if True:
        import logging
        from mcp.server.mcpserver import MCPServer
        from mcp_subagents.cli.serving import _log_to_stderr
        MCPServer("sets up a log of its own")
        _log_to_stderr("warning")
        logging.getLogger("some.library").warning("two\\nlines, key sk-%s", "a" * 48)
        logging.getLogger("some.library").info("unheard")
    """
    async with started("-c", program) as talk:
        [line] = await talk.notes()
    assert line.startswith("mcp-subagents: WARNING: two\\nlines, key ")
    assert line.endswith(" [some.library]")
    assert "aaaa" not in line
