"""`mcp-subagents run`: delegate a task from the terminal, and wait for its result."""

import argparse
import logging
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio

from mcp_subagents.cli.arguments import add_json, add_sources, add_store, new_parser
from mcp_subagents.cli.looking import path_of
from mcp_subagents.cli.printing import INTERRUPTED, politely, print_json, print_text
from mcp_subagents.cli.prompting import somebody_is_there
from mcp_subagents.cli.screens import Screen, ScreenLog, screen_here
from mcp_subagents.cli.task_tables import document
from mcp_subagents.config.environment import ServerConfig, examine
from mcp_subagents.config.providers import why_no_model
from mcp_subagents.config.roster import alike, by_name, without_model
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.delegation import GENERAL_PURPOSE, Submission
from mcp_subagents.equipment.sound_files import sound
from mcp_subagents.errors import ConfigError, SubagentsError, UnknownSubagent
from mcp_subagents.fleet.acting import NOBODY_THERE, is_taken_up
from mcp_subagents.fleet.finding import SHORT, find
from mcp_subagents.fleet.pages import failure_lines, partial_lines, took
from mcp_subagents.stopping import leave
from mcp_subagents.store import Store
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.types import TaskHandle, TaskStatus

if TYPE_CHECKING:
    from mcp_subagents.errand import Errands

FAILED, ASKS = 1, 3
_CODES = {TaskStatus.COMPLETED: 0, TaskStatus.FAILED: FAILED, TaskStatus.CANCELLED: INTERRUPTED}

DESCRIPTION = """\
Delegate a task to a subagent, and wait for its result. The result alone goes
to standard output; how it goes is told on standard error. The task is as
durable as any: if this terminal is closed, the next server goes on with it."""

EPILOG = """\
While it runs, Ctrl-C stops the task when its turn is over, with what it has
found; a second Ctrl-C stops it at once. What it asks, you answer at the prompt;
Ctrl-D there leaves the question open. No other task is worked on from here.

exit codes:
  0    completed
  1    failed: why, what it found, and what you could do is on standard error
  2    a mistake in the arguments or the configuration
  3    it waits for an answer, and you left
  130  cancelled

examples:
  mcp-subagents run "Which of these logs show the same fault?"
  mcp-subagents run "Review the last commit." --agent reviewer > review.md
  mcp-subagents run - < task.md
  mcp-subagents run "And what would a fix cost?" --continue 3fQ
  id=$(mcp-subagents run "Read it all." --background)
"""


def parser() -> argparse.ArgumentParser:
    """What `run` understands."""
    command = new_parser("run", DESCRIPTION, EPILOG)
    command.add_argument("task", metavar="TASK", help="what is to be done; - reads it from standard input")
    command.add_argument("--agent", metavar="NAME", help="the subagent (default: general-purpose, or the only one)")
    command.add_argument("--model", metavar="NAME", help="the model for this task, in place of the subagent's own")
    command.add_argument(
        "--continue", dest="continues", metavar="ID", default="", help="go on from a task that has ended"
    )
    command.add_argument("--background", action="store_true", help="leave it to a server: print its id and do not wait")
    command.add_argument(
        "--leave-questions",
        action="store_true",
        help="if it asks and nobody is at a terminal, leave with exit code 3 and do not wait for an answer",
    )
    add_json(command)
    add_sources(command)
    add_store(command)
    return command


