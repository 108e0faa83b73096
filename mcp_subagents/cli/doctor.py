"""`mcp-subagents doctor`: whatever would keep it from working here, and what to do about it."""

import argparse
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING

import anyio

from mcp_subagents.cli.arguments import add_json, add_sources, add_store, new_parser
from mcp_subagents.cli.printing import print_json
from mcp_subagents.doctor import CHECKS, Check, Circumstances, Finding, Level, Options, examine, gathered, verdict_on
from mcp_subagents.texts import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

DESCRIPTION = """\
Look for whatever would keep mcp-subagents from working here: Python, SQLite,
the configuration, the store and its tasks, models and their keys, tool servers,
your apps, and how soon a server answers. Every finding comes with its fix.

It changes nothing: tasks are left alone, and a store in use is not locked. Tool
servers, and the servers that your apps would start, run for a moment, on a store
of their own. Models are asked only with --live."""

EPILOG = """\
exit codes:
  0    nothing stands in the way; there may be warnings
  1    something will not work
  2    doctor itself was called wrongly
  130  it was stopped by Ctrl-C
"""

_SYMBOLS = {Level.OK: "\N{CHECK MARK}", Level.WARNING: "!", Level.PROBLEM: "\N{BALLOT X}"}
_PLAIN_SYMBOLS = {Level.OK: "+", Level.WARNING: "!", Level.PROBLEM: "x"}
_STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "bold red"}
_ALL = "all"
_SUBJECT = max(len(each) for each in CHECKS)


def parser() -> argparse.ArgumentParser:
    """What `doctor` understands."""
    command = new_parser("doctor", DESCRIPTION, EPILOG)
    command.add_argument(
        "checks",
        nargs="*",
        metavar="CHECK",
        choices=(*CHECKS, _ALL),
        default=_ALL,
        help=f"look at this alone: {', '.join(CHECKS)} (default: {_ALL})",
    )
    add_sources(command)
    add_store(command)
    command.add_argument("--live", action="store_true", help="ask every model for one word, which costs a little")
    command.add_argument(
        "--patience",
        type=_seconds,
        default=Options().patience,
        metavar="SECONDS",
        help="how long a model, a tool server or the server may take to answer (default: %(default)g)",
    )
    add_json(command)
    return command


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0 and below an hour")
    return seconds


def run(arguments: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Examine everything, print what was found as it is found, and return the exit code."""
    options = Options(
        config=arguments.config,
        store=arguments.store,
        agents=tuple(arguments.agents),
        live=arguments.live,
        patience=arguments.patience,
    )
    logging.getLogger().addHandler(logging.NullHandler())  # what others would log is found by the checks
    asked = [arguments.checks] if arguments.checks == _ALL else arguments.checks
    checks = {name: check for name, check in CHECKS.items() if {name, _ALL} & set(asked)}
    found = anyio.run(_json if arguments.json else _told, gathered(options, env), checks)
    return verdict_on(found).exit_code


async def _json(there: Circumstances, checks: Mapping[str, Check]) -> Sequence[Finding]:
    found = [finding async for finding in examine(there, checks)]
    verdict = verdict_on(found)
    report = {
        "version": version("mcp-subagents"),
        "findings": [asdict(each) for each in found],
        "problems": verdict.problems,
        "warnings": verdict.warnings,
        "next_step": verdict.next_step,
    }
    print_json(report)
    return found


async def _told(there: Circumstances, checks: Mapping[str, Check]) -> Sequence[Finding]:
    from mcp_subagents.cli.console import console

    out = console()
    found: list[Finding] = []
    with _waiting(out) as beginning:
        async for finding in examine(there, checks, beginning=beginning):
            found.append(finding)
            _print(out, finding)
    _print_summary(out, found)
    return found


@contextmanager
def _waiting(out: "Console") -> Generator[Callable[[str], None]]:
    """Say on a terminal what is being looked at."""
    if not out.is_terminal:
        yield lambda _: None
        return
    with out.status("") as status:
        yield lambda subject: status.update(f"looking at {subject}")


def _print(out: "Console", finding: Finding) -> None:
    from rich.text import Text

    level = f"{_symbols(out)[finding.level]} {finding.level:<{len(Level.WARNING)}}  "
    subject = f"{finding.check:<{_SUBJECT}}  "
    _print_hanging(out, Text.assemble((level, _STYLES[finding.level]), (subject, "bold")), finding.what)
    if finding.fix:
        _print_hanging(out, Text(f"{'':{len(level)}}{'fix':<{_SUBJECT}}  "), finding.fix)


def _print_hanging(out: "Console", head: "Text", text: str) -> None:
    """`text` beside `head`: wrapped below itself on a terminal, in one line for programs and files."""
    from rich.table import Table
    from rich.text import Text

    if not out.is_terminal:
        out.print(head + Text(text), soft_wrap=True)
        return
    row = Table.grid()
    row.add_column(no_wrap=True, width=len(head.plain))
    row.add_column(overflow="fold")
    row.add_row(head, Text(text))
    out.print(row)


def _symbols(out: "Console") -> Mapping[Level, str]:
    try:
        "".join(_SYMBOLS.values()).encode(out.encoding)
    except UnicodeEncodeError:
        return _PLAIN_SYMBOLS
    return _SYMBOLS


def _print_summary(out: "Console", found: Sequence[Finding]) -> None:
    verdict = verdict_on(found)
    out.print()
    if not verdict.problems and not verdict.warnings:
        out.print("Nothing stands in the way.", soft_wrap=True)
        return
    warnings = counted(verdict.warnings, "warning")
    if verdict.problems:
        problems = counted(verdict.problems, "problem")
        out.print(f"{problems}, {warnings}. Begin with: {verdict.next_step}", soft_wrap=True)
    else:
        out.print(f"Nothing stands in the way; {warnings}. If you do one thing: {verdict.next_step}", soft_wrap=True)
