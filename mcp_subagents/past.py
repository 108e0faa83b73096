"""What a task has done so far, read from its journal."""

from collections.abc import Iterable
from datetime import datetime

from pydantic import ValidationError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, UserPromptPart

from mcp_subagents.errors import StoreDamaged
from mcp_subagents.history import closed, summary_of_steps, taken, text_of_turns
from mcp_subagents.records import Entry, EntryKind
from mcp_subagents.redact import redact
from mcp_subagents.store import Store
from mcp_subagents.types import FailureType, TaskFailure

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


async def followed_up(store: Store, task_id: str, prompt: str, at: datetime) -> Entry:
    """What a new task has to go on from: all that an ended one has done, and then `prompt`."""
    past = await stored_history(store, task_id)
    past = taken(past) if (await store.read(task_id)).handle.is_structured else closed(past)
    messages = [*past, ModelRequest(parts=[UserPromptPart(content=prompt)])]
    return Entry(kind=EntryKind.HISTORY, body=ModelMessagesTypeAdapter.dump_json(messages).decode(), at=at)


async def unfinished(store: Store, task_id: str, type: FailureType, message: str) -> TaskFailure:
    """How a task ends that no attempt is there to end, with what it had achieved."""
    record = await store.read(task_id)
    try:
        history = await stored_history(store, task_id)
    except (StoreDamaged, ValidationError):
        history, message = [], f"{message} What it had done cannot be read."
    return TaskFailure(
        failure_type=type,
        is_retryable=False,
        message=message,
        attempted=redact(summary_of_steps(history)),
        partial_results=redact(text_of_turns(history)),
        alternatives=("Delegate the task again if it is still wanted.",),
        retries=record.handle.retry_count,
        usage=record.handle.usage,
    )
