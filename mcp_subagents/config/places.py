"""Where things are that a file names."""

import os
from pathlib import Path

SEAM = f"{os.sep}.{os.sep}"
"""Between a folder and the path below it that may not leave it."""


def beside(folder: Path, name: str) -> Path:
    """The path that `name` means in a file in `folder`: relative to it, with the home directory known."""
    try:
        return folder.absolute() / Path(name).expanduser()
    except RuntimeError:  # the home directory of a user that is not there
        return folder.absolute() / name


def confined(name: str, folder: Path) -> str:
    """The same, as text; a relative name keeps the seam (`folder/./name`), which says what it may not leave."""
    if SEAM in name:
        return name
    if name.startswith("~") or Path(name).is_absolute():
        return str(beside(folder, name))
    return f"{folder.absolute()}{SEAM}{name.removeprefix(f'.{os.sep}')}"
