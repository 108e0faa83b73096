"""Which model there is when nobody names one, and what is said if there is none."""

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models import known_model_names

from mcp_subagents.config.environment import load
from mcp_subagents.config.providers import PROVIDERS, default_model, is_installed, require_key, why_no_model
from mcp_subagents.errors import ConfigError

SECRET = "sk-very-secret"
DEFAULTS = {each.variable: each.model for each in PROVIDERS}


def everything(package: str) -> bool:
    return True


def nothing(package: str) -> bool:
    return False


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.variable)
def test_the_key_of_a_provider_chooses_its_model(provider: Any):
    assert default_model({provider.variable: SECRET}, installed=everything) == provider.model


def test_the_first_key_of_the_table_wins():
    env = {each.variable: SECRET for each in reversed(PROVIDERS)}
    assert default_model(env, installed=everything) == DEFAULTS["ANTHROPIC_API_KEY"]


def test_a_provider_whose_package_is_missing_is_passed_over():
    env = {"ANTHROPIC_API_KEY": SECRET, "GROQ_API_KEY": SECRET}
    assert default_model(env, installed=lambda package: package == "groq") == DEFAULTS["GROQ_API_KEY"]


@pytest.mark.parametrize("env", [{}, {"OPENAI_API_KEY": ""}, {"OPENAI_API_KEY": "  "}, {"PATH": "/bin"}])
def test_without_a_key_there_is_no_model(env: dict[str, str]):
    assert default_model(env, installed=everything) is None


def test_what_is_missing_is_said_with_every_variable_and_no_value():
    said = why_no_model({"GROQ_API_KEY": SECRET}, installed=nothing)
    assert all(each.variable in said for each in PROVIDERS)
    assert "MCP_SUBAGENTS_MODEL" in said
    assert "GROQ_API_KEY is set, but the package for it is missing: install mcp-subagents[groq]." in said
    assert SECRET not in said


def test_every_default_is_a_model_that_pydantic_ai_knows():
    known = set(known_model_names())
    # OpenRouter serves other providers' models, which pydantic-ai does not list.
    assert [model for model in DEFAULTS.values() if model not in known and not model.startswith("openrouter:")] == []


def test_every_extra_is_one_of_ours():
    text = (Path(__file__).resolve().parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert [each.extra for each in PROVIDERS if f"\n{each.extra} = [" not in text] == []


def test_whether_a_package_is_there_is_found_out_without_loading_it():
    assert is_installed("openai")
    assert not is_installed("no_such_package")
    assert not is_installed("no_such_package.inside")


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"OPENAI_API_KEY": SECRET}, DEFAULTS["OPENAI_API_KEY"]),
        ({"OPENAI_API_KEY": SECRET, "MCP_SUBAGENTS_MODEL": "test"}, "test"),
        ({}, None),
    ],
)
def test_the_command_takes_the_model_that_is_named_or_else_that_of_a_key(env: dict[str, str], expected: str | None):
    config = load(None, env, places=())
    assert (config.model, config.lacks_model) == (expected, expected is None)


def test_a_model_in_the_file_wins_over_a_key(tmp_path: Path):
    file = tmp_path / "subagents.yaml"
    file.write_text("model: groq:x\nsubagents: [{name: a}]\n")
    config = load(file, {"OPENAI_API_KEY": SECRET})
    assert (config.model, config.lacks_model) == ("groq:x", False)


def test_no_model_is_missed_where_every_subagent_has_its_own(tmp_path: Path):
    file = tmp_path / "subagents.yaml"
    file.write_text("subagents: [{name: a, model: test}]\n")
    assert not load(file, {}).lacks_model
    file.write_text("subagents: [{name: a, model: test}, {name: b}]\n")
    assert load(file, {}).lacks_model


@pytest.mark.parametrize("value", ["sk secret", "sk-sécret", "sk-\x00secret"])
def test_a_key_that_cannot_be_one_is_refused_and_not_repeated(value: str):
    with pytest.raises(ConfigError, match="MY_KEY") as refused:
        require_key("MY_KEY", {"MY_KEY": value})
    assert "cret" not in str(refused.value)


def test_space_around_a_key_does_no_harm():
    assert require_key("MY_KEY", {"MY_KEY": f" {SECRET}\n"}) == SECRET
