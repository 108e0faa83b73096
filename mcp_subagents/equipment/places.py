"""Where things are that a definition names: folders, and files below a folder that they may not leave.

A definition is stored with its tasks, and may be run by another process in another folder. So its paths are made
absolute when it is taken in, and a path that may not leave a folder says which one: `folder/./path/below`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from mcp_subagents.config import places
from mcp_subagents.config.subagent import SubAgentConfig


def anchored(config: SubAgentConfig, base: Path) -> SubAgentConfig:
    """The same subagent, whose relative paths are relative to `base` wherever it runs."""
    if not {"context_files", "workspace", "mcp_servers"} & config.keys():
        return config
    data: dict[str, Any] = dict(config)
    if "context_files" in data:
        data["context_files"] = [places.confined(str(path), base) for path in data["context_files"] or ()]
    workspace = data.get("workspace")
    if isinstance(workspace, str | Path):
        data["workspace"] = places.anchored(str(workspace), base)
    elif isinstance(workspace, dict):
        given = cast("dict[str, Any]", workspace)
        if isinstance(given.get("path"), str | Path):
            data["workspace"] = {**given, "path": places.anchored(str(given["path"]), base)}
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
        return {**given, "from": str(places.beside(base, path))}
    return {name: settled(value, base) for name, value in given.items()}


def settled(definition: object, base: Path) -> object:
    """The definition of a tool server, with the folder it starts in."""
    if not isinstance(definition, Mapping) or "command" not in definition:
        return cast("object", definition)
    given = cast("Mapping[str, Any]", definition)
    cwd = given.get("cwd")
    return {
        **given,
        "cwd": str(places.beside(base, cwd)) if isinstance(cwd, str) and "${" not in cwd else cwd or str(base),
    }
