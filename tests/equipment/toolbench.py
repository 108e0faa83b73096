"""A tool server for tests: what it is told to do it does, and it dies when it is told to.

It speaks the protocol by hand: a process that loads nothing starts in a moment.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def pid() -> int:
    return os.getpid()


def environment() -> dict[str, str]:
    return dict(os.environ)


def add(left: int, right: int) -> int:
    return left + right


def fail() -> str:
    raise ValueError("no such planet")


def note(path: str, text: str) -> str:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
    return "noted"


def die(path: str) -> str:
    """Take note, and die before answering."""
    note(path, "died")
    sys.stderr.write("the roof fell in; my token is s3cret-of-the-bench\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def mark() -> str:
    return note(os.environ["BENCH_NOTES"], str(os.getpid()))


def hang(path: str = "") -> str:
    """Take note, and do not answer."""
    note(path or os.environ["BENCH_NOTES"], str(os.getpid()))
    time.sleep(3600)
    return ""


def hang_harmless() -> str:
    """Hang the first time, and answer the second time."""
    mark()
    if not Path(os.environ["BENCH_HANGS"]).exists():
        Path(os.environ["BENCH_HANGS"]).touch()
        time.sleep(3600)
    return "harmless"


def mumble() -> str:
    """Write what is no message before the answer, some of it no text at all."""
    os.write(1, b"starting up, token s3cret-of-the-bench\n\xff\xfe\n\n[]\n{}\n")
    return "clear again"


def flood() -> str:
    return "a" + "z" * 3_000_000 + "b"


def odd() -> str:
    """A tool whose results nobody can read, see `called`."""
    return ""


def blurt() -> str:
    """A tool whose answers are no answers, see `answer`."""
    return ""


TOOLS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (pid, environment, add, fail, note, die, mark, hang, hang_harmless, mumble, flood, odd, blurt)
}
HINTS = {
    "pid": {"readOnlyHint": True},
    "hang_harmless": {"readOnlyHint": True},
    "environment": {"idempotentHint": True},
}


def listed(name: str) -> dict[str, Any]:
    tool = {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}}
    return {**tool, "annotations": HINTS[name]} if name in HINTS else tool


def called(params: dict[str, Any]) -> dict[str, Any]:
    try:
        result = TOOLS[params["name"]](**params.get("arguments") or {})
    except ValueError as exc:
        return {"content": [{"type": "text", "text": str(exc)}], "isError": True}
    if params["name"] == "odd":
        return {"content": [{"type": "hologram"}]}
    text = {"type": "text", "text": json.dumps(result)}
    return {"content": [text], "structuredContent": {"result": result}}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    params: dict[str, Any] = message.get("params") or {}
    match message["method"]:
        case "initialize":
            version = params["protocolVersion"]
            info = {"name": "toolbench", "version": "1"}
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            return {"result": {"tools": [listed(name) for name in TOOLS]}}
        case "tools/call" if params["name"] == "blurt":
            return {"result": "no object"}
        case "tools/call":
            return {"result": called(params)}
        case method:
            return {"error": {"code": -32601, "message": f"no method {method}"}}


def serve() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message)}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    if "--child" in sys.argv:
        # It holds all pipes of its parent, and outlives it.
        child = subprocess.Popen(["sleep", "3600"])
        note(os.environ["BENCH_CHILD"], str(child.pid))
    if "--stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "--mute" in sys.argv:
        Path(sys.argv[-1]).write_text(str(os.getpid()), encoding="utf-8")
        time.sleep(3600)
    if "--broken" in sys.argv:
        sys.exit("no licence found")
    serve()
    if "--stubborn" in sys.argv:
        time.sleep(3600)
