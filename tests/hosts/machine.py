"""A machine with real hosts on it, and a user who has nothing but them: no network, a home of its own."""

import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from node_tools import BIN, HOSTS, install

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 60
"""Seconds for one call of a host."""
NOWHERE = "http://127.0.0.1:9"
"""Nobody listens there: what a host wants of the network, it is refused at once."""


def programs() -> dict[str, list[str]]:
    """How each host is called; installed, if it is not there."""
    packages = install(HOSTS, optional=True)
    cpu = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    native = f"{sys.platform}-{cpu}"
    node = str(BIN / "node")
    return {
        "claude-code": [str(packages / f"@anthropic-ai/claude-code-{native}" / "claude")],
        "codex": [node, str(packages / "@openai/codex/bin/codex.js")],
        "gemini": [node, str(packages / "@google/gemini-cli/bundle/gemini.js")],
        "opencode": [str(packages / f"opencode-{native}" / "bin" / "opencode")],
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A home, and the hosts."""

    home: Path
    programs: dict[str, list[str]]

    def environment(self, **more: str) -> dict[str, str]:
        """What a shell of its user has."""
        return {
            "PATH": os.pathsep.join([str(BIN), "/usr/bin", "/bin"]),
            "HOME": str(self.home),
            "NO_COLOR": "1",
            "ANTHROPIC_BASE_URL": NOWHERE,
            "HTTPS_PROXY": NOWHERE,
            "HTTP_PROXY": NOWHERE,
            "NO_PROXY": "127.0.0.1",
            "ANTHROPIC_API_KEY": "none-is-needed",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "GEMINI_API_KEY": "none-is-needed",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            **more,
        }

    async def install(self, *options: str, command: str = "install") -> str:
        """`mcp-subagents install`, as the user calls it; the servers run the code of this checkout."""
        code = ["--env", f"PYTHONPATH={ROOT}"] if command == "install" else []
        words = [sys.executable, "-m", "mcp_subagents", command, "--yes", *code, *options]
        return await self._run(words, self.environment(PYTHONPATH=str(ROOT)))

    async def uninstall(self, *options: str) -> str:
        return await self.install(*options, command="uninstall")

    async def call(self, host: str, *arguments: str, **more: str) -> str:
        """What a host prints, when it has succeeded; on standard error, if that is all."""
        return await self._run([*self.programs[host], *arguments], self.environment(**more))

    async def _run(self, words: list[str], env: dict[str, str]) -> str:
        with anyio.fail_after(PATIENCE):
            done = await anyio.run_process(words, env=env, cwd=self.home, input=b"", check=False)
        said, noted = done.stdout.decode(), done.stderr.decode()
        assert done.returncode == 0, said + noted
        return said or noted

    async def quiet(self) -> None:
        """Return when no server runs with a configuration in this home: it is gone soon after its host."""
        with anyio.fail_after(10):
            while self._servers():  # noqa: ASYNC110  # nobody tells when a process of others has ended
                await anyio.sleep(0.05)

    def _servers(self) -> list[str]:
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True, timeout=10).stdout
        return [line for line in listed.splitlines() if "mcp-subagents" in line and str(self.home) in line]


def results(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects that tools have returned, as a request to Anthropic's API repeats them."""
    parts: list[Any] = [part for message in body["messages"] for part in _listed(message["content"])]
    contents = [_listed(part["content"]) for part in parts if part["type"] == "tool_result"]
    texts = ["".join(each.get("text", "") for each in content) for content in contents]
    return [json.loads(text) for text in texts if text.startswith("{")]


def _listed(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
