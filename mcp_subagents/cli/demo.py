"""`mcp-subagents demo`: everything in less than a minute, with no key and no network."""

import argparse
from collections.abc import Mapping

import anyio
from rich.console import Console

from mcp_subagents.cli.arguments import new_parser
from mcp_subagents.cli.console import console
from mcp_subagents.stopping import until_stopped

KEPT, BROKEN, STOPPED = 0, 1, 130

DESCRIPTION = """\
Watch all of it in less than a minute, with no key and no network: tasks side by
side, a question, a message to a task at work, a gateway that fails, a server
that is killed, a cancel, and what it all cost. The model is a script; the
server, its SQLite file and everything that happens to them are real. Nothing
is left behind."""

EPILOG = """\
exit codes:
  0    all that was promised has been seen
  1    it has not, and the last lines say what was different
  130  it was stopped, by Ctrl-C for instance
"""


def parser() -> argparse.ArgumentParser:
    """What `demo` understands."""
    command = new_parser("demo", DESCRIPTION, EPILOG)
    command.add_argument("--fast", action="store_true", help="do not pause for readers")
    return command


def run(arguments: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Tell the story. Its servers and its folder are gone when this returns."""
    out = console()
    code = STOPPED
    try:
        code = anyio.run(_tell, out, env, arguments.fast)
    except* KeyboardInterrupt:
        pass  # before there was anything to stop
    except* BrokenPipeError:
        out.quiet = True  # whoever read it has left, before all of it was seen
    if code == STOPPED:
        out.print("\nStopped. Nothing is left behind.")
    return code


async def _tell(out: Console, env: Mapping[str, str], fast: bool) -> int:
    # Not before it is called for: it loads MCP, and `--help` does without.
    from mcp_subagents.demo.narration import Narrator
    from mcp_subagents.demo.story import tell

    code = STOPPED
    async with until_stopped(hangup=True):
        code = KEPT if await tell(Narrator(out, pace=0.0 if fast else 1.0), env) else BROKEN
    return code
