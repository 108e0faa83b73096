"""How the command is configured: what files and the environment say, and what is wrong with them."""

import json
import os
from pathlib import Path

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
    "daily_cost_usd": 5,
    "mcp_servers": {"github": {"command": "npx"}},
    "allow_python_tools": True,
    "transport": "http",
    "host": "::1",
    "port": 0,
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
        settings=EngineSettings(
            max_concurrency=2, retention_days=7, limits=Limits(cost_usd=1, seconds=None), daily_cost_usd=5
        ),
        mcp_servers={"github": {"command": "npx"}},
        allow_python_tools=True,
        transport="http",
        host="::1",
        port=0,
        file=tmp_path / name,
    )


def test_a_plain_list_is_one_of_subagents(tmp_path: Path):
    specs = load(written(tmp_path / "team.yaml", [REVIEWER, {"name": "writer"}]), {}).subagents
    assert [each.name for each in specs] == ["reviewer", "writer"]


@pytest.mark.parametrize(("said", "most"), [({}, 50.0), ({"daily_cost_usd": None}, None), ({"daily_cost_usd": 0}, 0)])
def test_a_day_has_a_limit_unless_it_is_lifted(tmp_path: Path, said: dict[str, object], most: float | None):
    assert load(written(tmp_path / "subagents.yaml", said), {}).settings.daily_cost_usd == most


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}"])
def test_a_file_may_say_nothing(tmp_path: Path, text: str):
    (tmp_path / "empty.yaml").write_text(text)
    assert load(tmp_path / "empty.yaml", {}) == ServerConfig(file=tmp_path / "empty.yaml")


def test_without_a_file_there_are_the_defaults():
    assert load(None, {}, places=()) == ServerConfig()


def test_all_mistakes_are_told_at_once_each_with_its_place(tmp_path: Path):
    path = tmp_path / "subagents.yaml"
    path.write_text("modle: openai:gpt-5\nsubagents:\n  - name: a\n    max_retries: -1\n")
    assert mistakes(path, MCP_SUBAGENTS_SYNC_PATIENCE="soon", MCP_SUBAGENTS_STORE="postgresql://u:p@h/d") == [
        f"{path}:1: modle: unknown key, did you mean 'model'?",
        f"{path}:4: subagents[0].max_retries: must be 0 or more, not -1",
        "MCP_SUBAGENTS_SYNC_PATIENCE: must be a number of seconds, 0 or more, not 'soon'",
        "MCP_SUBAGENTS_STORE: PostgreSQL is not supported yet; use sqlite:///FILE",
    ]


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path):
    (tmp_path / "latin.yaml").write_bytes(b"model: caf\xe9")
    assert mistakes(tmp_path / "latin.yaml") == ["it is not UTF-8 text"]
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


def test_a_file_in_the_home_directory_is_found_without_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    written(tmp_path / "team.yaml", {"model": "test"})
    assert load("~/team.yaml", {}).model == "test"
    assert load(None, {"MCP_SUBAGENTS_CONFIG": "~/team.yaml"}).model == "test"
