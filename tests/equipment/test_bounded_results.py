"""How much of what a tool returns a model gets to read."""

from typing import Any

import pytest
from bench import at_work, ended, returned, worker
from pydantic_ai import ToolReturn
from pydantic_ai.messages import BinaryContent, ToolCallPart

from mcp_subagents.equipment.bounded_results import LONGEST, bounded
from mcp_subagents.testing import ScriptedModel

PICTURE = BinaryContent(data=b"x" * 1000, media_type="image/png")


def flood() -> dict[str, str]:
    return {"water": "w" * 3_000_000}


@pytest.mark.parametrize(
    "result",
    [None, 7, "short", {"a": [1, 2]}, ["a", PICTURE], PICTURE, ToolReturn(return_value="short"), object()],
    ids=["nothing", "a number", "a text", "an object", "parts", "a picture", "a rich result", "what is no JSON"],
)
def test_what_is_short_is_left_as_it_is(result: Any):
    assert bounded(result, 500) == result


@pytest.mark.parametrize(
    ("result", "head", "tail"),
    [
        ("a" * 600 + "z", "aaa", "z"),
        ({"a": "x" * 600}, '{"a":"x', 'x"}'),
        (["x" * 600], '["xx', 'x"]'),
    ],
    ids=["a text", "an object", "a list"],
)
def test_what_is_too_long_loses_its_middle_and_says_so(result: Any, head: str, tail: str):
    text = bounded(result, 500)
    assert len(text) <= 500
    assert text.startswith(head)
    assert text.endswith(tail)
    assert "characters left out …]" in text


def test_texts_beside_a_picture_share_the_room():
    first, picture, second = bounded(["a" * 900, PICTURE, "short"], 500)
    assert (picture, second) == (PICTURE, "short")
    assert 400 < len(first) <= 495


def test_a_rich_result_is_cut_inside():
    rich = bounded(ToolReturn(return_value="a" * 900, content="b" * 900, metadata={"c": "c" * 900}), 500)
    assert (len(rich.return_value), len(rich.content), len(rich.metadata["c"])) == (500, 500, 900)


async def test_a_python_tool_gives_a_model_no_more_than_it_can_bear():
    model = ScriptedModel(ToolCallPart("flood", {}), "done")
    subagent = worker(model=model, python_tools=["test_bounded_results:flood"])
    async with at_work(subagent, allow_python_tools=True) as engine:
        await ended(engine)
    (result,) = returned(model)
    assert len(result) == LONGEST
    assert result.startswith('{"water":"www')
