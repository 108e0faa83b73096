"""Whatever a configuration needs from the environment is named in the entry, so that the server can start there."""

import json
from pathlib import Path

import pytest

from mcp_subagents.cli import main
from mcp_subagents.config.environment import load
from mcp_subagents.hosts.needs import needed

SUBAGENT = "subagents:\n- {name: a, description: b, instructions: c, "

CONFIGURATIONS = {
    "nothing": (SUBAGENT + "model: demo}", ()),
    "a key": (SUBAGENT + "api_key_env: TEAM_KEY}", ("TEAM_KEY",)),
    "in the command": (SUBAGENT + 'mcp_servers: {gh: {command: "${BIN}/x"}}}', ("BIN",)),
    "in an argument": (SUBAGENT + 'mcp_servers: {gh: {command: x, args: ["--key=${A}${B}"]}}}', ("A", "B")),
    "in its environment": (SUBAGENT + 'mcp_servers: {gh: {command: x, env: {T: "${env:TOKEN}"}}}}', ("TOKEN",)),
    "in its folder": (SUBAGENT + 'mcp_servers: {gh: {command: x, cwd: "${DIR}"}}}', ("DIR",)),
    "in an address": (SUBAGENT + 'mcp_servers: {gh: {url: "https://${NAME}.example"}}}', ("NAME",)),
    "in a header": (SUBAGENT + 'mcp_servers: {gh: {url: "https://a.example", headers: {X: "${T}"}}}}', ("T",)),
    "with a default, and not set": (SUBAGENT + 'mcp_servers: {gh: {command: x, args: ["${A:-b}"]}}}', ()),
    "with a default, and set": (SUBAGENT + 'mcp_servers: {gh: {command: x, args: ["${SET:-b}"]}}}', ("SET",)),
    "twice": (SUBAGENT + 'api_key_env: A, mcp_servers: {gh: {command: x, args: ["${A}"]}}}', ("A",)),
    "in a shared server": ('mcp_servers: {gh: {command: "${A}"}}\n' + SUBAGENT + "mcp_servers: [gh]}", ("A",)),
    "in one that nobody picks": ('mcp_servers: {gh: {command: "${A}"}}\n' + SUBAGENT + "model: demo}", ()),
    "in the file of a host": (SUBAGENT + "mcp_servers: [{from: host.json}]}", ("HOSTED",)),
}


@pytest.mark.parametrize(("text", "names"), CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_configuration_needs_the_variables_it_names(home: Path, text: str, names: tuple[str, ...]) -> None:
    (home / "team.yaml").write_text(text)
    (home / "host.json").write_text(json.dumps({"mcpServers": {"a": {"command": "x", "env": {"T": "${env:HOSTED}"}}}}))
    assert needed(load(home / "team.yaml", {}), {"SET": "1"}) == names


def test_an_entry_names_the_variables_of_tool_servers(home: Path) -> None:
    (home / "team.yaml").write_text(SUBAGENT + 'model: demo, mcp_servers: {gh: {command: x, env: {T: "${TOKEN}"}}}}')
    assert main(["install", "gemini", "--config", "team.yaml", "--yes"]) == 0
    written = json.loads((home / ".gemini/settings.json").read_text())
    assert written["mcpServers"]["subagents"]["env"]["TOKEN"] == "$TOKEN"
