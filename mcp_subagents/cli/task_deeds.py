"""`tasks answer`, `send`, `cancel` and `prune`: what a person does to tasks. None of it runs one."""

import sys
from collections.abc import Sequence
from datetime import timedelta

from rich.text import Text

from mcp_subagents.cli.console import console
from mcp_subagents.cli.printing import print_json
from mcp_subagents.cli.prompting import DECLINED, agreed, ask_until_said, somebody_is_there
from mcp_subagents.cli.task_tables import document
from mcp_subagents.delegation import ACTIVE
from mcp_subagents.errors import SubagentsError, TaskEnded
from mcp_subagents.fleet import acting
from mcp_subagents.fleet.finding import SHORT, find, question_meant, waiting_questions
from mcp_subagents.fleet.pages import clipped
from mcp_subagents.records import TaskRecord
from mcp_subagents.standing import standing_of
from mcp_subagents.store import Query, Store
from mcp_subagents.texts import counted
from mcp_subagents.types import CancelKind, Question, TaskStatus, utc_now


async def answer(store: Store, given: str, text: str, question: str, *, as_json: bool) -> int:
    """Answer one question; at a terminal and without a text, ask for the answer to each that is open."""
    record = await find(store, given)
    task = record.handle
    if not text and not somebody_is_there():
        raise SubagentsError(
            f'There is no answer. Give it as text: mcp-subagents tasks answer {task.task_id[:SHORT]} "..."; '
            "or - to read it from standard input."
        )
    meant = waiting_questions(task) if not text and not question else []
    for each in meant or [question_meant(task, question)]:
        said = text or await _asked(each)
        if said is None:
            return DECLINED
        record = await acting.answer(store, task.task_id, said, each.question_id)
    await _tell(store, record, "Answered.", as_json=as_json)
    return 0


async def _asked(question: Question) -> str | None:
    console(stderr=True).print(Text(clipped(question.text), style="magenta"))
    return await ask_until_said("> ")


async def send(store: Store, given: str, text: str, *, as_json: bool) -> int:
    """Send a message, which the next turn carries."""
    if not text:
        raise SubagentsError("There is no message. Give it as text, or - to read it from standard input.")
    task = (await find(store, given)).handle
    if task.status.is_terminal:
        raise TaskEnded(task)
    record = await acting.send(store, task.task_id, text)
    await _tell(store, record, "Sent; it reads it with its next turn.", as_json=as_json)
    return 0


async def cancel(store: Store, given: Sequence[str] | None, *, hard: bool, as_json: bool) -> int:
    """Cancel tasks, or all that are open, with all below them: softly at the next turn, or now."""
    # Not before it is needed: it loads pydantic-ai.
    from mcp_subagents.ending import cancel_tree

    kind = CancelKind.HARD if hard else CancelKind.SOFT
    if given is None:
        meant = await store.select(Query(statuses=ACTIVE, on_top=True))
    else:
        meant = [await find(store, each) for each in given]
    done = [await cancel_tree(store, each.task_id, kind, utc_now) for each in meant]
    if as_json:
        print_json([document(await standing_of(store, each), each) for each in done])
        return 0
    if not done:
        print("No task is open.")
    for before, after in zip(meant, done, strict=True):
        print(f"{after.task_id[:SHORT]}  {_cancelled(before, after)}")
    return 0


def _cancelled(before: TaskRecord, after: TaskRecord) -> str:
    if before.handle.status.is_terminal:
        return f"had ended already: {before.handle.status.value}"
    if after.handle.status is TaskStatus.CANCELLED:
        return "cancelled"
    return "stops at its next turn; --hard stops it now"


async def prune(store: Store, older_than: timedelta, *, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Delete tasks that ended so long ago, when somebody has agreed."""
    before = utc_now() - older_than
    number = await store.count(Query(ended_before=before))
    when = before.astimezone().strftime("%Y-%m-%d %H:%M")
    tasks = f"{counted(number, 'task')} that ended before {when}"
    deleted = 0
    if number and not dry_run:
        if not yes and not await agreed(f"Delete {tasks}? Their results and transcripts go with them."):
            print("Nothing was deleted.", file=sys.stderr)
            return DECLINED
        deleted = await store.prune(before)
    if as_json:
        print_json({"before": before.isoformat(), "found": number, "deleted": deleted})
    elif deleted:
        print(f"Deleted {tasks}." if deleted == number else f"Deleted {deleted} of {tasks}.")
    else:
        print(f"Would delete {tasks}." if number else f"There is nothing to delete: no task ended before {when}.")
    return 0


async def _tell(store: Store, record: TaskRecord, said: str, *, as_json: bool) -> None:
    """What was done, and whether somebody is there to go on with the task."""
    waits = record.handle.status is TaskStatus.PENDING and not await acting.is_taken_up(store, record.task_id)
    record = await store.read(record.task_id)
    if as_json:
        print_json(document(await standing_of(store, record), record))
    else:
        left = len(waiting_questions(record.handle))
        more = f" {counted(left, 'more question is', 'more questions are')} open." if left else ""
        print(f"{said}{more}", flush=True)
    if waits:
        print(f"{acting.NOBODY_THERE} goes on with it.", file=sys.stderr)
