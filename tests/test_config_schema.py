"""The JSON schema of a configuration file: what editors accept is what the server accepts."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from mcp_subagents.config.files import FileConfig, read_text
from mcp_subagents.config.limits import Limits
from mcp_subagents.config.schema import SHIPPED, generated
from mcp_subagents.config.spec import SubAgentSpec

SCHEMA: dict[str, Any] = json.loads(SHIPPED.read_text(encoding="utf-8"))
VALIDATOR: Any = Draft202012Validator(SCHEMA)
README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_shipped_schema_is_that_of_the_models():
    assert SHIPPED.read_text(encoding="utf-8") == generated(), "the models have changed: make schema"


def test_it_is_a_json_schema():
    Draft202012Validator.check_schema(SCHEMA)


def properties(node: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        inside: dict[str, Any] = node  # pyright: ignore[reportUnknownVariableType]  # any JSON
        yield from inside.get("properties", {}).items()
        for each in inside.values():
            yield from properties(each)
    elif isinstance(node, list):
        items: list[Any] = node  # pyright: ignore[reportUnknownVariableType]  # any JSON
        for each in items:
            yield from properties(each)


def test_every_key_is_described():
    described = {name for name, each in properties(SCHEMA) if each.get("description", "").endswith(".")}
    keys = {*FileConfig.model_fields, *SubAgentSpec.model_fields, *Limits.__dataclass_fields__}
    assert keys <= described
    assert [name for name, each in properties(SCHEMA) if not each.get("description")] == []


def test_the_configuration_in_the_readme_is_valid():
    [text] = [block for block in re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL) if "subagents:" in block][:1]
    assert list(VALIDATOR.iter_errors(yaml.safe_load(text))) == []


AGREED = [
    "",
    "[]",
    "- name: a",
    "model: test",
    "subagents:",
    "agents: auto",
    "agents: [.]",
    "limits: {requests: 5, seconds: null}",
    "limits: {requsts: 5}",
    "limits: {requests: -1}",
    "limits: {depth: null}",
    "limits: 3",
    "modle: x",
    "model: 3",
    "max_concurrency: 0",
    "max_concurrency: 1.5",
    "port: 70000",
    "transport: pigeon",
    "agents: Auto",
    "daily_cost_usd: -1",
    "mcp_servers: {a: {command: b}}",
    "mcp_servers: {a: b}",
    "- {}",
    "- name: 3",
    "- {name: a, modle: b}",
    "- {name: a, effort: max}",
    "- {name: a, effort: high, preferred_mode: async, max_retries: 0, retry_jitter: false}",
    "- {name: a, max_retries: -1}",
    "- {name: a, workspace: .}",
    "- {name: a, workspace: {path: ., read_only: false}}",
    "- {name: a, workspace: {pth: .}}",
    "- {name: a, mcp_servers: [a, {b: {url: c}}]}",
    "- {name: a, mcp_servers: {b: {url: c}}}",
    "- {name: a, mcp_servers: 3}",
    "- {name: a, capabilities: [WebFetch, {Thinking: high}]}",
    "- {name: a, capabilities: WebFetch}",
    "- {name: a, limits: {cost_usd: 0.5}}",
    "- {name: a, limits: {cost: 0.5}}",
    "- {name: a, fallback_models: [b]}",
    "- {name: a, fallback_models: b}",
]


@pytest.mark.parametrize("text", AGREED)
def test_the_schema_and_the_server_agree(text: str, tmp_path: Path):
    mistakes = read_text(text, tmp_path / "subagents.yaml")[1]
    data = yaml.safe_load(text)
    assert (data is None or VALIDATOR.is_valid(data)) == (mistakes == [])
