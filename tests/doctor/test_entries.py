"""What is told of a host's entry: what its server would find, whether it can be started, how it is renewed."""

import pytest

from mcp_subagents.doctor.entries import Entry, looked_at, unseen_keys
from mcp_subagents.doctor.hosts import judged
from mcp_subagents.doctor.starting import Greeting, Silence
from mcp_subagents.hosts import HOSTS, Launch

ENV = {"PATH": "/usr/bin:/bin", "HOME": "/home/me", "SET": "a value", "OTHER": "another"}


def entry(host: str, command: str = "sh", *args: str, name: str = "subagents", **data: object) -> Entry:
    return Entry(HOSTS[host], name, Launch(command=command, args=args), data)


@pytest.mark.parametrize(
    ("entry", "environment"),
    [
        (entry("claude-code", env={"A": "${SET}", "B": "${UNSET:-b}"}), {**ENV, "A": "a value", "B": "b"}),
        (entry("cursor", env={"A": "${env:SET}"}), {"PATH": ENV["PATH"], "HOME": "/home/me", "A": "a value"}),
        (entry("gemini", env={"A": "$SET"}), {"PATH": ENV["PATH"], "HOME": "/home/me", "A": "a value"}),
        (entry("codex", env_vars=["SET", "UNSET"]), {"PATH": ENV["PATH"], "HOME": "/home/me", "SET": "a value"}),
        (entry("opencode", environment={"A": "{env:SET}"}), {**ENV, "A": "a value"}),
    ],
    ids=lambda value: value.host.title if isinstance(value, Entry) else "",
)
def test_a_server_finds_what_its_host_would_give_it(entry: Entry, environment: dict[str, str]):
    assert entry.environment(ENV) == environment
    assert looked_at(entry, ENV) == [] or entry.host.desktop


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        (
            entry("cursor", "sh"),
            "Cursor (subagents): 'sh' is found by PATH here, and an app that is started by a click has another.",
        ),
        (
            entry("codex", "sh", "--config=team.yaml"),
            "Codex (subagents): its configuration 'team.yaml' is looked for wherever the app was started.",
        ),
        (
            entry("codex", "sh", env={"MCP_SUBAGENTS_CONFIG": "/gone.yaml"}),
            "Codex (subagents): its configuration /gone.yaml is not there.",
        ),
        (
            entry("opencode", "sh", environment={"A": "{env:UNSET}"}),
            "OpenCode (subagents): it takes UNSET from the environment, and here UNSET is not set.",
        ),
    ],
)
def test_an_entry_is_judged_by_what_it_says(entry: Entry, what: str):
    assert [each.what for each in looked_at(entry, ENV)] == [what]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("/usr/bin/uvx", "/usr/bin/uvx fetches it when it starts"),
        ("bash", "bash may start it on your real tasks"),
        ("C:\\Windows\\System32\\CMD.EXE", "C:\\Windows\\System32\\CMD.EXE may start it on your real tasks"),
        ("/usr/bin/mcp-subagents", ""),
    ],
    ids=["what downloads", "a shell", "a shell of Windows", "ours"],
)
def test_what_would_do_more_than_start_our_server_is_not_started(command: str, why: str):
    assert entry("codex", command, "-c", "mcp-subagents").not_started == why


@pytest.mark.parametrize(
    ("entry", "command"),
    [
        (entry("codex"), "mcp-subagents install codex"),
        (entry("codex", name="helpers"), "mcp-subagents install codex --name helpers"),
        (entry("codex", "x", "--config", "/my team.yaml"), "mcp-subagents install codex --config '/my team.yaml'"),
        (entry("codex", "x", "--config=/a.yaml"), "mcp-subagents install codex --config /a.yaml"),
        (entry("codex", env={"MCP_SUBAGENTS_CONFIG": "/a.yaml"}), "mcp-subagents install codex"),
    ],
    ids=["as usual", "another name", "a configuration", "a configuration in one word", "a variable, which stays"],
)
def test_an_entry_is_renewed_under_its_name_with_its_configuration(entry: Entry, command: str):
    assert entry.again() == command


def test_another_configuration_takes_the_place_of_the_one_that_is_named():
    named = entry("codex", "x", "--config", "/a.yaml", name="helpers")
    assert named.again("--force", config="/b.yaml") == (
        "mcp-subagents install codex --name helpers --config /b.yaml --force"
    )


ODD = entry("cursor", "sh", "--config", "team.yaml", name="helpers", env={"A": "${env:SET}"})
GONE = entry("cursor", "/gone/mcp-subagents", "--config", "/gone.yaml", name="helpers")


@pytest.mark.parametrize(
    "fix",
    [
        *(each.fix for each in looked_at(ODD, ENV)),
        *(each.fix for each in looked_at(GONE, ENV)),
        *(each.fix for each in unseen_keys(ODD, {**ENV, "KEY": "x"}, ["KEY"])),
        judged(ODD, Silence("it is gone")).fix,
        judged(ODD, Greeting(0.1, "another", "1")).fix,
        judged(ODD, Greeting(0.1, "mcp-subagents", "0.0.1")).fix,
    ],
)
def test_every_fix_is_for_the_very_entry(fix: str):
    command = fix.partition("mcp-subagents install ")[2]
    assert command.startswith("cursor --name helpers --config ")
