"""The entries of hosts, started as their apps would."""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

import anyio
import pytest

from mcp_subagents.doctor import Finding, Level, Options, gathered
from mcp_subagents.doctor.hosts import hosts

pytestmark = pytest.mark.slow

ANSWER = {
    "jsonrpc": "2.0",
    "id": 1,
    "result": {"serverInfo": {"name": "mcp-subagents", "version": version("mcp-subagents")}},
}
SPEAKS_IF_TOLD = f"import os; os.environ['TOLD']; input(); print({json.dumps(ANSWER)!r}, flush=True); input()"
SWALLOWS_ARGUMENTS = "import os, sys; os.execv(sys.executable, [sys.executable, '-m', 'mcp_subagents'])"


def program(home: Path, text: str) -> str:
    path = home / "bin/mcp-subagents"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def claude_code(home: Path, **servers: object) -> None:
    (home / ".claude.json").write_text(json.dumps({"mcpServers": servers}))


def files(home: Path) -> set[Path]:
    return {each for each in home.rglob("*") if each.is_file()}


async def told(home: Path) -> list[Finding]:
    with anyio.fail_after(60):
        return list(await hosts(gathered(Options(), os.environ, home=home)))


async def test_the_same_command_in_another_environment_is_started_again(home: Path):
    command = program(home, SPEAKS_IF_TOLD)
    claude_code(home, subagents={"command": command, "env": {"TOLD": "1"}}, helpers={"command": command})
    _, first, second = await told(home)
    assert (first.level, second.level) == (Level.OK, Level.PROBLEM)
    assert "KeyError: 'TOLD'" in second.what


@pytest.mark.parametrize("shell", [False, True], ids=["a program that swallows its arguments", "a shell"])
async def test_the_real_store_is_left_alone_whatever_starts_our_server(shell: bool, home: Path):
    command = program(home, SWALLOWS_ARGUMENTS)
    script = f"exec {sys.executable} -m mcp_subagents --store sqlite:///{home}/real.db"
    entry = {"command": "bash", "args": ["-c", script, "mcp-subagents"]} if shell else {"command": command}
    claude_code(home, subagents=entry)
    before = files(home)
    await told(home)
    assert files(home) == before


async def test_who_followed_the_advice_about_a_taken_name_is_not_given_it_again(home: Path):
    command = program(home, SPEAKS_IF_TOLD)
    ours = {"command": command, "env": {"TOLD": "1"}}
    claude_code(home, subagents={"command": "/bin/echo"}, **{"our-subagents": ours})
    assert [each.what[:42] for each in await told(home)] == ["Claude Code (our-subagents): its server an"]
