"""A model that says what it is told to."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

Line: TypeAlias = "str | ToolCallPart | Sequence[ToolCallPart] | ModelResponse | Exception | Callable[[], Line]"
"""A text, one or several tool calls, a whole response, an error to raise, or a function that gives one of these."""


class ScriptedModel(FunctionModel):
    """Speaks its lines one after the other, and remembers what it was asked.

    It does not stream: a run with an event stream handler needs a `Gateway`, or a `FunctionModel` of its own.

    Raises:
        TypeError: a line is of no kind that can be spoken. For what a function gives, when it is spoken.
        AssertionError: in a run, when there are more requests than lines.
    """

    requests: list[list[ModelMessage]]
    """The messages of every request, in order."""

    def __init__(self, *lines: Line) -> None:
        self.requests = []
        self._lines = [_spoken(line) for line in lines]
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
        return _response(_spoken(line()))
    calls = line if isinstance(line, Sequence) else [line]
    return ModelResponse(parts=list(calls))


def _spoken(line: Line) -> Line:
    if not _is_line(line):
        raise TypeError(
            "A line of a ScriptedModel is a text, a ToolCallPart or several of them, a ModelResponse, an Exception to "
            f"raise, or a function that gives one of these; not {line!r}."
        )
    return line


def _is_line(value: object) -> bool:
    if isinstance(value, str | ToolCallPart | ModelResponse | Exception) or callable(value):
        return True
    return isinstance(value, Sequence) and all(
        isinstance(each, ToolCallPart) for each in cast("Sequence[object]", value)
    )
