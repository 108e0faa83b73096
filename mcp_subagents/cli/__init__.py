"""The command line: arguments in, exit code out."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version


def main(argv: Sequence[str] | None = None) -> int:
    """Run `mcp-subagents` with `argv` and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="mcp-subagents",
        description="Hand work to subagents from any MCP app. This release holds the Python library; "
        "the server arrives with the next one.",
    )
    parser.add_argument("--version", action="version", version=f"mcp-subagents {version('mcp-subagents')}")
    parser.parse_args(argv)
    print("mcp-subagents: this release has no server yet; use it as a Python library.", file=sys.stderr)
    return 2
