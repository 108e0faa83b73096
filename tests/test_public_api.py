"""What `import mcp_subagents` costs and gives: the seeds' names and signatures, loaded when they are first used."""

import ast
import asyncio
import inspect
import random
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import MISSING, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

import mcp_subagents
from mcp_subagents import (
    AskUserCallback,
    CompiledSubAgent,
    ExecutionMode,
    RetryConfig,
    SubAgentConfig,
    SubAgentSpec,
    ToolsetFactory,
    UsageLimitsFactory,
    compute_backoff_delay,
    decide_execution_mode,
    get_subagent_system_prompt,
    get_task_instructions_prompt,
    is_transient_error,
    run_with_retry,
)

NEEDED = inspect.Parameter.empty

SEEDS_NAMES = [
    *("SubAgentConfig", "SubAgentSpec", "CompiledSubAgent", "TaskHandle", "TaskStatus", "TaskPriority"),
    *("ExecutionMode", "TaskCharacteristics", "AgentMessage", "MessageType", "ToolsetFactory", "UsageLimitsFactory"),
    *("AskUserCallback", "decide_execution_mode", "RetryConfig", "run_with_retry", "is_transient_error"),
    *("compute_backoff_delay", "get_subagent_system_prompt", "get_task_instructions_prompt"),
    *("SUBAGENT_SYSTEM_PROMPT", "DUAL_MODE_SYSTEM_PROMPT", "DEFAULT_GENERAL_PURPOSE_DESCRIPTION"),
    *("TASK_TOOL_DESCRIPTION", "CHECK_TASK_DESCRIPTION", "ANSWER_SUBAGENT_DESCRIPTION"),
    *("LIST_ACTIVE_TASKS_DESCRIPTION", "WAIT_TASKS_DESCRIPTION", "SOFT_CANCEL_TASK_DESCRIPTION"),
    "HARD_CANCEL_TASK_DESCRIPTION",
]


def libraries_imported_by(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter imports for `code`."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return {name.split(".")[0] for name in re.findall(r"^import time:.*\|\s*(\S+)$", done.stderr, flags=re.MULTILINE)}


# What it costs


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        pytest.param("import mcp_subagents", {"pydantic_ai", "pydantic", "mcp", "anyio"}, id="the package is cheap"),
        pytest.param("from mcp_subagents import TaskHandle", {"pydantic_ai", "pydantic", "mcp"}, id="so are values"),
        pytest.param("from mcp_subagents import SubAgentSpec", {"pydantic_ai", "mcp"}, id="specs need no agents"),
        pytest.param("from mcp_subagents import decide_execution_mode", {"pydantic_ai", "mcp"}, id="nor do modes"),
        pytest.param("from mcp_subagents import TASK_TOOL_DESCRIPTION", {"pydantic_ai", "mcp"}, id="nor do prompts"),
        pytest.param("from mcp_subagents import EngineSettings", {"pydantic_ai", "mcp"}, id="nor do settings"),
    ],
)
def test_a_name_brings_only_the_libraries_it_needs(code: str, unwanted: set[str]):
    imported = libraries_imported_by(code)
    assert "mcp_subagents" in imported
    assert imported & unwanted == set()


# What it gives


@pytest.mark.parametrize("name", SEEDS_NAMES)
def test_a_name_of_the_seeds_is_exported(name: str):
    assert name in mcp_subagents.__all__


@pytest.mark.parametrize("name", mcp_subagents.__all__)
def test_an_exported_name_resolves_to_the_same_object_each_time(name: str):
    assert getattr(mcp_subagents, name) is getattr(mcp_subagents, name)


@pytest.mark.slow
def test_an_exported_name_is_found_after_a_fresh_import():
    code = f"import mcp_subagents\nfor name in {mcp_subagents.__all__}: getattr(mcp_subagents, name)"
    assert "pydantic_ai" in libraries_imported_by(code)


def test_type_checkers_see_exactly_the_names_that_are_exported_from_where_they_are():
    tree = ast.parse(Path(mcp_subagents.__file__).read_text(encoding="utf-8"))
    (for_types,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in for_types.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname or alias.name: node.module for node in imports for alias in node.names}
    homes: dict[str, str] = vars(mcp_subagents)["_HOMES"]
    assert seen == {name: f"mcp_subagents.{module}" for name, module in homes.items()}
    assert sorted(homes) == sorted(mcp_subagents.__all__)


def test_no_name_is_exported_twice():
    assert len(set(mcp_subagents.__all__)) == len(mcp_subagents.__all__)


def test_dir_lists_the_exported_names():
    assert dir(mcp_subagents) == sorted([*mcp_subagents.__all__, "__version__"])


def test_the_version_is_that_of_the_distribution():
    assert mcp_subagents.__version__ == version("mcp-subagents")


