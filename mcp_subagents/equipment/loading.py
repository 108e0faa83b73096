"""From the files of a server to its subagents: read, judged, kept, named; and the same again when files change."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from mcp_subagents.config.environment import ServerConfig
from mcp_subagents.config.limits import Limits
from mcp_subagents.config.live import Loaded
from mcp_subagents.config.roster import by_name
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.config.watching import stamps_of, watched
from mcp_subagents.equipment.places import settled
from mcp_subagents.equipment.sound_files import judge, sound

NOT_USED = "the configuration has changed and is not used: "


@dataclass(frozen=True, kw_only=True, slots=True)
class Loader:
    """How the files of one server are read."""

    read: Callable[[], ServerConfig]
    """The configuration as it is now, with its mistakes in it."""
    env: Mapping[str, str]
    otherwise: SubAgentConfig
    """The subagent of a configuration without any."""

    def load(self) -> Loaded:
        """The subagents for a server that starts. Raises: `ConfigError`, with all that is wrong."""
        config = sound(self.read(), self.env)
        files = watched(config)
        return Loaded(
            config=config,
            subagents=self._subagents(config, config),
            started=config,
            watched=files,
            stamps=stamps_of(files),
            said=_said(config),
        )

    def again(self, had: Loaded) -> Loaded:
        """The subagents as the files have them now; what `had` been loaded itself, if no file has changed.

        A change that is not in order is not used: then all is as it was, but for what is told.
        """
        stamps = stamps_of(had.watched)
        if stamps == had.stamps:
            return had
        examined = replace(self.read(), allow_python_tools=had.started.allow_python_tools)
        config = judge(examined, self.env, had=had.said)
        files = {**watched(had.config), **watched(examined), **watched(config)}
        # Those of before reading: what changes meanwhile is seen the next time.
        stamps = {path: stamp for path, stamp in {**stamps_of(files), **stamps}.items() if path in files}
        later = [(logging.WARNING, line) for line in needing_a_start(config, had)]
        if config.mistakes:
            told = [(logging.ERROR, f"{NOT_USED}{line}") for line in config.mistakes]
            return replace(had, watched=files, stamps=stamps, told=(*told, *later))
        return Loaded(
            config=config,
            subagents=self._subagents(config, had.started),
            started=had.started,
            watched=files,
            stamps=stamps,
            said=_said(config),
            told=(*_news(config, had.config), *later),
        )

    def _subagents(self, config: ServerConfig, started: ServerConfig) -> Mapping[str, SubAgentConfig]:
        given = [spec.to_config() for spec in config.subagents] or [self.otherwise]
        return by_name(renewed(each, config, started) for each in given)


def _said(config: ServerConfig) -> Mapping[Path, SubAgentSpec]:
    return {file.path: file.spec for file in config.agent_files if file.spec is not None}


def _news(config: ServerConfig, before: ServerConfig) -> Iterator[tuple[int, str]]:
    """What is wrong with agent files, or doubtful, and was not told yet."""
    known = {*_troubles(before)}
    yield from ((logging.WARNING, line) for line in _troubles(config) if line not in known)


def _troubles(config: ServerConfig) -> list[str]:
    return [*(line for file in config.agent_files if file.wrong for line in file.told()), *config.remarks]


def renewed(subagent: SubAgentConfig, config: ServerConfig, started: ServerConfig) -> SubAgentConfig:
    """`subagent` with all that has changed for it since the server was started, on top of which it works."""
    changes: dict[str, Any] = {}
    if config.model not in (None, started.model) and not subagent.get("model"):
        changes["model"] = config.model
    limits = {**_changed_limits(config.settings.limits, started.settings.limits), **(subagent.get("limits") or {})}
    if limits != (subagent.get("limits") or {}):
        changes["limits"] = limits
    servers = subagent.get("mcp_servers")
    if isinstance(servers, list):
        renewed_servers = [_server(each, config, started) for each in cast("list[object]", servers)]
        if renewed_servers != servers:
            changes["mcp_servers"] = renewed_servers
    return cast("SubAgentConfig", {**subagent, **changes}) if changes else subagent


def _changed_limits(new: Limits, old: Limits) -> dict[str, float | None]:
    names = [each.name for each in fields(Limits)]
    return {name: getattr(new, name) for name in names if getattr(new, name) != getattr(old, name)}


def _server(entry: object, config: ServerConfig, started: ServerConfig) -> object:
    """The tool server of that name as it is defined now, if the running server knows it otherwise or not at all."""
    if not isinstance(entry, str) or config.mcp_servers[entry] == started.mcp_servers.get(entry):
        return entry
    return {entry: settled(config.mcp_servers[entry], config.folder)}


_HELD: Mapping[str, Callable[[ServerConfig], object]] = {
    "store": lambda config: config.store,
    "max_concurrency": lambda config: config.settings.max_concurrency,
    "retention_days": lambda config: config.settings.retention_days,
    "daily_cost_usd": lambda config: config.settings.daily_cost_usd,
    "allow_python_tools": lambda config: config.reading is not None and bool(config.reading.said.allow_python_tools),
    "transport": lambda config: config.transport,
    "host": lambda config: config.host,
    "port": lambda config: config.port,
}
"""The settings that a running server keeps."""


def needing_a_start(config: ServerConfig, had: Loaded) -> Iterator[str]:
    """What has changed now and holds only from the next start, in words."""
    changed = [key for key, value in _HELD.items() if value(config) not in (value(had.started), value(had.config))]
    if config.model is None and had.config.model is not None:
        changed.append("model")
    before = {spec.name: spec.max_concurrency for spec in had.config.subagents}
    changed += [
        f"max_concurrency of {spec.name}" for spec in config.subagents if spec.max_concurrency != before.get(spec.name)
    ]
    if changed:
        verbs = "has changed and holds" if len(changed) == 1 else "have changed and hold"
        yield f"{', '.join(changed)}: {verbs} only from the next start of this server"
