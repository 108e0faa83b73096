"""The entries of hosts, started as their apps would."""

import json
import os
import re
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
OPENS_ITS_OWN = (
    "import os, sys; os.execv(sys.executable, [sys.executable, '-m', 'mcp_subagents', '--store', '{store}'])"
)


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
    assert first.level is not Level.PROBLEM
    assert second.level is Level.PROBLEM
    assert "KeyError: 'TOLD'" in second.what


async def test_a_program_that_swallows_its_arguments_does_not_open_the_real_store(home: Path):
    claude_code(home, subagents={"command": program(home, SWALLOWS_ARGUMENTS)})
    before = files(home)
    [found] = await told(home)
    assert re.search(r"its server (answers after|takes) \d", found.what)
    assert files(home) == before


async def test_a_shell_is_not_started_for_it_may_open_any_store(home: Path, monkeypatch: pytest.MonkeyPatch):
    command = program(home, OPENS_ITS_OWN.format(store=f"sqlite:///{home}/real.db"))
    monkeypatch.setenv("PATH", str(Path(command).parent), prepend=os.pathsep)
    claude_code(home, subagents={"command": "bash", "args": ["-c", "mcp-subagents"]})
    before = files(home)
    [found] = await told(home)
    assert found.what.endswith("bash may start it on your real tasks, so it was not started here.")
    assert files(home) == before


async def test_who_followed_the_advice_about_a_taken_name_is_not_given_it_again(home: Path):
    command = program(home, SPEAKS_IF_TOLD)
    ours = {"command": command, "env": {"TOLD": "1"}}
    claude_code(home, subagents={"command": "/bin/echo"}, **{"our-subagents": ours})
    [found] = await told(home)
    assert re.match(r"Claude Code \(our-subagents\): its server (answers after|takes) \d", found.what)
