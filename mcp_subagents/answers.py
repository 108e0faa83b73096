"""Whether an answer is whole: half of one must never pass for a result."""

from typing import Any

from pydantic_ai import AgentRunResult, ModelResponse
from pydantic_ai.exceptions import ModelConnectionError

from mcp_subagents.errors import IncompleteAnswer


class StreamEndedEarly(ModelConnectionError):
    """A stream was closed in good order, but its last events never came: the response is a piece of one."""

    def __init__(self, model_name: str) -> None:
        super().__init__(model_name, "The streamed response ended without saying that it was finished.", phase="read")


def refuse_cut_stream(response: ModelResponse) -> None:
    """Raise `StreamEndedEarly` for a response whose stream never said how it ended.

    A gateway that loses its upstream may close the stream as if nothing had happened, and pydantic-ai then
    assumes that all went well. Anthropic always says how it ended. Some servers that speak OpenAI's language
    never do; but one that does not even say what was used, which comes last, has lost its end.
    """
    said = "finish_reason" in (response.provider_details or {}) or response.finish_reason == "content_filter"
    lost = response.finish_reason is None if response.provider_name == "anthropic" else not response.usage.has_values()
    if response.provider_name and not said and lost:
        raise StreamEndedEarly(response.model_name or response.provider_name)


def require_whole_answer(result: AgentRunResult[Any]) -> None:
    """Raise `IncompleteAnswer` for a text that is empty, or that the model or its provider broke off."""
    text: object = result.output
    if not isinstance(text, str):
        return  # a structured output was validated, and a deferred one is none yet
    reason = result.response.finish_reason
    if reason == "length" or reason == "content_filter":
        raise IncompleteAnswer(reason, text)
    if not text.strip():
        raise IncompleteAnswer("empty", text)
