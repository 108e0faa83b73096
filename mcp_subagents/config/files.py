"""What a configuration file says: read whole or not at all, with everything that is wrong told at once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from mcp_subagents.config.limits import DAILY_COST_USD, Limits
from mcp_subagents.config.mistakes import Mistake, Place, by_line, in_words, named, shown, unknown_keys
from mcp_subagents.config.places import anchored, beside, confined
from mcp_subagents.config.roster import alike
from mcp_subagents.config.spec import SubAgentSpec, named_model
from mcp_subagents.config.stores import located
from mcp_subagents.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)

SCHEMA_KEY = "$schema"
"""Names the schema of a JSON file, for editors."""


if TYPE_CHECKING:
    from mcp_subagents.config.documents import Document

LARGEST_FILE = 1024 * 1024
"""Bytes of a file that is read. Nobody writes more, and what is no configuration may be endless."""


class FileConfig(BaseModel):
    """What a file can say. `None` is what it does not."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    subagents: tuple[SubAgentSpec, ...] = ()
    """The subagents, each with a name of its own."""
    model: Annotated[str, AfterValidator(named_model)] | None = None
    """The model of subagents that name none, such as openai:gpt-5."""
    store: str | None = None
    """Where tasks are kept: sqlite:///FILE; a path is relative to this file."""
    max_concurrency: int | None = Field(default=None, ge=1)
    """Tasks that run at a time, over all processes on one store."""
    limits: dict[str, float | None] | None = None
    """What one task may use, unless its subagent says otherwise; null lifts a limit."""
    retention_days: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """How long ended tasks stay readable."""
    agents: Literal["auto"] | list[str] | None = None
    """Agent files of other apps: auto reads those of the project and of the user; a list names folders."""
    daily_cost_usd: float | None = Field(default=DAILY_COST_USD, ge=0, allow_inf_nan=False)
    """What all tasks together may cost in a day, 50 if nothing is said; null lifts it."""
    mcp_servers: dict[str, dict[str, Any]] | None = None
    """MCP servers that subagents pick by name, in the form of the hosts' mcpServers."""
    allow_python_tools: bool | None = None
    """Whether subagents may name Python code as their tools (python_tools)."""
    transport: Literal["stdio", "http", "streamable-http", "sse"] | None = None
    """How to serve, if --transport does not say."""
    host: str | None = None
    """The address to listen on, if --host does not say."""
    port: int | None = Field(default=None, ge=0, le=65535)
    """The port to listen on, 0 for any free one, if --port does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What a file says, where it says it, and everything that is wrong with it."""

    said: FileConfig
    """What is in order of it. It is used only if all of it is; but then more mistakes can be found in it."""
    places: tuple[Place, ...] = ()
    """Where each of its subagents is."""
    names: tuple[str, ...] = ()
    """How it names subagents, also those that are not in order."""
    spoilt: frozenset[Place] = frozenset()
    """Where it says something that cannot be used, so that nobody knows what is meant."""
    wrong: tuple[Mistake, ...] = ()
    document: "Document | None" = None

    def mistake(self, place: Place, what: str) -> Mistake:
        """Something else that is wrong with it, or doubtful."""
        return Mistake(what=what, place=named(place)) if self.document is None else self.document.mistake(place, what)


def reading_of(path: Path) -> Reading:
    """What there is to say about the file at `path`."""
    try:
        return _read(text_of(path), path)
    except ConfigError as why:
        return Reading(said=FileConfig(), wrong=(Mistake(what=str(why)),))


def read_file(path: Path) -> tuple[FileConfig, list[str]]:
    """What the file at `path` says, and everything that is wrong with it; a file with mistakes says nothing."""
    reading = reading_of(path)
    return (FileConfig() if reading.wrong else reading.said), [each.told_of(path) for each in reading.wrong]


def read_text(text: str, path: Path) -> tuple[FileConfig, list[Mistake]]:
    """What `text` says, that stands in a file at `path`, and everything that is wrong with it."""
    reading = _read(text, path)
    return (FileConfig() if reading.wrong else reading.said), list(reading.wrong)


def _read(text: str, path: Path) -> Reading:
    from mcp_subagents.config.documents import parse_json, parse_yaml  # not before there is a file: YAML takes a while

    document = parse_json(text) if path.suffix == ".json" else parse_yaml(text)
    reader = _Reader(path, document)
    config = reader.read(document.data)
    return Reading(
        said=config,
        places=tuple(reader.places),
        names=tuple(reader.names.values()),
        spoilt=frozenset(reader.spoilt),
        wrong=tuple(by_line([*document.wrong, *reader.wrong])),
        document=document,
    )


def text_of(path: Path) -> str:
    """The text of a file. Raises: `ConfigError`."""
    try:
        if not path.is_file():
            raise ConfigError("it is not a file" if path.exists() else "there is no such file")
        if path.stat().st_size > LARGEST_FILE:
            raise ConfigError("it is larger than 1 MiB, which no such file should be")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as why:
        raise ConfigError("it is not UTF-8 text") from why
    except OSError as why:
        raise ConfigError(f"it cannot be read: {why.strerror}") from why


