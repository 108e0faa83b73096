"""JSON with comments and trailing commas, parsed into values that know where they stand in the text."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from mcp_subagents.config.mistakes import Mistake

_SPACE = re.compile(r"[ \t\r\n]+")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """A value, and the part of the text that it takes."""

    start: int
    end: int
    data: object
    members: "tuple[Member, ...] | None" = None
    """Of an object, in their order; of anything else none."""

    def named(self, name: str) -> "list[Member]":
        """Its members of that name. More than one is odd; most readers take the last."""
        return [each for each in self.members or () if each.name == name]


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """A name and its value in an object."""

    name: str
    start: int
    """Where the name begins."""
    value: Value
    comma: int | None
    """Where the comma after it is, if there is one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed:
    """A text that could be read."""

    root: Value | None
    """Nothing if the text holds nothing but space and comments."""
    extra: Mistake | None
    """The first thing in it that plain JSON does not have."""


def parse(text: str) -> Parsed | Mistake:
    """What `text` says and where, or why it cannot be read. A byte order mark at its start is passed over."""
    reader = _Reader(text)
    try:
        at = reader.skip(1 if text.startswith("\ufeff") else 0)
        root = None
        if at < len(text):
            root = reader.value(at)
            end = reader.skip(root.end)
            if end < len(text):
                raise _Unreadable(end, "there is more after the end of the data")
    except _Unreadable as why:
        return reader.mistake(why.at, f"not valid JSON: {why}")
    except RecursionError:
        return Mistake(what="not valid JSON: it is nested too deeply")
    return Parsed(root=root, extra=reader.extra)


class _Unreadable(Exception):
    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self.extra: Mistake | None = None

    def mistake(self, at: int, what: str) -> Mistake:
        return Mistake(what=what, line=self._text.count("\n", 0, at) + 1)

    def skip(self, at: int) -> int:
        while True:
            if found := _SPACE.match(self._text, at):
                at = found.end()
            elif found := _COMMENT.match(self._text, at):
                self._note(at, "a comment")
                at = found.end()
            else:
                return at

    def value(self, at: int) -> Value:
        match self._text[at : at + 1]:
            case "{":
                return self._object(at)
            case "[":
                return self._list(at)
            case '"':
                data, end = self._string(at)
                return Value(start=at, end=end, data=data)
            case _:
                found = _WORD.match(self._text, at)
                if found is None:
                    raise self._unexpected(at, "a value")
                return Value(start=at, end=found.end(), data=self._word(found))

    def _word(self, found: re.Match[str]) -> object:
        try:
            return json.loads(found[0])
        except ValueError as why:  # the only thing that can be wrong with it: Python reads no number as long as this
            raise _Unreadable(found.start(), f"a number of {len(found[0])} digits, which is too long") from why

    def _object(self, start: int) -> Value:
        members: list[Member] = []

        def read(at: int) -> int:
            if self._text[at : at + 1] != '"':
                raise self._unexpected(at, "a name in double quotes")
            name, end = self._string(at)
            colon = self.skip(end)
            if self._text[colon : colon + 1] != ":":
                raise self._unexpected(colon, "a colon")
            value = self.value(self.skip(colon + 1))
            comma = self.skip(value.end)
            found = comma if self._text[comma : comma + 1] == "," else None
            members.append(Member(name=name, start=at, value=value, comma=found))
            return value.end

        end = self._items(start, "}", read)
        data = {each.name: each.value.data for each in members}
        return Value(start=start, end=end, data=data, members=tuple(members))

    def _list(self, start: int) -> Value:
        items: list[object] = []

        def read(at: int) -> int:
            value = self.value(at)
            items.append(value.data)
            return value.end

        return Value(start=start, end=self._items(start, "]", read), data=items)

    def _items(self, start: int, closing: str, read: Callable[[int], int]) -> int:
        at = self.skip(start + 1)
        while self._text[at : at + 1] != closing:
            at = self.skip(read(at))
            match self._text[at : at + 1]:
                case ",":
                    comma, at = at, self.skip(at + 1)
                    if self._text[at : at + 1] == closing:
                        self._note(comma, "a comma after the last item")
                case found if found != closing:
                    raise self._unexpected(at, f"a comma or {closing}")
                case _:
                    pass
        return at + 1

    def _string(self, at: int) -> tuple[str, int]:
        found = _STRING.match(self._text, at)
        try:
            return (json.loads(found[0]), found.end()) if found else self._no_string(at)
        except json.JSONDecodeError as why:
            raise _Unreadable(at, f"a text that is not written as JSON wants it: {why.msg.lower()}") from why

    def _no_string(self, at: int) -> tuple[str, int]:
        raise _Unreadable(at, "a text in double quotes does not end on its line")

    def _unexpected(self, at: int, wanted: str) -> _Unreadable:
        found = repr(self._text[at]) if at < len(self._text) else "the end of the file"
        return _Unreadable(at, f"{found} where {wanted} was expected")

    def _note(self, at: int, what: str) -> None:
        if self.extra is None:
            self.extra = self.mistake(at, what)
