"""What happened in a task, as a person reads it."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime

import anyio.lowlevel
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    RetryFeedbackPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from mcp_subagents.moves import message_of
from mcp_subagents.records import Entry, EntryKind
from mcp_subagents.redact import redact
from mcp_subagents.returns import result_of, since_the_last_turn
from mcp_subagents.texts import plain
from mcp_subagents.types import AgentMessage, MessageType, TaskHandle

_LONGEST_WHOLE = 1_000_000
_LONGEST = 10_000
"""Characters of one part: a transcript is read from end to end."""
_LONGEST_LOOK = 2 * _LONGEST


async def transcript_of(task: TaskHandle, entries: Sequence[Entry]) -> str:
    """The journal of a task as Markdown, without secrets; of a very long one, as much as anybody reads."""
    lines: list[str] = []
    length = 0
    for line in _lines(task, entries):
        lines.append(line)
        length += len(line)
        if length > _LONGEST_WHOLE:
            lines.append("\n*What comes after this is left out: the transcript is too long.*")
            break
        # Looking for secrets takes its time, and everybody else has to wait for it.
        await anyio.lowlevel.checkpoint()
    return "\n".join(lines).rstrip() + "\n"


def _lines(task: TaskHandle, entries: Sequence[Entry]) -> Iterator[str]:
    yield from (_clean(f"# {task.subagent_name}: {task.status}"), "", f"Task `{task.task_id}`", "")
    turn = 0
    if not any(entry.kind in (EntryKind.TURN, EntryKind.HISTORY) for entry in entries):
        yield from _block("Asked for", task.description)  # later, it is in what the subagent is told
    # What the calls before them returned, turns say themselves.
    calls = [id(entry) for entry in since_the_last_turn(entries).values()]
    for entry in entries:
        if entry.kind is EntryKind.EVENT:
            yield from _event(message_of(task.task_id, entry))
        elif id(entry) in calls:
            yield from _call(entry)
        elif entry.kind is EntryKind.TURN:
            turn += 1
            yield from (f"## Turn {turn} · {_time(entry.at)}", "")
            yield from _messages(entry)
        elif entry.kind is EntryKind.HISTORY and turn:
            yield from ("*The history of the run was rewritten here.*", "")
        elif entry.kind is EntryKind.HISTORY:
            *_, told = ModelMessagesTypeAdapter.validate_json(entry.body)
            yield from ("*It goes on from what an earlier task has done.*", "", *_parts(told))


def _call(entry: Entry) -> Iterator[str]:
    if entry.kind is EntryKind.TOOL_RESULT:
        part = result_of(entry)
        yield from _block(f"`{part.tool_name}` returned", part.model_response_str())
    else:
        yield from (_clean(f"*`{json.loads(entry.body)['tool']}` was started and has not been heard of since.*"), "")


def _event(message: AgentMessage) -> Iterator[str]:
    told: dict[str, str] = message.payload or {}
    match message.type:
        case MessageType.QUESTION:
            yield from _said(f"Question ({told['question_id']})", told["question"], message.timestamp)
        case MessageType.ANSWER:
            yield from _said(f"Answer ({told['question_id']})", told["answer"], message.timestamp)
        case MessageType.TASK_UPDATE if "message" in told:
            yield from _said("Message from the host", told["message"], message.timestamp)
        case MessageType.TASK_UPDATE if "retrying" in told:
            yield from _said("Retry", told["retrying"], message.timestamp)
        case MessageType.TASK_FAILED:
            yield from _said(f"Failed ({told['failure_type']})", told["message"], message.timestamp)
        case other:
            yield from (f"*{other.replace('_', ' ')} · {_time(message.timestamp)}*", "")


def _messages(entry: Entry) -> Iterator[str]:
    for message in ModelMessagesTypeAdapter.validate_json(entry.body):
        yield from _parts(message)


def _parts(message: ModelMessage) -> Iterator[str]:
    for part in message.parts:
        match part:
            case UserPromptPart():
                yield from _block("Told", part.content if isinstance(part.content, str) else repr(part.content))
            case ToolReturnPart():
                yield from _block(f"`{part.tool_name}` returned", part.model_response_str())
            case RetryFeedbackPart():
                yield from _block("The answer was refused", part.model_response())
            case TextPart():
                yield from _block("Said", part.content)
            case ThinkingPart():
                yield from _block("Thought", part.content)
            case ToolCallPart():
                yield from _block(f"Called `{part.tool_name}`", part.args_as_json_str())
            case _:
                continue
    if isinstance(message, ModelResponse) and message.model_name:
        yield from (_clean(f"*{message.model_name}*"), "")


def _said(who: str, text: str, at: datetime) -> Iterator[str]:
    yield from _block(f"{who} · {_time(at)}", text)


def _block(head: str, text: str) -> Iterator[str]:
    if not text.strip():
        return
    # Secrets go before the text is cut: half of one would not be recognised.
    told = _clean(text[:_LONGEST_LOOK])
    omitted = len(text) - _LONGEST
    shown = told if omitted <= 0 else f"{told[:_LONGEST]}\n[… {omitted:,} characters left out]"
    yield from (_clean(f"**{head}**"), "", *(f"> {line}".rstrip() for line in shown.splitlines()), "")


def _clean(text: str) -> str:
    return redact(plain(text))


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")
