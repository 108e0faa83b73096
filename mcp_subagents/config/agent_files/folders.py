"""Where agent files are, and which of them win."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from mcp_subagents.config.agent_files.dialects import (
    CLAUDE,
    CODEX,
    COPILOT,
    CURSOR,
    GEMINI,
    GENERIC,
    OPENCODE,
    Dialect,
)
from mcp_subagents.config.agent_files.drafts import Ground
from mcp_subagents.config.agent_files.reading import AgentFile, read_agent
from mcp_subagents.config.files import text_of
from mcp_subagents.config.mistakes import Mistake
from mcp_subagents.config.roster import alike
from mcp_subagents.errors import ConfigError

Asked = Literal["auto"] | tuple[Path, ...]
"""Which agent files are read: those of the project and of the user, or those in some folders."""

IN_PROJECT: Mapping[str, Dialect] = {
    ".agents/agents": GENERIC,
    ".claude/agents": CLAUDE,
    ".github/agents": COPILOT,
    ".cursor/agents": CURSOR,
    ".gemini/agents": GEMINI,
    ".opencode/agents": OPENCODE,
    ".codex/agents": CODEX,
}
"""The folders of a project; of two files with one name the one in the earlier folder wins."""

IN_HOME: Mapping[str, Dialect] = {
    ".agents/agents": GENERIC,
    ".claude/agents": CLAUDE,
    ".copilot/agents": COPILOT,
    ".cursor/agents": CURSOR,
    ".gemini/agents": GEMINI,
    ".config/opencode/agents": OPENCODE,
    ".codex/agents": CODEX,
}
"""The folders of a user, after those of the project."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """A folder with agent files."""

    path: Path
    dialect: Dialect | None
    """`None` for a folder of no app's own: there, a file's name tells its dialect."""
    project: Path
    is_trusted: bool = False
    is_confined: bool = False
    """Whether it may not be a link out of its project: nobody but the project has named it."""

    def files(self) -> Iterator[tuple[Path, Dialect]]:
        """Its agent files, by name; none if it cannot be read, of which `trouble` tells."""
        for path in sorted(self._entries(), key=lambda each: each.name.casefold()):
            dialect = self.dialect or _by_name(path)
            if path.suffix == (".toml" if dialect.is_toml else ".md") and path.stem.casefold() != "readme":
                yield path, dialect

    def trouble(self) -> str:
        """Why it cannot be read, if it is there and cannot, or if nobody can tell whether it is there."""
        try:
            is_folder = stat.S_ISDIR(self.path.stat().st_mode)
            if not is_folder:
                return ""
            if self.is_confined and not self.path.resolve().is_relative_to(self.project.resolve()):
                return "it is a link to a folder outside the project"
            os.listdir(self.path)
            return "" if os.access(self.path, os.X_OK) else "it cannot be read: you lack the permission"
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except PermissionError:
            return "it cannot be read: you lack the permission"
        except (OSError, RuntimeError) as why:  # Python's word for links in a circle
            return f"it cannot be read: {getattr(why, 'strerror', None) or why}"

    def _entries(self) -> Sequence[Path]:
        try:
            return () if self.trouble() else list(self.path.iterdir())
        except OSError:
            return ()  # it is not there, or is a file


def _by_name(path: Path) -> Dialect:
    if path.suffix == ".toml":
        return CODEX
    return COPILOT if path.name.endswith((".agent.md", ".chatmode.md")) else CLAUDE


def folders(asked: Asked, *, project: Path, home: Path) -> Sequence[Folder]:
    """The folders that are looked into, the first to win."""
    own = [
        Folder(path=home / name, dialect=dialect, project=project, is_trusted=True) for name, dialect in IN_HOME.items()
    ]
    if asked != "auto":
        return [_listed(path, own, project) for path in asked]
    if project == home:
        return own
    return [
        *(
            Folder(path=project / name, dialect=dialect, project=project, is_confined=True)
            for name, dialect in IN_PROJECT.items()
        ),
        *own,
    ]


def _listed(path: Path, own: Sequence[Folder], project: Path) -> Folder:
    for folder in own:
        if folder.path.resolve() == path.resolve():
            return folder
    for name, dialect in IN_PROJECT.items():
        if path.as_posix().endswith(f"/{name}"):
            return Folder(path=path, dialect=dialect, project=path.parent.parent)
    return Folder(path=path, dialect=None, project=project)


def ground_of(path: Path, ground: Ground) -> tuple[Dialect | None, Ground]:
    """The dialect of a single file, and the ground it stands on; `ground` says what the operator allows."""
    own = folders("auto", project=ground.project, home=Path.home())[-len(IN_HOME) :]
    folder = _listed(path.absolute().parent, own, ground.project)
    return folder.dialect, replace(ground, project=folder.project, is_trusted=folder.is_trusted)


def read_agents(places: Sequence[Folder], ground: Ground, *, taken: Iterable[str] = ()) -> tuple[AgentFile, ...]:
    """What became of every agent file in `places`; names in `taken` are not given again.

    `ground` says what the operator allows; where a file stands, its folder knows.
    """
    holders: dict[str, str] = {alike(name): f"{name!r} in the configuration" for name in taken}
    found: list[AgentFile] = []
    for folder in places:
        here = replace(ground, project=folder.project, is_trusted=folder.is_trusted)
        if why := folder.trouble():
            dialect = folder.dialect.name if folder.dialect else "any"
            found.append(AgentFile(path=folder.path, dialect=dialect, wrong=(Mistake(what=why),)))
        for path, dialect in folder.files():
            file = read_path(path, dialect, here)
            if file.spec is not None and (holder := holders.get(alike(file.spec.name))):
                file = replace(file, spec=None, notes=(), left_out=f"{holder} has that name and comes first")
            elif file.spec is not None:
                holders[alike(file.spec.name)] = str(path)
            found.append(file)
    return tuple(found)


def introduce(files: Iterable[AgentFile], others: Iterable[str]) -> tuple[AgentFile, ...]:
    """`files` that know each other and the `others`: each may delegate only to those who are there."""
    read = tuple(files)
    names = [*others, *(file.spec.name for file in read if file.spec is not None)]
    known = {alike(name): name for name in reversed(names)}
    return tuple(_introduced(file, known) for file in read)


def read_path(path: Path, dialect: Dialect | None, ground: Ground) -> AgentFile:
    """What became of the agent file at `path`."""
    dialect = dialect or _by_name(path)
    try:
        if not ground.is_trusted and not path.resolve().is_relative_to(_around(path, ground)):
            raise ConfigError("it is a link to a file outside the project")
        text = text_of(path)
    except ConfigError as why:
        return AgentFile(path=path, dialect=dialect.name, wrong=(Mistake(what=str(why)),))
    except RuntimeError:  # Python's word for links in a circle
        return AgentFile(path=path, dialect=dialect.name, wrong=(Mistake(what="it is a link to itself"),))
    return read_agent(text, path, dialect, ground)


def _around(path: Path, ground: Ground) -> Path:
    """What a link may not lead out of: the project, or the folder of a file that is in none."""
    project = ground.project.resolve()
    folder = path.absolute().parent.resolve()
    return project if folder.is_relative_to(project) else folder


def _introduced(file: AgentFile, names: Mapping[str, str]) -> AgentFile:
    """`file` with the subagents it may delegate to as they are called here; those that are not there are noted."""
    if file.spec is None or not file.spec.subagents:
        return file
    known = [names[alike(each)] for each in file.spec.subagents if alike(each) in names]
    strangers = [each for each in file.spec.subagents if alike(each) not in names]
    notes = [Mistake(what=f"there is no subagent {each!r} to delegate to") for each in strangers]
    spec = file.spec.model_copy(update={"subagents": known or None})
    return replace(file, spec=spec, notes=(*file.notes, *notes))
