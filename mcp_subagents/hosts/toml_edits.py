"""Entries in TOML texts: where one is, how it gets in, and how it gets out, with no other byte touched."""

import json
import re
from collections.abc import Mapping
from typing import cast

from mcp_subagents.hosts.edits import Edit, cut, newline_of
from mcp_subagents.hosts.toml_lines import Table, tables

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_BLANK_BEFORE = re.compile(r"(?<=\n)[ \t]*\r?\n\Z")
_BLANK_AFTER = re.compile(r"[ \t]*(?:\r?\n|\Z)")


def span(text: str, key: str, name: str) -> tuple[int, int] | None:
    """Where the tables of the entry `name` under `key` begin and end, if they stand together as tables."""
    every = tables(text)
    ours = _tables_of(every, key, name)
    if not ours:
        return None
    first = every.index(ours[0])
    together = every[first : first + len(ours)] == ours
    return (ours[0].start, ours[-1].end) if together else None


def put(text: str, key: str, name: str, entry: Mapping[str, object]) -> Edit | None:
    """The edit after which `name` under `key` is `entry`; none if it is written in a way that cannot be replaced."""
    newline = newline_of(text)
    lines = [f"[{_key(key)}.{_key(name)}]", *(f"{_key(each)} = {_value(value)}" for each, value in entry.items())]
    written = newline.join(lines)
    if found := span(text, key, name):
        ended = newline if text[found[0] : found[1]].endswith("\n") else ""
        return Edit(*found, written + ended)
    if _tables_of(tables(text), key, name):
        return None
    end = len(text)
    if text in ("", "\ufeff"):
        return Edit(end, end, written + newline)
    if not text.endswith("\n"):
        return Edit(end, end, newline * 2 + written)
    apart = "" if _BLANK_BEFORE.search(text) else newline
    return Edit(end, end, apart + written + newline)


def take(text: str, key: str, name: str) -> str:
    """`text` without the tables of the entry `name`, and without the blank line that would be left over."""
    cuts: list[Edit] = []
    for each in _tables_of(tables(text), key, name):
        blank = _BLANK_BEFORE.search(text[: each.start])
        start = blank.start() if blank and _BLANK_AFTER.match(text, each.end) else each.start
        cuts.append(Edit(start, each.end))
    return cut(text, cuts)


def _tables_of(every: list[Table], key: str, name: str) -> list[Table]:
    return [each for each in every if each.path[:2] == (key, name)]


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: object) -> str:
    """`value` as TOML, on one line."""
    if isinstance(value, Mapping):
        given = cast("Mapping[str, object]", value)
        return (
            f"{{ {', '.join(f'{_key(each)} = {_value(inner)}' for each, inner in given.items())} }}" if given else "{}"
        )
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(each) for each in cast('list[object]', value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)  # numbers and times, which TOML writes as Python does
