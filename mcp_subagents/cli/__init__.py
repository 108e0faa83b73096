"""The command line: arguments in, exit code out."""

import os
import sys
from collections.abc import Sequence

from mcp_subagents.cli.arguments import parse
from mcp_subagents.errors import SubagentsError

USERS_MISTAKE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run `mcp-subagents` with `argv` and return its exit code, or leave with it after serving."""
    arguments = parse(argv, os.environ)
    # Not before they are needed: to load MCP takes longer than all that `--help` has to do.
    from mcp_subagents.cli.serving import serve

    code = 0
    try:
        serve(arguments, os.environ)
    except* SubagentsError as wrong:
        for line in dict.fromkeys(_lines(wrong)):
            print(f"mcp-subagents: {line}", file=sys.stderr)
        code = USERS_MISTAKE
    return code


def _lines(wrong: BaseExceptionGroup[SubagentsError]) -> list[str]:
    found: list[str] = []
    for each in wrong.exceptions:
        found += _lines(each) if isinstance(each, BaseExceptionGroup) else str(each).splitlines()
    return found
