"""Data as a file holds it, with the line of each part: YAML, JSON and TOML."""

import json
import re
import tomllib
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from mcp_subagents.config.mistakes import Mistake, Place, named

MOST_PARTS = 100_000
"""Values in a document, each counted as often as an anchor repeats it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """What a text says, or why it cannot be read."""

    data: object = None
    lines: Mapping[Place, int] = field(default_factory=dict[Place, int])
    wrong: tuple[Mistake, ...] = ()

    def line(self, place: Place) -> int | None:
        """The line of a place; of one that is not there, that of the nearest part around it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place) if place else None

    def mistake(self, place: Place, what: str) -> Mistake:
        return Mistake(what=what, place=named(place), line=self.line(place))


def _repeated(place: Place, line: int, first: int) -> Mistake:
    return Mistake(what=f"is there twice, first in line {first}", place=named(place), line=line)


def parse_yaml(text: str, *, first_line: int = 1) -> Document:
    """What `text` says, if it is YAML; `first_line` is the number of its first line in the file."""
    walked = _Walked(first_line)
    try:
        loader: Any = yaml.SafeLoader(text)
        node: yaml.Node | None = loader.get_single_node()
        if node is not None:
            walked.walk(node, ())
        data: object = None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as why:
        line = why.problem_mark.line + first_line if why.problem_mark else None
        return _unreadable(f"not valid YAML: {why.problem or why.context}", line)
    except (yaml.YAMLError, ValueError, RecursionError) as why:
        return _unreadable(f"not valid YAML: {_one_line(why)}", None)
    if walked.parts > MOST_PARTS:
        return _unreadable(f"its anchors repeat so much that it has more than {MOST_PARTS:,} values", None)
    return Document(data=data, lines=walked.lines, wrong=tuple(walked.twice))


class _Walked:
    """Goes through the nodes of a YAML document, before they become data that knows no lines."""

    def __init__(self, first_line: int) -> None:
        self._first_line = first_line
        self.lines: dict[Place, int] = {}
        self.twice: list[Mistake] = []
        self.parts = 0
        self._above: set[int] = set()

    def walk(self, node: yaml.Node, place: Place) -> None:
        self.parts += 1
        if self.parts > MOST_PARTS:
            return
        if id(node) in self._above:
            raise ValueError("an anchor contains itself")
        self._above.add(id(node))
        if isinstance(node, yaml.MappingNode):
            self._mapping(node, place)
        elif isinstance(node, yaml.SequenceNode):
            for number, each in enumerate(cast("list[yaml.Node]", node.value)):
                self.lines[(*place, number)] = self._line(each)
                self.walk(each, (*place, number))
        self._above.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, place: Place) -> None:
        seen: dict[Hashable, int] = {}
        for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            name, line = str(key.value), self._line(key)
            if key.tag != "tag:yaml.org,2002:merge":
                if (key.tag, name) in seen:
                    self.twice.append(_repeated((*place, name), line, seen[(key.tag, name)]))
                seen.setdefault((key.tag, name), line)
            self.lines.setdefault((*place, name), line)
            self.walk(value, (*place, name))

    def _line(self, node: yaml.Node) -> int:
        return node.start_mark.line + self._first_line


def parse_json(text: str) -> Document:
    """What `text` says, if it is JSON."""
    try:
        data: object = json.loads(text)
        lines: dict[Place, int] = {}
        twice: list[Mistake] = []
        _JsonLines(text, lines, twice).value(0, ())
    except json.JSONDecodeError as why:
        return _unreadable(f"not valid JSON: {why.msg}", why.lineno)
    except (ValueError, RecursionError) as why:
        return _unreadable(f"not valid JSON: {_one_line(why)}", None)
    return Document(data=data, lines=lines, wrong=tuple(twice))


_JSON = json.JSONDecoder()


class _JsonLines:
    """Finds the lines in a text that is known to be JSON."""

    _SPACE = re.compile(r"[ \t\r\n]*")

    def __init__(self, text: str, lines: dict[Place, int], twice: list[Mistake]) -> None:
        self._text, self._lines, self._twice = text, lines, twice
        self._ends = [found.start() for found in re.finditer("\n", text)]

    def value(self, at: int, place: Place) -> int:
        """Note the lines of the value at `at`, and return where it ends."""
        at = self._skip(at)
        match self._text[at]:
            case "{":
                return self._items(at, "}", self._member(place))
            case "[":
                return self._items(at, "]", self._element(place))
            case _:
                return _JSON.raw_decode(self._text, at)[1]

    def _items(self, at: int, end: str, item: Callable[[int], int]) -> int:
        at = self._skip(at + 1)
        while self._text[at] != end:
            at = self._skip(item(at))
            if self._text[at] == ",":
                at = self._skip(at + 1)
        return at + 1

    def _member(self, place: Place) -> Callable[[int], int]:
        seen: dict[str, int] = {}

        def read(at: int) -> int:
            line = self._line(at)
            name, at = cast("tuple[str, int]", _JSON.raw_decode(self._text, at))
            if name in seen:
                self._twice.append(_repeated((*place, name), line, seen[name]))
            seen.setdefault(name, line)
            self._lines.setdefault((*place, name), line)
            return self.value(self._skip(at) + 1, (*place, name))

        return read

    def _element(self, place: Place) -> Callable[[int], int]:
        numbers = iter(range(len(self._text)))

        def read(at: int) -> int:
            inner = (*place, next(numbers))
            self._lines[inner] = self._line(at)
            return self.value(at, inner)

        return read

    def _skip(self, at: int) -> int:
        return cast("re.Match[str]", self._SPACE.match(self._text, at)).end()

    def _line(self, at: int) -> int:
        return bisect_left(self._ends, at) + 1


def parse_toml(text: str) -> Document:
    """What `text` says, if it is TOML. Only its first keys and its tables have lines."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as why:
        found = re.search(r"(.*) \(at line (\d+)", str(why))
        return _unreadable(f"not valid TOML: {found[1] if found else why}", int(found[2]) if found else None)
    # The first line that looks like a key is the key; later ones may be in a text of many lines.
    return Document(data=data, lines=dict(reversed(list(_toml_lines(text, data)))))


def _toml_lines(text: str, data: Mapping[str, Any]) -> Iterator[tuple[Place, int]]:
    for number, line in enumerate(text.splitlines(), start=1):
        found = re.match(r"\s*\[?\s*[\"']?([\w-]+)", line)
        if found and found[1] in data:
            yield (found[1],), number


def _unreadable(what: str, line: int | None) -> Document:
    return Document(wrong=(Mistake(what=what, line=line),))


def _one_line(why: Exception) -> str:
    return " ".join(str(why).split())
