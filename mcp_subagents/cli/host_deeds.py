"""How a change to the files of hosts is carried: planned, shown, agreed to, done and told."""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from mcp_subagents.cli.host_changes import DECLINED, FINE, REFUSED, Outcome, agrees, print_json, receipts
from mcp_subagents.cli.host_tables import print_outcomes, print_plans
from mcp_subagents.errors import ConfigError
from mcp_subagents.hosts.plans import Plan, carry_out
from mcp_subagents.hosts.states import HostState


class Deed(Protocol):
    """What is done to each host."""

    @property
    def nothing(self) -> tuple[str, str]:
        """What comes of a host where nothing is to be done, in a word and in a sentence."""
        ...

    def words(self, state: HostState) -> tuple[str, str]:
        """What would be done, and what was done."""
        ...

    def plan(self, state: HostState) -> Plan | None:
        """What is to change; nothing if it is as it should be. Raises: `ConfigError`."""
        ...

    def told(self, state: HostState) -> tuple[str, ...]:
        """What there is to say when it is done."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What is to happen in one host."""

    state: HostState
    plan: Plan | None = None
    refused: str | None = None
    """Why nothing can."""
    diff: str = ""
    """The plan, as it can be shown."""


def planned(deed: Deed, states: Iterable[HostState]) -> list[Step]:
    """What `deed` is to do in each host. Nothing has happened yet."""
    return [_planned(deed, each) for each in states]


def carry(deed: Deed, steps: Sequence[Step], looked_at: Sequence[HostState], arguments: argparse.Namespace) -> int:
    """Show the steps, do them if the user agrees, tell what came of them, and return the exit code."""
    changes = [each for each in steps if each.plan is not None]
    if not arguments.json:
        print_plans([(each.state, each.diff) for each in changes])
    if changes and not (arguments.dry_run or arguments.yes) and not agrees("Write this?"):
        print("Nothing was written.")
        return DECLINED
    outcomes = [_done(deed, each, dry_run=arguments.dry_run) for each in steps]
    if arguments.json:
        print_json(looked_at, outcomes)
    else:
        print_outcomes(outcomes)
    return REFUSED if any(each.result == "refused" for each in outcomes) else FINE


def _planned(deed: Deed, state: HostState) -> Step:
    try:
        plan = deed.plan(state)
    except ConfigError as why:
        return Step(state=state, refused=str(why))
    return Step(state=state, plan=plan, diff=plan.shown() if plan else "")


def _done(deed: Deed, step: Step, *, dry_run: bool) -> Outcome:
    state = step.state
    outcome = Outcome(host=state.host, file=state.file, result="refused", diff=step.diff)
    if step.refused is not None:
        return replace(outcome, told=(step.refused,))
    if step.plan is None:
        result, told = deed.nothing
        return replace(outcome, result=result, told=(told,))
    would, done = deed.words(state)
    if dry_run:
        return replace(outcome, result=would)
    try:
        backup = carry_out(step.plan, receipts(), datetime.now(UTC))
    except ConfigError as why:
        return replace(outcome, told=(str(why),), diff="")
    return replace(outcome, result=done, told=deed.told(state), backup=backup)
