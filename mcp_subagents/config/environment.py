"""How the command is configured: the environment over a file over the defaults."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from platformdirs import user_config_path

from mcp_subagents.config.admission import Admission, admission_in
from mcp_subagents.config.files import FileConfig, Reading, reading_of
from mcp_subagents.config.limits import EngineSettings, Limits
from mcp_subagents.config.places import beside
from mcp_subagents.config.providers import default_model
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.config.stores import located
from mcp_subagents.errors import ConfigError

if TYPE_CHECKING:
    from mcp_subagents.config.agent_files import AgentFile, Folder

FILE_NAME = "subagents.yaml"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerConfig:
    """What a server is made of."""

    subagents: tuple[SubAgentSpec, ...] = ()
    """Those of the file, then those of the agent files."""
    model: str | None = None
    """For subagents that name none."""
    store: str | None = None
    settings: EngineSettings = field(default_factory=EngineSettings)
    sync_patience: float | None = None
    """Seconds that a call may last."""
    exports_traces: bool = False
    """Whether traces of tasks are sent away."""
    mcp_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """MCP servers that subagents pick by name."""
    allow_python_tools: bool = False
    transport: str | None = None
    host: str | None = None
    port: int | None = None
    admission: Admission = field(default_factory=Admission)
    file: Path | None = None
    """The file that was read."""
    agent_files: "tuple[AgentFile, ...]" = ()
    """What became of the agent files that were asked for."""
    agent_folders: "tuple[Folder, ...]" = ()
    """Where agent files were looked for."""
    reading: Reading | None = field(default=None, compare=False, repr=False)
    """What there is to say about the file, and where in it."""
    wrong: tuple[str, ...] = ()
    """What is wrong with the environment and the options, a line each."""
    remarks: tuple[str, ...] = ()
    """What may keep subagents from working, and may be as it should be; a line each."""

    @property
    def mistakes(self) -> tuple[str, ...]:
        """All that is known to be wrong, a line each."""
        in_file = () if self.reading is None else self.reading.wrong
        return (*(each.told_of(self.file) for each in in_file), *self.wrong)

    @property
    def own(self) -> tuple[SubAgentSpec, ...]:
        """The subagents of the file itself."""
        return self.subagents[: len(self.subagents) - sum(file.spec is not None for file in self.agent_files)]

    def with_files(self, files: "tuple[AgentFile, ...]") -> "ServerConfig":
        """The same with other agent files."""
        specs = (*self.own, *(file.spec for file in files if file.spec is not None))
        return replace(self, subagents=specs, agent_files=files)

    @property
    def folder(self) -> Path:
        """What relative paths in the file are relative to."""
        return Path.cwd() if self.file is None else self.file.absolute().parent

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
    agents: Sequence[str] = (),
    places: Sequence[Path] | None = None,
) -> ServerConfig:
    """The configuration in the file at `path` and in `env`. A `store` and `agents` given here win over both.

    Without `path`, the file that `MCP_SUBAGENTS_CONFIG` names is read, or else the first there is of the usual places.
    Agent files are read if the file or `agents` ask for them; one with mistakes is left out, and no reason to fail.

    Raises:
        ConfigError: something is wrong; the message has a line for everything that is.
    """
    config = examine(path, env, store=store, agents=agents, places=places)
    if config.mistakes:
        raise ConfigError("\n".join(config.mistakes))
    return config if not config.agent_files else introduced(config)


def examine(
    path: str | Path | None,
    env: Mapping[str, str],
    *,
    store: str | None = None,
    agents: Sequence[str] = (),
    places: Sequence[Path] | None = None,
) -> ServerConfig:
    """The same with everything that is wrong in it, for those who have more to find; subagents do not know each other.

    What is wrong is left out, so that what is right can be judged further. It is not to be used.
    """
    # Built without being validated: there is nothing in it, and that takes a while.
    reading, wrong = None, list[str]()
    found = _choose(path or env.get("MCP_SUBAGENTS_CONFIG"), usual_places() if places is None else places)
    if found is not None:
        reading = reading_of(found)
    said = FileConfig.model_construct() if reading is None else reading.said
    patience, admission = None, Admission()
    try:
        patience = patience_in(env)
    except ConfigError as why:
        wrong.append(str(why))
    try:
        admission = admission_in(env)
    except ConfigError as why:
        wrong.append(str(why))
    traces = _traces(env.get("MCP_SUBAGENTS_TELEMETRY"), wrong)
    kept = _kept(store, env.get("MCP_SUBAGENTS_STORE"), wrong) or said.store
    asked = _asked(agents, said, found, wrong)
    looked_at, files = _agents(asked, said, project_of(found))
    return ServerConfig(
        subagents=(*said.subagents, *(file.spec for file in files if file.spec is not None)),
        model=env.get("MCP_SUBAGENTS_MODEL", "").strip() or said.model or default_model(env),
        store=kept,
        settings=_settings(said, trace_content=traces == "content"),
        sync_patience=patience,
        exports_traces=traces != "off",
        mcp_servers=said.mcp_servers or {},
        allow_python_tools=said.allow_python_tools or False,
        transport=said.transport,
        host=said.host,
        port=said.port,
        admission=admission,
        file=found,
        agent_files=files,
        agent_folders=looked_at,
        reading=reading,
        wrong=tuple(wrong),
    )


def introduced(config: ServerConfig) -> ServerConfig:
    """`config`, in which agent files name those that they may delegate to as they are called; strangers are noted."""
    from mcp_subagents.config.agent_files import introduce

    return config.with_files(introduce(config.agent_files, [spec.name for spec in config.own]))


def project_of(file: Path | None) -> Path:
    """The project that a server works for: the folder of its file, unless that is the user's own for every project."""
    here = Path.cwd()
    if file is None or file.absolute().parent == usual_places()[1].parent:
        return here
    return file.absolute().parent


