"""How the command is configured: the environment over a file over the defaults."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from platformdirs import user_config_path

from mcp_subagents.config.files import FileConfig, read_file
from mcp_subagents.config.limits import EngineSettings, Limits
from mcp_subagents.config.providers import default_model
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.config.stores import located
from mcp_subagents.errors import ConfigError

FILE_NAME = "subagents.yaml"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerConfig:
    """What a server is made of."""

    subagents: tuple[SubAgentSpec, ...] = ()
    model: str | None = None
    """For subagents that name none."""
    store: str | None = None
    settings: EngineSettings = field(default_factory=EngineSettings)
    sync_patience: float | None = None
    """Seconds that a call may last."""
    exports_traces: bool = False

    @property
    def lacks_model(self) -> bool:
        """Whether there are tasks that cannot run, for want of a model."""
        return self.model is None and (not self.subagents or any(spec.model is None for spec in self.subagents))


def usual_places() -> tuple[Path, ...]:
    """Where a configuration file is looked for if nobody names one: here, then among the user's settings."""
    return Path(FILE_NAME), user_config_path("mcp-subagents", appauthor=False) / FILE_NAME


def load(
    path: str | Path | None,
    env: Mapping[str, str],
    *,
    store: str | None = None,
    places: Sequence[Path] | None = None,
) -> ServerConfig:
    """The configuration in the file at `path` and in `env`. A `store` given here wins over both.

    Without `path`, the file that `MCP_SUBAGENTS_CONFIG` names is read, or else the first there is of the usual places.

    Raises:
        ConfigError: something is wrong; the message has a line for everything that is.
    """
    said, wrong = FileConfig(), list[str]()
    found = _choose(path or env.get("MCP_SUBAGENTS_CONFIG"), usual_places() if places is None else places)
    if found is not None:
        said, wrong = read_file(found)
    patience = None
    try:
        patience = patience_in(env)
    except ConfigError as why:
        wrong.append(str(why))
    traces = _traces(env.get("MCP_SUBAGENTS_TELEMETRY"), wrong)
    kept = _kept(store, env.get("MCP_SUBAGENTS_STORE"), wrong) or said.store
    if wrong:
        raise ConfigError("\n".join(wrong))
    return ServerConfig(
        subagents=said.subagents,
        model=env.get("MCP_SUBAGENTS_MODEL", "").strip() or said.model or default_model(env),
        store=kept,
        settings=_settings(said, trace_content=traces == "content"),
        sync_patience=patience,
        exports_traces=traces != "off",
    )


def _choose(named: str | Path | None, places: Sequence[Path]) -> Path | None:
    if named:
        return Path(named)
    return next((place for place in places if place.is_file()), None)


def patience_in(env: Mapping[str, str]) -> float | None:
    """The seconds that a call may last, if `env` says so. Raises: `ConfigError`."""
    text = env.get("MCP_SUBAGENTS_SYNC_PATIENCE")
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise ConfigError(f"MCP_SUBAGENTS_SYNC_PATIENCE: must be a number of seconds, 0 or more, not {text!r}")
    return seconds


def _kept(flag: str | None, variable: str | None, wrong: list[str]) -> str | None:
    name, store = ("--store", flag) if flag is not None else ("MCP_SUBAGENTS_STORE", variable)
    if flag is None and not variable:
        return None
    try:
        return located(store)
    except ConfigError as why:
        wrong.append(f"{name}: {why}")
        return None


def _traces(text: str | None, wrong: list[str]) -> str:
    asked = (text or "off").lower()
    if asked not in ("off", "on", "content"):
        wrong.append(f"MCP_SUBAGENTS_TELEMETRY: must be off, on or content, not {text!r}")
    return asked


def _settings(said: FileConfig, *, trace_content: bool) -> EngineSettings:
    settings = EngineSettings(limits=Limits.of(said.limits), trace_content=trace_content)
    if said.max_concurrency is not None:
        settings = replace(settings, max_concurrency=said.max_concurrency)
    if said.retention_days is not None:
        settings = replace(settings, retention_days=said.retention_days)
    return settings
