"""MCP servers as hosts write them down: `mcpServers`, by name, or from a host's own file."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from mcp_subagents.config.mistakes import named
from mcp_subagents.config.places import beside
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.equipment.definition_mistakes import address_in, kind_of, mistakes_in
from mcp_subagents.equipment.places import anchored, settled
from mcp_subagents.errors import ConfigError, did_you_mean

VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
"""Stands for what is in the environment of the server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolServerDefinition:
    """How to reach an MCP server. Its `${VARIABLES}` are not filled in: it may be stored and shown."""

    name: str
    kind: Literal["stdio", "http", "sse"]
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout: float = 300.0
    """Seconds that one call may take."""

    @property
    def key(self) -> str:
        """The same for two definitions that one process can serve."""
        return json.dumps(asdict(self), sort_keys=True)


def closed(config: SubAgentConfig, shared: Mapping[str, Mapping[str, Any]], base: Path) -> SubAgentConfig:
    """The same subagent, which means the same wherever it is run: by its paths, and by the tool servers it names.

    `{from: FILE}` stays, since such a file is full of secrets, and they are not stored. Raises: `ConfigError`.
    """
    config = anchored(config, base)
    given: object = config.get("mcp_servers")
    if not isinstance(given, list):
        return config
    whole: list[Any] = []
    for each in cast("list[object]", given):
        whole.append({each: _named(each, config.get("name", ""), shared, base)} if isinstance(each, str) else each)
    return cast("SubAgentConfig", {**config, "mcp_servers": whole})


def _named(name: str, subagent: str, shared: Mapping[str, Mapping[str, Any]], base: Path) -> object:
    """The shared definition of that name."""
    if name not in shared:
        hint = did_you_mean(name, shared) if shared else "none are defined under the top-level `mcp_servers`."
        raise ConfigError(f"The subagent {subagent!r} names the tool server {name!r}, which is not defined; {hint}")
    return settled(shared[name], base)


def definitions_of(
    config: SubAgentConfig, shared: Mapping[str, Mapping[str, Any]], base: Path
) -> Sequence[ToolServerDefinition]:
    """The tool servers of a subagent, in order. Raises: `ConfigError`."""
    found: dict[str, ToolServerDefinition] = {}
    given: object = config.get("mcp_servers") or []
    for entry in cast("list[object]", given) if isinstance(given, list) else [given]:
        for each in _entry(entry, config.get("name", ""), shared, base):
            if each.name in found:
                raise ConfigError(f"Two tool servers of {config.get('name', '')!r} are named {each.name!r}.")
            found[each.name] = each
    return list(found.values())


def _entry(
    entry: object, subagent: str, shared: Mapping[str, Mapping[str, Any]], base: Path
) -> Sequence[ToolServerDefinition]:
    if isinstance(entry, str):
        return [definition_of(entry, _named(entry, subagent, shared, base))]
    if not isinstance(entry, Mapping):
        raise ConfigError(
            f"The subagent {subagent!r} has {entry!r} among its `mcp_servers`; that is a name, or a mapping of a "
            "name to {command, args, env, cwd} or {url, headers, type}."
        )
    servers = cast("Mapping[str, object]", entry)
    path = servers.get("from")
    if isinstance(path, str):
        return _from_file(beside(base, path), servers, subagent)
    return [definition_of(name, settled(value, base)) for name, value in servers.items()]


def _from_file(path: Path, entry: Mapping[str, object], subagent: str) -> Sequence[ToolServerDefinition]:
    """`{from: FILE}` is all servers of a host's file, `{from: FILE, servers: [a, b]}` these of them."""
    if others := entry.keys() - {"from", "servers"}:
        raise ConfigError(
            f"The subagent {subagent!r} has {min(others)!r} beside `from` in its `mcp_servers`; known: from, servers."
        )
    defined = _host_file(path)
    wanted = entry.get("servers", [name for name, value in defined.items() if _is_on(value)])
    if isinstance(wanted, str) or not isinstance(wanted, Sequence):
        raise ConfigError(f"`servers` beside `from` is a list of names, not {wanted!r}.")
    names = [str(name) for name in cast("Sequence[object]", wanted)]
    for name in names:
        if name not in defined:
            raise ConfigError(
                f"The subagent {subagent!r} names the tool server {name!r}, which is not in {path}; "
                f"{did_you_mean(name, defined)}"
            )
    return [definition_of(name, settled(defined[name], path.parent), from_host=True) for name in names]


