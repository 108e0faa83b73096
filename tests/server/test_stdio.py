"""MCP over pipes: both eras at once, no line that can break it, and a prompt end."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from processes import BARE, ENVELOPE, INITIALIZE, INITIALIZED, Talk, call, cancelled, request, started

from mcp_subagents.server.stdio import OpenRequests

# Each starts a server.
pytestmark = pytest.mark.slow


def text_of(answer: dict[str, Any]) -> tuple[int, str]:
    return answer["id"], answer["result"]["content"][0]["text"]


async def works(talk: Talk, number: int = 99) -> bool:
    """Whether the server still answers."""
    await talk.say(call(number, "echo", modern=True, text="still here"))
    return text_of(await talk.hear()) == (number, "still here")


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_sdk_client_is_served_in_every_era(mode: str):
    with anyio.fail_after(20):
        transport = stdio_client(
            StdioServerParameters(command=sys.executable, args=[BARE, "stdio"], env=dict(os.environ))
        )
        async with Client(transport, mode=mode) as client:
            result = await client.call_tool("echo", {"text": "grüß dich 👋"})
    assert result.structured_content == {"result": "grüß dich 👋"}


async def test_one_pipe_serves_both_eras_with_one_lifespan():
    async with started(BARE, "stdio") as talk:
        await talk.say(request(1, "server/discover", _meta=ENVELOPE))
        assert "supportedVersions" in (await talk.hear())["result"]
        await talk.say(INITIALIZE)
        assert (await talk.hear())["result"]["protocolVersion"] == "2025-11-25"
        await talk.say(INITIALIZED, call(2, "echo", text="handshake"))
        assert text_of(await talk.hear()) == (2, "handshake")
        await talk.say(call(3, "echo", modern=True, text="modern"))
        assert text_of(await talk.hear()) == (3, "modern")
        await talk.hang_up()
        assert await talk.notes() == ["opened", "closed"]


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
async def test_a_host_cancels_a_call_in_either_era(modern: bool):
    async with started(BARE, "stdio") as talk:
        await talk.shake_hands()
        await talk.say(call(1, "wait", modern=modern))
        assert [await talk.noted(), await talk.noted()] == ["opened", "waiting"]
        await talk.say(cancelled(1))
        assert await talk.noted() == "CancelledError"
        assert await works(talk)


async def test_what_tools_and_their_children_print_misses_the_wire():
    async with started(BARE, "stdio", "--farewell", env=os.environ | {"PYTHONUNBUFFERED": ""}) as talk:
        await talk.say(call(1, "babble", modern=True))
        assert text_of(await talk.hear()) == (1, "babbled")
        await talk.hang_up()
        assert await talk.rest() == b"farewell\n"
        assert sorted(await talk.notes()) == [
            "closed",
            "opened",
            "stray",
            "stray child, read ''",
            "stray descriptor",
        ]


MESSY: dict[str, tuple[bytes, int, int | str | None]] = {
    "no JSON": (b"hello\n", -32700, None),
    "half a message": (b'{"jsonrpc": "2.0", "id": 1, \n', -32700, None),
    "bytes that are no UTF-8": (b"\xff\xfe\x00\n", -32700, None),
    "a number that is none": (b'{"jsonrpc": "2.0", "id": NaN, "method": "x"}\n', -32700, None),
    "a hidden number that is none": (b'{"jsonrpc": "2.0", "id": NaN, "method": "\\ud83d"}\n', -32700, None),
    "nesting without end": (b"[" * 100_000 + b"\n", -32700, None),
    "a batch": (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]\n', -32600, None),
    "a text": (b'"ping"\n', -32600, None),
    "another version of JSON-RPC": (b'{"jsonrpc": "1.0", "id": 7, "method": "ping"}\n', -32600, 7),
    "no method": (b'{"jsonrpc": "2.0", "id": "seven"}\n', -32600, "seven"),
    "params that are a list": (b'{"jsonrpc": "2.0", "id": 8, "method": "ping", "params": [1]}\n', -32600, 8),
    "a method that is a number": (b'{"jsonrpc": "2.0", "id": 9, "method": 1}\n', -32600, 9),
    "an id of null": (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}\n', -32600, None),
    "an id of true": (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}\n', -32600, None),
    "a broken answer": (b'{"jsonrpc": "2.0", "id": 1, "result": 5}\n', -32600, None),
}


async def test_every_line_that_is_no_message_is_refused_and_serving_goes_on():
    async with started(BARE, "stdio") as talk:
        for kind, (line, code, request_id) in MESSY.items():
            await talk.say(line)
            answer = await talk.hear()
            assert (answer["error"]["code"], answer["id"]) == (code, request_id), kind
            assert answer["error"]["message"].endswith("."), kind
        assert await works(talk)


async def test_what_is_odd_but_readable_is_served():
    half = json.dumps(call(2, "echo", modern=True, text="cut \ud83d off"))
    async with started(BARE, "stdio") as talk:
        await talk.say(b"\xef\xbb\xbf" + json.dumps(call(1, "echo", modern=True, text="marked")).encode() + b"\r\n")
        assert text_of(await talk.hear()) == (1, "marked")
        await talk.say(b"\n  \n\r\n" + half.encode() + b"\n")
        assert text_of(await talk.hear()) == (2, "cut \ufffd off")
        await talk.say(json.dumps(call(3, "echo", modern=True, text="caf*")).encode().replace(b"*", b"\xe9") + b"\n")
        assert text_of(await talk.hear()) == (3, "caf\ufffd")


async def test_a_line_that_is_too_long_is_refused_before_it_ends():
    async with started(BARE, "stdio", "--longest-line=1000") as talk:
        await talk.say(b"x" * 1001)
        answer = await talk.hear()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        assert "1000 bytes" in answer["error"]["message"]
        await talk.say(b"x" * 5000, b"\n")
        assert await works(talk)


@pytest.mark.parametrize("number", [7, "seven"])
async def test_a_request_that_is_too_long_is_answered_by_its_id(number: Any):
    async with started(BARE, "stdio", "--longest-line=1000") as talk:
        await talk.shake_hands()
        await talk.say(call(number, "echo", text="y" * 5000))
        answer = await talk.hear()
        assert (answer["id"], answer["error"]["code"]) == (number, -32600)
        await talk.say({"method": "tools/call", "jsonrpc": "2.0", "params": {"id": 9, "text": "y" * 5000}, "id": 8})
        assert (await talk.hear())["id"] is None


async def test_a_line_of_the_greatest_length_is_served():
    line = json.dumps(call(1, "echo", modern=True, text="*")).encode()
    line = line.replace(b"*", b"y" * (1000 - len(line) + 1))
    async with started(BARE, "stdio", "--longest-line=1000") as talk:
        await talk.say(line + b"\n")
        assert (await talk.hear())["id"] == 1


def memory_of(talk: Talk) -> int:
    """The most memory that the process ever had, in KiB."""
    status = Path(f"/proc/{talk.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures memory through /proc")


@needs_proc
async def test_an_endless_line_does_not_fill_the_memory():
    async with started(BARE, "stdio", f"--longest-line={2**20}") as talk:
        assert await works(talk)
        before = memory_of(talk)
        for _ in range(64):
            await talk.say(b"x" * 2**20)
        await talk.say(b"\n")
        assert (await talk.hear())["error"]["code"] == -32600
        assert await works(talk)
        assert memory_of(talk) - before < 16 * 1024


@needs_proc
@pytest.mark.slow
async def test_a_host_that_floods_without_reading_is_not_read_from_either():
    async with started(BARE, "stdio") as talk:
        assert await works(talk)
        before, blocked = memory_of(talk), False
        line = json.dumps(call(1, "echo", modern=True, text="z" * 10_000)).encode() + b"\n"
        while not blocked:
            with anyio.move_on_after(3) as patience:
                await talk.say(line)
            blocked = patience.cancelled_caught
        assert memory_of(talk) - before < 200 * 1024


async def test_many_calls_at_once_are_all_answered():
    async with started(BARE, "stdio") as talk:
        async with anyio.create_task_group() as group:
            group.start_soon(talk.say, *(call(n, "echo", modern=True, text=str(n)) for n in range(500)))
            answers = sorted([text_of(await talk.hear()) for _ in range(500)])
            assert answers == [(n, str(n)) for n in range(500)]


async def test_requests_that_came_just_before_the_end_are_answered():
    async with started(BARE, "stdio") as talk:
        last = json.dumps(call(2, "echo", text="and the last, without a line break")).encode()
        await talk.say(INITIALIZE, INITIALIZED, call(1, "echo", text="first"), last)
        await talk.hang_up()
        answers = [json.loads(line) for line in (await talk.rest()).splitlines()]
        assert sorted(text_of(each) for each in answers[1:]) == [
            (1, "first"),
            (2, "and the last, without a line break"),
        ]
        assert await talk.process.wait() == 0


@pytest.mark.parametrize("told_by", [signal.SIGTERM, signal.SIGINT, None], ids=["SIGTERM", "SIGINT", "hanging up"])
async def test_it_leaves_at_once_and_cleanly_though_a_call_is_under_way(told_by: signal.Signals | None):
    async with started(BARE, "stdio", "--farewell") as talk:
        await talk.say(call(1, "wait", modern=True))
        assert [await talk.noted(), await talk.noted()] == ["opened", "waiting"]
        if told_by is None:
            await talk.hang_up()
        else:
            talk.process.send_signal(told_by)
        with anyio.fail_after(5):
            assert await talk.notes() == ["CancelledError", "closed"]
            assert await talk.process.wait() == 0
        assert (await talk.rest()).endswith(b"farewell\n"), "a thread was left behind"


async def test_it_leaves_when_nobody_reads_its_answers_any_more():
    reading, writing = os.pipe()
    async with started(BARE, "stdio", stdout=writing) as talk:
        os.close(writing)
        os.close(reading)
        await talk.say(call(1, "echo", modern=True, text="to nobody"))
        with anyio.fail_after(5):
            assert await talk.notes() == ["opened", "closed"]


async def test_it_leaves_though_the_host_does_not_read_and_hangs_up():
    async with started(BARE, "stdio") as talk:
        await talk.say(*(call(n, "echo", modern=True, text="x" * 200_000) for n in range(3)))
        await talk.hang_up()
        with anyio.fail_after(5):
            assert await talk.notes() == ["opened", "closed"]


async def test_a_closed_standard_input_is_said():
    program = f"import os; os.close(0); os.execv({sys.executable!r}, [{sys.executable!r}, {BARE!r}, 'stdio'])"
    async with started("-c", program) as talk:
        assert any("Standard input or output is closed" in line for line in await talk.notes())


async def test_serving_does_not_import_the_agents():
    async with started(BARE, "stdio") as talk:
        await talk.say(call(1, "loaded", modern=True))
        assert (await talk.hear())["result"]["structuredContent"] == {"result": []}


async def test_a_request_waits_a_little_for_room():
    requests, heard = OpenRequests(most_bytes=100, most=1), list[bool]()

    async def ask() -> None:
        heard.append(await requests.has_room())

    with anyio.fail_after(5):
        requests.add("1", 10)
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            assert heard == []
            requests.remove(1)
        assert heard == [True]
        requests.add(2, 100)
        assert not await requests.has_room()
