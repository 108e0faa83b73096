"""Where things are that a definition names: folders, and files below a folder that they may not leave.

A definition is stored with its tasks, and may be run by another process in another folder. So its paths are made
absolute when it is taken in, and a path that is confined to a folder keeps the seam: `folder/./path/below`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from mcp_subagents.config.places import SEAM, beside, confined
from mcp_subagents.config.subagent import SubAgentConfig


@dataclass(frozen=True, slots=True)
class Place:
    """A file below a folder, which it may not leave."""

    folder: Path
    below: str


def absolute(path: str, base: Path) -> str:
    """`path`, seen from `base`."""
    return str(beside(base, path))


def place_of(path: str) -> Place:
    """The file that `confined` has made of a path. One that is absolute by the operator's word is its folder's."""
    folder, seam, below = path.partition(SEAM)
    return Place(Path(folder), below) if seam else Place(Path(path).parent, Path(path).name)


def anchored(config: SubAgentConfig, base: Path) -> SubAgentConfig:
    """The same subagent, whose relative paths are relative to `base` wherever it runs."""
    if not {"context_files", "workspace", "mcp_servers"} & config.keys():
        return config
    data: dict[str, Any] = dict(config)
    if "context_files" in data:
        data["context_files"] = [confined(str(path), base) for path in data["context_files"] or ()]
    workspace = data.get("workspace")
    if isinstance(workspace, str | Path):
        data["workspace"] = absolute(str(workspace), base)
    elif isinstance(workspace, dict):
        given = cast("dict[str, Any]", workspace)
        if isinstance(given.get("path"), str | Path):
            data["workspace"] = {**given, "path": absolute(str(given["path"]), base)}
    if data.get("mcp_servers"):
        data["mcp_servers"] = _servers(data["mcp_servers"], base)
    return cast("SubAgentConfig", data)


class Anchored(Mapping[str, SubAgentConfig]):
    """Subagents by their names, each `anchored` when it is looked at, since what they are may change."""

    def __init__(self, configs: Mapping[str, SubAgentConfig], base: Path) -> None:
        self._configs = configs
        self._base = base

    def __getitem__(self, name: str) -> SubAgentConfig:
        return anchored(self._configs[name], self._base)

    def __iter__(self) -> Iterator[str]:
        return iter(self._configs)

    def __len__(self) -> int:
        return len(self._configs)


def _servers(servers: object, base: Path) -> object:
    if isinstance(servers, list):
        return [_servers(each, base) for each in cast("list[object]", servers)]
    if not isinstance(servers, dict):
        return servers
    given = cast("dict[str, object]", servers)
    if isinstance(path := given.get("from"), str):
        return {**given, "from": absolute(path, base)}
    return {name: settled(value, base) for name, value in given.items()}


def settled(definition: object, base: Path) -> object:
    """The definition of a tool server, with the folder it starts in."""
    if not isinstance(definition, Mapping) or "command" not in definition:
        return cast("object", definition)
    given = cast("Mapping[str, Any]", definition)
    cwd = given.get("cwd")
    return {**given, "cwd": absolute(cwd, base) if isinstance(cwd, str) and "${" not in cwd else cwd or str(base)}
