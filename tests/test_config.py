"""A subagent as a file defines it (`SubAgentSpec`) and as Python does (`SubAgentConfig`): one subagent, two forms."""

import json
import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_ai.models.test import TestModel

from mcp_subagents.config import SubAgentConfig, SubAgentSpec
from mcp_subagents.config.spec import PYTHON_ONLY

FULL: dict[str, Any] = {
    "name": "reviewer",
    "description": "Reviews code.",
    "instructions": "Review the code.",
    "model": "openai:gpt-4.1",
    "can_ask_questions": False,
    "max_questions": 0,
    "preferred_mode": "async",
    "typical_complexity": "complex",
    "typically_needs_context": False,
    "context_files": ["RULES.md"],
    "extra": {"team": "a"},
    "max_retries": 0,
    "retry_initial_delay": 0.5,
    "retry_max_delay": 60.0,
    "retry_backoff_multiplier": 1.5,
    "retry_jitter": False,
    "limits": {"requests": 10.0, "cost_usd": None},
    "max_concurrency": 2,
    "question_timeout": 3600.0,
    "fallback_models": ["openai:gpt-4.1-mini"],
    "base_url": "http://127.0.0.1:4000/v1",
    "api_key_env": "GATEWAY_KEY",
    "effort": "high",
    "mcp_servers": {"files": {"command": "files-server"}},
    "capabilities": ["WebFetch", {"WebSearch": {}}],
    "workspace": {"path": "src", "read_only": True},
    "python_tools": ["shop.tools:prices"],
    "tools": ["read_file", "files__*"],
    "disallowed_tools": ["files__delete"],
    "subagents": ["researcher"],
    "output_schema": {"type": "object"},
}
MINIMAL: dict[str, Any] = {"name": "reviewer", "description": "", "instructions": ""}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
DELAYS = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
SPECS = st.fixed_dictionaries(
    {"name": st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=100)},
    optional={
        "description": st.text(),
        "instructions": st.text(),
        "model": st.text().filter(str.strip),
        "can_ask_questions": st.booleans(),
        "max_questions": st.integers(min_value=0),
        "preferred_mode": st.sampled_from(["sync", "async", "auto"]),
        "typical_complexity": st.sampled_from(["simple", "moderate", "complex"]),
        "typically_needs_context": st.booleans(),
        "context_files": st.lists(st.text(), max_size=3),
        "extra": st.dictionaries(st.text(), JSON, max_size=3),
        "max_retries": st.integers(min_value=0),
        "retry_initial_delay": DELAYS,
        "retry_max_delay": DELAYS,
        "retry_backoff_multiplier": st.floats(min_value=1, allow_nan=False, allow_infinity=False),
        "retry_jitter": st.booleans(),
        "limits": st.dictionaries(st.text(), st.none() | DELAYS, max_size=3),
        "max_concurrency": st.integers(min_value=1),
        "question_timeout": DELAYS.filter(bool),
    },
)


def complaint(data: object) -> str:
    """What is said about the one thing that is wrong with `data`."""
    with pytest.raises(ValidationError) as refused:
        SubAgentSpec.model_validate(data)
    (error,) = refused.value.errors()
    return ": ".join([*map(str, error["loc"]), error["msg"]])


def by_keyword(data: Any) -> SubAgentSpec:
    return SubAgentSpec(**data)


def from_json(data: object) -> SubAgentSpec:
    return SubAgentSpec.model_validate_json(json.dumps(data))


# Between the two forms


@pytest.mark.parametrize(
    ("given", "config"),
    [
        pytest.param({"name": "reviewer"}, MINIMAL, id="nothing but a name"),
        pytest.param(FULL, FULL, id="everything"),
        pytest.param({**MINIMAL, "extra": {}}, MINIMAL, id="an empty extra is left out"),
        pytest.param({**MINIMAL, "model": None, "max_retries": None}, MINIMAL, id="what is null is left out"),
        pytest.param({**MINIMAL, "max_retries": 0}, {**MINIMAL, "max_retries": 0}, id="zero is kept"),
        pytest.param({**MINIMAL, "retry_jitter": False}, {**MINIMAL, "retry_jitter": False}, id="false is kept"),
        pytest.param({**MINIMAL, "context_files": []}, {**MINIMAL, "context_files": []}, id="an empty list is kept"),
    ],
)
def test_a_config_holds_what_the_spec_sets(given: dict[str, Any], config: SubAgentConfig):
    assert SubAgentSpec(**given).to_config() == config


@pytest.mark.slow
@given(SPECS)
def test_a_spec_comes_back_from_its_config_and_from_its_json(data: dict[str, Any]):
    spec = SubAgentSpec(**data)
    assert SubAgentSpec.from_config(spec.to_config()) == spec
    assert SubAgentSpec.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.slow
@given(SPECS)
def test_a_config_comes_back_from_its_spec(data: dict[str, Any]):
    config = SubAgentSpec(**data).to_config()
    assert SubAgentSpec.from_config(config).to_config() == config


