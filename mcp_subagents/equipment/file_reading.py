"""Looking into a workspace: list, read, search. Everything is bounded, and says so when it is cut."""

import os
import stat
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import BinaryIO, TypeVar

from mcp_subagents.equipment.folders import Folder, Refused
from mcp_subagents.texts import encodable

T = TypeVar("T")

_LONGEST_PAGE = 60_000
"""Characters."""
_LONGEST_LINE = 2_000
_LARGEST_FILE = 256 * 1024 * 1024
_LARGEST_SEARCHED = 4 * 1024 * 1024
_MOST_ENTRIES = 50_000
_DEEPEST = 50
_SEARCH_SECONDS = 10.0
_LEFT_OUT = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
"""What other programs keep there: not walked through unless asked for."""


class FileReader:
    """The tools that only read."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def list_files(self, path: str = ".", pattern: str = "", offset: int = 0, limit: int = 200) -> str:
        """List a directory of your workspace, or with a pattern all files below it that match.

        Args:
            path: The directory, relative to the workspace.
            pattern: A pattern for names (`*.py`) or for paths below the directory (`src/*/test_*.py`).
            offset: How many entries to leave out, to go on where the last list ended.
            limit: How many entries to list, at most 1000.
        """
        offset, limit = max(offset, 0), min(max(limit, 1), 1000)
        deadline = time.monotonic() + _SEARCH_SECONDS
        if pattern:
            names, whole = _collected(found for found in self._below(path, deadline) if _matches(found, pattern))
        else:
            with self._folder.spot(path) as spot, spot.entries() as entries:
                marks = {"directory": "/", "link": "@", "special": "|", "file": ""}
                names, whole = _collected(f"{each.name}{marks[each.kind]}" for each in entries)
        whole = whole and time.monotonic() < deadline
        page = sorted(names)[offset : offset + limit]
        shown = offset + len(page)
        count = f"{len(names)}{'' if whole else ' or more'}"
        more = f" The next ones: offset={shown}." if shown < len(names) else ""
        return "\n".join([*page, f"[{len(page)} of {count} entries.{more}]"])

    def read_file(self, path: str, offset: int = 1, limit: int = 1000) -> str:
        """Read a text file of your workspace, or some lines of it.

        Args:
            path: The file, relative to the workspace.
            offset: The first line, counted from 1.
            limit: How many lines.
        """
        offset, limit = max(offset, 1), max(limit, 1)
        with self._folder.spot(path) as spot, os.fdopen(spot.read(), "rb") as file:
            if os.fstat(file.fileno()).st_size > _LARGEST_FILE:
                raise Refused(f"{path!r} is too large to be read: more than {_LARGEST_FILE // 2**20} MB.")
            _require_text(file, path)
            lines, size, total = list[str](), 0, 0
            for number, line in _numbered(file):
                total = number
                if number >= offset and len(lines) < limit and size <= _LONGEST_PAGE:
                    lines.append(line)
                    size += len(line)
        last = offset + len(lines) - 1
        if offset == 1 and last == total:
            return "\n".join(lines) if lines else "[The file is empty.]"
        if not lines:
            return f"[There is no line {offset}: the file has {total} lines.]"
        more = f" The next ones: offset={last + 1}." if last < total else ""
        return "\n".join([*lines, f"[Lines {offset} to {last} of {total}.{more}]"])

    def search_files(
        self, text: str, path: str = ".", pattern: str = "*", ignore_case: bool = False, limit: int = 100
    ) -> str:
        """Find a text in the files of your workspace: `file:line: the line`. The text is taken as it is, no pattern.

        Args:
            text: What to look for, on one line.
            path: The directory to look in, or one file.
            pattern: Only in files whose name or path matches, such as `*.py`.
            ignore_case: Whether capitals count as small letters.
            limit: How many lines to find, at most 500.
        """
        if not text.strip() or "\n" in text:
            raise Refused("Give some text to look for, on one line.")
        limit, deadline = min(max(limit, 1), 500), time.monotonic() + _SEARCH_SECONDS
        found, skipped, wanted = list[str](), 0, text.casefold() if ignore_case else text
        for name in self._searched(path, deadline):
            if len(found) >= limit or time.monotonic() > deadline:
                break
            if _matches(name, pattern):
                hits = self._hits(name, wanted, ignore_case, limit - len(found))
                skipped += hits is None
                found += hits or []
        notes = [f"{len(found)} lines found."]
        if len(found) >= limit:
            notes.append("There may be more: narrow it down by path, pattern or text.")
        elif time.monotonic() > deadline:
            notes.append(f"Stopped after {_SEARCH_SECONDS:g} seconds; there may be more: narrow it down.")
        if skipped:
            notes.append(f"{skipped} files were left out: binary, too large, or not readable.")
        return "\n".join([*found, f"[{' '.join(notes)}]"])

    def _searched(self, path: str, deadline: float) -> Iterator[str]:
        with self._folder.spot(path) as spot:
            found = spot.stat()
            if found is None:
                raise Refused(f"There is no {spot.shown!r}.")
            shown = spot.shown
        if stat.S_ISREG(found.st_mode):
            yield shown
            return
        prefix = "" if shown == "." else f"{shown}/"
        for name in self._below(path, deadline):
            yield f"{prefix}{name}"

    def _hits(self, name: str, wanted: str, ignore_case: bool, most: int) -> list[str] | None:
        """The lines of a file that have it; `None` for a file that is not searched."""
        try:
            with self._folder.spot(name) as spot, os.fdopen(spot.read(), "rb") as file:
                if os.fstat(file.fileno()).st_size > _LARGEST_SEARCHED:
                    return None
                _require_text(file, name)
                lines = file.read(_LARGEST_SEARCHED).decode("utf-8", "replace").split("\n")
        except Refused:
            return None
        hits = (
            f"{name}:{number}: {line.strip()[:300]}"
            for number, line in enumerate(lines, 1)
            if wanted in (line.casefold() if ignore_case else line)
        )
        return [hit for hit, _ in zip(hits, range(most), strict=False)]

    def _below(self, path: str, deadline: float) -> Iterator[str]:
        """All files below a directory, by their paths from there. Links are not followed."""
        todo = [""]
        while todo and time.monotonic() < deadline:
            here = todo.pop()
            try:
                with self._folder.spot(f"{path}/{here}") as spot, spot.entries() as found:
                    entries, _ = _collected(found)
            except Refused:
                if not here:
                    raise
                continue  # gone meanwhile, or not ours to read
            for each in sorted(entries, key=lambda entry: entry.name, reverse=True):
                below = f"{here}/{each.name}" if here else each.name
                if each.kind == "file":
                    yield below
                elif each.kind == "directory" and each.name not in _LEFT_OUT and below.count("/") < _DEEPEST:
                    todo.append(below)


def _collected(found: Iterator[T]) -> tuple[list[T], bool]:
    """What is found, up to a bound, and whether that is all."""
    kept: list[T] = []
    for each in found:
        if len(kept) >= _MOST_ENTRIES:
            return kept, False
        kept.append(each)
    return kept, True


def _matches(path: str, pattern: str) -> bool:
    plain = pattern.removeprefix("**/").removeprefix("./")
    return fnmatchcase(path, plain) or fnmatchcase(path.rsplit("/", 1)[-1], plain)


def _require_text(file: BinaryIO, shown: str) -> None:
    if b"\0" in file.read(8192):
        raise Refused(f"{shown!r} is a binary file; only text can be read.")
    file.seek(0)


def _numbered(file: BinaryIO) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers; of a very long line only the beginning."""
    number, fresh = 0, True
    while piece := file.readline(1024 * 1024):
        if fresh:
            number += 1
            line = piece.decode("utf-8", "replace").rstrip("\r\n")
            cut = f"{line[:_LONGEST_LINE]} [line cut]" if len(line) > _LONGEST_LINE else line
            yield number, encodable(cut)
        fresh = piece.endswith(b"\n")