def _is_on(value: object) -> bool:
    given = _mapping(value)
    return given.get("disabled") is not True and given.get("enabled") is not False


def _host_file(path: Path) -> Mapping[str, object]:
    try:
        data: object = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as exc:
        raise ConfigError(f"The tool servers of {path} cannot be read: {exc.strerror or exc}.") from exc
    except ValueError as exc:
        raise ConfigError(f"The tool servers of {path} cannot be read: it is not JSON ({exc}).") from exc
    top = _mapping(data)
    for holder in (top, _mapping(top.get("mcp"))):
        for key in ("mcpServers", "servers", "mcp_servers"):
            if isinstance(holder.get(key), dict):
                return _mapping(holder[key])
    raise ConfigError(f"{path} defines no tool servers: it has neither `mcpServers` nor `servers`.")


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def definition_of(name: str, value: object, *, from_host: bool = False) -> ToolServerDefinition:
    """One server of a `mcpServers` mapping. Raises: `ConfigError`, with all that is wrong with it."""
    if wrong := mistakes_in(name, value, from_host=from_host):
        told = "; ".join(": ".join(part for part in (named(place), what) if part) for place, what in wrong)
        raise ConfigError(f"The tool server {name!r}: {told}.")
    given = {str(key): each for key, each in cast("Mapping[object, Any]", value).items()}
    url = address_in(given, from_host=from_host)
    return ToolServerDefinition(
        name=name,
        kind=kind_of(given.get("type"), url),
        command=str(given.get("command", "")),
        args=tuple(str(each) for each in given.get("args") or ()),
        env=_texts(given.get("env")),
        cwd=None if given.get("cwd") is None else str(given["cwd"]),
        url=url,
        headers=_texts(given.get("headers")),
        timeout=float(given.get("timeout", 300.0)),
    )


def _texts(given: object) -> Mapping[str, str]:
    return {key: str(each) for key, each in _mapping(given).items()}


@dataclass(frozen=True, slots=True)
class Expanded:
    """A definition that is ready to be used, and what in it nobody else may see."""

    definition: ToolServerDefinition = field(repr=False)
    secrets: frozenset[str] = field(repr=False)


def expand(definition: ToolServerDefinition, env: Mapping[str, str] = os.environ) -> Expanded:
    """Fill in `${VAR}` and `${VAR:-default}` from `env`. Raises: `ConfigError`, naming server and variable."""
    secrets: set[str] = {each for each in [*definition.env.values(), *definition.headers.values()] if "${" not in each}

    def filled(text: str) -> str:
        if "${input:" in text:
            raise ConfigError(
                f"The tool server {definition.name!r} wants to ask for a value (${{input:...}}), which only its host "
                "can do. Take it from the environment: ${VARIABLE}."
            )

        def value(match: re.Match[str]) -> str:
            found = env.get(match["name"])
            if not found and match["default"] is not None:
                return match["default"]
            if found is None:
                raise ConfigError(
                    f"The tool server {definition.name!r} needs the environment variable {match['name']}, which is "
                    f"not set. Set it where mcp-subagents is started, or give a default: ${{{match['name']}:-...}}."
                )
            secrets.add(found)
            return found

        return VARIABLE.sub(value, text)

    whole = ToolServerDefinition(
        name=definition.name,
        kind=definition.kind,
        command=os.path.expanduser(filled(definition.command)),
        args=tuple(filled(each) for each in definition.args),
        env={key: filled(each) for key, each in definition.env.items()},
        cwd=None if definition.cwd is None else os.path.expanduser(filled(definition.cwd)),
        url=filled(definition.url),
        headers={key: filled(each) for key, each in definition.headers.items()},
        timeout=definition.timeout,
    )
    # A path, or a word as short as `true`, is no secret, and masking it would spoil every text.
    return Expanded(whole, frozenset(each for each in secrets if len(each) >= 6 and not each.startswith(os.sep)))
