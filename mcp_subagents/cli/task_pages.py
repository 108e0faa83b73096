"""`tasks show`, `result` and `transcript`: one task, for a person and for a program."""

import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mcp_subagents.cli.console import console
from mcp_subagents.cli.printing import print_json, print_text
from mcp_subagents.cli.task_tables import document
from mcp_subagents.fleet.acting import see
from mcp_subagents.fleet.finding import SHORT, find
from mcp_subagents.fleet.pages import clipped, facts_of, failure_lines, partial_lines, questions_of
from mcp_subagents.records import TaskRecord
from mcp_subagents.standing import standing_of
from mcp_subagents.store import Query, Store
from mcp_subagents.types import TaskHandle, TaskStatus

COMPLETED, NO_RESULT, NOT_YET = 0, 1, 3
_PREVIEW = 12
"""Lines of a result that `show` shows."""


async def show(store: Store, given: str, *, as_json: bool) -> int:
    """Print all of a task, but not more of its result than its beginning: to look is not to read."""
    record = await find(store, given)
    standing = await standing_of(store, record)
    if as_json:
        print_json(document(standing, record))
        return 0
    below = [each.handle for each in await store.select(Query(parent_id=record.task_id))]
    task, screen = record.handle, console()
    page = Table.grid(padding=(0, 2))
    page.add_column(style="dim", no_wrap=True)
    page.add_column(overflow="fold")
    for name, said in facts_of(standing, below):
        page.add_row(name, Text(said))
    for number, question in questions_of(task):
        page.add_row(f"asks {number}", Text(question, style="magenta"))
    screen.print(page)
    _print_end(screen, task)
    return 0


def _print_end(screen: Console, task: TaskHandle) -> None:
    short = task.task_id[:SHORT]
    if task.status is TaskStatus.WAITING_FOR_ANSWER:
        screen.print(f'\nAnswer it: mcp-subagents tasks answer {short} "..."')
    if task.failure is not None:
        screen.print()
        for line in failure_lines(task.failure):
            screen.print(Text(line))
    if task.result is not None:
        lines = clipped(task.result).split("\n")
        screen.print("\nresult", style="dim")
        for line in lines[:_PREVIEW]:
            screen.print(Text(line))
    if task.result is not None or (task.failure is not None and task.failure.partial_results):
        screen.print(f"\nAll of it: mcp-subagents tasks result {short}", style="dim")


async def result(store: Store, given: str, *, as_json: bool) -> int:
    """Print the result alone, and note that it was read; without one, say why on standard error."""
    record = await find(store, given)
    task = record.handle
    if as_json:
        print_json(document(await standing_of(store, record), record))
    elif task.result is not None:
        print_text(task.result)
    else:
        _say_why_none(record)
    if not task.status.is_terminal:
        return NOT_YET
    await see(store, task)
    return COMPLETED if task.status is TaskStatus.COMPLETED else NO_RESULT


def _say_why_none(record: TaskRecord) -> None:
    task, screen = record.handle, console(stderr=True)
    if task.failure is not None:
        for line in (*failure_lines(task.failure), *partial_lines(task.failure)):
            screen.print(Text(line))
    else:
        screen.print(
            f"Task {task.task_id[:SHORT]} has no result yet: it is {task.status.value}. "
            f"`mcp-subagents tasks watch {task.task_id[:SHORT]}` waits for it."
        )


async def transcript(store: Store, given: str, *, as_json: bool) -> int:
    """Print what happened in a task, as Markdown."""
    # Not before it is needed: it loads pydantic-ai.
    from mcp_subagents.transcripts import transcript_of

    record = await find(store, given)
    text = await transcript_of(record.handle, await store.journal(record.task_id))
    if as_json:
        print_json({"task_id": record.task_id, "transcript": text})
    else:
        sys.stdout.write(text)
    return 0
