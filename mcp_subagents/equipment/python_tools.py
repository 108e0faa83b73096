"""Tools from Python code, by import path."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, cast

from pydantic_ai import FunctionToolset, Tool
from pydantic_ai.toolsets import AbstractToolset

from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.equipment.bounded_results import BoundedTools
from mcp_subagents.equipment.soundness import not_allowed
from mcp_subagents.equipment.tool_lists import ALWAYS_THERE
from mcp_subagents.errors import ConfigError

FILE_TOOLS = frozenset({"list_files", "read_file", "search_files", "write_file", "edit_file"})
"""The tools of a workspace; a test compares them with what it has."""


def python_tools_of(config: SubAgentConfig, *, allowed: bool) -> Sequence[AbstractToolset[Any]]:
    """The toolsets behind the subagent's `python_tools`. Raises: `ConfigError`."""
    paths = config.get("python_tools") or []
    if paths and not allowed:
        raise ConfigError(not_allowed(config))
    toolsets = {path: _toolset(_imported(path), path) for path in paths}
    _require_distinct(config, toolsets)
    return [BoundedTools(each) for each in toolsets.values()]


def _require_distinct(config: SubAgentConfig, toolsets: Mapping[str, AbstractToolset[Any]]) -> None:
    """No python tool has the name of one that the subagent has otherwise. Raises: `ConfigError`."""
    taken = dict.fromkeys(ALWAYS_THERE, "a tool that every subagent may be given")
    if config.get("workspace"):
        taken |= dict.fromkeys(FILE_TOOLS, "a tool of its workspace")
    for path, toolset in toolsets.items():
        # Of another kind of toolset, the names are known only in a run.
        for name in toolset.tools if isinstance(toolset, FunctionToolset) else ():
            if name in taken:
                raise ConfigError(
                    f"The python tool {path!r} of {config.get('name', '')!r} is called {name!r}, and so is "
                    f"{taken[name]}. Give it another name: Tool(function, name=...)."
                )
            taken[name] = f"the python tool {path!r}"


def _imported(path: str) -> object:
    module, _, name = path.partition(":")
    if not module or not name or not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise ConfigError(f"The python tool {path!r} must be given as `package.module:name`.")
    try:
        found: object = import_module(module)
    except Exception as exc:
        raise ConfigError(f"The python tool {path!r} cannot be imported: {type(exc).__name__}: {exc}") from exc
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"The python tool {path!r} does not exist: {module!r} has no {name!r}.")
        found = getattr(found, part)
    return found


def _toolset(found: object, path: str) -> AbstractToolset[Any]:
    if isinstance(found, AbstractToolset):
        return cast("AbstractToolset[Any]", found)
    tools = list(cast("Sequence[object]", found)) if isinstance(found, list | tuple) else [found]
    if not tools or not all(isinstance(each, Tool) or callable(each) for each in tools) or isinstance(found, type):
        raise ConfigError(
            f"The python tool {path!r} is of type {type(cast('object', found)).__name__}; right would be a pydantic-ai "
            "toolset, a function, or a list of functions or tools."
        )
    try:
        return FunctionToolset[Any](cast("list[Any]", tools))
    except Exception as exc:
        raise ConfigError(f"The python tool {path!r} cannot be made a tool: {exc}") from exc
