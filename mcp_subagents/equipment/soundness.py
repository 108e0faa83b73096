"""Whether a subagent's equipment can be had, as far as that can be told without loading or starting anything."""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from mcp_subagents.config.places import Inside, folder_at
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.equipment.capability_names import named
from mcp_subagents.equipment.context_files import require_context
from mcp_subagents.equipment.definitions import definition_of, definitions_of, expand
from mcp_subagents.equipment.folders import Folder, Refused
from mcp_subagents.equipment.places import anchored
from mcp_subagents.errors import ConfigError
from mcp_subagents.redact import redact

logger = logging.getLogger(__name__)

_TOOLS = ("mcp_servers", "capabilities", "workspace", "python_tools", "tools", "disallowed_tools")


def require_sound(
    configs: Iterable[SubAgentConfig],
    *,
    mcp_servers: Mapping[str, Mapping[str, Any]] | None = None,
    allow_python_tools: bool = False,
    base: Path | None = None,
    env: Mapping[str, str] = os.environ,
) -> None:
    """Everything that the subagents name is there. Raises: `ConfigError`, with all that is wrong."""
    wrong: list[str] = []
    shared, here = mcp_servers or {}, base or Path.cwd()
    for name, value in shared.items():
        _try(wrong, lambda name=name, value=value: definition_of(name, value))
    if not wrong:
        for config in configs:
            wrong += _trouble(anchored(config, here), shared, here, allow_python_tools, env)
    if wrong:
        raise ConfigError("\n".join(dict.fromkeys(wrong)))


def _trouble(
    config: SubAgentConfig,
    shared: Mapping[str, Mapping[str, Any]],
    base: Path,
    allow_python_tools: bool,
    env: Mapping[str, str],
) -> Sequence[str]:
    wrong: list[str] = []
    name = config.get("name", "")
    if {"agent", "agent_factory"} & config.keys() and (given := [key for key in _TOOLS if config.get(key)]):
        wrong.append(
            f"The subagent {name!r} is a ready-made agent, which brings its own tools: leave {given[0]!r} out."
        )
        return wrong
    _try(wrong, lambda: [expand(each, env) for each in definitions_of(config, shared, base)])
    _try(wrong, lambda: _warn_of_secrets(config, shared, base))
    for entry in config.get("capabilities") or ():
        _try(wrong, lambda entry=entry: named(entry, name))
    _try(wrong, lambda: require_context(name, config.get("context_files") or ()))
    _try(wrong, lambda: require_workspace(config))
    if config.get("python_tools") and not allow_python_tools:
        wrong.append(not_allowed(config))
    return wrong


def _warn_of_secrets(config: SubAgentConfig, shared: Mapping[str, Mapping[str, Any]], base: Path) -> None:
    """Say which tool servers are given a secret by the definition itself, by the look of it."""
    given: Any = config.get("mcp_servers") or []
    entries = cast("list[Any]", given if isinstance(given, list) else [given])
    # Its name is all that is stored of the file of a host.
    own: list[Any] = [each for each in entries if not isinstance(each, dict) or "from" not in each]
    for server in definitions_of(cast("SubAgentConfig", {**config, "mcp_servers": own}), shared, base):
        texts = [f"{key}: {text}" for part in (server.env, server.headers) for key, text in part.items()]
        if any("${" not in text and redact(text) != text for text in texts):
            logger.warning(
                "the tool server %s of the subagent %s has a secret written out, which is stored with every task; "
                "name a variable in its place: ${VARIABLE}",
                server.name,
                config.get("name", ""),
            )


def _try(wrong: list[str], judge: Any) -> None:
    try:
        judge()
    except ConfigError as exc:
        wrong.append(str(exc))


def not_allowed(config: SubAgentConfig) -> str:
    return (
        f"The subagent {config.get('name', '')!r} names `python_tools`, which run code of this machine in the server; "
        "the operator has to allow that (`allow_python_tools: true`, or create_server(..., allow_python_tools=True))."
    )


def workspace_of(config: SubAgentConfig) -> tuple[Inside, bool] | None:
    """Where the subagent's workspace is, and whether it may only look. Raises: `ConfigError`."""
    match config.get("workspace"):
        case None:
            return None
        case str(path):
            return folder_at(path), True
        case {"path": str(path), **others} if not others or (
            others.keys() == {"read_only"} and isinstance(others["read_only"], bool)
        ):
            return folder_at(path), bool(others.get("read_only", True))
        case other:
            raise ConfigError(
                f"The workspace of {config.get('name', '')!r} is a path, or {{path, read_only}}; not {other!r}."
            )


def require_workspace(config: SubAgentConfig) -> None:
    """The workspace, if there is one, is a directory that can be opened. Raises: `ConfigError`."""
    if (found := workspace_of(config)) is None:
        return
    place, whose = found[0], f"The workspace of the subagent {config.get('name', '')!r}"
    if not place.path.is_dir():
        raise ConfigError(f"{whose} is not a directory: {place.path}.")
    try:
        Folder(place).require()
    except Refused as exc:
        raise ConfigError(f"{whose} cannot be used, {place.below or '.'!r} in {place.folder}: {exc}") from exc
