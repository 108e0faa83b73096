"""`mcp-subagents uninstall`: our server taken out of the apps on this machine."""

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime

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
from mcp_subagents.cli.host_tables import print_outcomes, print_plans
from mcp_subagents.errors import ConfigError
from mcp_subagents.hosts.plans import Plan, carry_out, forget_gone, plan_uninstall
from mcp_subagents.hosts.states import HostState

DESCRIPTION = """\
Take this server out of the apps that have it. Without HOST: out of all of them.
What `install` has written goes, and nothing else: a file that nobody has changed
since is what it was before, to the byte. Tasks and their results stay."""


def parser() -> argparse.ArgumentParser:
    """What `uninstall` understands."""
    command = argparse.ArgumentParser(
        prog="mcp-subagents uninstall",
        description=DESCRIPTION,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_common(command)
    return command


def run(arguments: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Take it out, and return the exit code. Raises: `ConfigError`."""
    if arguments.json and not (arguments.yes or arguments.dry_run):
        raise ConfigError("--json asks nothing: say --yes to do it, or --dry-run to look.")
    states = meant(arguments, env)
    planned = [(state, _planned(state, arguments.name)) for state in states]
    for state in [state for state, plan in planned if plan is None and not arguments.dry_run]:
        forget_gone(state.file, arguments.name, receipts())
    if not arguments.hosts:
        planned = [(state, plan) for state, plan in planned if plan is not None and state.standing != "other"]
    diffs = {state.host.name: plan.shown() for state, plan in planned if isinstance(plan, Plan)}
    if not arguments.json:
        print_plans([(state, diffs[state.host.name]) for state, plan in planned if isinstance(plan, Plan)])
    if diffs and not (arguments.dry_run or arguments.yes) and not agrees("Write this?"):
        print("Nothing was written.")
        return DECLINED
    outcomes = [_done(state, plan, diffs.get(state.host.name, ""), arguments.dry_run) for state, plan in planned]
    if arguments.json:
        print_json(states, outcomes)
    elif outcomes:
        print_outcomes(outcomes)
    else:
        print(f"No host here has a server of ours that is called {arguments.name!r}.")
    return REFUSED if any(each.result == "refused" for each in outcomes) else FINE


def _planned(state: HostState, name: str) -> Plan | str | None:
    """What is to happen, or why it is refused."""
    try:
        return plan_uninstall(state.host, state.file, name, receipts())
    except ConfigError as why:
        return str(why)


def _done(state: HostState, plan: Plan | str | None, diff: str, dry_run: bool) -> Outcome:
    match plan:
        case None:
            return Outcome(host=state.host, file=state.file, result="absent", told=("It is not there.",))
        case str():
            return Outcome(host=state.host, file=state.file, result="refused", told=(plan,))
        case Plan() if dry_run:
            return Outcome(host=state.host, file=state.file, result="would remove", diff=diff)
        case Plan():
            try:
                backup = carry_out(plan, receipts(), datetime.now(UTC))
            except ConfigError as why:
                return Outcome(host=state.host, file=state.file, result="refused", told=(str(why),))
            return Outcome(host=state.host, file=state.file, result="removed", diff=diff, backup=backup)
