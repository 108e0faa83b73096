"""A model that says what it is told to, and what it cannot say."""

from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from mcp_subagents.testing import ScriptedModel

KINDS = (
    "A line of a ScriptedModel is a text, a ToolCallPart or several of them, a ModelResponse, an Exception to raise, "
    "or a function that gives one of these; not "
)


@pytest.mark.parametrize("line", [5, None, b"text", {"a": 1}, ["text"], [ToolCallPart("t"), 5], KeyboardInterrupt()])
def test_a_line_that_cannot_be_spoken_is_refused_at_once(line: Any):
    with pytest.raises(TypeError) as refused:
        ScriptedModel("fine", line)
    assert str(refused.value) == f"{KINDS}{line!r}."


async def test_what_a_function_gives_is_looked_at_when_it_is_spoken():
    def junk() -> Any:
        return 5

    with pytest.raises(TypeError) as refused:
        await Agent(ScriptedModel(junk)).run("Go.")
    assert str(refused.value) == f"{KINDS}5."


async def test_every_kind_of_line_is_spoken():
    def note() -> str:
        return "noted"

    calls = [ToolCallPart("note", {}) for _ in range(4)]
    whole = ModelResponse(parts=[TextPart("All of it.")])
    model = ScriptedModel(calls[0], calls[1:3], lambda: calls[3], whole)
    assert (await Agent(model, tools=[note]).run("Go.")).output == "All of it."
    assert [len(request) for request in model.requests] == [1, 3, 5, 7]
    with pytest.raises(LookupError, match="odd"):
        await Agent(ScriptedModel(LookupError("odd"))).run("Go.")


async def test_a_script_that_is_too_short_says_so():
    with pytest.raises(AssertionError, match="no line for request 1"):
        await Agent(ScriptedModel()).run("Go.")
