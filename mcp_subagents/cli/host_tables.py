"""How `install` and `uninstall` show hosts, changes and what came of them."""

from collections.abc import Sequence
from pathlib import Path

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mcp_subagents.cli.console import console
from mcp_subagents.cli.host_changes import Outcome
from mcp_subagents.hosts.states import HostState
from mcp_subagents.texts import plain

_STANDING = {"ours": "has it", "other": "another", "absent": "-"}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def print_states(states: Sequence[HostState]) -> None:
    """A table of the hosts: which are here, and what they know of us."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("Host", "Here", "Server", "File"):
        table.add_column(title, overflow="fold", no_wrap=title in ("Host", "Here"))
    for each in states:
        standing = "unreadable" if each.trouble else _STANDING[each.standing]
        table.add_row(each.host.name, "yes" if each.present else "no", standing, short(each.file))
    console().print(table)


def print_plans(changes: Sequence[tuple[HostState, str]]) -> None:
    """What is to change, as diffs."""
    printer = console()
    for state, diff in changes:
        printer.print()
        printer.print(Text(f"{state.host.title}: {short(state.file)}", style="bold"), soft_wrap=True)
        for line in diff.splitlines():
            style = "bold" if line.startswith(("---", "+++")) else _COLOURS.get(line[:1], "")
            printer.print(Text(line, style=style), soft_wrap=True)
    if changes:
        printer.print()


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """What came of it, a paragraph for each host."""
    printer = console()
    for each in outcomes:
        style = {"refused": "bold red", "added": "bold green", "removed": "bold green"}.get(each.result, "bold")
        printer.print(Text.assemble((each.host.title, "bold"), ": ", (each.result, style)))
        for line in each.told:
            printer.print(Padding(Text(plain(line)), (0, 0, 0, 2), expand=False))
        if each.backup is not None:
            printer.print(Text(f"  As it was: {short(each.backup)}"), soft_wrap=True)


def short(path: Path) -> str:
    """A path as people write it, with `~` for their home."""
    home = Path.home()
    return plain(f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path))
