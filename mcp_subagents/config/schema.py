"""The JSON schema of a configuration file, for editors. It is made of the models, and shipped as a file."""

import ast
import inspect
import json
import textwrap
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from mcp_subagents.config.files import SCHEMA_KEY, FileConfig
from mcp_subagents.config.limits import Limits
from mcp_subagents.config.spec import SubAgentSpec, WorkspaceSpec
from mcp_subagents.config.subagent import SubAgentConfig

SHIPPED = Path(__file__).with_name("subagents.schema.json")
"""Where it is in the package; `make schema` writes it again."""


def generated() -> str:
    """The schema as the models have it now."""
    return json.dumps(_schema(), indent=2, ensure_ascii=False) + "\n"


def _schema() -> dict[str, Any]:
    made: dict[str, Any] = FileConfig.model_json_schema()
    definitions: dict[str, Any] = made.pop("$defs")
    definitions["Limits"] = _limits()
    _describe(definitions[SubAgentSpec.__name__], _docstrings(SubAgentConfig))
    _describe(definitions[WorkspaceSpec.__name__], _docstrings(WorkspaceSpec))
    _describe(made, _docstrings(FileConfig))
    made["description"] = "Subagents and settings."
    made["properties"] = {SCHEMA_KEY: {"type": "string", "description": "This schema."}, **made["properties"]}
    subagents: dict[str, Any] = made["properties"]["subagents"]
    subagents["type"] = ["array", "null"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mcp-subagents",
        "description": "Subagents and settings of mcp-subagents: subagents.yaml or subagents.json.",
        "anyOf": [made, {"type": "array", "items": subagents["items"], "description": "The subagents alone."}],
        "$defs": definitions,
    }


def _describe(model: dict[str, Any], words: Mapping[str, str]) -> None:
    model.pop("title", None)
    for name, each in model["properties"].items():
        each.pop("title", None)
        each["description"] = words[name]
        if name == "limits":
            each["anyOf"] = [{"$ref": "#/$defs/Limits"}, {"type": "null"}]


def _limits() -> dict[str, Any]:
    words = _docstrings(Limits)
    properties: dict[str, Any] = {}
    for each in fields(Limits):
        kinds = ["number"] if each.name == "depth" else ["number", "null"]
        told = words.get(each.name, f"{each.name.replace('_', ' ').capitalize()}.")
        properties[each.name] = {"type": kinds, "minimum": 0, "default": each.default, "description": told}
    return {
        "type": "object",
        "description": "What one task may use; null lifts a limit.",
        "properties": properties,
        "additionalProperties": False,
    }


def _docstrings(kind: type) -> dict[str, str]:
    """What the source says of each attribute of a class, in the text below it."""
    [declared] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(declared, ast.ClassDef)
    told: dict[str, str] = {}
    for attribute, below in zip(declared.body, declared.body[1:], strict=False):
        match attribute, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                told[name] = " ".join(text.split())
            case _:
                pass
    return told
