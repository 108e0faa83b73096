"""What a task has done so far, read from its journal."""

import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from pydantic import ValidationError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, UserPromptPart

from mcp_subagents.delegation import ACTIVE
from mcp_subagents.errors import NotEnded, StoreDamaged, UnknownTask
from mcp_subagents.history import summary_of_steps, taken, text_of_turns
from mcp_subagents.records import Entry, EntryKind, Mail
from mcp_subagents.redact import redact
from mcp_subagents.returns import CALLS, open_calls, returned, since_the_last_turn
from mcp_subagents.shortening import shortened
from mcp_subagents.store import Query, Store
from mcp_subagents.types import FailureType, TaskFailure, TaskHandle

_LONGEST_FINDING = 20_000
"""Characters of what one child has found."""

TURNS = frozenset({EntryKind.TURN, EntryKind.HISTORY})


def messages_of(entries: Iterable[Entry]) -> list[ModelMessage]:
    """The messages of the finished turns among `entries`."""
    messages: list[ModelMessage] = []
    for entry in entries:
        if entry.kind is EntryKind.HISTORY:
            messages.clear()
        if entry.kind in TURNS:
            messages += ModelMessagesTypeAdapter.validate_json(entry.body)
    return messages


async def stored_history(store: Store, task_id: str) -> list[ModelMessage]:
    """All messages of a task's finished turns."""
    return messages_of(await store.journal(task_id, TURNS))


async def followed_up(store: Store, past: TaskHandle, prompt: str, at: datetime) -> Entry:
    """What a new task has to go on from: all that an ended one was asked and has done, and then `prompt`.

    Raises: `NotEnded`.
    """
    if not past.status.is_terminal:
        raise NotEnded(past)
    entries = await store.journal(past.task_id, TURNS | CALLS)
    history = messages_of(entries)
    if not history:
        history = [ModelRequest(parts=[UserPromptPart(content=past.description)])]  # it ended before its first turn
    elif past.is_structured and past.result is not None:
        history = taken(history)
    elif calls := open_calls(history):
        recorded = since_the_last_turn(entries)
        answers = {each.question_id: each.answer for each in past.questions if each.answer is not None}
        history.append(ModelRequest(parts=[returned(call, recorded, answers) for call in calls]))
    messages = [*history, ModelRequest(parts=[UserPromptPart(content=prompt)])]
    return Entry(kind=EntryKind.HISTORY, body=ModelMessagesTypeAdapter.dump_json(messages).decode(), at=at)


async def lineage(store: Store, task_id: str) -> Sequence[str]:
    """The task, the one that it follows up, the one that this follows up, and so on: their histories are its own."""
    found = [task_id]
    with suppress(UnknownTask):  # its retention has ended, and so has that of all before it
        while task_id := (await store.read(task_id)).continues:
            found.append(task_id)
    return found


async def unfinished(store: Store, task_id: str, type: FailureType, message: str) -> TaskFailure:
    """How a task ends that no attempt is there to end, with what it had achieved."""
    record = await store.read(task_id)
    try:
        history = await stored_history(store, task_id)
    except (StoreDamaged, ValidationError):
        history, message = [], f"{message} What it had done cannot be read."
    failure = TaskFailure(
        failure_type=type,
        is_retryable=False,
        message=message,
        attempted=redact(summary_of_steps(history)),
        partial_results=redact(text_of_turns(history)),
        alternatives=("Delegate the task again if it is still wanted.",),
        retries=record.handle.retry_count,
        usage=record.handle.usage,
    )
    return await with_findings_below(store, task_id, failure)


async def with_findings_below(store: Store, task_id: str, failure: TaskFailure) -> TaskFailure:
    """`failure` with what the tasks below have found as well: nobody else will tell the parent."""
    if (await store.read(task_id)).tree is None:
        return failure
    found = [failure.partial_results, *await _findings_below(store, task_id)]
    return replace(failure, partial_results="\n\n".join(filter(None, found)))


async def _findings_below(store: Store, task_id: str) -> list[str]:
    """What each child has found; of one that is still open, what those below it have found too."""
    found: list[str] = []
    for child in await store.select(Query(parent_id=task_id)):
        handle = child.handle
        if handle.status.is_terminal:
            said = handle.result or (handle.failure.partial_results if handle.failure else "")
        else:
            own = redact(text_of_turns(await stored_history(store, child.task_id)))
            said = "\n\n".join(filter(None, [own, *await _findings_below(store, child.task_id)]))
        if said:
            about = f"From its task {handle.task_id} ({handle.subagent_name}, {handle.status}):"
            found.append(f"{about}\n{shortened(said, _LONGEST_FINDING)[0]}")
    return found


async def still_open(store: Store, task_id: str) -> Mail:
    """What a task is told that wants to end while tasks below it are open."""
    children = await store.select(Query(parent_id=task_id, statuses=ACTIVE))
    lines = [f"- {child.task_id} ({child.handle.subagent_name}): {child.handle.status}" for child in children]
    told = [
        "You have answered, but tasks that you have delegated are still open:",
        *lines,
        "Wait for them with `wait_tasks` if you need their results. If you do not, give your answer again: it ends "
        "your task, and they are cancelled.",
    ]
    return Mail(mail_id=secrets.token_urlsafe(8), text="\n".join(told))
