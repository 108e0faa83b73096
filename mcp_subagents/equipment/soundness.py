"""Whether a subagent's equipment can be had, as far as that can be told without loading or starting anything."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from mcp_subagents.config.mistakes import named as place_named
from mcp_subagents.config.places import Inside, file_at, folder_at
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.equipment.capability_names import EXTRAS, lacks_packages, misspelt, named
from mcp_subagents.equipment.context_files import require_context
from mcp_subagents.equipment.definitions import definitions_of
from mcp_subagents.equipment.folders import Folder, Refused
from mcp_subagents.equipment.places import anchored
from mcp_subagents.equipment.server_soundness import Fault, Supplies, server_faults, shared_faults
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
    supplies = Supplies(
        mcp_servers=mcp_servers or {}, allow_python_tools=allow_python_tools, base=base or Path.cwd(), env=env
    )
    wrong = [_told("", each) for each in shared_faults(supplies)]
    for config in configs:
        wrong += [_told(config.get("name", ""), each) for each in faults_of(config, supplies) if not each.is_doubt]
    if wrong:
        raise ConfigError("\n".join(dict.fromkeys(wrong)))


def _told(subagent: str, fault: Fault) -> str:
    """A fault in a sentence that says itself whose it is."""
    if fault.of_shared:
        whose, place = f"The tool server {fault.place[0]!r}", fault.place[1:]
    else:
        whose, place = f"The subagent {subagent!r}", fault.place
    parts = () if repr(subagent) in fault.what else (whose, place_named(place))
    return ": ".join(part for part in (*parts, fault.what) if part)


def faults_of(config: SubAgentConfig, supplies: Supplies) -> Iterator[Fault]:
    """All that keeps a subagent from being equipped, or may; what is wrong with `supplies` itself is not in it."""
    name = config.get("name", "")
    if {"agent", "agent_factory"} & config.keys() and (given := [key for key in _TOOLS if config.get(key)]):
        what = f"The subagent {name!r} is a ready-made agent, which brings its own tools: leave {given[0]!r} out."
        yield Fault(place=(given[0],), what=what)
        return
    config = anchored(config, supplies.base)
    servers = list(server_faults(name, config.get("mcp_servers"), supplies))
    yield from servers
    if not any(not each.is_doubt for each in servers):
        _warn_of_secrets(config, supplies.mcp_servers, supplies.base)
    for number, entry in enumerate(config.get("capabilities") or ()):
        yield from _capability_faults(("capabilities", number), entry, name)
    for number, path in enumerate(config.get("context_files") or ()):
        place = file_at(path)
        if os.path.isdir(place.path):
            yield Fault(place=("context_files", number), what=f"{str(place.path)!r} is a folder; name the files in it")
        else:
            yield from _refusal(("context_files", number), lambda path=path: require_context(name, [path]))
    inner = ("path",) if isinstance(config.get("workspace"), dict) else ()
    yield from _refusal(("workspace", *inner), lambda: require_workspace(config))
    if config.get("python_tools") and not supplies.allow_python_tools:
        yield Fault(place=("python_tools",), what=not_allowed(config))
    else:
        for number, path in enumerate(config.get("python_tools") or ()):
            if why := why_no_module(path):
                yield Fault(place=("python_tools", number), what=why)


def _capability_faults(place: tuple[str | int, ...], entry: object, subagent: str) -> Iterator[Fault]:
    try:
        name, settings = named(entry, subagent)
    except ConfigError as why:
        yield Fault(place=place, what=str(why))
        return
    given = cast("dict[str, object]", settings) if isinstance(settings, dict) else dict[str, object]()
    for key, hint in misspelt(name, given):
        yield Fault(place=(*place, name, key), what=f"unknown setting, {hint}")
    if given.get("local", True) is not False and lacks_packages(name):
        what = (
            f"the packages for {name} are not installed, so it works only with models that can do it themselves: "
            f"install mcp-subagents[{EXTRAS[name]}]"
        )
        yield Fault(place=place, what=what, is_doubt=True)


def why_no_module(path: str) -> str:
    """Why there can be no Python tool at `path`, found out without importing anything."""
    module, _, name = path.partition(":")
    parts = module.split(".")
    if not name or not all(part.isidentifier() for part in [*parts, *name.split(".")]):
        return f"must be given as `package.module:name`, not {path!r}"
    found = find_spec(parts[0])
    for number in range(1, len(parts)):
        if found is None or found.submodule_search_locations is None:
            break
        found = PathFinder.find_spec(".".join(parts[: number + 1]), found.submodule_search_locations)
    return "" if found is not None else f"there is no module {module!r}"


def _refusal(place: tuple[str | int, ...], require: Callable[[], None]) -> Iterator[Fault]:
    try:
        require()
    except ConfigError as why:
        yield Fault(place=place, what=str(why))


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
