"""Raises processes cheaply: everything is imported once, and each of them is a fork.

Orders come as JSON lines on stdin, and each is answered by one on stdout. When stdin closes, all that is
left is killed, so that nothing outlives the tests.
"""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio

from tests.crash import witness, worker

ROLES: Mapping[str, Callable[..., Any]] = {"witness": witness.serve, "worker": worker.work}


def main() -> None:
    children: set[int] = set()
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "start":
            pid = _fork(order)
            children.add(pid)
            answer: object = pid
        else:
            answer = _wait(order["pid"], order["seconds"])
            if answer is not None:
                children.discard(order["pid"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _fork(order: Mapping[str, Any]) -> int:
    if pid := os.fork():
        return pid
    code = 1
    try:
        log = os.open(order["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        nothing = os.open(os.devnull, os.O_RDWR)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        anyio.run(lambda: ROLES[order["role"]](**order["args"]))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _wait(pid: int, seconds: float) -> int | None:
    """How a child ended, as `subprocess` counts; `None` if it is still there."""
    until = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(0.002)


if __name__ == "__main__":
    main()
