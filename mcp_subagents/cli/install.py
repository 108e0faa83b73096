"""`mcp-subagents install`: our server put into the apps on this machine."""

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from mcp_subagents.cli.host_changes import (
    DECLINED,
    EXIT_CODES,
    FINE,
    REFUSED,
    Outcome,
    add_common,
    agrees,
    meant,
    print_json,
    receipts,
)
from mcp_subagents.cli.host_tables import print_outcomes, print_plans, print_states
from mcp_subagents.config.environment import load
from mcp_subagents.config.providers import is_installed
from mcp_subagents.errors import ConfigError
from mcp_subagents.hosts.advice import next_steps
from mcp_subagents.hosts.entries import Variables, entry_for, variables
from mcp_subagents.hosts.launches import Launch, this_installation
from mcp_subagents.hosts.needs import needed
from mcp_subagents.hosts.plans import Plan, carry_out, plan_install
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
    command = argparse.ArgumentParser(
        prog="mcp-subagents install",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
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
class _Step:
    """What is to happen in one host."""

    state: HostState
    given: Variables
    plan: Plan | None = None
    refused: str | None = None

    def outcome(self, result: str, **more: tuple[str, ...] | Path | str | None) -> Outcome:
        host, file = self.state.host, self.state.file
        return replace(Outcome(host=host, file=file, result=result), **more)

    def diff(self) -> str:
        return self.plan.shown() if self.plan else ""


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
    steps: list[_Step] = []
    for each in targets:
        given = variables(each.host, env, also=names, given=values, copy_keys=arguments.copy_keys)
        steps.append(_planned(each, launch, given, arguments))
    code = REFUSED if any(each.refused for each in steps) else FINE
    changes = [each for each in steps if each.plan is not None]
    if not arguments.json:
        print_plans([(each.state, each.diff()) for each in changes])
    if changes and not (arguments.dry_run or arguments.yes) and not agrees("Write this?"):
        print("Nothing was written.")
        return DECLINED
    outcomes = [_done(each, env, dry_run=arguments.dry_run) for each in steps]
    if any(each.result == "refused" for each in outcomes):
        code = REFUSED
    if arguments.json:
        print_json(states, outcomes)
    else:
        print_outcomes(outcomes)
    return code


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


def _planned(state: HostState, launch: Launch, given: Variables, arguments: argparse.Namespace) -> _Step:
    entry = entry_for(state.host, launch, given)
    try:
        plan = plan_install(state.host, state.file, arguments.name, entry, receipts(), force=arguments.force)
    except ConfigError as why:
        return _Step(state=state, given=given, refused=str(why))
    return _Step(state=state, given=given, plan=plan)


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


def _done(step: _Step, env: Mapping[str, str], *, dry_run: bool) -> Outcome:
    if step.refused is not None:
        return step.outcome("refused", told=(step.refused,))
    if step.plan is None:
        return step.outcome("there", told=("It is there already.",))
    renewed = step.state.standing == "ours"
    if dry_run:
        return step.outcome("would renew" if renewed else "would add", diff=step.diff())
    try:
        backup = carry_out(step.plan, receipts(), datetime.now(UTC))
    except ConfigError as why:
        return step.outcome("refused", told=(str(why),))
    told = next_steps(step.state.host, step.given, env)
    return step.outcome("renewed" if renewed else "added", told=told, diff=step.diff(), backup=backup)
