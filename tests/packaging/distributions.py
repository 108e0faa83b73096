"""Building this package, and installing it where nothing of the checkout can be seen."""

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import ListToolsResult

ROOT = Path(__file__).resolve().parent.parent.parent
TOOLS = {
    *("task", "check_task", "wait_tasks", "answer_subagent", "send_message_to_subagent"),
    *("list_active_tasks", "soft_cancel_task", "hard_cancel_task"),
}
LONGEST = 600
"""Seconds that a build, or an installation, may take."""


def elsewhere(home: Path | None = None) -> dict[str, str]:
    """The environment of this process, without what leads to the checkout; with `home`, of a user who has nothing."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "MCP_SUBAGENTS_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    if home is not None:
        kept |= dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), str(home))
    return kept


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """What a command printed, once it has succeeded."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=elsewhere() if env is None else env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def build(folder: Path, *options: str, source: Path = ROOT) -> Path:
    """Build `source` into `folder`: an sdist, and a wheel of that; or what `options` say."""
    run(sys.executable, "-m", "build", "--outdir", folder, *options, source)
    return folder


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment of its own."""

    folder: Path

    @classmethod
    def made(cls, folder: Path, *requirements: str) -> "Environment":
        """One in `folder` that holds `requirements` and what they need."""
        venv.create(folder, with_pip=True)
        made = cls(folder)
        run(made.program("python"), "-m", "pip", "install", "--quiet", *requirements, cwd=folder)
        return made

    def program(self, name: str) -> str:
        return str(self.folder / ("Scripts" if os.name == "nt" else "bin") / name)


async def listed(command: str, *arguments: str, home: Path, env: dict[str, str] | None = None) -> ListToolsResult:
    """What a server on standard input and output says to `initialize` and `tools/list`, with its store open."""
    server = StdioServerParameters(
        command=command,
        args=[*arguments],
        env={**elsewhere(home), "MCP_SUBAGENTS_MODEL": "test", **(env or {})},
        cwd=home,
    )
    with anyio.fail_after(LONGEST):
        async with Client(server, mode="legacy") as client:
            assert client.server_info is not None
            assert client.server_info.name == "mcp-subagents"
            shown = await client.list_tools()
            active = await client.call_tool("list_active_tasks")
            assert active.structured_content == {"tasks": []}
            return shown
