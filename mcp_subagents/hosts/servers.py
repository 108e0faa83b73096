"""What the file of a host says about servers, in each of the three syntaxes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from mcp_subagents.config.documents import parse_toml
from mcp_subagents.config.mistakes import Mistake, shown
from mcp_subagents.hosts.jsonc import Value, parse
from mcp_subagents.hosts.known import Host


@dataclass(frozen=True, kw_only=True, slots=True)
class Servers:
    """The servers in the file of a host."""

    entries: Mapping[str, object]
    """By name, as the file describes them."""


def read_servers(text: str, host: Host) -> Servers | Mistake:
    """The servers in `text`, or what is wrong with it."""
    if host.syntax == "toml":
        return _in_toml(text, host)
    return _in_json(text, host)


def _in_json(text: str, host: Host) -> Servers | Mistake:
    parsed = parse(text)
    if isinstance(parsed, Mistake):
        return parsed
    if host.syntax == "json" and parsed.extra is not None:
        what = f"{host.title} reads plain JSON, and this is {parsed.extra.what}: take it out"
        return Mistake(what=what, line=parsed.extra.line)
    if parsed.root is None:
        return Servers(entries={})
    if parsed.root.members is None:
        return _wrong(text, parsed.root, "", "the file")
    found = parsed.root.named(host.key)
    if len(found) > 1:
        return Mistake(what="is there twice: keep one", place=host.key, line=_line(text, found[1].start))
    for each in found:
        if each.value.members is None:
            return _wrong(text, each.value, host.key, f"`{host.key}`")
        names = [member.name for member in each.value.members]
        for member in each.value.members:
            if names.count(member.name) > 1:
                place = f"{host.key}.{member.name}"
                return Mistake(what="is there twice: keep one", place=place, line=_line(text, member.start))
        return Servers(entries=cast("dict[str, object]", each.value.data))
    return Servers(entries={})


def _in_toml(text: str, host: Host) -> Servers | Mistake:
    try:
        document = parse_toml(text.removeprefix("\ufeff"))
    except RecursionError:
        return Mistake(what="not valid TOML: it is nested too deeply")
    except ValueError:  # TOML it is; but Python reads no number as long as this
        longest = max(re.finditer(r"[\d_]+", text), key=lambda found: len(found[0]))
        what = f"not valid TOML: a number of {len(longest[0])} digits, which is too long"
        return Mistake(what=what, line=_line(text, longest.start()))
    if document.wrong:
        wrong = document.wrong[0]
        # What is wrong at the end of the document is told without a line.
        return wrong if wrong.line else replace(wrong, line=_line(text.rstrip(), len(text)))
    found = cast("dict[str, Any]", document.data).get(host.key, {})
    if not isinstance(found, dict):
        return document.mistake((host.key,), f"must be a table, not {shown(found)}")
    return Servers(entries=cast("dict[str, object]", found))


def _wrong(text: str, value: Value, place: str, what: str) -> Mistake:
    told = f"{what} must hold an object in braces, not {shown(value.data)}"
    return Mistake(what=told, place=place, line=_line(text, value.start))


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