def test_live_objects_stay_behind_in_python():
    live: dict[str, Any] = {
        "agent": object(),
        "agent_factory": lambda config: config,  # pyright: ignore[reportUnknownLambdaType]  # any callable will do
        "toolsets": [object()],
        "agent_kwargs": {"retries": 2},
        "retry_on": lambda exc: True,  # pyright: ignore[reportUnknownLambdaType]  # any callable will do
    }
    assert SubAgentSpec.from_config(SubAgentConfig(**FULL, **live)) == SubAgentSpec(**FULL)
    assert set(live) == PYTHON_ONLY


def test_a_model_object_becomes_its_id():
    config = SubAgentConfig(name="reviewer", model=TestModel(model_name="small"))
    assert SubAgentSpec.from_config(config) == SubAgentSpec(name="reviewer", model="test:small")


def test_what_is_in_extra_is_carried_along_untouched():
    mine = SubAgentSpec(name="mine")
    config = SubAgentSpec.from_config(SubAgentConfig(name="reviewer", extra={"spec": mine})).to_config()
    assert config.get("extra", {})["spec"] is mine


def test_a_change_to_the_config_does_not_reach_the_spec():
    spec = SubAgentSpec(**FULL)
    config = spec.to_config()
    config.get("extra", {})["team"] = "b"
    config.get("context_files", []).append("MORE.md")
    assert spec == SubAgentSpec(**FULL)


def test_a_spec_cannot_be_changed():
    spec = SubAgentSpec(name="reviewer")
    with pytest.raises(ValidationError, match="frozen"):
        spec.name = "writer"  # pyright: ignore[reportAttributeAccessIssue]  # the point of the test


# From text


def test_a_spec_is_read_from_json():
    text = '{"name": "reviewer", "model": "openai:gpt-4.1", "max_retries": 2, "retry_initial_delay": 1}'
    assert SubAgentSpec.model_validate_json(text) == SubAgentSpec(
        name="reviewer", model="openai:gpt-4.1", max_retries=2, retry_initial_delay=1.0
    )


def test_a_spec_is_read_from_yaml():
    text = """
    name: reviewer
    instructions: |
      Review the code.
      Be kind.
    preferred_mode: async
    context_files: [RULES.md]
    extra: {team: a}
    """
    assert SubAgentSpec.model_validate(yaml.safe_load(text)) == SubAgentSpec(
        name="reviewer",
        instructions="Review the code.\nBe kind.\n",
        preferred_mode="async",
        context_files=["RULES.md"],
        extra={"team": "a"},
    )


# What is wrong


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        pytest.param({"modle": "x"}, "unknown key 'modle', did you mean 'model'?", id="letters swapped"),
        pytest.param({"MODEL": "x"}, "unknown key 'MODEL', did you mean 'model'?", id="capitals"),
        pytest.param({"max-retries": 1}, "unknown key 'max-retries', did you mean 'max_retries'?", id="a hyphen"),
        pytest.param(
            {"modle": "x", "instruction": "y"},
            "unknown key 'modle', did you mean 'model'?; unknown key 'instruction', did you mean 'instructions'?",
            id="several at once",
        ),
        pytest.param(
            {"zzz": 1}, f"unknown key 'zzz', known: {', '.join(sorted(FULL))}", id="nothing like any, so all are named"
        ),
        pytest.param(
            {7: 1}, f"unknown key '7', known: {', '.join(sorted(FULL))}", id="a number, which YAML allows as a key"
        ),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_spelling(keys: dict[Any, Any], message: str):
    assert complaint({"name": "reviewer", **keys}) == message


@pytest.mark.parametrize("key", sorted(PYTHON_ONLY))
def test_a_key_for_python_is_named_as_such(key: str):
    told = f"unknown key '{key}', which only Python code can set (SubAgentConfig)"
    assert complaint({"name": "reviewer", key: None}) == told


def test_a_config_with_an_unknown_key_is_refused_too():
    misspelt: Any = {"name": "reviewer", "modle": "x"}
    with pytest.raises(ValidationError, match="did you mean 'model'"):
        SubAgentSpec.from_config(misspelt)


