"""A model that says what it is told to."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

Line: TypeAlias = "str | ToolCallPart | Sequence[ToolCallPart] | ModelResponse | Exception | Callable[[], Line]"
"""A text, one or several tool calls, a whole response, an error to raise, or a function that gives one of these."""


class ScriptedModel(FunctionModel):
    """Speaks its lines one after the other, and remembers what it was asked."""

    requests: list[list[ModelMessage]]
    """The messages of every request, in order."""

    def __init__(self, *lines: Line) -> None:
        self.requests = []
        self._lines = list(lines)
        super().__init__(self._answer, model_name="scripted")

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests.append(list(messages))
        if not self._lines:
            raise AssertionError(f"the script has no line for request {len(self.requests)}")
        return _response(self._lines.pop(0))


def _response(line: Line) -> ModelResponse:
    if isinstance(line, Exception):
        raise line
    if isinstance(line, ModelResponse):
        return line
    if isinstance(line, str):
        return ModelResponse(parts=[TextPart(line)])
    if callable(line):
        return _response(line())
    calls = line if isinstance(line, Sequence) else [line]
    return ModelResponse(parts=list(calls))
