"""Changing a workspace: write a file whole, or replace a piece of it."""

import os

from mcp_subagents.equipment.folders import Folder, Refused

_LARGEST = 8 * 1024 * 1024


class FileWriter:
    """The tools that write. A file is written whole or not at all, and never seen half written."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def write_file(self, path: str, content: str) -> str:
        """Write a text file of your workspace: a new one, or in place of what it held.

        Args:
            path: The file, relative to the workspace. Missing directories are made.
            content: All of its text.
        """
        data = _encoded(content)
        with self._folder.spot(path, make_parents=True) as spot:
            if spot.shown == ".":
                raise Refused(f"{path!r} is a directory.")
            existed = spot.stat() is not None
            spot.replace(data)
        return f"{'Replaced' if existed else 'Wrote'} {spot.shown} ({len(data)} bytes)."

    def edit_file(self, path: str, old: str, new: str, replace_all: bool = False) -> str:
        """Replace a piece of a text file of your workspace.

        Args:
            path: The file, relative to the workspace.
            old: The text to replace, exactly as it is in the file, with enough around it to be there only once.
            new: What to put in its place.
            replace_all: Whether to replace it wherever it is.
        """
        if not old:
            raise Refused("`old` is empty. To write a new file use write_file.")
        with self._folder.spot(path) as spot:
            with os.fdopen(spot.read(), "rb") as file:
                before = os.fstat(file.fileno())
                if before.st_size > _LARGEST:
                    raise Refused(f"{path!r} is too large to be edited: more than {_LARGEST // 2**20} MB.")
                text = _decoded(file.read(), path)
            if old not in text and "\r\n" in text:
                old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
            count = text.count(old)
            if not count:
                raise Refused(
                    f"{path!r} does not have that text. Read the file, and give `old` exactly as it is there."
                )
            if count > 1 and not replace_all:
                raise Refused(f"{path!r} has that text {count} times. Give more of the text around it, or replace_all.")
            spot.replace(_encoded(text.replace(old, new)), unless_changed=before)
        return f"Edited {spot.shown}: {count} {'place' if count == 1 else 'places'}."


def _encoded(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as exc:
        raise Refused("The text has half a character in it, which no file can hold.") from exc
    if len(data) > _LARGEST:
        raise Refused(f"That is too much for one file: more than {_LARGEST // 2**20} MB.")
    return data


def _decoded(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise Refused(f"{path!r} is not text in UTF-8; it is left as it is.") from exc