_Asked = Literal["auto"] | tuple[Path, ...]


def _agents(
    asked: _Asked | None, said: FileConfig, project: Path
) -> "tuple[tuple[Folder, ...], tuple[AgentFile, ...]]":
    if asked is None:
        return (), ()
    # Not before it is needed: most servers read no agent files, and the first answer waits for what is loaded.
    from mcp_subagents.config.agent_files import Ground, folders, read_agents

    places = tuple(folders(asked, project=project, home=Path.home()))
    ground = Ground(project=project, servers=frozenset(said.mcp_servers or ()), limits=_limits(said))
    return places, read_agents(places, ground, taken=[each.name for each in said.subagents])


def _limits(said: FileConfig) -> Limits:
    try:
        return Limits.of(said.limits)
    except ConfigError:
        return Limits()  # a mistake, told by the file


def _asked(flags: Sequence[str], said: FileConfig, file: Path | None, wrong: list[str]) -> _Asked | None:
    if "auto" in flags or (not flags and said.agents == "auto"):
        return "auto"
    if not flags:
        base = file.parent if file is not None else Path()
        return None if said.agents is None else tuple(beside(base, each) for each in said.agents)
    named = tuple(beside(Path(), each) for each in flags)
    wrong += [f"--agents: there is no folder {str(each)!r}" for each in named if not os.path.isdir(each)]
    return named


def _choose(named: str | Path | None, places: Sequence[Path]) -> Path | None:
    if named:
        return Path(named).expanduser()  # an app starts us without a shell
    return next((place for place in places if os.path.isfile(place)), None)  # also where nobody may look


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
    limits = _limits(said)
    settings = EngineSettings(limits=limits, trace_content=trace_content, daily_cost_usd=said.daily_cost_usd)
    if said.max_concurrency is not None:
        settings = replace(settings, max_concurrency=said.max_concurrency)
    if said.retention_days is not None:
        settings = replace(settings, retention_days=said.retention_days)
    return settings
