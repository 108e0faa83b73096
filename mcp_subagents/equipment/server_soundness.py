"""Whether the tool servers that a subagent names can be had, as far as that can be told without starting one."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import Any, cast

from mcp_subagents.config.mistakes import Place, shown
from mcp_subagents.equipment.definition_mistakes import mistakes_in
from mcp_subagents.equipment.definitions import VARIABLE, ToolServerDefinition, definition_of, definitions_of, expand
from mcp_subagents.equipment.places import settled
from mcp_subagents.errors import ConfigError, did_you_mean


@dataclass(frozen=True, kw_only=True, slots=True)
class Supplies:
    """What the subagents of a server can be given."""

    mcp_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    allow_python_tools: bool = False
    base: Path = field(default_factory=Path.cwd)
    """What relative paths are relative to."""
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """Something that keeps a subagent from working, or may."""

    place: Place
    """In the definition of the subagent; of a shared tool server, in the mapping of all of them."""
    what: str
    of_shared: bool = False
    is_doubt: bool = False
    """Whether it may be as it should be: a program may yet be installed."""


def shared_faults(supplies: Supplies) -> Iterator[Fault]:
    """What is wrong with the definitions that subagents pick from, whether one does or not."""
    for name, value in supplies.mcp_servers.items():
        for place, what in mistakes_in(name, value):
            yield Fault(place=(name, *place), what=what, of_shared=True)


def server_faults(subagent: str, given: object, supplies: Supplies) -> Iterator[Fault]:
    """What is wrong with the tool servers of a subagent, `given` as its definition has them."""
    if not given:
        return
    entries = (
        [(("mcp_servers", number), each) for number, each in enumerate(cast("list[object]", given))]
        if isinstance(given, list)
        else [(cast("Place", ("mcp_servers",)), given)]
    )
    names: set[str] = set()
    for place, entry in entries:
        for name in _names(entry):
            if name in names:
                yield Fault(place=place, what=f"there is another tool server {name!r}; each needs a name of its own")
            names.add(name)
        yield from _entry_faults(place, entry, subagent, supplies)


def _names(entry: object) -> Iterable[str]:
    if isinstance(entry, str):
        return [entry]
    if not isinstance(entry, Mapping):
        return []
    servers = cast("Mapping[str, object]", entry)
    return [] if "from" in servers else list(servers)


def _entry_faults(place: Place, entry: object, subagent: str, supplies: Supplies) -> Iterator[Fault]:
    if isinstance(entry, str):
        yield from _picked_faults(place, entry, supplies)
    elif not isinstance(entry, Mapping):
        wanted = "a name, or a mapping of a name to {command, args, env, cwd} or {url, headers, type}"
        yield Fault(place=place, what=f"must be {wanted}, not {shown(entry)}")
    elif isinstance(cast("Mapping[str, object]", entry).get("from"), str):
        yield from _host_faults(place, cast("object", entry), subagent, supplies)
    else:
        for name, value in cast("Mapping[str, object]", entry).items():
            if wrong := mistakes_in(name, value):
                yield from (Fault(place=(*place, name, *inner), what=what) for inner, what in wrong)
                continue
            for fault in _start_faults(definition_of(name, settled(value, supplies.base)), supplies.env):
                yield Fault(place=(*place, name, *fault.place), what=fault.what, is_doubt=fault.is_doubt)


def _picked_faults(place: Place, name: str, supplies: Supplies) -> Iterator[Fault]:
    if name not in supplies.mcp_servers:
        known = supplies.mcp_servers
        hint = f"; {did_you_mean(name, known)}" if known else ": none is defined under the top-level mcp_servers"
        yield Fault(place=place, what=f"there is no tool server {name!r}{hint}")
        return
    value = supplies.mcp_servers[name]
    if mistakes_in(name, value):
        return  # told where they are
    for fault in _start_faults(definition_of(name, settled(value, supplies.base)), supplies.env):
        yield Fault(place=(name, *fault.place), what=fault.what, of_shared=True, is_doubt=fault.is_doubt)


def _host_faults(place: Place, entry: object, subagent: str, supplies: Supplies) -> Iterator[Fault]:
    """Of servers in the file of a host: where they are wrong is not ours to say, so the first of them is enough."""
    try:
        found = definitions_of(cast("Any", {"name": subagent, "mcp_servers": [entry]}), {}, supplies.base)
    except ConfigError as why:
        yield Fault(place=place, what=str(why))
        return
    for each in found:
        for fault in _start_faults(each, supplies.env):
            yield Fault(place=place, what=f"the tool server {each.name!r} {fault.what}", is_doubt=fault.is_doubt)


def _start_faults(server: ToolServerDefinition, env: Mapping[str, str]) -> Iterator[Fault]:
    """What keeps a server from being started that is defined as it should be."""
    lacking = False
    for place, text in _texts(server):
        for match in VARIABLE.finditer(text):
            if env.get(match["name"]) is None and match["default"] is None:
                lacking = True
                yield Fault(
                    place=place,
                    what=f"needs the environment variable {match['name']}, which is not set. Set it where "
                    f"mcp-subagents is started, or give a default: ${{{match['name']}:-...}}",
                )
    if lacking:
        return
    try:
        whole = expand(server, env).definition
    except ConfigError as why:  # it asks for values, as only a host can
        yield Fault(place=(), what=str(why))
        return
    if whole.command and not _is_command(whole, env):
        yield Fault(
            place=("command",),
            what=f"there is no command {whole.command!r} here; until there is one, tasks that need it fail",
            is_doubt=True,
        )


def _texts(server: ToolServerDefinition) -> Iterator[tuple[Place, str]]:
    yield ("command",), server.command
    yield from ((("args", number), each) for number, each in enumerate(server.args))
    yield ("cwd",), server.cwd or ""
    yield ("url",), server.url
    yield from ((("env", name), each) for name, each in server.env.items())
    yield from ((("headers", name), each) for name, each in server.headers.items())


def _is_command(server: ToolServerDefinition, env: Mapping[str, str]) -> bool:
    if os.sep in server.command:
        path = Path(server.cwd or ".", server.command)
        return path.is_file() and os.access(path, os.X_OK)
    return which(server.command, path=server.env.get("PATH") or env.get("PATH")) is not None
