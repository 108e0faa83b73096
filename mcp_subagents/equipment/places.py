"""Where things are that a definition names: folders, and files below a folder that they may not leave.

A definition is stored with its tasks, and may be run by another process in another folder. So its paths are made
absolute when it is taken in, and a path that is confined to a folder keeps the seam: `folder/./path/below`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from mcp_subagents.config.subagent import SubAgentConfig

_SEAM = f"{os.sep}.{os.sep}"


@dataclass(frozen=True, slots=True)
class Place:
    """A file below a folder, which it may not leave."""

    folder: Path
    below: str


def absolute(path: str, base: Path) -> str:
    """`path`, seen from `base`."""
    return str(base / Path(path).expanduser())


def confined(path: str, base: Path) -> str:
    """`path` as it is stored: a relative one keeps the folder it may not leave."""
    if _SEAM in path or Path(path).expanduser().is_absolute():
        return str(path) if _SEAM in path else str(Path(path).expanduser())
    return f"{base}{_SEAM}{path}"


def place_of(path: str) -> Place:
    """The file that `confined` has made of a path. One that is absolute by the operator's word is its folder's."""
    folder, seam, below = path.partition(_SEAM)
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
