"""Entries in JSON texts: where one is, how it gets in, and how it gets out, with no other byte touched."""

import json
import re

from mcp_subagents.hosts.edits import Edit, begins_line, cut, indent_at, newline_of
from mcp_subagents.hosts.jsonc import Member, Parsed, Value, parse

_REST_OF_LINE = re.compile(r"[ \t]*(?:(?>/\*[^\r\n]*?\*/)[ \t]*)*(?://[^\r\n]*)?(?=\r?\n|\Z)")
"""Nothing but space and comments up to the end of the line."""
_HALVES = re.compile("[\ud800-\udfff]")
"""Surrogates: halves of characters."""


def span(text: str, key: str, name: str) -> tuple[int, int] | None:
    """Where the value of the entry `name` under `key` begins and ends."""
    member = _entry(_root(text), key, name)
    return (member.value.start, member.value.end) if member else None


def put(text: str, key: str, name: str, entry: object) -> Edit:
    """The edit after which `name` under `key` is `entry`. The text must be one that `read_servers` can read."""
    root = _root(text)
    if root is None:
        written = _json({key: {name: entry}}, indent=2).replace("\n", newline_of(text))
        apart = newline_of(text) if text.strip("\ufeff \t\r\n") and not text.endswith("\n") else ""
        return Edit(len(text), len(text), f"{apart}{written}{newline_of(text)}")
    if member := _entry(root, key, name):
        value = member.value
        lines = "\n" in text[value.start : value.end] or begins_line(text, member.start)
        return Edit(
            value.start, value.end, _written(text, root, entry, indent_at(text, member.start) if lines else None)
        )
    for container in root.named(key):
        return _added(text, root, container.value, name, entry)
    return _added(text, root, root, key, {name: entry})


def take(text: str, key: str, name: str, *, with_key: bool) -> str:
    """`text` without the entry `name`; without `key` too, if asked to and if nothing else is under it."""
    root = _root(text)
    member = _entry(root, key, name)
    if root is None or member is None:
        return text
    [container] = root.named(key)
    if with_key and len(container.value.members or ()) == 1:
        return _removed(text, root, container)
    return _removed(text, container.value, member)


def _root(text: str) -> Value | None:
    parsed = parse(text)
    assert isinstance(parsed, Parsed), "it was read before"
    return parsed.root


def _entry(root: Value | None, key: str, name: str) -> Member | None:
    found = [each for container in root.named(key) for each in container.value.named(name)] if root else []
    return found[0] if found else None


def _added(text: str, root: Value, into: Value, name: str, data: object) -> Edit:
    """The edit that gives an object one more member, as its first: so no comma and no comment has to move."""
    quoted, members = _json(name), into.members or ()
    if members and "\n" not in text[into.start : members[0].start]:
        at = members[0].start
        return Edit(at, at, f"{quoted}: {_written(text, root, data, None)}, ")
    if not members and "\n" not in text.strip() and root.members:
        return Edit(into.start + 1, into.start + 1, f"{quoted}: {_written(text, root, data, None)}")
    newline, outer = newline_of(text), indent_at(text, into.start)
    indent = outer + _unit(text, root)
    if members and begins_line(text, members[0].start):
        indent = indent_at(text, members[0].start)
    written = f"{newline}{indent}{quoted}: {_written(text, root, data, indent)}"
    rest = _REST_OF_LINE.match(text, into.start + 1)
    at = rest.end() if rest else into.start + 1
    if members:
        written += ","
    elif rest is None:
        written += newline + outer
    return Edit(at, at, written)


def _written(text: str, root: Value, data: object, indent: str | None) -> str:
    """`data` as JSON: on one line, or on several whose first is indented by `indent` already."""
    if indent is None:
        return _json(data)
    lines = _json(data, indent=_unit(text, root)).split("\n")
    return f"{newline_of(text)}{indent}".join(lines)


def _json(data: object, indent: int | str | None = None) -> str:
    """`data` as JSON that can be encoded: half a character, which no encoding takes, stays an escape."""
    written = json.dumps(data, indent=indent, ensure_ascii=False)
    return _HALVES.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def _unit(text: str, root: Value) -> str:
    """By how much a level is indented here."""
    first = root.members[0] if root.members else None
    if first is None or not begins_line(text, first.start):
        return "  "
    return indent_at(text, first.start).removeprefix(indent_at(text, root.start)) or "  "


def _removed(text: str, container: Value, member: Member) -> str:
    members = container.members or ()
    start, end = member.start, member.value.end
    cuts: list[Edit] = []
    if member.comma is not None:
        cuts.append(Edit(member.comma, member.comma + 1))
    elif (number := members.index(member)) > 0 and (comma := members[number - 1].comma) is not None:
        cuts.append(Edit(comma, comma + 1))
    last = member.comma + 1 if member.comma is not None else end
    if begins_line(text, start) and _REST_OF_LINE.match(text, last):
        start = _line_before(text, start)
    elif member.comma is not None:
        cuts[0] = Edit(member.comma, last + len(text[last:]) - len(text[last:].lstrip(" \t")))
    else:
        start -= len(text[:start]) - len(text[:start].rstrip(" \t"))
    return cut(text, [*cuts, Edit(start, end)])


def _line_before(text: str, at: int) -> int:
    """The end of the line before that of `at`."""
    end = text.rfind("\n", 0, at)
    return max(end - 1 if text[end - 1 : end] == "\r" else end, 0)
