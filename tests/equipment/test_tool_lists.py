"""Which tools a subagent may use."""

import logging
from typing import Any

import anyio
import pytest
from bench import BENCH, at_work, ended, returned, until, worker
from pydantic_ai import FunctionToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents.agents import Roster
from mcp_subagents.equipment.tool_lists import is_allowed, require_known
from mcp_subagents.errors import ConfigError, ToolServerDown
from mcp_subagents.testing import ScriptedModel
from mcp_subagents.types import FailureType


class Onlooker(FunctionModel):
    """A model that notes which tools it is offered."""

    def __init__(self) -> None:
        self.offered: list[str] = []
        super().__init__(self._answer)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.offered = sorted(each.name for each in info.function_tools)
        return ModelResponse(parts=[TextPart("seen")])


@pytest.mark.parametrize(
    ("name", "tools", "disallowed", "allowed"),
    [
        ("bench__add", None, [], True),
        ("bench__add", ["bench__add"], [], True),
        ("bench__add", ["bench__*"], [], True),
        ("bench__add", ["other__*"], [], False),
        ("bench__add", [], [], False),
        ("bench__add", ["bench__*"], ["*__add"], False),
        ("ask_parent", [], ["*"], True),
        ("ask_parent", ["ask_parent"], ["ask_parent"], False),
    ],
    ids=[
        *("no lists", "by name", "by pattern", "not in the list", "an empty list", "denied wins"),
        *("asking is not denied by a pattern", "asking is denied by name"),
    ],
)
def test_a_tool_is_allowed_by_the_lists(name: str, tools: list[str] | None, disallowed: list[str], allowed: bool):
    assert is_allowed(name, tools, disallowed) is allowed


def test_a_tool_that_does_not_exist_is_told_with_the_nearest_one():
    with pytest.raises(ConfigError, match=r"'worker' names tools that do not exist: 'read_fiel' \(did you mean"):
        require_known("worker", ["read_fiel", "bench__*", "ask_parent"], ["read_file"])


def test_the_tools_it_could_have_meant_are_those_it_has():
    with pytest.raises(ConfigError) as caught:
        require_known("worker", ["xyzzy", "task", "ask_parent"], ["read_file", "list_files"])
    assert str(caught.value).endswith("names tools that do not exist: 'xyzzy' (known: list_files, read_file).")


def double(number: int) -> int:
    return 2 * number


async def test_a_check_finds_two_tools_of_one_name():
    toolsets = [FunctionToolset[Any]([double], id="one"), FunctionToolset[Any]([double], id="two")]
    roster = Roster([worker(toolsets=toolsets)])
    with anyio.fail_after(5):
        async with roster.open():
            with pytest.raises(ConfigError, match=r"The subagent 'worker' cannot work: .*conflicts.*'double'"):
                await roster.check("worker")


@pytest.mark.slow
async def test_a_subagent_is_offered_what_its_lists_let_through():
    model: Any = Onlooker()
    lists = {"tools": ["bench__add", "bench__p*", "bench__n*"], "disallowed_tools": ["bench__note"]}
    async with at_work(worker(model=model, mcp_servers={"bench": BENCH}, **lists)) as engine:
        await ended(engine)
    assert model.offered == ["ask_parent", "bench__add", "bench__pid"]


@pytest.mark.slow
async def test_a_tool_that_is_not_offered_cannot_be_called_either():
    model = ScriptedModel(ToolCallPart("bench__pid", {}), "well then")
    async with at_work(worker(model=model, mcp_servers={"bench": BENCH}, tools=["bench__add"])) as engine:
        task = await ended(engine)
    (told,) = returned(model)
    assert (task.result, "Unknown tool name: 'bench__pid'" in str(told)) == ("well then", True)


@pytest.mark.slow
async def test_a_named_tool_that_is_missing_is_logged_at_start_and_fails_every_task(caplog: pytest.LogCaptureFixture):
    model = ScriptedModel()
    async with at_work(worker(model=model, mcp_servers={"bench": BENCH}, tools=["bench__ad"])) as engine:
        await until(lambda: "names tools that do not exist: 'bench__ad'" in caplog.text)
        tasks = [await ended(engine), await ended(engine)]
    assert [record.levelno for record in caplog.records if "bench__ad" in record.message] == [logging.ERROR]
    for task in tasks:
        assert task.failure is not None
        assert task.failure.failure_type is FailureType.PERMANENT
        assert "'bench__ad' (did you mean 'bench__add'?)" in task.failure.message
    assert model.requests == []


@pytest.mark.slow
async def test_a_check_brings_up_everything_but_the_model():
    broken = {"command": BENCH["command"], "args": ["-c", "import sys; sys.exit('out of order')"]}
    good = worker(mcp_servers={"bench": BENCH}, name="good", tools=["bench__add"])
    bad = worker(mcp_servers={"bench": broken}, name="bad")
    roster = Roster([good, bad])
    async with roster.open():
        await roster.check("good")
        with pytest.raises(ToolServerDown, match="out of order"):
            await roster.check("bad")
