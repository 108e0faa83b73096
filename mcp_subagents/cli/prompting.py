"""Asking the person at the terminal, so that the answer may also come from elsewhere in the meantime."""

import os
import sys

import anyio
import anyio.to_thread

from mcp_subagents.errors import SubagentsError

DECLINED = 3
"""The exit code of a command whose question a person has left open, or answered with no."""


def somebody_is_there() -> bool:
    """Whether there is a person to ask: what they type comes in here, and they see what we say."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def ask(prompt: str) -> str | None:
    """The line that is typed after `prompt`, without its end; `None` if there will be none (Ctrl-D)."""
    print(prompt, end="", file=sys.stderr, flush=True)
    if sys.platform == "win32":  # pragma: no cover - where a terminal cannot be waited for
        line = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        return line.rstrip("\r\n") if line else None
    typed = b""
    while not typed.endswith(b"\n"):
        await anyio.wait_readable(sys.stdin.fileno())
        if not (more := os.read(sys.stdin.fileno(), 65536)):
            print(file=sys.stderr)
            return None
        typed += more
    return typed.decode(errors="replace").rstrip("\r\n")


async def ask_until_said(prompt: str) -> str | None:
    """The first line that says something; `None` if there will be none (Ctrl-D)."""
    while (line := await ask(prompt)) is not None:
        if line.strip():
            return line
    return None


async def agreed(question: str) -> bool:
    """Whether the person says yes to it; Ctrl-D is no. Raises: `SubagentsError` if there is nobody to ask."""
    if not somebody_is_there():
        raise SubagentsError("Nobody is here to agree to that: add --yes, or look with --dry-run first.")
    said = await ask(f"{question} [y/N] ")
    return said is not None and said.strip().lower() in ("y", "yes")
