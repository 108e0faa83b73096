"""Tools from Python code, by import path."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, cast

from pydantic_ai import FunctionToolset, Tool
from pydantic_ai.toolsets import AbstractToolset

from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.equipment.soundness import not_allowed
from mcp_subagents.errors import ConfigError


def python_tools_of(config: SubAgentConfig, *, allowed: bool) -> Sequence[AbstractToolset[Any]]:
    """The toolsets behind the subagent's `python_tools`. Raises: `ConfigError`."""
    paths = config.get("python_tools") or []
    if paths and not allowed:
        raise ConfigError(not_allowed(config))
    return [_toolset(_imported(path), path) for path in paths]


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