def run(arguments: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Delegate it, and leave with the exit code. Raises: `SubagentsError`."""
    config = sound(examine(arguments.config, env, store=arguments.store, agents=arguments.agents), env)
    description = (sys.stdin.read() if arguments.task == "-" else arguments.task).strip()
    if not description:
        raise SubagentsError("The task is empty: say what the subagent is to do.")
    screen = screen_here()
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # it is meant for those who write agents
    logging.basicConfig(level=logging.ERROR, handlers=[ScreenLog(screen)], force=True)

    def act() -> int:
        try:
            screen.show(["starting"] if screen.live else [])
            return anyio.run(_delegate, arguments, config, env, description, screen)
        finally:
            screen.rest()

    code = politely(act)  # here too, so that whatever ended it, no thread of a tool is waited for
    leave(code)
    return code


async def _delegate(
    arguments: argparse.Namespace, config: ServerConfig, env: Mapping[str, str], description: str, screen: Screen
) -> int:
    # Not before it is needed: all this loads pydantic-ai.
    from mcp_subagents.agents import Roster
    from mcp_subagents.equipment.kits import Equipment
    from mcp_subagents.errand import run_errands

    async with open_sqlite(path_of(config)) as store:
        past = (await find(store, arguments.continues)).handle if arguments.continues else None
        configs = by_name([spec.to_config() for spec in config.subagents] or [GENERAL_PURPOSE])
        name = _meant(arguments.agent or (past.subagent_name if past else None), configs)
        if arguments.model:
            configs = {**configs, name: on_model(configs[name], arguments.model)}
        if config.model is None and name in without_model(configs.values()):
            raise ConfigError(why_no_model(env))
        equipment = Equipment(
            mcp_servers=config.mcp_servers, allow_python_tools=config.allow_python_tools, base=config.folder
        )
        roster = Roster(configs, default_model=config.model, equipment=equipment)
        wanted = Submission(
            description=description,
            subagent=name,
            mode="async" if arguments.background else "sync",
            continues=past.task_id if past else "",
        )
        async with run_errands(store, roster, config.settings) as errands:
            if arguments.background:
                return await _leave_behind(errands, wanted, store, screen, as_json=arguments.json)
            return await _stay(errands, wanted, store, screen, arguments)


def _meant(given: str | None, configs: Mapping[str, SubAgentConfig]) -> str:
    """The name of the subagent that is meant. Raises: `UnknownSubagent`, `SubagentsError`."""
    if given is None:
        usual = GENERAL_PURPOSE.get("name", "")
        if usual in configs or len(configs) == 1:
            return usual if usual in configs else next(iter(configs))
        raise SubagentsError(f"Say which subagent with --agent: {', '.join(sorted(configs))}.")
    found = next((name for name in configs if alike(name) == alike(given)), None)
    if found is None:
        raise UnknownSubagent(given, configs)
    return found


def on_model(config: SubAgentConfig, model: str) -> SubAgentConfig:
    """The same subagent on that model, without what belongs to its own: the address, the key, and who stands in."""
    changed = config.copy()
    changed["model"] = model
    changed.pop("base_url", None)
    changed.pop("api_key_env", None)
    changed.pop("fallback_models", None)
    return changed


async def _leave_behind(errands: "Errands", wanted: Submission, store: Store, screen: Screen, *, as_json: bool) -> int:
    """Take it on, print its id, and say so if nobody is there to run it."""
    task = await errands.leave(wanted)
    screen.rest()
    if as_json:
        print_json(document(await errands.engine.look(task.task_id), await store.read(task.task_id)))
    else:
        print_text(task.task_id)
    if not await is_taken_up(store, task.task_id):
        screen.note(f"{NOBODY_THERE} starts it.")
    return 0


async def _stay(
    errands: "Errands", wanted: Submission, store: Store, screen: Screen, arguments: argparse.Namespace
) -> int:
    """Take it on, work on it, and print what comes of it."""
    from mcp_subagents.cli.following import listening, stay_with

    interactive = somebody_is_there() and arguments.task != "-"
    with listening() as signals:
        task = await errands.run(wanted)
        screen.note(f"task {task.task_id} ({task.subagent_name})", style="dim")
        left_by = await stay_with(
            errands.engine,
            task.task_id,
            screen,
            signals,
            interactive=interactive,
            leaves_questions=arguments.leave_questions,
        )
        screen.rest()
    if left_by is not None:
        screen.note(f"Told to leave: the next server goes on with task {task.task_id}.")
        return 128 + left_by
    record = await store.read(task.task_id)
    if record.handle.status.is_terminal:
        # Nobody would be left to run what is below it, or to read what that finds.
        await errands.engine.hard_cancel(task.task_id)
    standing = await errands.engine.look(task.task_id)
    if arguments.json:
        print_json(document(standing, record))
    if record.handle.status.is_terminal:
        screen.note(took(standing), style="dim")
    _say_how_it_ended(record.handle, screen, as_json=arguments.json)
    await errands.engine.see(record.handle)
    return _CODES.get(record.handle.status, ASKS)


def _say_how_it_ended(task: TaskHandle, screen: Screen, *, as_json: bool) -> None:
    short = task.task_id[:SHORT]
    if task.status is TaskStatus.WAITING_FOR_ANSWER:
        screen.note(f"The question stays open: mcp-subagents tasks answer {short}")
    if task.failure is not None:
        first, *more = failure_lines(task.failure)
        screen.note(first, style="red" if task.status is TaskStatus.FAILED else "bold")
        for line in (*more, *partial_lines(task.failure)):
            screen.note(line)
        screen.note(f"What happened: mcp-subagents tasks transcript {short}", style="dim")
    if task.result is not None and not as_json:
        print_text(task.result)
