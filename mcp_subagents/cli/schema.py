"""`mcp-subagents schema`: the JSON schema of subagents.yaml, for editors."""

import argparse
import sys
from collections.abc import Mapping

from mcp_subagents.cli.arguments import new_parser


def parser() -> argparse.ArgumentParser:
    """`schema` takes nothing."""
    return new_parser("schema", "Print the JSON schema of subagents.yaml, for editors.")


def run(_arguments: argparse.Namespace, _env: Mapping[str, str]) -> int:
    """Print it."""
    from mcp_subagents.config.schema import SHIPPED

    sys.stdout.write(SHIPPED.read_text(encoding="utf-8"))
    return 0
