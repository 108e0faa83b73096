"""A change to one place of a text, which leaves all the rest of it as it is."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """What stands between `start` and `end` becomes `text`."""

    start: int
    end: int
    text: str = ""

    def applied(self, to: str) -> str:
        return to[: self.start] + self.text + to[self.end :]


def cut(text: str, edits: Iterable[Edit]) -> str:
    """`text` after several edits that do not touch each other, each with places as they are before any of them."""
    for each in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = each.applied(text)
    return text


def newline_of(text: str) -> str:
    """How the lines of `text` end."""
    return "\r\n" if text.find("\n") > 0 and text[text.find("\n") - 1] == "\r" else "\n"


def indent_at(text: str, at: int) -> str:
    """The space at the beginning of the line of `at`."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def begins_line(text: str, at: int) -> bool:
    """Whether there is nothing but space before `at` on its line."""
    return not text[text.rfind("\n", 0, at) + 1 : at].strip(" \t\ufeff")
