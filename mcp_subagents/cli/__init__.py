"""The command line: arguments in, exit code out."""

import gc
import os
import signal
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from mcp_subagents.cli.arguments import parse
from mcp_subagents.cli.commands import COMMANDS
from mcp_subagents.cli.printing import politely
from mcp_subagents.errors import SubagentsError

USERS_MISTAKE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run `mcp-subagents` with `argv` and return its exit code, or leave with it after serving."""
    arguments = parse(argv, os.environ)
    code = 0
    try:
        if arguments.command != "serve":
            return politely(lambda: COMMANDS[arguments.command].load().run(arguments, os.environ))
        with _leaving_at_once(), _in_a_hurry():
            # Not before it is needed: to load MCP takes longer than all that `--help` has to do.
            from mcp_subagents.cli.serving import prepare, run

            prepared = prepare(arguments, os.environ)
        run(prepared)
    except* SubagentsError as wrong:
        for line in dict.fromkeys(_lines(wrong)):
            print(f"mcp-subagents: {line}", file=sys.stderr)
        code = USERS_MISTAKE
    return code


def _leave_now(_number: int, _frame: object) -> None:
    os._exit(0)


@contextmanager
def _leaving_at_once() -> Generator[None]:
    """Obey a signal to stop while there is nothing yet that would have to be ended."""
    before = {each: signal.signal(each, _leave_now) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _in_a_hurry() -> Generator[None]:
    """Collect no garbage while modules are loaded: there is none, and looking for it takes a twentieth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _lines(wrong: BaseExceptionGroup[SubagentsError]) -> list[str]:
    found: list[str] = []
    for each in wrong.exceptions:
        found += _lines(each) if isinstance(each, BaseExceptionGroup) else str(each).splitlines()
    return found