NAMED = "model: Value error, a model has a name, such as openai:gpt-5; leave the key out for the default model"
ONE_LINE = "name: Value error, a name is one line of printable text, without spaces around it"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param({}, "name: Field required", id="no name"),
        pytest.param({"name": ""}, ONE_LINE, id="an empty name"),
        pytest.param({"name": " reviewer"}, ONE_LINE, id="a name with a space in front"),
        pytest.param({"name": "re\nviewer"}, ONE_LINE, id="a name with a line break"),
        pytest.param({"name": "re\x00viewer"}, ONE_LINE, id="a name with a NUL"),
        pytest.param({"name": "a" * 101}, "name: String should have at most 100 characters", id="a long name"),
        pytest.param({"name": 7}, "name: Input should be a valid string", id="a number for a name"),
        pytest.param({**MINIMAL, "model": 4}, "model: Input should be a valid string", id="a number for a model"),
        pytest.param({**MINIMAL, "model": ""}, NAMED, id="a model without a name"),
        pytest.param({**MINIMAL, "model": " "}, NAMED, id="a model with a blank name"),
        pytest.param(
            {**MINIMAL, "max_retries": -1},
            "max_retries: Input should be greater than or equal to 0",
            id="fewer than no retries",
        ),
        pytest.param(
            {**MINIMAL, "max_questions": -1},
            "max_questions: Input should be greater than or equal to 0",
            id="fewer than no questions",
        ),
        pytest.param(
            {**MINIMAL, "max_retries": 1.5},
            "max_retries: Input should be a valid integer, got a number with a fractional part",
            id="half a retry",
        ),
        pytest.param(
            {**MINIMAL, "retry_initial_delay": math.nan},
            "retry_initial_delay: Input should be a finite number",
            id="a delay that is no number",
        ),
        pytest.param(
            {**MINIMAL, "retry_max_delay": math.inf},
            "retry_max_delay: Input should be a finite number",
            id="a delay without end",
        ),
        pytest.param(
            {**MINIMAL, "retry_initial_delay": -1},
            "retry_initial_delay: Input should be greater than or equal to 0",
            id="a negative delay",
        ),
        pytest.param(
            {**MINIMAL, "retry_backoff_multiplier": 0.5},
            "retry_backoff_multiplier: Input should be greater than or equal to 1",
            id="a backoff that shrinks",
        ),
        pytest.param(
            {**MINIMAL, "preferred_mode": "later"},
            "preferred_mode: Input should be 'sync', 'async' or 'auto'",
            id="a mode that is none",
        ),
        pytest.param(
            {**MINIMAL, "typical_complexity": "hard"},
            "typical_complexity: Input should be 'simple', 'moderate' or 'complex'",
            id="a complexity that is none",
        ),
        pytest.param(
            {**MINIMAL, "context_files": "RULES.md"},
            "context_files: Input should be a valid list",
            id="a string for a list",
        ),
        pytest.param(
            ["reviewer"],
            "Input should be a valid dictionary or instance of SubAgentSpec",
            id="a list for a subagent",
        ),
    ],
)
def test_a_bad_value_is_refused_by_name(data: object, message: str):
    assert complaint(data) == message


def test_everything_that_is_wrong_with_the_values_is_said():
    with pytest.raises(ValidationError) as refused:
        SubAgentSpec.model_validate({"name": "", "max_retries": -1, "preferred_mode": "later"})
    assert [error["loc"] for error in refused.value.errors()] == [("name",), ("preferred_mode",), ("max_retries",)]


@pytest.mark.parametrize(
    "read", [SubAgentSpec.model_validate, by_keyword, from_json], ids=["as a mapping", "by keyword", "as JSON"]
)
def test_an_unknown_key_hides_no_other_mistake(read: Any):
    with pytest.raises(ValidationError) as refused:
        read({"modle": "x", "name": "", "max_retries": -1, "limits": {"requests": "many"}})
    assert [(error["loc"], error["msg"], error["input"]) for error in refused.value.errors()][1:] == [
        (("name",), ONE_LINE.removeprefix("name: "), ""),
        (("max_retries",), "Input should be greater than or equal to 0", -1),
        (("limits", "requests"), "Input should be a valid number, unable to parse string as a number", "many"),
    ]
    assert refused.value.errors()[0]["msg"] == "unknown key 'modle', did you mean 'model'?"
    assert str(refused.value).startswith("4 validation errors for SubAgentSpec")


# The seeds' contract


def test_a_config_has_the_seeds_keys_and_ours():
    assert list(SubAgentConfig.__annotations__) == [
        *("name", "description", "instructions", "model", "agent", "agent_factory"),
        *("can_ask_questions", "max_questions", "preferred_mode", "typical_complexity", "typically_needs_context"),
        *("toolsets", "agent_kwargs", "context_files", "extra"),
        *("max_retries", "retry_initial_delay", "retry_max_delay", "retry_backoff_multiplier", "retry_jitter"),
        "retry_on",
        *("limits", "max_concurrency", "question_timeout"),
        *("fallback_models", "base_url", "api_key_env", "effort", "mcp_servers", "capabilities", "workspace"),
        *("python_tools", "tools", "disallowed_tools", "subagents", "output_schema"),
    ]
    assert SubAgentConfig.__required_keys__ == frozenset()


def test_a_spec_has_the_keys_of_a_config_that_a_file_can_hold():
    assert set(SubAgentSpec.model_fields) == set(SubAgentConfig.__annotations__) - PYTHON_ONLY
    assert set(SubAgentSpec.model_fields) == set(FULL)


def test_the_defaults_of_a_spec_are_the_seeds():
    unset = dict.fromkeys(set(FULL) - {"name", "description", "instructions", "extra"})
    assert SubAgentSpec(name="reviewer").model_dump() == {**MINIMAL, "extra": {}, **unset}
