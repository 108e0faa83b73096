"""Asking the person at the terminal, so that the answer may also come from elsewhere in the meantime."""

import os
import sys

import anyio
import anyio.to_thread


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
