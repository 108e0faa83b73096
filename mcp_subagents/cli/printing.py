"""What commands for people and programs share when they print."""

import io
import json
import os
import re
import sys
from collections.abc import Callable

from mcp_subagents.texts import plain

INTERRUPTED = 130
"""The exit code of a command that was ended by Ctrl-C."""

_RISKY = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What JSON leaves as it is, and a terminal might obey, or no encoding takes."""


def json_text(value: object, *, indent: int | None = 2) -> str:
    """`value` as JSON that any terminal can show and any program can read: nothing is lost."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _RISKY.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Print it for a program."""
    print(json_text(value, indent=indent), flush=True)


def print_text(text: str) -> None:
    """Print a text of somebody else on standard output, alone, fit for a terminal, with the end of its last line."""
    print(plain(text).rstrip("\n"), flush=True)


def politely(act: Callable[[], int]) -> int:
    """Do it, whatever the streams can take, and return its exit code.

    A reader that has seen enough, as `head` does, is no mistake; and Ctrl-C needs no traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    code = 0
    try:
        code = act()
        sys.stdout.flush()
    except* BrokenPipeError:
        # Python would complain of it once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except* KeyboardInterrupt:
        code = INTERRUPTED
    return code