class _Reader:
    """Goes through the data of one file and gathers its mistakes."""

    def __init__(self, path: Path, document: "Document") -> None:
        self._path = path
        self._document = document
        self.wrong: list[Mistake] = []
        self.spoilt: set[Place] = set()
        self.names: dict[str, str] = {}
        self.places: list[Place] = []

    def read(self, data: object) -> FileConfig:
        if data is None:
            return FileConfig()
        if isinstance(data, list):
            return FileConfig(subagents=self._subagents((), cast("list[object]", data)))
        if not isinstance(data, dict):
            keys = ", ".join(FileConfig.model_fields)
            self._note((), f"a list of subagents, or a mapping with some of the keys {keys}, is wanted")
            return FileConfig()
        given = {key: value for key, value in cast("dict[object, object]", data).items() if key != SCHEMA_KEY}
        for place, what in unknown_keys(given, FileConfig):
            self._note(place, what)
        subagents = self._subagents(("subagents",), given.pop("subagents", None))
        self._limits(("limits",), given.get("limits"))
        self._folders(given.get("agents"))
        store = self._store(given.get("store"))
        config = self._checked(FileConfig, given, ())
        if config is None:
            return FileConfig()
        return config.model_copy(update={"subagents": subagents, "store": store})

    def _checked(self, model: type[Model], given: Mapping[object, object], at: Place) -> Model | None:
        """The model of what is in order of what is `given` under known keys; `None` if that is not enough."""
        known = {key: value for key, value in given.items() if key in model.model_fields}
        try:
            # Strictly: YAML has said already what is a number and what is a text.
            return model.model_validate(known, strict=True)
        except ValidationError as wrong:
            found = in_words(wrong, known)
        for place, what in found:
            if not (len(place) > 1 and place[0] == "limits"):  # those have words of their own
                self._note((*at, *place), what)
        unusable = {place[0] for place, _ in found if place}
        self.spoilt |= {(*at, key) for key in unusable}
        try:
            return model.model_validate({key: each for key, each in known.items() if key not in unusable}, strict=True)
        except ValidationError:
            return None

    def _subagents(self, at: Place, value: object) -> tuple[SubAgentSpec, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            self._note(at, f"must be a list of subagents, not {shown(value)}")
            self.spoilt.add(at)
            return ()
        specs: list[SubAgentSpec] = []
        for number, each in enumerate(cast("list[object]", value)):
            if (spec := self._subagent((*at, number), each)) is not None:
                specs.append(spec)
                self.places.append((*at, number))
            name = cast("dict[object, object]", each).get("name") if isinstance(each, dict) else None
            if isinstance(name, str) and alike(name) in self.names:
                told = f"another subagent is named {self.names[alike(name)]!r}; each needs a name of its own"
                self._note((*at, number, "name"), told)
            elif isinstance(name, str):
                self.names[alike(name)] = name
        return tuple(specs)

    def _subagent(self, at: Place, value: object) -> SubAgentSpec | None:
        if not isinstance(value, dict):
            wanted = "a mapping with a name, a description and instructions"
            self._note(at, f"must be {wanted}, not {shown(value)}")
            return None
        given = cast("dict[object, object]", value)
        for place, what in unknown_keys(given, SubAgentSpec):
            self._note((*at, *place), what)
        self._limits((*at, "limits"), given.get("limits"))
        spec = self._checked(SubAgentSpec, given, at)
        return None if spec is None else placed(spec, self._path)

    def _store(self, value: object) -> str | None:
        if not isinstance(value, str):
            return None  # told by the model
        try:
            return located(value, beside=self._path)
        except ConfigError as wrong:
            self._note(("store",), str(wrong))
            return None

    def _limits(self, at: Place, value: object) -> None:
        if not isinstance(value, dict):
            return  # told by the model
        for name, amount in cast("dict[Any, Any]", value).items():
            try:
                Limits.of({str(name): amount})
            except ConfigError as wrong:
                told = str(wrong).removeprefix("limits: ").removeprefix(f"{name} ")
                self._note((*at, str(name)), told)

    def _folders(self, value: object) -> None:
        if not isinstance(value, list):
            return
        for number, each in enumerate(cast("list[object]", value)):
            if isinstance(each, str) and not os.path.isdir(beside(self._path.parent, each)):
                self._note(("agents", number), f"there is no folder {each!r}")

    def _note(self, place: Place, what: str) -> None:
        self.wrong.append(self._document.mistake(place, what))


def placed(spec: SubAgentSpec, file: Path) -> SubAgentSpec:
    """`spec` with its paths as they are meant in `file`, so that they hold wherever the server runs."""
    changes: dict[str, object] = {}
    if spec.context_files:
        changes["context_files"] = [confined(each, file.parent) for each in spec.context_files]
    if isinstance(spec.workspace, str):
        changes["workspace"] = anchored(spec.workspace, file.parent)
    elif spec.workspace is not None:
        path = anchored(spec.workspace.path, file.parent)
        changes["workspace"] = spec.workspace.model_copy(update={"path": path})
    return spec.model_copy(update=changes)
