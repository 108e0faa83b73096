"""Where things are that a file names: by itself, or inside a folder that it may not leave."""

import os
from dataclasses import dataclass
from pathlib import Path

SEAM = f"{os.sep}.{os.sep}"
"""Between a folder and the path below it, where both are written as one text. Only in an absolute path it counts."""


@dataclass(frozen=True, slots=True)
class Inside:
    """A place that does not leave its folder, whatever links there are by the time somebody goes there."""

    folder: Path
    """Where to begin; to get there, links are followed."""
    below: str = ""
    """The way from there, which may not lead out again; empty for the folder itself."""

    def __str__(self) -> str:
        return f"{self.folder}{SEAM}{self.below}" if self.below else str(self.folder)

    @property
    def path(self) -> Path:
        return self.folder / self.below


def beside(folder: Path, name: str) -> Path:
    """The path that `name` means in a file in `folder`: relative to it, with the home directory known."""
    try:
        return folder.absolute() / Path(name).expanduser()
    except RuntimeError:  # the home directory of a user that is not there
        return folder.absolute() / name


def confined(name: str, folder: Path) -> str:
    """The same as text, for a relative name with the folder that it may not leave. Applied twice, it is as once."""
    return str(Inside(folder.absolute(), _tidy(name))) if _is_relative(name) else anchored(name, folder)


def anchored(name: str, folder: Path) -> str:
    """The same as text, for names that may lead anywhere; one that says itself what it may not leave keeps that."""
    return name if Path(name).is_absolute() and SEAM in name else str(beside(folder, name))


def within(name: str, folder: Path) -> Inside | None:
    """The place inside `folder` that `name` means; `None` if it leads out, as things are now."""
    try:
        path, top = os.path.realpath(beside(folder, name)), os.path.realpath(folder)
    except ValueError:  # with a NUL in it
        return None
    if not Path(path).is_relative_to(top):
        return None
    return Inside(folder.absolute(), _tidy(name if _is_relative(name) else os.path.relpath(path, top)))


def file_at(text: str) -> Inside:
    """The file that `confined` has written down; a path without a seam is one in its own folder."""
    folder, seam, below = text.partition(SEAM)
    return Inside(Path(folder or os.sep), below) if seam else Inside(Path(text).parent, Path(text).name)


def folder_at(text: str) -> Inside:
    """The folder that `anchored` or an `Inside` has written down."""
    folder, _, below = text.partition(SEAM)
    return Inside(Path(folder or os.sep), below)


def _is_relative(name: str) -> bool:
    return not name.startswith("~") and not Path(name).is_absolute()


def _tidy(name: str) -> str:
    return os.sep.join(part for part in name.split(os.sep) if part not in ("", "."))