def test_a_star_import_brings_every_exported_name():
    namespace: dict[str, Any] = {}
    exec("from mcp_subagents import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(mcp_subagents.__all__)


@pytest.mark.parametrize("name", ["TaskHandel", "import_module_", "__wrapped__"])
def test_an_unknown_name_is_an_attribute_error(name: str):
    with pytest.raises(AttributeError, match=f"module 'mcp_subagents' has no attribute '{name}'"):
        getattr(mcp_subagents, name)


def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch):
    found = mcp_subagents.TaskHandle
    monkeypatch.setattr("mcp_subagents.types.TaskHandle", None)
    assert mcp_subagents.TaskHandle is found


# The seeds' signatures


@pytest.mark.parametrize(
    ("function", "positional", "keyword_only"),
    [
        pytest.param(
            decide_execution_mode,
            {"characteristics": NEEDED, "config": NEEDED, "force_mode": None},
            {},
            id="decide_execution_mode",
        ),
        pytest.param(
            run_with_retry,
            {"agent": NEEDED, "user_prompt": NEEDED},
            {
                "run_kwargs": NEEDED,
                "retry": NEEDED,
                "on_retry": None,
                "sleep": asyncio.sleep,
                "event_stream_handler": None,
                "cancel_check": None,
                "inject_messages": None,
            },
            id="run_with_retry",
        ),
        pytest.param(is_transient_error, {"exc": NEEDED}, {}, id="is_transient_error"),
        pytest.param(
            compute_backoff_delay,
            {"attempt": NEEDED, "cfg": NEEDED, "rng": random.uniform},
            {},
            id="compute_backoff_delay",
        ),
        pytest.param(
            get_subagent_system_prompt,
            {"configs": NEEDED, "include_dual_mode": True},
            {},
            id="get_subagent_system_prompt",
        ),
        pytest.param(
            get_task_instructions_prompt,
            {"task_description": NEEDED, "can_ask_questions": True, "max_questions": None},
            {},
            id="get_task_instructions_prompt",
        ),
        pytest.param(RetryConfig.from_config, {"config": NEEDED}, {}, id="RetryConfig.from_config"),
        pytest.param(RetryConfig().should_retry, {"exc": NEEDED}, {}, id="RetryConfig.should_retry"),
        pytest.param(SubAgentSpec.from_config, {"config": NEEDED}, {}, id="SubAgentSpec.from_config"),
        pytest.param(SubAgentSpec(name="x").to_config, {}, {}, id="SubAgentSpec.to_config"),
    ],
)
def test_a_signature_is_the_seeds_with_at_most_more_optional_keywords(
    function: Callable[..., Any], positional: dict[str, Any], keyword_only: dict[str, Any]
):
    parameters = list(inspect.signature(function).parameters.values())
    ours = [(p.name, p.default, p.kind) for p in parameters]
    seeds = [(name, default, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name, default in positional.items()]
    seeds += [(name, default, inspect.Parameter.KEYWORD_ONLY) for name, default in keyword_only.items()]
    assert ours[: len(seeds)] == seeds
    assert all(p.kind is p.KEYWORD_ONLY and p.default is not NEEDED for p in parameters[len(seeds) :])


@pytest.mark.parametrize(
    ("cls", "shape"),
    [
        pytest.param(
            CompiledSubAgent,
            {"name": MISSING, "description": MISSING, "config": MISSING, "agent": None},
            id="CompiledSubAgent",
        ),
        pytest.param(
            RetryConfig,
            {
                "max_retries": 3,
                "initial_delay": 1.0,
                "max_delay": 30.0,
                "backoff_multiplier": 2.0,
                "jitter": True,
                "retry_on": None,
            },
            id="RetryConfig",
        ),
    ],
)
def test_a_dataclass_has_the_seeds_fields_and_defaults_with_at_most_more_optional_ones(cls: Any, shape: dict[str, Any]):
    ours = [(field.name, field.default) for field in fields(cls)]
    assert ours[: len(shape)] == list(shape.items())
    assert all(default is not MISSING for _, default in ours[len(shape) :])


@pytest.mark.parametrize(
    ("alias", "meaning"),
    [
        pytest.param(ExecutionMode, Literal["sync", "async", "auto"], id="ExecutionMode"),
        pytest.param(ToolsetFactory, Callable[[Any], list[Any]], id="ToolsetFactory"),
        pytest.param(AskUserCallback, Callable[[str], Awaitable[str]], id="AskUserCallback"),
    ],
)
def test_an_alias_means_what_the_seeds_say(alias: object, meaning: object):
    assert alias == meaning


def test_a_usage_limits_factory_takes_the_run_and_the_subagent():
    assert get_args(UsageLimitsFactory) == (["RunContext[Any]", SubAgentConfig], "UsageLimits | None")
