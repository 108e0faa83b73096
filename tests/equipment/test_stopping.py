"""Whatever way the command is told to leave, it leaves no tool server behind."""

import json
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from bench import TOOLBENCH, is_alive, until
from processes import Talk, call, started

pytestmark = pytest.mark.slow


async def hung_up(talk: Talk) -> None:
    await talk.hang_up()


async def terminated(talk: Talk) -> None:
    talk.process.send_signal(signal.SIGTERM)


async def interrupted(talk: Talk) -> None:
    talk.process.send_signal(signal.SIGINT)


@pytest.mark.parametrize("leave", [hung_up, terminated, interrupted], ids=["stdin ends", "SIGTERM", "SIGINT"])
async def test_no_tool_server_is_left_when_the_command_leaves(home: Path, leave: Callable[[Talk], Awaitable[None]]):
    notes = home / "notes"
    bench = {"command": sys.executable, "args": [TOOLBENCH], "env": {"BENCH_NOTES": str(notes)}}
    subagent = {"name": "worker", "mcp_servers": {"bench": bench}, "tools": ["bench__hang"], "can_ask_questions": False}
    (home / "subagents.json").write_text(json.dumps({"subagents": [subagent]}), encoding="utf-8")
    async with started("-m", "mcp_subagents", "--config", str(home / "subagents.json")) as talk:
        await talk.shake_hands()
        await talk.say(call(1, "task", description="Go.", subagent_type="worker", mode="async"))
        await talk.hear()
        await until(lambda: notes.exists() and notes.read_text(encoding="utf-8").endswith("\n"))
        process = int(notes.read_text(encoding="utf-8").splitlines()[0])
        assert is_alive(process)
        await leave(talk)
        assert await talk.process.wait() == 0
    assert not is_alive(process)


async def test_a_tool_server_leaves_by_itself_when_we_are_killed(home: Path):
    notes = home / "notes"
    bench = {"command": sys.executable, "args": [TOOLBENCH], "env": {"BENCH_NOTES": str(notes)}}
    subagent = {"name": "worker", "mcp_servers": {"bench": bench}, "tools": ["bench__mark"], "can_ask_questions": False}
    (home / "subagents.json").write_text(json.dumps({"subagents": [subagent]}), encoding="utf-8")
    async with started("-m", "mcp_subagents", "--config", str(home / "subagents.json")) as talk:
        await talk.shake_hands()
        await talk.say(call(1, "task", description="Go.", subagent_type="worker"))
        while (await talk.hear()).get("id") != 1:
            pass
        process = int(notes.read_text(encoding="utf-8").splitlines()[0])
        talk.process.kill()
        await talk.process.wait()
        await until(lambda: not is_alive(process))
