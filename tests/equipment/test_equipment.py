"""Capabilities, Python tools, and what is said at start of what cannot be had."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from bench import BENCH, at_work, ended, returned, worker
from pydantic_ai import FunctionToolset
from pydantic_ai.capabilities import CAPABILITY_TYPES, MCP, Thinking
from pydantic_ai.messages import ToolCallPart

from mcp_subagents import create_server
from mcp_subagents.config.places import Inside
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.equipment.capabilities import capabilities_of
from mcp_subagents.equipment.capability_names import CAPABILITY_NAMES
from mcp_subagents.equipment.definitions import definitions_of
from mcp_subagents.equipment.kits import Equipment
from mcp_subagents.equipment.python_tools import FILE_TOOLS, python_tools_of
from mcp_subagents.equipment.tool_names import tool_name
from mcp_subagents.equipment.workspaces import file_tools
from mcp_subagents.errors import ConfigError
from mcp_subagents.testing import ScriptedModel


def double(number: int) -> int:
    """Twice as much."""
    return 2 * number


TOOLSET = FunctionToolset[Any]([double])
LIST = [double]
NUMBER = 7


def test_the_names_of_capabilities_are_those_of_pydantic_ai():
    assert set(CAPABILITY_TYPES) == CAPABILITY_NAMES


def test_a_capability_is_named_alone_or_with_its_settings():
    thinking, hard, mcp = capabilities_of(
        worker(capabilities=["Thinking", {"Thinking": {"effort": "high"}}, {"MCP": "https://example.com/mcp"}])
    )
    assert (thinking, hard) == (Thinking(), Thinking(effort="high"))
    assert isinstance(mcp, MCP)
    assert mcp.url == "https://example.com/mcp"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("WebFetsh", "unknown capability 'WebFetsh'; did you mean 'WebFetch'?"),
        ("web_search", "unknown capability 'web_search'; did you mean 'WebSearch'?"),
        ("Telepathy of the third kind", "known: BatchModelRequests, Caching"),
        ({"Thinking": {"efort": "high"}}, "The capability Thinking of 'worker' does not take these settings"),
        ({"Thinking": {}, "Caching": {}}, "each is a name, or one name with its settings"),
        ({"WebFetch": {"native": False, "local": False}}, "install mcp-subagents[web]"),
    ],
    ids=["misspelt", "in another style", "unknown", "a wrong setting", "two at once", "neither way of fetching"],
)
def test_a_capability_that_cannot_be_had_is_told_with_what_would_help(given: Any, told: str):
    with pytest.raises(ConfigError) as caught:
        capabilities_of(worker(capabilities=[given]))
    assert told in str(caught.value)


@pytest.mark.parametrize("name", ["double", "TOOLSET", "LIST"], ids=["a function", "a toolset", "a list"])
async def test_python_code_is_a_tool_where_that_is_allowed(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parent), *sys.path])
    model = ScriptedModel(ToolCallPart("double", {"number": 21}), "done")
    config = worker(model=model, python_tools=[f"test_equipment:{name}"])
    async with at_work(config, allow_python_tools=True) as engine:
        await ended(engine)
    assert returned(model) == [42]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("nothing_like_it:tool", "'nothing_like_it:tool' cannot be imported: ModuleNotFoundError"),
        ("math:cosinus", "'math:cosinus' does not exist: 'math' has no 'cosinus'."),
        ("math.cos", "must be given as `package.module:name`"),
        ("math:pi", "'math:pi' is of type float"),
    ],
    ids=["no module", "no name", "no colon", "no tool"],
)
def test_python_code_that_is_no_tool_is_told_by_its_path(path: str, told: str):
    with pytest.raises(ConfigError) as caught:
        python_tools_of(worker(python_tools=[path]), allowed=True)
    assert told in str(caught.value)


def read_file(path: str) -> str:
    return path


def ask_parent(question: str) -> str:
    return question


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        (["read_file"], "is called 'read_file', and so is a tool of its workspace. Give it another name"),
        (["ask_parent"], "is called 'ask_parent', and so is a tool that every subagent may be given."),
        (["double", "LIST"], "is called 'double', and so is the python tool 'test_equipment:double'."),
    ],
    ids=["a workspace's", "ours", "another's"],
)
def test_a_python_tool_with_the_name_of_another_tool_is_refused(paths: list[str], told: str, tmp_path: Path):
    named = [f"test_equipment:{path}" for path in paths]
    with pytest.raises(ConfigError) as caught:
        python_tools_of(worker(python_tools=named, workspace=str(tmp_path)), allowed=True)
    assert told in str(caught.value)


def test_the_names_of_a_workspaces_tools_are_known(tmp_path: Path):
    assert set(file_tools(Inside(tmp_path), read_only=False).tools) == FILE_TOOLS


def test_a_broken_definition_keeps_the_server_from_starting_and_says_all_that_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("BENCH_TOKEN", raising=False)
    one = SubAgentSpec.model_validate(
        {
            "name": "one",
            "workspace": "nowhere",
            "context_files": ["none.md"],
            "capabilities": ["WebFetsh"],
            "python_tools": ["math:cos"],
            "mcp_servers": {"bench": {**BENCH, "env": {"TOKEN": "${BENCH_TOKEN}"}}},
        }
    )
    two = SubAgentSpec.model_validate({"name": "two", "mcp_servers": ["bnch"]})
    with pytest.raises(ConfigError) as caught:
        create_server([one, two], mcp_servers={"bench": BENCH}, folder=tmp_path, store=tmp_path / "x.db")
    lines = str(caught.value).splitlines()
    for told in (
        *("needs the environment variable BENCH_TOKEN", "did you mean 'WebFetch'?", "There is no 'none.md'."),
        *(f"is not a directory: {tmp_path}/nowhere", "the operator has to allow that", "did you mean 'bench'?"),
    ):
        assert any(told in line for line in lines), told
    assert len(lines) == 6


def test_a_ready_made_agent_is_given_no_tools_by_its_definition():
    with pytest.raises(ConfigError, match="'worker' is a ready-made agent, which brings its own tools"):
        create_server([worker(agent=object(), workspace=".")])


def test_nothing_is_made_for_a_subagent_that_asks_for_nothing():
    kit = Equipment().kit(worker())
    assert (kit.toolsets, kit.capabilities, kit.instructions) == ([], [], [])


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("github", "search", "github__search"),
        ("My Server!", "a.b/c", "My_Server___a_b_c"),
        ("x" * 60, "long_name", f"{'x' * 55}_"),
    ],
    ids=["plain", "odd characters", "too long"],
)
def test_a_tool_has_a_name_that_every_provider_takes(server: str, tool: str, name: str):
    made = tool_name(server, tool)
    assert made.startswith(name)
    assert len(made) <= 64
    assert tool_name(server, f"{tool}2") != made


def test_a_secret_that_is_written_out_is_warned_of(caplog: pytest.LogCaptureFixture, tmp_path: Path):
    loud = {**BENCH, "env": {"API_TOKEN": "ghp_0123456789abcdefghij0123456789"}}
    quiet = {**BENCH, "env": {"API_TOKEN": "${PATH}", "MODE": "quick"}}
    create_server([worker(model="test", mcp_servers={"loud": loud, "quiet": quiet})], store=tmp_path / "x.db")
    (warning,) = [record.message for record in caplog.records]
    assert "the tool server loud of the subagent worker has a secret written out" in warning
    assert "ghp_" not in warning


DOCS = (Path(__file__).parent.parent.parent / "docs" / "tools.md").read_text(encoding="utf-8")


def test_the_examples_of_the_documentation_are_definitions():
    whole, *servers = [yaml.safe_load(block.split("```")[0]) for block in DOCS.split("```yaml\n")[1:]]
    specs = [SubAgentSpec.model_validate(each) for each in whole["subagents"]]
    specs += [SubAgentSpec.model_validate({"name": "x", **each}) for each in servers]
    shared = {"files": {"command": "x"}}
    for spec in specs:
        entries = [entry for entry in spec.mcp_servers or [] if not (isinstance(entry, dict) and "from" in entry)]
        given = spec.mcp_servers if isinstance(spec.mcp_servers, dict) else entries
        definitions_of(worker(mcp_servers=given), shared, Path("/"))
    assert len(specs) == 4


def test_the_documentation_names_every_capability():
    section = DOCS.split("## Capabilities")[1].split("Known:")[1].split("##")[0]
    assert set(re.findall(r"`(\w+)`", section)) == CAPABILITY_NAMES
