"""Runs a command in a terminal of a given size, and notes what it prints and when."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One line, with the escapes that colour it."""

    text: str
    at: float
    """Seconds after the first one."""


def record(command: Sequence[str], *, columns: int, rows: int) -> list[Line]:
    """The lines that `command` prints to a terminal with colours.

    Raises:
        CalledProcessError: it did not end well.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    decisive = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "COLORTERM"}
    env = {name: value for name, value in os.environ.items() if name not in decisive}
    env["TERM"] = "xterm-256color"
    started_at = time.monotonic()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        lines, unfinished = list[Line](), b""
        while piece := _piece(ours):
            *whole, unfinished = (unfinished + piece).split(b"\n")
            at = time.monotonic() - started_at
            lines += [Line(each.decode().rstrip("\r"), at) for each in whole]
    os.close(ours)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, "\n".join(line.text for line in lines))
    return [Line(each.text, each.at - lines[0].at) for each in lines]


def _piece(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""  # as Linux says that nobody is at the other end any more
