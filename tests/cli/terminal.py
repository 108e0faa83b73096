"""The command as a process of its own, behind pipes or at a terminal, with a scripted model."""

import os
import pty
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from mcp_subagents.testing import Gateway, Received, Reply

TEAM = """\
model: openai-chat:gpt-4o-mini
store: tasks.db
subagents:
- {name: general-purpose, description: Does things., subagents: [helper], max_retries: 0}
- {name: helper, description: Helps.}
"""

Answers = Callable[[Received], Reply]


@asynccontextmanager
async def provider(home: Path, answers: Answers) -> AsyncGenerator[Gateway]:
    """A model that answers as told, and a configuration in `home` whose subagents use it; for a minute at the most."""
    (home / "subagents.yaml").write_text(TEAM)
    with anyio.fail_after(60):
        async with Gateway(answers) as gateway:
            os.environ["OPENAI_BASE_URL"] = f"{gateway.url}/v1"
            yield gateway


def said_by_user(request: Received) -> str:
    """All that the model was told."""
    return " ".join(str(each.get("content")) for each in request.body["messages"] if each["role"] == "user")


def turns(request: Received) -> int:
    """How many turns the task has had."""
    return sum(each["role"] == "assistant" for each in request.body["messages"])


class Running:
    """A process whose standard output and error are pipes."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdout
        assert process.stderr
        self.process = process
        self._out = BufferedByteReceiveStream(process.stdout)
        self._err = BufferedByteReceiveStream(process.stderr)

    async def noted(self, about: str) -> str:
        """The next line on standard error that says so."""
        while about not in (line := (await self._err.receive_until(b"\n", 65536)).decode()):
            pass
        return line.rstrip("\n")

    async def printed(self, about: str = "") -> str:
        """The next line on standard output that says so."""
        while about not in (line := (await self._out.receive_until(b"\n", 2**20)).decode()):
            pass
        return line.rstrip("\n")

    async def ended(self) -> tuple[int, str, str]:
        """Exit code, and what is left on standard output and error."""
        out, err = await _rest(self._out), await _rest(self._err)
        return await self.process.wait(), out, err


async def _rest(stream: BufferedByteReceiveStream) -> str:
    read = b""
    try:
        while True:
            read += await stream.receive()
    except anyio.EndOfStream:
        return read.decode()


@asynccontextmanager
async def command(*words: str, stdin: Any = DEVNULL) -> AsyncGenerator[Running]:
    """Run the command for as long as the block lasts."""
    argv = [sys.executable, "-m", "mcp_subagents", *words]
    async with await anyio.open_process(argv, stdin=stdin, stdout=PIPE, stderr=PIPE) as process:
        try:
            yield Running(process)
        finally:
            if process.returncode is None:
                process.kill()


async def result_of(*words: str) -> tuple[int, str, str]:
    """Run the command to its end."""
    async with command(*words) as running:
        return await running.ended()


class Terminal:
    """A process at a terminal: what it shows, and what is typed."""

    def __init__(self, process: anyio.abc.Process, descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self.shown = ""

    async def shows(self, text: str, *, after: int = 0) -> int:
        """Wait until `text` is on the screen, and say where it ends there."""
        while (found := self.shown.find(text, after)) < 0:
            await self._read()
        return found + len(text)

    async def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    async def ended(self) -> int:
        while self.process.returncode is None:
            with anyio.move_on_after(0.05):
                await self._read()
            with anyio.move_on_after(0.05):
                await self.process.wait()
        return self.process.returncode

    async def _read(self) -> None:
        await anyio.wait_readable(self._descriptor)
        try:
            self.shown += os.read(self._descriptor, 65536).decode(errors="replace")
        except OSError:  # the other end is closed
            await self.process.wait()


@asynccontextmanager
async def at_terminal(*words: str, stdout: Any = None) -> AsyncGenerator[Terminal]:
    """Run the command at a terminal of its own, of 80 columns, for as long as the block lasts."""
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "mcp_subagents", *words]
    process = await anyio.open_process(
        argv, stdin=theirs, stdout=stdout or theirs, stderr=theirs, env={**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    )
    os.close(theirs)
    async with process:
        try:
            yield Terminal(process, ours)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            os.close(ours)
