"""Whether an answer is whole: half of one must never pass for a result."""

from typing import Any, Literal

from pydantic_ai import AgentRunResult, ModelResponse
from pydantic_ai.exceptions import ModelConnectionError
from pydantic_ai.messages import ToolCallPart

from mcp_subagents.errors import IncompleteAnswer


class StreamEndedEarly(ModelConnectionError):
    """A stream was closed in good order, but its last events never came: the response is a piece of one."""

    def __init__(self, model_name: str) -> None:
        super().__init__(model_name, "The streamed response ended without saying that it was finished.", phase="read")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.model_name,), self.__getstate__()


def refuse_cut_stream(response: ModelResponse) -> None:
    """Refuse a response that is evidently cut off, before any of its tool calls is run.

    For responses that were just received: one from a stored history was accepted before.

    Raises:
        StreamEndedEarly: its stream never said how it ended.
        IncompleteAnswer: the model or its provider broke it off, and it holds calls that could be run.

    A gateway that loses its upstream may close the stream as if nothing had happened, and pydantic-ai then
    assumes that all went well. Anthropic always says how it ended. Some servers that speak OpenAI's language
    never do; but one that does not even say what was used, which comes last, has lost its end. The details
    of the provider show that it was such a server: other models need not report any usage.
    """
    details = response.provider_details
    if response.provider_name == "anthropic":
        lost = response.finish_reason is None
    else:
        lost = details is not None and not response.usage.has_values()
    said = "finish_reason" in (details or {}) or response.finish_reason == "content_filter"
    if response.provider_name and lost and not said:
        raise StreamEndedEarly(response.model_name or response.provider_name)
    if response.finish_reason in _BROKEN_OFF and any(map(_could_run, response.tool_calls)):
        raise IncompleteAnswer(response.finish_reason, response.text or "")


_BROKEN_OFF = ("length", "content_filter")


def _could_run(call: ToolCallPart) -> bool:
    """Whether the arguments parse. That does not make them whole: there are clients that complete half an object.

    The model hears of those that do not parse, and can correct them.
    """
    try:
        call.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return False
    return True


def require_whole_answer(result: AgentRunResult[Any]) -> None:
    """Raise `IncompleteAnswer` if the answer is blank, or the model or its provider broke it off."""
    responses = (each for each in reversed(result.all_messages()) if isinstance(each, ModelResponse))
    answer = next(responses, None)  # none, if a capability gave the result without asking the model
    if answer is not None and (why := what_is_wrong(answer)) is not None:
        raise IncompleteAnswer(why, answer.text or "")


def what_is_wrong(response: ModelResponse) -> Literal["empty", "length", "content_filter"] | None:
    """Why `response` could not be the whole answer of a run; `None` if it could."""
    if response.finish_reason in _BROKEN_OFF:
        return response.finish_reason
    if response.tool_calls:
        return None
    blank = response.text is not None and not response.text.strip() and not response.files
    return "empty" if blank else None
