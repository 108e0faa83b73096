"""MCP servers as hosts write them down."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_subagents.config import SubAgentConfig
from mcp_subagents.equipment.definitions import ToolServerDefinition, definition_of, definitions_of, expand
from mcp_subagents.errors import ConfigError

SHARED: dict[str, dict[str, Any]] = {"github": {"url": "https://example.com/mcp"}, "files": {"command": "files"}}


def servers(given: Any, base: Path = Path("/base")) -> list[ToolServerDefinition]:
    config = SubAgentConfig(name="worker", description="", instructions="", mcp_servers=given)
    return list(definitions_of(config, SHARED, base))


def test_a_mapping_names_servers_that_are_started_and_servers_that_run_elsewhere():
    given = {
        "local": {"command": "npx", "args": ["-y", "thing", 7], "env": {"A": "${B}"}, "cwd": "sub"},
        "remote": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
        "old": {"url": "https://example.com/sse"},
        "told": {"url": "https://example.com/events", "type": "sse"},
    }
    local, remote, old, told = servers(given)
    assert local == ToolServerDefinition(
        name="local", kind="stdio", command="npx", args=("-y", "thing", "7"), env={"A": "${B}"}, cwd="/base/sub"
    )
    assert (remote.kind, remote.headers) == ("http", {"Authorization": "Bearer ${TOKEN}"})
    assert (old.kind, told.kind) == ("sse", "sse")


def test_a_list_takes_names_from_the_shared_definitions_and_definitions_of_its_own():
    assert [each.name for each in servers(["github", {"own": {"command": "x"}}])] == ["github", "own"]


@pytest.mark.parametrize("key", ["mcpServers", "servers"], ids=["as Cursor and Claude have it", "as VS Code has it"])
def test_servers_are_picked_from_the_file_of_a_host(tmp_path: Path, key: str):
    file = tmp_path / "mcp.json"
    one = {"command": "one", "disabled": False, "alwaysAllow": ["x"]}
    off = {"command": "off", "disabled": True}
    file.write_text(json.dumps({key: {"one": one, "off": off, "two": {"command": "two"}}}), encoding="utf-8")
    assert [each.name for each in servers([{"from": "mcp.json"}], tmp_path)] == ["one", "two"]
    (two,) = servers([{"from": str(file), "servers": ["two"]}])
    assert two == ToolServerDefinition(name="two", kind="stdio", command="two", cwd=str(tmp_path))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["gihub"], "names the tool server 'gihub', which is not defined; did you mean 'github'?"),
        (
            {"a": {"comand": "x"}},
            "The tool server 'a': comand: unknown key, did you mean 'command'?; needs either a `command`",
        ),
        ({"a": {}}, "The tool server 'a': needs either a `command` to start it or the `url` where it runs."),
        ({"a": {"command": "x", "url": "y"}}, "'a': needs either a `command`"),
        ({"a": {"command": "x", "type": "http"}}, "right would be stdio, for it has a `command`"),
        ({"a": {"url": "http://x", "type": "carrier pigeon"}}, "right would be http or sse"),
        ({"a": {"command": "x", "args": "-y"}}, "'a': args: must be a list, not '-y'."),
        ({"a": {"command": "x", "env": {"A": None}}}, "'a': env.A: must be text."),
        ({"a": {"command": "x", "timeout": 0}}, "'a': timeout: must be a number of seconds above 0, not 0"),
        ([7], "has 7 among its `mcp_servers`"),
        (["github", {"github": {"command": "x"}}], "Two tool servers of 'worker' are named 'github'."),
        ([{"from": "nowhere.json"}], "/base/nowhere.json cannot be read: No such file or directory."),
        ([{"from": "x", "server": ["y"]}], "has 'server' beside `from`"),
    ],
    ids=[
        *("a misspelt name", "a misspelt key", "nothing", "both", "a type that does not fit", "an unknown type"),
        *("arguments that are no list", "no text", "no time", "no server", "a name twice", "no file", "no such key"),
    ],
)
def test_a_wrong_definition_is_told_with_what_would_be_right(given: Any, told: str):
    with pytest.raises(ConfigError) as caught:
        servers(given)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [("{", "it is not JSON"), ("{}", "neither `mcpServers` nor `servers`"), ('{"servers": {}}', "which is not in")],
    ids=["broken", "without servers", "without that server"],
)
def test_a_host_file_that_cannot_be_used_is_told_by_name(tmp_path: Path, content: str, told: str):
    (tmp_path / "mcp.json").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        servers([{"from": "mcp.json", "servers": ["one"]}], tmp_path)
    assert told in str(caught.value)
    assert "mcp.json" in str(caught.value)


def test_variables_are_filled_in_from_the_environment_or_by_their_default():
    definition = definition_of(
        "a",
        {
            "command": "${BIN}/run",
            "args": ["${NAME:-nobody}", "${EMPTY:-fallback}", "$HOME", "${env:BIN}"],
            "env": {"KEY": "x-${SECRET}", "EMPTY": "${EMPTY}"},
        },
    )
    env = {"BIN": "/opt", "SECRET": "hush-hush", "EMPTY": ""}
    found = expand(definition, env)
    assert found.definition.command == "/opt/run"
    assert found.definition.args == ("nobody", "fallback", "$HOME", "/opt")
    assert found.definition.env == {"KEY": "x-hush-hush", "EMPTY": ""}
    assert found.secrets == {"hush-hush"}
    assert "hush-hush" not in repr(found)


def test_a_missing_variable_is_told_with_the_server_that_needs_it():
    definition = definition_of("github", {"url": "https://x", "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}})
    with pytest.raises(ConfigError, match=r"The tool server 'github' needs the environment variable GITHUB_TOKEN"):
        expand(definition, {})
