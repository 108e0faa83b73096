"""Which JSON Schemas can describe a result, and what is said of the others."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai.messages import ToolCallPart

from mcp_subagents.agents import Roster
from mcp_subagents.config.environment import load
from mcp_subagents.config.roster import by_name
from mcp_subagents.config.schemas import require_result_schema, unrolled
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.delegation import Submission
from mcp_subagents.engine import run_engine
from mcp_subagents.errors import ConfigError
from mcp_subagents.outputs import problems_with
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.testing import ScriptedModel

FINE: list[dict[str, Any]] = [
    {"type": "object"},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"type": "null"}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/a~1b"}}, "$defs": {"a/b": {"type": "integer"}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/$defs/x"}}, "$defs": {"x": {}}},
    {"type": "object", "properties": {"$ref": {"type": "string"}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"items": {"$ref": "#/$defs/b"}}}},
    {"type": "object", "properties": {"a": {"$ref": "#"}}},
]
WRONG: dict[str, tuple[Any, str]] = {
    "no schema": ("string", "must be a JSON Schema, not 'string'"),
    "an array": ({"type": "array"}, "must be of type object (`type: object`), not 'array'"),
    "no type": ({"properties": {}}, "must be of type object (`type: object`), not None"),
    "an unknown type": ({"type": "object", "properties": {"a": {"type": "text"}}}, "at properties.a.type: 'text'"),
    "required is no list": ({"type": "object", "required": "a"}, "is not valid JSON Schema at required"),
    "elsewhere": ({"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}, "may refer only to itself"),
    "nowhere": ({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}, "'#/$defs/b', which is not in it"),
    "in circles": (
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"$ref": "#/$defs/b"}}},
        "goes in circles: '#/$defs/b' is defined by itself alone",
    ),
    "in wider circles": (
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/b"}},
            "$defs": {"b": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/c"}]}, "c": {"$ref": "#/$defs/b"}},
        },
        "goes in circles",
    ),
    "to all of itself": ({"type": "object", "allOf": [{"$ref": "#"}]}, "'#' is defined by itself alone"),
}


@pytest.mark.parametrize("schema", FINE)
def test_a_schema_of_an_object_that_stands_by_itself_is_fine(schema: dict[str, Any]):
    require_result_schema(schema)


@pytest.mark.parametrize("case", WRONG)
def test_another_schema_is_refused(case: str):
    schema, said = WRONG[case]
    with pytest.raises(ConfigError) as refused:
        require_result_schema(schema)
    assert said in str(refused.value)


def test_a_wrong_schema_in_python_is_refused_with_the_name_of_its_subagent():
    with pytest.raises(ConfigError, match="'judge': output_schema must be of type object"):
        by_name([SubAgentConfig(name="judge", output_schema={"type": "array"})])


def test_a_wrong_schema_in_a_file_is_refused_with_its_place(tmp_path: Path):
    file = tmp_path / "subagents.yaml"
    file.write_text("subagents: [{name: judge, output_schema: {type: array}}]\n")
    with pytest.raises(ConfigError) as refused:
        load(file, {})
    assert f"{file}:1: subagents[0].output_schema: must be of type object" in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("base_url", "localhost", "must be the address of a gateway, such as http://localhost:11434/v1"),
        ("base_url", "http://me:pass@localhost/v1", "holds credentials, which belong into a variable"),
        ("api_key_env", "sk-1234567890abcdef", "must be the name of an environment variable"),
        ("effort", "huge", "must be 'low', 'medium' or 'high', not 'huge'"),
    ],
)
def test_a_wrong_setting_of_a_model_is_refused_and_no_secret_repeated(tmp_path: Path, key: str, value: str, said: str):
    file = tmp_path / "subagents.yaml"
    file.write_text(f"subagents: [{{name: judge, {key}: '{value}'}}]\n")
    with pytest.raises(ConfigError) as refused:
        load(file, {})
    assert f"subagents[0].{key}: " in str(refused.value)
    assert said in str(refused.value)
    assert not {"pass@", "sk-1234567890abcdef"} & set(str(refused.value).split())


def test_what_comes_too_late_for_a_ready_made_agent_is_refused():
    config = SubAgentConfig(name="judge", agent=ScriptedModel("x"), effort="low", output_schema={"type": "object"})
    with pytest.raises(ConfigError, match="'judge' is a ready-made agent; set effort, output_schema on that"):
        by_name([config])


def test_only_a_few_problems_are_told_at_a_time():
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    assert len(problems_with({str(number): number for number in range(50)}, schema)) == 5
    assert problems_with({"a": "b"}, schema) == []


NODE = {"type": "object", "properties": {"name": {"type": "string"}, "parts": {"$ref": "#/$defs/parts"}}}
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}},
    "$defs": {"node": NODE, "parts": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
}


def test_a_form_that_contains_itself_is_shown_once():
    again = {"type": "object", "description": "Once more of the form of node, which contains itself."}
    parts = {"type": "array", "items": again}
    assert unrolled(TREE) == {
        "type": "object",
        "properties": {
            "root": {"type": "object", "properties": {"name": {"type": "string"}, "parts": parts}},
        },
    }
    assert unrolled({"type": "object", "title": "Place", "properties": {"$ref": {}, "in": {"$ref": "#"}}}) == {
        "type": "object",
        "title": "Place",
        "properties": {
            "$ref": {},
            "in": {"type": "object", "description": "Once more of the form of Place, which contains itself."},
        },
    }


@pytest.mark.parametrize("schema", FINE[:-2])
def test_another_schema_is_shown_as_it_is(schema: dict[str, Any]):
    assert unrolled(schema) == schema


def test_a_result_is_held_against_the_whole_schema_however_deep():
    fine = {"root": {"name": "a", "parts": [{"name": "b", "parts": [{"name": "c"}]}]}}
    wrong = {"root": {"name": "a", "parts": [{"name": "b", "parts": [{"name": 7}]}]}}
    assert problems_with(fine, TREE) == []
    assert problems_with(wrong, TREE) == ["$.root.parts[0].parts[0].name: 7 is not of type 'string'"]


async def test_a_result_of_a_form_that_contains_itself_is_mended_until_it_fits():
    wrong, right = ({"root": {"name": "a", "parts": [{"name": "b", "parts": [{"name": each}]}]}} for each in (7, "c"))
    model = ScriptedModel(ToolCallPart("final_result", wrong), ToolCallPart("final_result", right))
    config = SubAgentConfig(name="judge", description="", instructions="", model=model, output_schema=TREE)
    with anyio.fail_after(10):
        async with run_engine(MemoryStore(), Roster([config])) as engine:
            task = await engine.submit(Submission(description="Judge.", subagent="judge"))
            done = (await engine.wait([task.task_id])).tasks[0]
    assert done.result is not None
    assert json.loads(done.result) == right
    assert len(model.requests) == 2
