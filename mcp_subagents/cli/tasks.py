"""`mcp-subagents tasks`: look at the tasks of a store, and act on them. Nothing here runs a task."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

import anyio

from mcp_subagents.cli.arguments import add_json, add_store, new_parser
from mcp_subagents.cli.looking import configured, open_existing, path_of
from mcp_subagents.cli.printing import print_json, print_text
from mcp_subagents.config.environment import ServerConfig
from mcp_subagents.errors import SubagentsError
from mcp_subagents.fleet.choosing import EVERY
from mcp_subagents.fleet.durations import duration
from mcp_subagents.fleet.finding import find
from mcp_subagents.store import Store
from mcp_subagents.types import TaskStatus

_LIMIT = 20

DESCRIPTION = """\
Look at your tasks, whichever app delegated them, and act on them. Nothing here
runs a task: that is what servers do, and `mcp-subagents run`."""

EPILOG = """\
An ID may be cut short to its first few characters, if they tell it from all
others. Only `result` counts as reading: what you have read here is not news to
an app any more. --help after an action says more of it.

examples:
  mcp-subagents tasks list
  mcp-subagents tasks watch
  mcp-subagents tasks answer 3fQ "The second one."
  mcp-subagents tasks result 3fQ > report.md
  mcp-subagents tasks cancel --all
  mcp-subagents tasks prune --older-than 2w --dry-run
"""

_ACTIONS = {
    "list": "the tasks that are open, and the last ones that ended",
    "show": "all of one task but the end of a long result",
    "watch": "the same as list, live; or one task until it has ended",
    "answer": "answer a question of a task",
    "send": "tell a task something that it did not ask",
    "cancel": "stop tasks, with all below them",
    "result": "print the result of a task, and nothing else",
    "transcript": "print what happened in a task, as Markdown",
    "prune": "delete tasks that ended long ago",
}
_EPILOGS = {
    "watch": "Ctrl-C leaves; the tasks go on. Piped, there is a line for each change.\n",
    "answer": (
        "At a terminal and without TEXT it asks you. - reads from standard input.\n\n"
        "exit codes:\n"
        "  0  answered\n"
        "  3  you left the question open\n"
    ),
    "cancel": (
        "Softly, a task stops when its turn is over, and keeps what it has found. --hard\n"
        "does not wait for that; what the finished turns have found is kept.\n"
    ),
    "result": (
        "exit codes:\n"
        "  0  completed; the result is on standard output\n"
        "  1  failed or cancelled; why, and what there is, is on standard error\n"
        "  3  not ended yet\n"
    ),
    "prune": (
        "Servers do this by themselves, by `retention_days`, which holds here too unless\n"
        "you say otherwise.\n\n"
        "exit codes:\n"
        "  0  done, or there was nothing to do\n"
        "  3  you said no\n"
    ),
}


class _Parser(argparse.ArgumentParser):
    """Takes ids for what they are, though one in 64 begins with a dash as options do; and options between words."""

    _at_it = False

    # Overloaded there, for namespaces of other types.
    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        if self._at_it:
            return super().parse_known_args(args, namespace)
        self._at_it = True
        given, more = self.parse_known_intermixed_args([_shielded(word) for word in args or ()], namespace)
        for name, value in vars(given).items():
            setattr(given, name, _bared(value))
        return given, _bared(more)

    def error(self, message: str) -> NoReturn:
        super().error(message.replace(_SHIELD, "").replace(repr(_SHIELD)[1:-1], ""))


_SHIELD = "\0"
"""Before a word that only looks like an option. Nobody can type it: no argument of a process has one."""


def _bared(value: Any) -> Any:
    """What was given, without the shield."""
    match value:
        case str():
            return value.removeprefix(_SHIELD)
        case list():
            return [_bared(each) for each in cast("list[Any]", value)]
        case _:
            return value


def _shielded(word: str) -> str:
    return f"{_SHIELD}{word}" if re.fullmatch(r"-[\w-]{21}|-[A-Za-z0-9_][\w-]{6}", word) else word


def parser() -> argparse.ArgumentParser:
    """What `tasks` understands."""
    command = new_parser("tasks", DESCRIPTION, EPILOG)
    actions = command.add_subparsers(
        dest="action", required=True, metavar="ACTION", title="actions", parser_class=_Parser
    )
    for name, purpose in _ACTIONS.items():
        action = actions.add_parser(
            name,
            help=purpose,
            description=purpose.capitalize() + ".",
            epilog=_EPILOGS.get(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        _add_own(name, action)
        add_json(action)
        add_store(action)
        action.add_argument("--config", metavar="FILE", help="the configuration that says where tasks are kept")
    return command


def _add_own(name: str, action: argparse.ArgumentParser) -> None:
    """What one action understands, and no other."""
    if name in ("show", "answer", "send", "result", "transcript"):
        action.add_argument("task", metavar="ID", type=str.strip, help="the task")
    if name in ("watch", "cancel"):
        action.add_argument("tasks", metavar="ID", type=str.strip, nargs="*", help="the tasks")
    if name in ("answer", "send"):
        action.add_argument("text", metavar="TEXT", nargs="*", help="what to tell it")
    if name == "answer":
        action.add_argument("--question", metavar="N", default="", help="which one, if several are open; or its id")
    if name == "cancel":
        action.add_argument("--all", action="store_true", help="all that are open, whichever app delegated them")
        action.add_argument("--hard", action="store_true", help="now, not when its turn is over")
    if name == "list":
        action.add_argument("--all", action="store_true", help="all of them")
        action.add_argument("--limit", type=_count, default=_LIMIT, metavar="N", help=f"how many (default: {_LIMIT})")
        action.add_argument(
            "--status",
            action="append",
            choices=[status.value for status in TaskStatus],
            metavar="STATUS",
            help="only those that are pending, running, waiting_for_answer, retrying, completed, failed or cancelled; "
            "may be repeated",
        )
    if name == "prune":
        action.add_argument("--older-than", type=_duration, metavar="AGE", help="ended that long ago: 12h, 30d, 2w")
        action.add_argument("--dry-run", action="store_true", help="only say how many there are")
        action.add_argument("--yes", action="store_true", help="do not ask")


def run(arguments: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Do what was asked for, and return the exit code. Raises: `SubagentsError`."""
    if arguments.action == "cancel" and arguments.all == bool(arguments.tasks):
        raise SubagentsError("Say which tasks to cancel by their ids, or --all of them, not both.")
    config = configured(arguments, env)
    if arguments.action == "list" and config.store is None and not path_of(config).exists():
        return _nothing_yet(as_json=arguments.json)
    return anyio.run(_act, arguments, path_of(config), config)


