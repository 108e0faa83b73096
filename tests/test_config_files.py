"""How the command is configured: what files and the environment say, and what is wrong with them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcp_subagents.config.environment import ServerConfig, load, usual_places
from mcp_subagents.config.limits import EngineSettings, Limits
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.errors import ConfigError

REVIEWER = {"name": "reviewer", "description": "Reviews.", "instructions": "Review.", "limits": {"requests": 5}}
WHOLE = {
    "subagents": [REVIEWER],
    "model": "openai:gpt-5",
    "store": "sqlite:///tasks.db",
    "max_concurrency": 2,
    "limits": {"cost_usd": 1, "seconds": None},
    "retention_days": 7,
}


def written(path: Path, data: object) -> Path:
    path.write_text(json.dumps(data) if path.suffix == ".json" else yaml.safe_dump(data), encoding="utf-8")
    return path


def mistakes(path: Path | None, **env: str) -> list[str]:
    with pytest.raises(ConfigError) as wrong:
        load(path, env, places=())
    return [line.removeprefix(f"{path}: ") for line in str(wrong.value).splitlines()]


@pytest.mark.parametrize("name", ["subagents.yaml", "subagents.yml", "subagents.json"])
def test_a_file_says_everything(tmp_path: Path, name: str):
    assert load(written(tmp_path / name, WHOLE), {}) == ServerConfig(
        subagents=(SubAgentSpec.model_validate(REVIEWER),),
        model="openai:gpt-5",
        store=f"sqlite:///{tmp_path / 'tasks.db'}",
        settings=EngineSettings(max_concurrency=2, retention_days=7, limits=Limits(cost_usd=1, seconds=None)),
    )


def test_a_plain_list_is_one_of_subagents(tmp_path: Path):
    specs = load(written(tmp_path / "team.yaml", [REVIEWER, {"name": "writer"}]), {}).subagents
    assert [each.name for each in specs] == ["reviewer", "writer"]


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}"])
def test_a_file_may_say_nothing(tmp_path: Path, text: str):
    (tmp_path / "empty.yaml").write_text(text)
    assert load(tmp_path / "empty.yaml", {}) == ServerConfig()


def test_without_a_file_there_are_the_defaults():
    assert load(None, {}, places=()) == ServerConfig()


def test_all_mistakes_are_told_at_once_each_with_its_place(tmp_path: Path):
    path = written(
        tmp_path / "subagents.yaml",
        {
            "subagents": [
                {"name": "a", "modle": "x", "max_retries": -1, "limits": {"requsts": 1, "seconds": -1}},
                "b",
                {"description": "nameless"},
                {"name": "c", "context_files": [1]},
                {"name": "d"},
                {"name": "d"},
            ],
            "modle": "openai:gpt-5",
            "max_concurrency": 0,
            "retention_days": "long",
            "limits": {"tool_cals": 3},
            "store": "mysql://me:secret@host/db",
        },
    )
    assert sorted(mistakes(path, MCP_SUBAGENTS_SYNC_PATIENCE="soon", MCP_SUBAGENTS_STORE="postgresql://u:p@h/d")) == [
        "MCP_SUBAGENTS_STORE: PostgreSQL is not supported yet; use sqlite:///FILE",
        "MCP_SUBAGENTS_SYNC_PATIENCE: must be a number of seconds, 0 or more, not 'soon'",
        "limits.tool_cals: unknown limit 'tool_cals', did you mean 'tool_calls'?",
        "max_concurrency: must be a whole number from 1 on, not 0",
        "modle: unknown key, did you mean 'model'?",
        "retention_days: must be a number, 0 or more, not 'long'",
        "store: there is no store of the kind 'mysql'; use sqlite:///FILE",
        "subagents[0].limits.requsts: unknown limit 'requsts', did you mean 'requests'?",
        "subagents[0].limits.seconds: seconds must be 0 or more, not -1",
        "subagents[0].max_retries: Input should be greater than or equal to 0",
        "subagents[0]: unknown key 'modle', did you mean 'model'?",
        "subagents[1]: must be a mapping with a name, a description and instructions",
        "subagents[2].name: Field required",
        "subagents[3].context_files[0]: Input should be a valid string",
        "subagents[5].name: another subagent is named 'd'; each needs a name of its own",
    ]


WRONG: dict[str, tuple[Any, str]] = {
    "a text": ("hello", "a list of subagents, or a mapping with the keys"),
    "subagents that are no list": ({"subagents": None}, "subagents: must be a list of subagents"),
    "limits that are no mapping": ({"limits": [1]}, "limits: must be a mapping of limits to numbers"),
    "limits of a subagent that are none": ([{"name": "a", "limits": 1}], "subagents[0].limits: Input should be"),
    "an empty model": ({"model": " "}, "model: must be the name of a model, such as openai:gpt-5, not ' '"),
    "a store without a file": ({"store": "sqlite:///"}, "store: must be sqlite:///FILE, with the name of a file"),
    "a store that is no text": ({"store": 1}, "store: must be sqlite:///FILE"),
    "a store in a home that is not there": ({"store": "~nobody-here/x.db"}, "store: the home directory it names"),
    "a number as a key": ({1: 2}, "1: unknown key, known: limits, max_concurrency"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_told(tmp_path: Path, case: str):
    data, told = WRONG[case]
    [line] = mistakes(written(tmp_path / "subagents.yaml", data))
    assert line.startswith(told)


UNREADABLE = {
    "bad.yaml": (b"subagents:\n  - name: [a\n", "not valid YAML in line 3: expected ',' or ']'"),
    "tab.yaml": (b"a: \x07", "not valid YAML: unacceptable character"),
    "bad.json": (b'{"subagents": [}', "not valid JSON: Expecting value: line 1"),
    "latin.yaml": (b"model: caf\xe9", "it is not UTF-8 text"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_understood_is_told(tmp_path: Path, name: str):
    content, told = UNREADABLE[name]
    (tmp_path / name).write_bytes(content)
    [line] = mistakes(tmp_path / name)
    assert line.startswith(told)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.yaml")
    assert mistakes(tmp_path / "nowhere.yaml") == ["there is no such file"]
    assert mistakes(tmp_path) == ["it is not a file"]
    assert mistakes(tmp_path / "pipe.yaml") == ["it is not a file"]


def test_the_environment_wins_over_the_file_and_an_option_over_both(tmp_path: Path):
    path = written(tmp_path / "subagents.yaml", WHOLE)
    env = {
        "MCP_SUBAGENTS_CONFIG": str(path),
        "MCP_SUBAGENTS_MODEL": "test",
        "MCP_SUBAGENTS_STORE": "sqlite:///here.db",
        "MCP_SUBAGENTS_SYNC_PATIENCE": "2.5",
    }
    config = load(None, env, places=())
    assert (config.model, config.store, config.sync_patience) == ("test", "sqlite:///here.db", 2.5)
    assert len(config.subagents) == 1
    assert load(None, env, store="~/there.db").store == f"sqlite:///{Path.home() / 'there.db'}"
    assert load(written(tmp_path / "other.yaml", []), env).subagents == ()


def test_an_empty_variable_is_as_good_as_none(tmp_path: Path):
    names = ("CONFIG", "MODEL", "STORE", "SYNC_PATIENCE", "TELEMETRY")
    assert load(None, {f"MCP_SUBAGENTS_{name}": "" for name in names}, places=()) == ServerConfig()


@pytest.mark.parametrize(
    ("text", "exports", "content"), [("off", False, False), ("on", True, False), ("Content", True, True)]
)
def test_traces_are_exported_only_if_asked_and_what_was_said_only_if_asked_for(text: str, exports: bool, content: bool):
    config = load(None, {"MCP_SUBAGENTS_TELEMETRY": text}, places=())
    assert (config.exports_traces, config.settings.trace_content) == (exports, content)


def test_a_wish_for_telemetry_is_one_of_three():
    assert mistakes(None, MCP_SUBAGENTS_TELEMETRY="yes") == [
        "MCP_SUBAGENTS_TELEMETRY: must be off, on or content, not 'yes'"
    ]


@pytest.mark.parametrize("text", ["-1", "nan", "inf"])
def test_a_patience_is_a_finite_number(text: str):
    assert mistakes(None, MCP_SUBAGENTS_SYNC_PATIENCE=text) == [
        f"MCP_SUBAGENTS_SYNC_PATIENCE: must be a number of seconds, 0 or more, not {text!r}"
    ]


def test_the_first_file_there_is_is_read(tmp_path: Path):
    second = written(tmp_path / "second.yaml", {"model": "second"})
    assert load(None, {}, places=[tmp_path / "first.yaml", second]).model == "second"
    first = written(tmp_path / "first.yaml", {"model": "first"})
    assert load(None, {}, places=[first, second]).model == "first"


def test_a_file_is_looked_for_here_and_among_the_users_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    here, there = usual_places()
    assert here.resolve() == tmp_path / "subagents.yaml"
    assert there.parts[-2:] == ("mcp-subagents", "subagents.yaml")
    written(here, {"model": "found"})
    assert load(None, {}).model == "found"
