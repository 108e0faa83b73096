"""Whether an answer is whole: half of one must never pass for a result."""

from typing import Any, Literal

from pydantic_ai import AgentRunResult, ModelResponse
from pydantic_ai.exceptions import ModelConnectionError

from mcp_subagents.errors import IncompleteAnswer


class StreamEndedEarly(ModelConnectionError):
    """A stream was closed in good order, but its last events never came: the response is a piece of one."""

    def __init__(self, model_name: str) -> None:
        super().__init__(model_name, "The streamed response ended without saying that it was finished.", phase="read")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.model_name,), self.__getstate__()


def refuse_cut_stream(response: ModelResponse) -> None:
    """Raise `StreamEndedEarly` for a response whose stream never said how it ended.

    For responses that were just received: one from a stored history was accepted before.

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


def require_whole_answer(result: AgentRunResult[Any]) -> None:
    """Raise `IncompleteAnswer` if the answer is blank, or the model or its provider broke it off."""
    if (why := what_is_wrong(result.response)) is not None:
        raise IncompleteAnswer(why, result.response.text or "")


def what_is_wrong(response: ModelResponse) -> Literal["empty", "length", "content_filter"] | None:
    """Why `response` could not be the whole answer of a run; `None` if it could, or calls tools.

    The arguments of a tool call, also of one that gives the output, were validated: they are whole.
    """
    if response.tool_calls:
        return None
    if response.finish_reason in ("length", "content_filter"):
        return response.finish_reason
    blank = response.text is not None and not response.text.strip() and not response.files
    return "empty" if blank else None
