"""What a configuration file says: read whole or not at all, with everything that is wrong told at once."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError

from mcp_subagents.config.limits import EngineSettings, Limits
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.config.stores import located
from mcp_subagents.errors import ConfigError, did_you_mean


@dataclass(frozen=True, kw_only=True, slots=True)
class FileConfig:
    """What a file can say. `None` is what it does not."""

    subagents: tuple[SubAgentSpec, ...] = ()
    model: str | None = None
    store: str | None = None
    max_concurrency: int | None = None
    retention_days: float | None = None
    limits: Mapping[str, float | None] | None = None


KEYS = tuple(FileConfig.__dataclass_fields__)


def read_file(path: Path) -> tuple[FileConfig, list[str]]:
    """What the file at `path` says, and everything that is wrong with it; a file with mistakes says nothing."""
    try:
        data = _parse(path)
    except ConfigError as wrong:
        return FileConfig(), [f"{path}: {wrong}"]
    reader = _Reader(path)
    config = reader.read(data)
    return (FileConfig() if reader.wrong else config), reader.wrong


def _parse(path: Path) -> object:
    try:
        if not path.is_file():
            raise ConfigError("it is not a file" if path.exists() else "there is no such file")
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as why:
        raise ConfigError("it is not UTF-8 text") from why
    except OSError as why:
        raise ConfigError(f"it cannot be read: {why.strerror}") from why
    try:
        return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except yaml.MarkedYAMLError as why:
        where = f" in line {why.problem_mark.line + 1}" if why.problem_mark else ""
        raise ConfigError(f"not valid YAML{where}: {why.problem or why.context}") from why
    except (ValueError, yaml.YAMLError, RecursionError) as why:
        raise ConfigError(
            f"not valid {'JSON' if path.suffix == '.json' else 'YAML'}: {' '.join(str(why).split())}"
        ) from why


class _Reader:
    """Goes through the data of one file and gathers its mistakes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.wrong: list[str] = []

    def read(self, data: object) -> FileConfig:
        if data is None:
            return FileConfig()
        if isinstance(data, list):
            return FileConfig(subagents=self._subagents(cast("object", data)))
        if not isinstance(data, dict):
            self._note("", f"a list of subagents, or a mapping with the keys {', '.join(KEYS)}, is wanted")
            return FileConfig()
        given = cast("dict[object, object]", data)
        for key in given:
            if key not in KEYS:
                self._note(str(key), f"unknown key, {did_you_mean(str(key), KEYS)}")
        read: dict[str, Callable[[Any], Any]] = {
            "subagents": self._subagents,
            "model": self._model,
            "store": self._store,
            "max_concurrency": lambda value: self._setting("max_concurrency", value),
            "retention_days": lambda value: self._setting("retention_days", value),
            "limits": lambda value: self._limits("limits", value),
        }
        return FileConfig(**{key: act(given[key]) for key, act in read.items() if key in given})

    def _subagents(self, value: object) -> tuple[SubAgentSpec, ...]:
        if not isinstance(value, list):
            self._note("subagents", "must be a list of subagents")
            return ()
        specs: dict[str, SubAgentSpec] = {}
        for number, each in enumerate(cast("list[object]", value)):
            place = f"subagents[{number}]"
            spec = self._subagent(place, each)
            if spec is None:
                continue
            if spec.name in specs:
                self._note(f"{place}.name", f"another subagent is named {spec.name!r}; each needs a name of its own")
            specs[spec.name] = spec
        return tuple(specs.values())

    def _subagent(self, place: str, value: object) -> SubAgentSpec | None:
        if isinstance(value, dict):
            limits: object = cast("dict[object, object]", value).get("limits")
            if isinstance(limits, dict):
                self._limits(f"{place}.limits", cast("object", limits))
        else:
            self._note(place, "must be a mapping with a name, a description and instructions")
            return None
        try:
            return SubAgentSpec.model_validate(value)
        except ValidationError as wrong:
            for error in wrong.errors(include_url=False):
                keys = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"])
                self._note(place + keys, error["msg"].removeprefix("Value error, "))
            return None

    def _model(self, value: object) -> str | None:
        if isinstance(value, str) and value.strip():
            return value
        self._note("model", f"must be the name of a model, such as openai:gpt-5, not {value!r}")
        return None

    def _store(self, value: object) -> str | None:
        try:
            return located(value, beside=self._path)
        except ConfigError as wrong:
            self._note("store", str(wrong))
            return None

    def _setting(self, name: str, value: object) -> Any:
        try:
            EngineSettings(**{name: cast("Any", value)})
        except ConfigError as wrong:
            self._note(name, str(wrong).removeprefix(f"{name} "))
        return value

    def _limits(self, place: str, value: object) -> Mapping[str, float | None]:
        if not isinstance(value, dict):
            self._note(place, "must be a mapping of limits to numbers")
            return {}
        limits = cast("dict[Any, Any]", value)
        for name, amount in limits.items():
            try:
                Limits.of({str(name): amount})
            except ConfigError as wrong:
                self._note(f"{place}.{name}", str(wrong).removeprefix("limits: "))
        return limits

    def _note(self, place: str, what: str) -> None:
        self.wrong.append(": ".join(part for part in (str(self._path), place, what) if part))
