"""`mcp-subagents install`: our server put into the apps on this machine."""

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_subagents.cli.arguments import new_parser
from mcp_subagents.cli.host_changes import EXIT_CODES, add_common, meant, receipts
from mcp_subagents.cli.host_deeds import carry, planned
from mcp_subagents.cli.host_tables import print_states
from mcp_subagents.config.environment import load
from mcp_subagents.config.providers import is_installed
from mcp_subagents.errors import ConfigError
from mcp_subagents.hosts.advice import next_steps
from mcp_subagents.hosts.entries import Variables, entry_for, variables
from mcp_subagents.hosts.launches import Launch, this_installation
from mcp_subagents.hosts.needs import needed
from mcp_subagents.hosts.plans import Plan, plan_install
from mcp_subagents.hosts.states import HostState

DESCRIPTION = """\
Add this server to the apps that can use it. Without HOST: to all that are found
here. Every change is shown first; a file is changed in that one place only, and
kept as it was in the data directory. `uninstall` takes it back to the byte.

No key is ever written down unless you say --copy-keys: entries name variables
where a host can look them up."""

EPILOG = f"""\
{EXIT_CODES}
examples:
  mcp-subagents install --dry-run                  # what is here, and what would change
  mcp-subagents install claude-code codex
  mcp-subagents install cursor --config team.yaml  # with the subagents of team.yaml
  mcp-subagents install claude-desktop --copy-keys
"""


def parser() -> argparse.ArgumentParser:
    """What `install` understands."""
    command = new_parser("install", DESCRIPTION, EPILOG)
    add_common(command)
    command.add_argument("--config", metavar="FILE", help="the subagents.yaml that the server is to read")
    command.add_argument(
        "--env",
        metavar="NAME[=VALUE]",
        action="append",
        default=[],
        help="a further variable that the server needs; with a value, it is written down; may be repeated",
    )
    command.add_argument(
        "--copy-keys",
        action="store_true",
        help="write the values of your keys into the file of a host that can look up none (Claude Desktop)",
    )
    command.add_argument("--force", action="store_true", help="replace another server that has the same name")
    return command


@dataclass(frozen=True, kw_only=True, slots=True)
class _Installing:
    launch: Launch
    given: Mapping[str, Variables]
    """What each host hands on, by its name."""
    env: Mapping[str, str]
    name: str
    force: bool
    nothing: tuple[str, str] = ("there", "It is there already.")

    def words(self, state: HostState) -> tuple[str, str]:
        return ("would renew", "renewed") if state.installed else ("would add", "added")

    def plan(self, state: HostState) -> Plan | None:
        entry = entry_for(state.host, self.launch, self.given[state.host.name])
        return plan_install(state.host, state.file, self.name, entry, receipts(), force=self.force)

    def told(self, state: HostState) -> tuple[str, ...]:
        return next_steps(state.host, self.given[state.host.name], self.env)


def run(arguments: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Add it, and return the exit code. Raises: `ConfigError`."""
    if arguments.json and not (arguments.yes or arguments.dry_run):
        raise ConfigError("--json asks nothing: say --yes to do it, or --dry-run to look.")
    states = meant(arguments, env)
    targets = [each for each in states if each.present or arguments.hosts]
    if not arguments.json:
        print_states(states)
    if not targets:
        raise ConfigError("No host was found here. Name the one that you mean: mcp-subagents install HOST.")
    launch = launched(arguments.config, env)
    names, values = _asked(arguments.env)
    if arguments.config is not None:
        names += needed(load(arguments.config, env), env)
    given = {
        each.host.name: variables(each.host, env, also=names, given=values, copy_keys=arguments.copy_keys)
        for each in targets
    }
    deed = _Installing(launch=launch, given=given, env=env, name=arguments.name, force=arguments.force)
    return carry(deed, planned(deed, targets), states, arguments)


def launched(config: str | None, env: Mapping[str, str]) -> Launch:
    """How the server of this installation is started. Raises: `ConfigError`."""
    args: list[str] = []
    if config is not None:
        file = Path(config).expanduser().absolute()
        if not file.is_file():
            raise ConfigError(f"--config: there is no file {str(file)!r}.")
        args = ["--config", str(file)]
    here = this_installation(
        python=Path(sys.executable),
        prefix=Path(sys.prefix),
        platform=sys.platform,
        exists=lambda path: Path(path).is_file(),
        which=lambda name: shutil.which(name, path=env.get("PATH")),
        installed=is_installed,
    )
    return here.launch(args)


def _asked(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    names: list[str] = []
    values: dict[str, str] = {}
    for word in words:
        name, given, value = word.partition("=")
        if not name.replace("_", "a").isalnum() or name[0].isdigit() or not name.isascii():
            raise ConfigError(f"--env: {name!r} is no name of a variable. It is NAME, or NAME=VALUE.")
        if given:
            values[name] = value
        else:
            names.append(name)
    return names, values
