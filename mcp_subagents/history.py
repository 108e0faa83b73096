"""What a run has reached: a message history that can be resumed, and what it tells of the work done."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.usage import RunUsage


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """Where a run stands. Give `messages` to a new run as `message_history`, without a prompt, and it goes on."""

    messages: tuple[ModelMessage, ...]
    usage: RunUsage
    """Over all attempts."""
    retries: int = 0


def checkpoint_of(exc: BaseException) -> Checkpoint | None:
    """What `run_with_retry` had reached when `exc` ended it; `None` if `exc` did not come from there."""
    found = getattr(exc, _ATTRIBUTE, None)
    return found if isinstance(found, Checkpoint) else None


def attach_checkpoint(exc: BaseException, checkpoint: Checkpoint) -> None:
    """Let `exc` carry `checkpoint` to whoever catches it."""
    setattr(exc, _ATTRIBUTE, checkpoint)


_ATTRIBUTE = "_mcp_subagents_checkpoint"


def resumable(
    messages: Iterable[ModelMessage], *, pending: ModelRequest | None = None, whole_response: bool = False
) -> list[ModelMessage]:
    """`messages` in a form that resumes without doing anything twice.

    `pending` is the request about to be sent: it holds the results of the last tools, and joins the
    history only once it is sent, so without it those tools would run again.

    A trailing response that is marked as interrupted is a piece of a stream that died. Resumed, its text
    would pass for the answer and its tool calls would run, so it is dropped. `whole_response` says that it
    is whole all the same: so it is after a usage limit, which is checked when the response has arrived.
    """
    history = list(messages)
    if pending is not None and pending.parts and not _ends_with(history, pending):
        history.append(pending)
    while history and isinstance(last := history[-1], ModelResponse) and last.state == "interrupted":
        history.pop()
        if whole_response and last.parts:
            history.append(replace(last, state="complete"))
            break
    return history


def longer(new: list[ModelMessage], old: list[ModelMessage]) -> list[ModelMessage]:
    """Whichever holds more parts: a history never shrinks.

    pydantic-ai takes the last request off while it prepares to send it again, so a failure there leaves
    less than there was. Messages do not count: adjacent ones are merged on resume without any loss.
    """
    return new if count_parts(new) >= count_parts(old) else old


def count_parts(messages: Iterable[ModelMessage]) -> int:
    return sum(len(message.parts) for message in messages)


def text_of_turns(messages: Iterable[ModelMessage]) -> str:
    """All that the model has said in its finished turns."""
    texts = (
        part.content.strip()
        for message in messages
        if isinstance(message, ModelResponse) and message.state != "interrupted"
        for part in message.parts
        if isinstance(part, TextPart)
    )
    return "\n\n".join(text for text in texts if text)


def summary_of_steps(messages: Sequence[ModelMessage]) -> str:
    """What was done so far and what came last, in a sentence or two."""
    turns = sum(isinstance(message, ModelResponse) and message.state != "interrupted" for message in messages)
    called = Counter(part.tool_name for part in _parts(messages) if isinstance(part, ToolCallPart))
    if not turns:
        return "The first model request; no turn was finished."
    tools = ", ".join(f"{name} x{count}" if count > 1 else name for name, count in sorted(called.items()))
    return f"{_counted(turns, 'turn')}{f', tools called: {tools}' if tools else ''}. Last: {_last_step(messages)}."


def _last_step(messages: Sequence[ModelMessage]) -> str:
    if unanswered := _unanswered(messages):
        return f"calling {', '.join(unanswered)}"
    if isinstance(messages[-1], ModelResponse):
        return "the model's answer"
    returned = ", ".join(part.tool_name for part in messages[-1].parts if isinstance(part, ToolReturnPart))
    return f"asking the model, with what {returned} returned" if returned else "asking the model"


def _unanswered(messages: Sequence[ModelMessage]) -> list[str]:
    """The tools that the last response called and that have not returned."""
    calls: list[ToolCallPart] = []
    returned: set[str] = set()
    for message in reversed(messages):
        returned |= {part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart)}
        if isinstance(message, ModelResponse):
            calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
            break
    return [call.tool_name for call in calls if call.tool_call_id not in returned]


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _parts(messages: Iterable[ModelMessage]):
    return (part for message in messages for part in message.parts)


def _ends_with(history: list[ModelMessage], request: ModelRequest) -> bool:
    if any(message is request for message in history):
        return True
    # pydantic-ai may have put a copy there, with the instructions of the turn added.
    return bool(history) and isinstance(history[-1], ModelRequest) and history[-1].parts == request.parts
