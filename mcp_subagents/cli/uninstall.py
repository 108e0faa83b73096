"""`mcp-subagents uninstall`: our server taken out of the apps on this machine."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from mcp_subagents.cli.arguments import new_parser
from mcp_subagents.cli.host_changes import EXIT_CODES, FINE, add_common, meant, receipts
from mcp_subagents.cli.host_deeds import carry, planned
from mcp_subagents.errors import ConfigError
from mcp_subagents.hosts.plans import Plan, forget_gone, plan_uninstall
from mcp_subagents.hosts.states import HostState

DESCRIPTION = """\
Take this server out of the apps that have it. Without HOST: out of all of them.
What `install` has written goes, and nothing else: a file that nobody has changed
since is what it was before, to the byte. Tasks and their results stay."""


def parser() -> argparse.ArgumentParser:
    """What `uninstall` understands."""
    command = new_parser("uninstall", DESCRIPTION, EXIT_CODES)
    add_common(command)
    return command


@dataclass(frozen=True, kw_only=True, slots=True)
class _Uninstalling:
    name: str
    nothing: tuple[str, str] = ("absent", "It is not there.")

    def words(self, state: HostState) -> tuple[str, str]:
        return "would remove", "removed"

    def plan(self, state: HostState) -> Plan | None:
        return plan_uninstall(state.host, state.file, self.name, receipts())

    def told(self, state: HostState) -> tuple[str, ...]:
        return ()


def run(arguments: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Take it out, and return the exit code. Raises: `ConfigError`."""
    if arguments.json and not (arguments.yes or arguments.dry_run):
        raise ConfigError("--json asks nothing: say --yes to do it, or --dry-run to look.")
    states = meant(arguments, env)
    deed = _Uninstalling(name=arguments.name)
    steps = planned(deed, states)
    gone = [each for each in steps if each.plan is None and each.refused is None]
    for each in gone if not arguments.dry_run else ():
        forget_gone(each.state.file, arguments.name, receipts())
    if not arguments.hosts:
        steps = [each for each in steps if each not in gone and each.state.standing != "other"]
    if not steps and not arguments.json:
        print(f"No host here has a server of ours that is called {arguments.name!r}.")
        return FINE
    return carry(deed, steps, states, arguments)
