"""On which files it depends how a configuration reads, and whether they have changed."""

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from mcp_subagents.config.environment import ServerConfig, usual_places
from mcp_subagents.config.places import beside
from mcp_subagents.config.spec import SubAgentSpec

Watched = Mapping[Path, bool]
"""Files, and of each whether its content counts, or only that it is there."""
Stamps = Mapping[Path, tuple[int, ...] | None]
"""What tells whether files have changed; `None` for one that is not there."""


def watched(config: ServerConfig) -> Watched:
    """The files that a configuration comes from, and those that it names: when one appears, it may be in order."""
    usual = usual_places()
    files = [config.file] if config.file is not None and config.file not in usual else [*usual]
    for folder in config.agent_folders:
        files += [folder.path, *(path for path, _ in folder.files())]
    named = {path: counts for spec in config.subagents for path, counts in _named(spec, config.folder)}
    return {**named, **dict.fromkeys(files, True)}


def _named(spec: SubAgentSpec, folder: Path) -> Iterator[tuple[Path, bool]]:
    # What is in them is read with each task.
    yield from ((beside(folder, each), False) for each in spec.context_files or ())
    workspace = spec.workspace if isinstance(spec.workspace, str | None) else spec.workspace.path
    if workspace is not None:
        yield beside(folder, workspace), False
    for entry in spec.mcp_servers if isinstance(spec.mcp_servers, list) else ():
        path = None if isinstance(entry, str) else entry.get("from")
        if isinstance(path, str):
            yield beside(folder, path), True


def stamps_of(files: Watched) -> Stamps:
    """The files as they are now."""
    return {path: _stamp(path, content=counts) for path, counts in files.items()}


def _stamp(path: Path, *, content: bool) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if content else (stat.S_IFMT(found.st_mode),)
