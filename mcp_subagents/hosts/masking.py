"""What may be secret in the file of a host, masked where it stands: values of variables and headers."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import cast

from mcp_subagents.hosts.edits import Edit, cut
from mcp_subagents.hosts.entries import is_reference
from mcp_subagents.hosts.jsonc import Parsed, Value, parse
from mcp_subagents.hosts.known import Host
from mcp_subagents.hosts.toml_lines import Statement, header_path, statements

_CONFIDENTIAL = frozenset({"env", "environment", "headers", "http_headers"})
"""What such values are kept under, by any host; in whichever entry, also below what is not ours to read."""

_TOML_VALUE = re.compile(
    r'''(?P<passed> \#[^\n]* | (?:"(?:\\.|[^"\\\n])*"|'[^'\n]*'|[\w-]+) (?=[ \t]*[.=]) )   # comments and keys
      | """(?:\\.|[^\\])*?"{3,5} | \'\'\'.*?'{3,5} | "(?:\\.|[^"\\\n])*" | '[^'\n]*'        # texts
      | [\w+-][\w+:.-]*                                                                      # numbers and times''',
    re.DOTALL | re.VERBOSE,
)


def masked(text: str, host: Host) -> str:
    """`text` with `"***"` for each such value, in as many lines as before. It must be one that can be read."""
    spans = _in_toml(text) if host.syntax == "toml" else _in_json(text)
    return cut(text, [Edit(start, end, '"***"' + "\n" * text.count("\n", start, end)) for start, end in spans])


def _in_json(text: str) -> Iterator[tuple[int, int]]:
    parsed = parse(text)
    if isinstance(parsed, Parsed) and parsed.root is not None:
        yield from _below(parsed.root)


def _below(value: Value, *, confidential: bool = False) -> Iterator[tuple[int, int]]:
    for each in value.members or ():
        inside = each.value
        if inside.members is not None:
            yield from _below(inside, confidential=confidential or each.name in _CONFIDENTIAL)
        elif confidential and not is_reference(each.name, inside.data):
            yield inside.start, inside.end


def _in_toml(text: str) -> Iterator[tuple[int, int]]:
    table: tuple[str, ...] = ()
    for each in statements(text):
        if each.is_header:
            table = header_path(each.text)
        elif _CONFIDENTIAL & {*table, *_names(tomllib.loads(each.text))}:
            yield from _values(text, each)


def _values(text: str, statement: Statement) -> Iterator[tuple[int, int]]:
    for found in _TOML_VALUE.finditer(text, statement.start, statement.end):
        if found["passed"] is None:
            yield found.span()


def _names(data: object) -> Iterator[str]:
    if isinstance(data, Mapping):
        for name, inside in cast("Mapping[str, object]", data).items():
            yield name
            yield from _names(inside)
    elif isinstance(data, list):
        for each in cast("list[object]", data):
            yield from _names(each)
