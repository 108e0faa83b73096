"""What `install` and `uninstall` have in common: which files are meant, what is shown, and who has to agree."""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_data_path

from mcp_subagents.errors import ConfigError
from mcp_subagents.hosts.known import HOSTS, Host, named
from mcp_subagents.hosts.places import project_files
from mcp_subagents.hosts.receipts import Receipts
from mcp_subagents.hosts.states import NAME, HostState, chosen, found, state_in

FINE, REFUSED, DECLINED = 0, 2, 3
_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)
"""What every host takes for the name of a server; it becomes a part of the names of tools, which may not be long."""

EXIT_CODES = """\
exit codes:
  0  done, or there was nothing to do
  2  refused: a file or an option is not as it should be. Nothing was written to
     that file; what is said about other hosts holds
  3  you said no
"""


def add_common(parser: argparse.ArgumentParser) -> None:
    """The arguments of both commands."""
    parser.add_argument("hosts", nargs="*", metavar="HOST", help=f"{', '.join(HOSTS)} (default: all that are here)")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and write nothing")
    parser.add_argument("--yes", "-y", action="store_true", help="do it without asking; needed if nobody can be asked")
    parser.add_argument("--name", default=NAME, help=f"what the server is called in the host (default: {NAME})")
    parser.add_argument(
        "--project", action="store_true", help="the file of the project in this directory, not that of the user"
    )
    parser.add_argument("--file", metavar="FILE", help="another file of the one HOST that is named")
    parser.add_argument("--json", action="store_true", help="JSON for programs; asks nothing, so it needs --yes too")


def receipts() -> Receipts:
    """Where backups and receipts are kept."""
    return Receipts(user_data_path("mcp-subagents", appauthor=False) / "hosts")


def meant(arguments: argparse.Namespace, env: Mapping[str, str]) -> tuple[HostState, ...]:
    """The hosts that are meant, each with the file that is meant. Raises: `ConfigError`."""
    if not _NAME.fullmatch(arguments.name):
        raise ConfigError(f"--name: {arguments.name!r} is no name for a server: 1 to 32 letters, digits, - and _.")
    wanted = named(arguments.hosts)
    if arguments.file is not None:
        if len(wanted) != 1 or arguments.project:
            raise ConfigError("--file needs exactly one HOST, and no --project: whose file is it?")
        return (state_in(wanted[0], Path(arguments.file).expanduser().absolute(), present=True, name=arguments.name),)
    states = found(env, Path.home(), sys.platform, name=arguments.name)
    if not arguments.project:
        return tuple(each for each in states if each.host in wanted) if wanted else states
    return tuple(_of_project(each, arguments.name) for each in states if _takes_projects(each.host, wanted))


def _takes_projects(host: Host, wanted: Sequence[Host]) -> bool:
    has = bool(project_files(host, Path.cwd()))
    if host in wanted and not has:
        raise ConfigError(f"{host.title} keeps no servers in projects: leave --project out.")
    return has and (host in wanted or not wanted)


def _of_project(state: HostState, name: str) -> HostState:
    file = chosen(project_files(state.host, Path.cwd()))
    return state_in(state.host, file, present=state.present, name=name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of one host."""

    host: Host
    file: Path
    result: str
    """In one word."""
    told: tuple[str, ...] = ()
    """What there is to say about it."""
    diff: str = ""
    backup: Path | None = None


def print_json(states: Sequence[HostState], outcomes: Sequence[Outcome]) -> None:
    """All of it, for programs: which hosts were looked at and found, and what became of those that were meant."""
    looked_at = [
        {
            "host": each.host.name,
            "file": str(each.file),
            "present": each.present,
            "server": each.standing,
            "trouble": each.trouble,
        }
        for each in states
    ]
    listed = [
        {
            "host": each.host.name,
            "file": str(each.file),
            "result": each.result,
            "told": list(each.told),
            "diff": each.diff,
            "backup": str(each.backup) if each.backup else None,
        }
        for each in outcomes
    ]
    print(json.dumps({"found": looked_at, "hosts": listed}, indent=2, ensure_ascii=False))


def agrees(question: str) -> bool:
    """Whether the user says yes. Raises: `ConfigError` if there is nobody to ask."""
    if not sys.stdin.isatty():
        raise ConfigError("There is no terminal to ask on. Look at it with --dry-run, then say --yes.")
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        print()
        return False
