"""What a run has reached: a message history that can be resumed, and what it tells of the work done."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    repair_messages,
)
from pydantic_ai.usage import RunUsage

from mcp_subagents.texts import counted


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """Where a run stands. Give `messages` to a new run as `message_history`, without a prompt, and it goes on."""

    messages: tuple[ModelMessage, ...]
    """Empty if nothing had begun: then run it anew, with its prompt."""
    usage: RunUsage
    """Over all attempts."""
    retries: int = 0
    """Retries that began."""


def checkpoint_of(exc: BaseException | None) -> Checkpoint | None:
    """What `run_with_retry` had reached when `exc` ended it; `None` if `exc` did not come from there."""
    found: object = vars(exc).get(_ATTRIBUTE) if exc is not None else None
    return found if isinstance(found, Checkpoint) else None


def attach_checkpoint(exc: BaseException, checkpoint: Checkpoint) -> None:
    """Let `exc` carry `checkpoint` to whoever catches it."""
    vars(exc)[_ATTRIBUTE] = checkpoint  # not by `setattr`: somebody's exception class may forbid it


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
    # A request that was sent has its time, and is in the history: as it is, or as a history processor left it.
    if pending is not None and pending.parts and pending.timestamp is None:
        history.append(pending)
    while history and isinstance(last := history[-1], ModelResponse) and last.state == "interrupted":
        history.pop()
        if whole_response and last.parts:
            history.append(replace(last, state="complete"))
            break
    return history


def closed(messages: list[ModelMessage]) -> list[ModelMessage]:
    """`messages` in a form that takes a new prompt: calls that nobody answered are marked as interrupted.

    pydantic-ai refuses a prompt after open calls, and nobody can say any more whether they were made.
    """
    last = messages[-1] if messages else None
    return repair_messages(messages) if isinstance(last, ModelResponse) and last.tool_calls else messages


def taken(messages: list[ModelMessage]) -> list[ModelMessage]:
    """`messages`, and that the result they end with, given to an output tool, was taken."""
    last = messages[-1] if messages else None
    calls = last.tool_calls if isinstance(last, ModelResponse) else []
    returns = [ToolReturnPart(call.tool_name, "The result was taken.", call.tool_call_id) for call in calls]
    return [*messages, ModelRequest(parts=returns)] if returns else messages


def answer_on_record(messages: Sequence[ModelMessage]) -> ModelResponse | None:
    """The last message, if it is an answer that needs nothing more from the model: complete, and no tool call."""
    last = messages[-1] if messages else None
    if not isinstance(last, ModelResponse) or last.state != "complete" or last.tool_calls:
        return None
    return last if last.text is not None or last.files else None


def furthest(new: list[ModelMessage], old: list[ModelMessage]) -> list[ModelMessage]:
    """`new`, unless it is only a beginning of `old`.

    pydantic-ai takes the last message off while it prepares to go on from it, so a failure there leaves less
    than there was. Any other history counts, however short: a history processor may have shortened it.
    """
    parts, before = _identities(new), _identities(old)
    return old if len(parts) < len(before) and parts == before[: len(parts)] else new


def is_same(new: Sequence[ModelMessage], old: Sequence[ModelMessage]) -> bool:
    """Whether both hold the same parts, object by object.

    Messages do not count: pydantic-ai copies a request to send it again, and merges adjacent ones.
    """
    return _identities(new) == _identities(old)


def holds_news(new: Sequence[ModelMessage], old: Sequence[ModelMessage]) -> bool:
    """Whether there is a part in `new`, or a message without any, that is not in `old`."""
    known = {*_identities(old), *map(id, old)}
    return any(id(thing) not in known for message in new for thing in message.parts or [message])


def without_final_returns(messages: list[ModelMessage], output_tools: Collection[str]) -> list[ModelMessage]:
    """`messages` without a last request that only says that the output tools were called.

    pydantic-ai adds it when a run has ended with a structured output. Resumed with it, the run would ask the
    model for another one; without it, the output is made of the recorded call again.
    """
    last = messages[-1] if messages else None
    if not isinstance(last, ModelRequest):
        return messages
    returns = [part for part in last.parts if isinstance(part, ToolReturnPart) and part.tool_name in output_tools]
    return messages[:-1] if returns and len(returns) == len(last.parts) else messages


def with_prompt(messages: list[ModelMessage], prompt: str | Sequence[UserContent]) -> list[ModelMessage]:
    """`messages` with `prompt` in a last request that was interrupted.

    A prompt that comes along with the results of deferred tools joins the request that carries them only when
    every tool has returned. When one of them raises, pydantic-ai leaves it out.
    """
    last = messages[-1] if messages else None
    if not isinstance(last, ModelRequest) or last.state != "interrupted":
        return messages
    return [*messages[:-1], replace(last, parts=[*last.parts, UserPromptPart(content=prompt)])]


def text_of_turns(messages: Iterable[ModelMessage]) -> str:
    """All that the model has said in its finished turns."""
    texts = (
        part.content.strip()
        for message in _finished(messages)
        if isinstance(message, ModelResponse)
        for part in message.parts
        if isinstance(part, TextPart)
    )
    return "\n\n".join(text for text in texts if text)


def summary_of_steps(messages: Sequence[ModelMessage]) -> str:
    """What was done so far and what came last, in a sentence or two."""
    finished = _finished(messages)
    turns = sum(isinstance(message, ModelResponse) for message in finished)
    called = Counter(part.tool_name for part in _parts(finished) if isinstance(part, ToolCallPart))
    if not turns:
        return "The first model request; no turn was finished."
    tools = ", ".join(f"{name} x{count}" if count > 1 else name for name, count in sorted(called.items()))
    return f"{counted(turns, 'turn')}{f', tools called: {tools}' if tools else ''}. Last: {_last_step(finished)}."


def _finished(messages: Iterable[ModelMessage]) -> list[ModelMessage]:
    """All but the pieces of responses."""
    return [each for each in messages if not (isinstance(each, ModelResponse) and each.state == "interrupted")]


def _last_step(messages: Sequence[ModelMessage]) -> str:
    if unanswered := _unanswered(messages):
        return f"calling {', '.join(unanswered)}"
    if isinstance(messages[-1], ModelResponse):
        return "the model's answer"
    returned = ", ".join(part.tool_name for part in messages[-1].parts if isinstance(part, ToolReturnPart))
    return f"asking the model, with what {returned} returned" if returned else "asking the model"


def _unanswered(messages: Sequence[ModelMessage]) -> list[str]:
    """The tools that the last response called and that have not returned."""
    last = max(index for index, message in enumerate(messages) if isinstance(message, ModelResponse))
    returned = {part.tool_call_id for part in _parts(messages[last:]) if isinstance(part, ToolReturnPart)}
    calls = (part for part in messages[last].parts if isinstance(part, ToolCallPart))
    return [call.tool_name for call in calls if call.tool_call_id not in returned]


def _identities(messages: Iterable[ModelMessage]) -> list[int]:
    return [id(part) for part in _parts(messages)]


def _parts(messages: Iterable[ModelMessage]):
    return (part for message in messages for part in message.parts)
