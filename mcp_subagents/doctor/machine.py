"""What mcp-subagents runs on: Python and SQLite."""

import sys
from collections.abc import Iterable
from importlib.metadata import version

from mcp_subagents.doctor.circumstances import Circumstances
from mcp_subagents.doctor.findings import Finding, fine, problem
from mcp_subagents.store.sqlite_examination import sqlite_version

OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 54)
"""Older ones can damage a file that several processes write, in the moment of a checkpoint."""


async def python(_: Circumstances) -> Iterable[Finding]:
    """Whether Python is new enough."""
    return [judged_python(sys.version_info[:3], sys.executable)]


def judged_python(found: tuple[int, ...], executable: str) -> Finding:
    told = f"Python {_dotted(found)} ({executable}), mcp-subagents {version('mcp-subagents')}"
    if found < OLDEST_PYTHON:
        oldest = _dotted(OLDEST_PYTHON)
        return problem(
            "python",
            f"{told}: it needs Python {oldest} or newer.",
            f"Install Python {oldest} or newer, and mcp-subagents into that.",
        )
    return fine("python", f"{told}.")


async def sqlite(_: Circumstances) -> Iterable[Finding]:
    """Whether SQLite is one to be trusted with a file that several processes share."""
    return [judged_sqlite(sqlite_version())]


def judged_sqlite(found: tuple[int, ...]) -> Finding:
    if found < OLDEST_SQLITE:
        return problem(
            "sqlite",
            f"SQLite {_dotted(found)} is too old for a file that several processes share.",
            f"pip install --upgrade 'apsw>={_dotted(OLDEST_SQLITE)}'",
        )
    return fine("sqlite", f"SQLite {_dotted(found)}.")


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
