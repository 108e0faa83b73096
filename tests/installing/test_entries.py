"""What our entry looks like in each host, and how keys get to the server without being written down."""

from typing import Any

import pytest

from mcp_subagents.hosts.advice import next_steps
from mcp_subagents.hosts.entries import KEYS, Variables, entry_for, merged, variables
from mcp_subagents.hosts.known import HOSTS
from mcp_subagents.hosts.launches import Launch

LAUNCH = Launch(command="/opt/bin/mcp-subagents", args=("--config", "/opt/team.yaml"))
ENV = {"OPENAI_API_KEY": "xyzzy", "MCP_SUBAGENTS_MODEL": "openai:x", "GROQ_API_KEY": " ", "OTHER": "y"}
SETTINGS = ["MCP_SUBAGENTS_CONFIG", "MCP_SUBAGENTS_STORE", "MCP_SUBAGENTS_MODEL"]

ENTRIES: dict[str, dict[str, Any]] = {
    "claude-desktop": {
        "command": "/opt/bin/mcp-subagents",
        "args": ["--config", "/opt/team.yaml"],
        "env": {"SET": "1"},
    },
    "claude-code": {
        "type": "stdio",
        "command": "/opt/bin/mcp-subagents",
        "args": ["--config", "/opt/team.yaml"],
        "env": {"SET": "1"},
    },
    "cursor": {
        "command": "/opt/bin/mcp-subagents",
        "args": ["--config", "/opt/team.yaml"],
        "env": {
            "OPENAI_API_KEY": "${env:OPENAI_API_KEY}",
            "MCP_SUBAGENTS_MODEL": "${env:MCP_SUBAGENTS_MODEL}",
            "OTHER": "${env:OTHER}",
            "SET": "1",
        },
    },
    "vscode": {
        "type": "stdio",
        "command": "/opt/bin/mcp-subagents",
        "args": ["--config", "/opt/team.yaml"],
        "env": {"SET": "1"},
    },
    "codex": {
        "command": "/opt/bin/mcp-subagents",
        "args": ["--config", "/opt/team.yaml"],
        "env_vars": [*KEYS, *SETTINGS, "OTHER"],
        "startup_timeout_sec": 60,
        "tool_timeout_sec": 300,
        "env": {"SET": "1"},
    },
    "gemini": {
        "command": "/opt/bin/mcp-subagents",
        "args": ["--config", "/opt/team.yaml"],
        "timeout": 600000,
        "env": {
            "OPENAI_API_KEY": "$OPENAI_API_KEY",
            "MCP_SUBAGENTS_MODEL": "$MCP_SUBAGENTS_MODEL",
            "OTHER": "$OTHER",
            "SET": "1",
        },
    },
    "opencode": {
        "type": "local",
        "command": ["/opt/bin/mcp-subagents", "--config", "/opt/team.yaml"],
        "enabled": True,
        "timeout": 60000,
        "environment": {"SET": "1"},
    },
}


@pytest.mark.parametrize("name", HOSTS)
def test_an_entry_names_variables_and_holds_no_value_of_a_key(name: str) -> None:
    given = variables(HOSTS[name], ENV, also=["OTHER"], given={"SET": "1"})
    entry = entry_for(HOSTS[name], LAUNCH, given)
    assert entry == ENTRIES[name]
    assert "xyzzy" not in str(entry)


@pytest.mark.parametrize("name", HOSTS)
def test_nothing_is_said_of_variables_where_there_are_none(name: str) -> None:
    entry = entry_for(HOSTS[name], LAUNCH, variables(HOSTS[name], {}))
    assert {"env", "environment"} & set(entry) == set()


def test_keys_are_copied_only_where_asked_and_only_where_there_is_no_other_way() -> None:
    copied = {name: variables(host, ENV, copy_keys=True).written for name, host in HOSTS.items()}
    wanted = {"OPENAI_API_KEY": "xyzzy", "MCP_SUBAGENTS_MODEL": "openai:x"}
    assert copied == {**{name: {} for name in HOSTS}, "claude-desktop": wanted}
    assert variables(HOSTS["claude-desktop"], ENV).withheld == ("OPENAI_API_KEY", "MCP_SUBAGENTS_MODEL")


def test_a_variable_that_was_given_a_value_is_not_looked_up_too() -> None:
    given = variables(HOSTS["gemini"], ENV, given={"OPENAI_API_KEY": "mine"})
    assert given == Variables(named=("MCP_SUBAGENTS_MODEL",), written={"OPENAI_API_KEY": "mine"})
    codex = entry_for(HOSTS["codex"], LAUNCH, variables(HOSTS["codex"], ENV, given={"OPENAI_API_KEY": "mine"}))
    assert "OPENAI_API_KEY" not in codex["env_vars"]


def test_a_renewed_entry_keeps_the_times_and_names_that_somebody_has_set() -> None:
    codex = entry_for(HOSTS["codex"], LAUNCH, variables(HOSTS["codex"], {}))
    before = {**codex, "command": "old", "tool_timeout_sec": 9, "enabled": False, "env_vars": ["MINE"]}
    assert merged(before, codex) == {
        **codex,
        "tool_timeout_sec": 9,
        "enabled": False,
        "env_vars": ["MINE", *KEYS, *SETTINGS],
    }
    assert merged("no entry", codex) == codex


def told(name: str, env: dict[str, str], *, copy_keys: bool = False) -> str:
    host = HOSTS[name]
    return " ".join(next_steps(host, variables(host, env, copy_keys=copy_keys), env))


def test_it_is_said_what_is_left_to_do() -> None:
    assert "run this again with --copy-keys" in told("claude-desktop", ENV)
    assert "keep it to yourself" in told("claude-desktop", ENV, copy_keys=True)
    assert "No key of a model provider is set here. Set one, such as ANTHROPIC_API_KEY." in told("codex", {})
    assert "Set one, such as ANTHROPIC_API_KEY, and install again." in told("gemini", {})
    assert "if they are set in your shell alone, start it from there" in told("cursor", ENV)
    assert told("claude-code", ENV) == "New sessions have it; /mcp shows it."
    assert all("xyzzy" not in told(name, ENV, copy_keys=True) for name in HOSTS)
