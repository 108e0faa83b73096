"""How soon a server answers that is started as an app would start it."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from mcp_subagents.doctor.circumstances import Circumstances
from mcp_subagents.doctor.findings import Finding, fine, problem, shown, warning

SLOW = 5.0
"""Seconds. Some apps wait for ten, and on a busy day everything takes twice as long."""
_LONGEST_ANSWER = 2**20
_PARTING = 5.0
"""Seconds for a server to leave by itself, with all that it has started."""
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "mcp-subagents doctor", "version": version("mcp-subagents")},
    },
}


@dataclass(frozen=True, slots=True)
class Greeting:
    """A server that answered."""

    seconds: float
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Silence:
    """A server that did not, and why."""

    why: str


async def first_response(there: Circumstances) -> Iterable[Finding]:
    """Start the server as it is configured here, and wait for its first word."""
    if there.config is None or there.mistakes:
        return ()
    options = there.options
    command = [sys.executable, "-m", "mcp_subagents", "--transport", "stdio"]
    command += ["--config", options.config] if options.config else []
    command += [word for each in options.agents for word in ("--agents", each)]
    return [judged(await greeted(command, there.env, options.patience), command)]


def judged(heard: Greeting | Silence, command: Sequence[str]) -> Finding:
    """What the first response, or its absence, means for apps."""
    match heard:
        case Silence(why):
            words = " ".join(command)
            return problem("start", f"The server does not start: {why}", f"Run it and see what it says: {words}")
        case Greeting(seconds) if seconds > SLOW:
            return warning(
                "start",
                f"The server takes {seconds:.1f} s to answer; some apps wait for ten.",
                "See what keeps the machine busy, or raise the start-up timeout of your app.",
            )
        case Greeting(seconds):
            return fine("start", f"The server answers {seconds:.1f} s after an app has started it.")


async def greeted(command: Sequence[str], env: Mapping[str, str], patience: float) -> Greeting | Silence:
    """Start a server on an empty store of its own, say hello, and end it.

    The real store is left alone: a server that is started on it would begin to work on the tasks there. So the store
    is named twice: where a program in between does not hand on its arguments, the environment says it.
    """
    with tempfile.TemporaryDirectory(prefix="mcp-subagents-doctor-") as folder:
        store = f"sqlite:///{Path(folder, 'tasks.db')}"
        began = time.perf_counter()
        try:
            async with _started([*command, "--store", store], {**env, "MCP_SUBAGENTS_STORE": store}) as process:
                with anyio.move_on_after(patience):
                    return await _hello(process, began)
                return Silence(f"no answer within {patience:g} seconds")
        except OSError as why:
            return Silence(f"{command[0]}: {why.strerror or why}")


@asynccontextmanager
async def _started(command: Sequence[str], env: Mapping[str, str]) -> AsyncGenerator[anyio.abc.Process]:
    process = await anyio.open_process(list(command), env=dict(env), stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            await _ended(process)


async def _ended(process: anyio.abc.Process) -> None:
    assert process.stdin is not None
    with anyio.move_on_after(_PARTING):
        await process.stdin.aclose()
        await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()


async def _hello(process: anyio.abc.Process, began: float) -> Greeting | Silence:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        await process.stdin.send(json.dumps(_HELLO).encode() + b"\n")
        line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", _LONGEST_ANSWER)
    except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError, OSError):
        return Silence(await _last_words(process))
    except anyio.DelimiterNotFound:
        return Silence("what it writes is not MCP")
    seconds = time.perf_counter() - began
    try:
        info: Any = json.loads(line)["result"]["serverInfo"]
        return Greeting(seconds, str(info["name"]), str(info["version"]))
    except (ValueError, LookupError, TypeError):
        return Silence(f"its first line is not an answer: {shown(line[:200].decode('utf-8', 'replace'))}")


async def _last_words(process: anyio.abc.Process) -> str:
    """What a server said on standard error before it ended."""
    assert process.stderr is not None
    said = b""
    async for chunk in process.stderr:
        said = (said + chunk)[-4000:]
    lines = said.decode("utf-8", "replace").strip().splitlines()
    code = await process.wait()
    return f"{lines[-1]} (exit code {code})" if lines else f"it ended with exit code {code} and said nothing"
