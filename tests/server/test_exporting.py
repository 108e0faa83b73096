"""Traces leave the process only when it was asked to send them."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from processes import INITIALIZE, INITIALIZED, Talk, call

HOME = ("PATH", "HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")


@asynccontextmanager
async def collector() -> AsyncGenerator[tuple[str, list[bytes], anyio.Event]]:
    """A place to send traces to: its address, what was sent, and word of it."""
    sent: list[bytes] = []
    heard = anyio.Event()

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            incoming = BufferedByteReceiveStream(stream)
            head = (await incoming.receive_until(b"\r\n\r\n", 65536)).decode().lower()
            length = next(int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("content-length"))
            sent.append(await incoming.receive_exactly(length))
            await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            heard.set()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield f"http://127.0.0.1:{port}", sent, heard
        group.cancel_scope.cancel()


async def delegate(tmp_path: Path, **env: str) -> str:
    """Have the command work on a task with pydantic-ai's model for tests, and say how it ended."""
    kept = {name: os.environ[name] for name in HOME if name in os.environ}
    command = [sys.executable, "-m", "mcp_subagents", "--store", f"sqlite:///{tmp_path / 'tasks.db'}"]
    async with await anyio.open_process(command, env=kept | {"MCP_SUBAGENTS_MODEL": "test"} | env) as process:
        talk = Talk(process)
        await talk.say(INITIALIZE, INITIALIZED, call(1, "task", description="the-secret-errand"))
        assert (await talk.hear())["id"] == 0
        assert "the-secret-errand" in str(await talk.hear())
        await talk.hang_up()
        await process.wait()
        return str(process.returncode)


@pytest.mark.slow
async def test_traces_are_sent_where_the_usual_variable_says(tmp_path: Path):
    with anyio.fail_after(60):
        async with collector() as (address, sent, heard):
            env = {"MCP_SUBAGENTS_TELEMETRY": "on", "OTEL_EXPORTER_OTLP_ENDPOINT": address}
            assert await delegate(tmp_path, **env) == "0"
            await heard.wait()
    everything = b"".join(sent)
    assert b"tools/call task" in everything
    assert b"attempt general-purpose" in everything


@pytest.mark.slow
async def test_nothing_is_sent_unless_asked(tmp_path: Path):
    with anyio.fail_after(60):
        async with collector() as (address, sent, _):
            assert await delegate(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=address) == "0"
            assert sent == []


@pytest.mark.slow
async def test_a_collector_that_is_gone_does_not_keep_the_process(tmp_path: Path):
    env = {"MCP_SUBAGENTS_TELEMETRY": "on", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    with anyio.fail_after(60):
        assert await delegate(tmp_path, **env) == "0"
