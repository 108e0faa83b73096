"""What can be wrong with what somebody wrote down, in words: where it is, what is wrong, what would be right."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mcp_subagents.config.spec import WorkspaceSpec, hint_for
from mcp_subagents.errors import did_you_mean
from mcp_subagents.redact import redact
from mcp_subagents.texts import plain

Place = tuple[str | int, ...]
"""The keys and numbers that lead to a part of a document."""

_LONGEST_SHOWN = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Mistake:
    """One thing that is wrong, or not as its writer may think."""

    what: str
    place: str = ""
    """Where in the data, as `subagents[1].model`."""
    line: int | None = None

    def told_of(self, file: object) -> str:
        """The whole of it, in one line: `subagents.yaml:12: subagents[1].modle: unknown key, ...`."""
        where = f"{file}:{self.line}" if self.line is not None else str(file)
        return " ".join(plain(": ".join(part for part in (where, self.place, self.what) if part)).split("\n"))


def by_line(mistakes: Iterable[Mistake]) -> list[Mistake]:
    """Each mistake once, from the top of the file to its end."""
    return sorted(dict.fromkeys(mistakes), key=lambda each: each.line or 0)


def named(place: Sequence[str | int]) -> str:
    """A place as people write it."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


def shown(value: object) -> str:
    """A value that is wrong, short and without secrets; what is in a mapping or a list is not repeated."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date):
        return f"the date {value.isoformat()}"
    text = "nothing" if value is None else redact(repr(value))
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def unknown_keys(given: Mapping[object, object], model: type[BaseModel]) -> list[tuple[Place, str]]:
    """The keys that `model` does not have, each with the nearest right one."""
    return [
        ((str(key),), f"unknown key, {hint_for(str(key), model.model_fields)}")
        for key in given
        if key not in model.model_fields
    ]


def in_words(wrong: ValidationError, data: object) -> list[tuple[Place, str]]:
    """What pydantic found wrong with `data`, as places in it and our words."""
    found: dict[Place, str] = {}
    unfitting: list[tuple[Place, object]] = []
    for error in wrong.errors(include_url=False):
        place, value, fits = _followed(error, data)
        if fits:
            found.setdefault(place, _words(error, place, value))
        else:
            unfitting.append((place, value))
    for place, value in sorted(unfitting, key=lambda each: -len(each[0])):
        if not any(other[: len(place)] == place for other in found):
            found[place] = f"must be {_wanted(place)}, not {shown(value)}"
    return list(found.items())


def _followed(error: ErrorDetails, data: Any) -> tuple[Place, Any, bool]:
    """Where an error is in `data`, what is there, and whether it is about the kind of value that is there.

    Of a value that may be one of several kinds, pydantic tells what each kind would have needed, and puts the name
    of the kind into the path.
    """
    place: list[str | int] = []
    for number, part in enumerate(error["loc"]):
        if _holds(data, part):
            data = data[part]
        elif error["type"] == "missing" and number == len(error["loc"]) - 1:
            pass
        else:
            if not _is_kind(str(part), data):
                return tuple(place), data, False
            continue
        place.append(part)
    return tuple(place), data, True


def _holds(data: object, part: str | int) -> bool:
    return (isinstance(data, Mapping) and part in data) or (isinstance(data, list) and isinstance(part, int))


def _is_kind(kind: str, value: object) -> bool:
    match value:
        case str():
            return kind in ("str", "literal['auto']") or kind.startswith("function")
        case list():
            return kind.startswith("list")
        case dict():
            return kind.startswith("dict") or kind == WorkspaceSpec.__name__
        case _:
            return False


_WANTED = {
    "agents": "auto, or a list of folders",
    "mcp_servers": "a mapping of names to servers, or a list of names",
    "capabilities": "a name, or a name with its settings",
    "workspace": "the path of a directory, or a mapping with path and read_only",
}
"""What may stand under a key that takes several kinds of values."""

_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "greater_than_equal": "{ge:g} or more",
    "greater_than": "above {gt:g}",
    "less_than_equal": "{le:g} or less",
    "literal_error": "{expected}",
    "string_too_long": "{max_length} characters at the most",
}


def _wanted(place: Place) -> str:
    key = next((part for part in reversed(place) if isinstance(part, str)), "")
    return _WANTED.get(key, "of another kind")


def _words(error: ErrorDetails, place: Place, value: object) -> str:
    context = error.get("ctx", {})
    match error["type"]:
        case "missing":
            return "is missing"
        case "value_error":
            return str(context["error"])
        case "extra_forbidden":
            return f"unknown key, {did_you_mean(str(place[-1]), WorkspaceSpec.model_fields)}"
        case "literal_error" if place[-1] in _WANTED:
            return f"must be {_wanted(place)}, not {shown(value)}"
        case "string_type" if isinstance(value, bool | date):
            return f"must be text, not {shown(value)}; put it in quotes"  # as which YAML reads yes, no and 2030-01-01
        case kind if kind in _EXPECTED:
            return f"must be {_EXPECTED[kind].format(**context)}, not {shown(value)}"
        case _:
            return error["msg"]