def _nothing_yet(*, as_json: bool) -> int:
    if as_json:
        print_json({"tasks": []})
    else:
        print_text('There are no tasks yet. The first one comes from an app, or from `mcp-subagents run "..."`.')
    return 0


async def _act(arguments: argparse.Namespace, path: Path, config: ServerConfig) -> int:
    async with open_existing(path) as store:
        return await _chosen_action(arguments, store, config)()


def _chosen_action(given: argparse.Namespace, store: Store, config: ServerConfig) -> Any:
    # Each loads what it needs, and no more: a glance at the tasks should be quick.
    from mcp_subagents.cli import task_deeds, task_pages

    match given.action:
        case "list" | "watch":
            return partial(_look, given, store)
        case "show":
            return partial(task_pages.show, store, given.task, as_json=given.json)
        case "result":
            return partial(task_pages.result, store, given.task, as_json=given.json)
        case "transcript":
            return partial(task_pages.transcript, store, given.task, as_json=given.json)
        case "answer":
            return partial(
                task_deeds.answer, store, given.task, text_of(given.text), given.question, as_json=given.json
            )
        case "send":
            return partial(task_deeds.send, store, given.task, text_of(given.text), as_json=given.json)
        case "cancel":
            wanted = None if given.all else given.tasks
            return partial(task_deeds.cancel, store, wanted, hard=given.hard, as_json=given.json)
        case _:
            older = config.settings.retention if given.older_than is None else given.older_than
            return partial(task_deeds.prune, store, older, dry_run=given.dry_run, yes=given.yes, as_json=given.json)


async def _look(given: argparse.Namespace, store: Store) -> int:
    from mcp_subagents.cli.task_tables import list_tasks
    from mcp_subagents.cli.task_watch import watch_tasks

    if given.action == "watch":
        await watch_tasks(store, [(await find(store, each)).task_id for each in given.tasks], as_json=given.json)
    else:
        statuses = frozenset(map(TaskStatus, given.status)) if given.status else EVERY
        limit = sys.maxsize if given.all else given.limit
        await list_tasks(store, statuses=statuses, limit=limit, as_json=given.json)
    return 0


def text_of(words: Sequence[str]) -> str:
    """What somebody typed as words, or what comes in on standard input for a dash."""
    return (sys.stdin.read() if list(words) == ["-"] else " ".join(words)).strip()


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return min(int(text), sys.maxsize)


def _duration(text: str) -> timedelta:
    try:
        return duration(text)
    except ValueError as why:
        raise argparse.ArgumentTypeError(str(why)) from why
