"""Where the tables of a TOML text stand in it. What they say, `tomllib` says; this finds the lines."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

_TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5} | \'\'\'.*?'{3,5}   # texts of several lines
      | "(?:\\.|[^"\\\n])*"      | '[^'\n]*'         # texts of one line
      | \#[^\n]*                                      # comments
      | .''',
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """A header or an assignment, over as many lines as it takes; blank lines and comments between them are none."""

    start: int
    """Where its first line begins."""
    end: int
    """Behind the end of its last line."""
    text: str

    @property
    def is_header(self) -> bool:
        return self.text.startswith("[")


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table under a header of its own."""

    path: tuple[str, ...]
    start: int
    end: int
    """Behind its last assignment: comments below that belong to what follows."""


def tables(text: str) -> list[Table]:
    """The tables of a text that is known to be TOML, from top to bottom."""
    found: list[Table] = []
    for each in statements(text):
        if each.is_header:
            found.append(Table(path=header_path(each.text), start=each.start, end=each.end))
        elif found:
            found[-1] = Table(path=found[-1].path, start=found[-1].start, end=each.end)
    return found


def statements(text: str) -> Iterator[Statement]:
    """What a text that is known to be TOML says, one after the other."""
    at = 1 if text.startswith("\ufeff") else 0
    while at < len(text):
        end, said = _line(text, at)
        if said:
            yield Statement(start=at, end=end, text=said)
        at = end


def _line(text: str, start: int) -> tuple[int, str]:
    """Where what begins on the line at `start` ends, and what it says without comments."""
    at, depth, said = start, 0, ""
    while at < len(text):
        token = cast("re.Match[str]", _TOKEN.match(text, at))[0]
        at += len(token)
        if token == "\n" and depth == 0:
            break
        depth += (token in "[{") - (token in "]}")
        if not token.startswith("#"):
            said += token
    return at, said.strip()


def header_path(header: str) -> tuple[str, ...]:
    """The keys in `[a."b.c"]` or `[[a]]`."""
    found: list[str] = []
    data: Any = tomllib.loads(header)
    while isinstance(data, dict) and data:
        [(key, data)] = cast("dict[str, Any]", data).items()
        found.append(key)
        if isinstance(data, list):
            break
    return tuple(found)
