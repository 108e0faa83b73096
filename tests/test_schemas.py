"""Which JSON Schemas can describe a result, and what is said of the others."""

from pathlib import Path
from typing import Any

import pytest

from mcp_subagents.config.environment import load
from mcp_subagents.config.roster import by_name
from mcp_subagents.config.schemas import require_result_schema
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.errors import ConfigError
from mcp_subagents.outputs import problems_with
from mcp_subagents.testing import ScriptedModel

FINE: list[dict[str, Any]] = [
    {"type": "object"},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"type": "null"}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/a~1b"}}, "$defs": {"a/b": {"type": "integer"}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/$defs/x"}}, "$defs": {"x": {}}},
    {"type": "object", "properties": {"$ref": {"type": "string"}}},
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
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/b"}},
            "$defs": {"b": {"items": {"$ref": "#/$defs/b"}}},
        },
        "refers back to itself",
    ),
    "to all of itself": ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "refers back to itself"),
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
