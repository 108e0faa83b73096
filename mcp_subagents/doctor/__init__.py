"""Looks for whatever would keep mcp-subagents from working here, and says what to do about it."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from importlib import import_module

import anyio

from mcp_subagents.doctor.circumstances import Circumstances, Options, gathered
from mcp_subagents.doctor.findings import Finding, Level, Verdict, problem, verdict_on

__all__ = [
    "CHECKS",
    "Check",
    "Circumstances",
    "Finding",
    "Level",
    "Options",
    "Verdict",
    "examine",
    "gathered",
    "verdict_on",
]

Check = Callable[[Circumstances], Awaitable[Iterable[Finding]]]


def _in(module: str, name: str) -> Check:
    """A check, whose module is loaded when it begins: what comes first is told at once, whatever comes later loads."""

    async def check(there: Circumstances) -> Iterable[Finding]:
        found: Check = getattr(import_module(f"mcp_subagents.doctor.{module}"), name)
        return await found(there)

    return check


CHECKS: Mapping[str, Check] = {
    "python": _in("machine", "python"),
    "sqlite": _in("machine", "sqlite"),
    "config": _in("configuration", "configuration"),
    "agents": _in("configuration", "agent_files"),
    "store": _in("storage", "store"),
    "tasks": _in("storage", "tasks"),
    "models": _in("models", "models"),
    "tools": _in("tools", "tools"),
    "port": _in("listening", "listening"),
    "start": _in("starting", "first_response"),
    "hosts": _in("hosts", "hosts"),
}
"""By their subjects. What others depend on comes first."""

LONGEST = 120.0
"""Seconds that one check may take."""


async def examine(
    there: Circumstances,
    checks: Mapping[str, Check] = CHECKS,
    *,
    beginning: Callable[[str], None] = lambda _: None,
    longest: float = LONGEST,
) -> AsyncGenerator[Finding]:
    """All findings, each as soon as its check has ended; `beginning` is told the subject of a check before it starts.

    Whatever happens in a check becomes a finding.
    """
    for subject, check in checks.items():
        beginning(subject)
        for finding in await _findings(subject, check, there, longest):
            yield finding


async def _findings(subject: str, check: Check, there: Circumstances, longest: float) -> list[Finding]:
    with anyio.move_on_after(longest):
        try:
            return list(await check(there))
        except Exception as why:
            # The one catch-all: what cannot be examined is itself something to be told.
            return [problem(subject, f"This check has failed: {_told(why)}", "This is a bug; please report it.")]
    return [
        problem(subject, f"This check did not end within {longest:g} seconds.", "See what it waits for, and retry.")
    ]


def _told(why: BaseException) -> str:
    match why:
        case BaseExceptionGroup(exceptions=[BaseException() as alone]):
            return _told(alone)
        case _:
            return f"{type(why).__name__}: {why}"
