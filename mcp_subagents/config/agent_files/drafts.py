"""A subagent in the making: what its agent file has said so far, and what there is to say about the file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from mcp_subagents.config.limits import Limits
from mcp_subagents.config.mistakes import Place, shown

REST = ""
"""Among the tools that are granted: what a file that names some of them leaves open."""

Key = str | Place
"""A key of the file, or the keys that lead to one further inside."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """Where a file stands, and what may be granted to it there."""

    project: Path
    """The folder its subagent may read."""
    is_trusted: bool = False
    """Whether it is the user's own, and not part of a project that may come from anywhere."""
    servers: frozenset[str] = frozenset()
    """The MCP servers that the operator has defined."""
    limits: Limits = field(default_factory=Limits)
    """What the operator lets a task use."""


class Draft:
    """What an agent file has said so far."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.values: dict[str, Any] = {}
        """The values of a `SubAgentSpec`."""
        self.notes: list[tuple[Place, str]] = []
        """What is not honoured."""
        self.wrong: list[tuple[Place, str]] = []
        """What makes the file useless."""
        self.left_out = ""
        """Why a file that is in order gives no subagent."""
        self.servers: dict[str, dict[str, Any] | None] = {}
        """The MCP servers it may use: those of the operator by name alone, its own with their definitions."""
        self.granted: list[tuple[Place, str]] | None = None
        """The tools it asks for, by the names of its app; `None` if it does not say."""
        self.denied: list[tuple[Place, str]] = []
        self.is_shut = False
        """Whether what is not granted by its name is denied."""

    def note(self, key: Key, what: str) -> None:
        self.notes.append((place_of(key), what))

    def refuse(self, key: Key, what: str) -> None:
        self.wrong.append((place_of(key), what))

    def limit(self, key: Key, name: str, amount: float) -> None:
        """Bound the task, within what the operator allows."""
        most = cast("float | None", getattr(self.ground.limits, name))
        if most is not None and amount > most and not self.ground.is_trusted:
            self.note(key, f"{amount:g} is above {most:g}, which holds unless subagents.yaml raises it (limits)")
            return
        self.values.setdefault("limits", {})[name] = amount

    def text(self, key: Key, value: object) -> str | None:
        """`value`, if it is a text; otherwise a mistake."""
        return cast("str | None", self._of(key, value, lambda it: isinstance(it, str), "text"))

    def flag(self, key: Key, value: object) -> bool | None:
        return cast("bool | None", self._of(key, value, lambda it: isinstance(it, bool), "true or false"))

    def number(self, key: Key, value: object) -> float | None:
        return cast("float | None", self._of(key, value, _is_positive, "a number above 0"))

    def names(self, key: Key, value: object) -> list[str]:
        """Names in a list, or in one text with commas between them."""
        if isinstance(value, str):
            return split(value)
        found = cast("list[object]", self._of(key, value, lambda it: isinstance(it, list), "a list of names") or [])
        for number, each in enumerate(found):
            self.text((*place_of(key), number), each)
        return [each.strip() for each in found if isinstance(each, str)]

    def mapping(self, key: Key, value: object) -> Mapping[str, Any]:
        found = self._of(key, value, _is_mapping, "a mapping")
        return cast("Mapping[str, Any]", found or {})

    def _of(self, key: Key, value: object, fits: Callable[[object], bool], wanted: str) -> object | None:
        if fits(value):
            return value
        self.refuse(key, f"must be {wanted}, not {shown(value)}")
        return None


Reader = Callable[[Draft, Key, Any], None]
"""Takes what a file says under one key into a draft."""


def place_of(key: Key) -> Place:
    return (key,) if isinstance(key, str) else key


def split(text: str) -> list[str]:
    """Names with commas between them; a comma in parentheses, as in `Agent(a, b)`, belongs to its name."""
    names, depth, begun = list[str](), 0, ""
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth <= 0:
            names.append(begun)
            begun = ""
        else:
            begun += letter
    return [each.strip() for each in [*names, begun] if each.strip()]


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _is_mapping(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in cast("dict[object, object]", value))
