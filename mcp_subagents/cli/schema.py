"""`mcp-subagents schema`: the JSON schema of subagents.yaml, for editors."""

import argparse
import sys
from collections.abc import Mapping


def parser() -> argparse.ArgumentParser:
    """`schema` takes nothing."""
    return argparse.ArgumentParser(
        prog="mcp-subagents schema",
        description="Print the JSON schema of subagents.yaml, for editors.",
        allow_abbrev=False,
    )


def run(_arguments: argparse.Namespace, _env: Mapping[str, str]) -> int:
    """Print it."""
    from mcp_subagents.config.schema import SHIPPED

    sys.stdout.write(SHIPPED.read_text(encoding="utf-8"))
    return 0
