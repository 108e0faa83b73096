"""What has to change in a host's file so that our server is in it, or is not: values in, values out."""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import mcp_subagents.hosts.json_edits as json_edits
import mcp_subagents.hosts.toml_edits as toml_edits
from mcp_subagents.config.mistakes import Mistake
from mcp_subagents.hosts.edits import Edit
from mcp_subagents.hosts.entries import merged
from mcp_subagents.hosts.jsonc import Parsed, parse
from mcp_subagents.hosts.known import Host
from mcp_subagents.hosts.launches import launch_in
from mcp_subagents.hosts.servers import read_servers
from mcp_subagents.texts import encodable


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """What an installation has left around and instead of an entry, so that it can be taken back to the byte."""

    head: str
    """What was written before the entry."""
    tail: str
    """What was written behind it."""
    was: str = ""
    """What was in its place: an entry of somebody else's, if it was replaced by force."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What a text becomes."""

    text: str
    trace: Trace | None
    """Of an entry that was put in, what that left; of one that was taken out, the same if all of it was found."""


def added(
    text: str, host: Host, name: str, entry: Mapping[str, Any], *, force: bool = False
) -> Change | Mistake | None:
    """The change that puts `entry` into `text` under `name`; nothing if it is there. An entry of ours is renewed.

    A `Mistake` says why not: the text cannot be read, or the entry of that name is another server and `force` is off.
    """
    servers = read_servers(text, host)
    if isinstance(servers, Mistake):
        return servers
    if (written := json.dumps(entry, ensure_ascii=False)) != encodable(written):
        return _at(text, host, name, "cannot be written: a path or a value in it is not UTF-8 text; give it another")
    there, old = name in servers.entries, servers.entries.get(name)
    launch = launch_in(old)
    ours = launch is not None and launch.is_ours
    if there and not ours and not force:
        starts = f"starts {launch.command!r}" if launch else "is not started by a command"
        what = f"is another server, which {starts}. Give ours another name with --name, or replace it with --force"
        return _at(text, host, name, what)
    wanted = merged(old, entry) if ours else dict(entry)
    if there and wanted == old:
        return None
    edit = _put(text, host, name, wanted)
    after = edit.applied(text) if edit else text
    found = _span(after, host, name)
    if edit is None or found is None or not _same(after, text, host, lambda old: {**old, name: wanted}):
        return _at(text, host, name, "is written in a way that cannot be edited safely; change it by hand")
    if ours:
        return Change(text=after, trace=None)
    head, tail = after[edit.start : found[0]], after[found[1] : edit.start + len(edit.text)]
    return Change(text=after, trace=Trace(head=head, tail=tail, was=text[edit.start : edit.end]))


def removed(text: str, host: Host, name: str, trace: Trace | None) -> Change | Mistake | None:
    """The change that takes the entry `name` out of `text`; nothing if it is not there.

    With the trace of its installation, the text becomes what it was, but for what others have changed since. A
    `Mistake` says why not: the text cannot be read, or the entry is not ours.
    """
    servers = read_servers(text, host)
    if isinstance(servers, Mistake):
        return servers
    if name not in servers.entries:
        return None
    launch = launch_in(servers.entries[name])
    if launch is None or not launch.is_ours:
        return _at(text, host, name, "is not ours, and stays. If it is to go, remove it by hand")
    for way in _ways_out(text, host, name, trace):
        restored = trace is not None and bool(trace.was)
        if restored and _same(way.text, text, host, _without(name), but=name):
            return way
        if _same(way.text, text, host, _without(name)):
            return way
    return _at(text, host, name, "is written in a way that cannot be edited safely; remove it by hand")


def _ways_out(text: str, host: Host, name: str, trace: Trace | None) -> Iterator[Change]:
    """What the text could become, the best first. What fits is for others to judge."""
    found = _span(text, host, name)
    if trace is not None and found is not None:
        start, end = found[0] - len(trace.head), found[1] + len(trace.tail)
        if text[start : found[0]] == trace.head and text[found[1] : end] == trace.tail:
            yield Change(text=text[:start] + trace.was + text[end:], trace=trace)
    if host.syntax == "toml":
        yield Change(text=toml_edits.take(text, host.key, name), trace=None)
    else:
        made_key = trace is not None and f'"{host.key}"' in trace.head
        yield Change(text=json_edits.take(text, host.key, name, with_key=made_key), trace=None)


def _put(text: str, host: Host, name: str, entry: Mapping[str, Any]) -> Edit | None:
    if host.syntax == "toml":
        return toml_edits.put(text, host.key, name, entry)
    return json_edits.put(text, host.key, name, entry)


def _span(text: str, host: Host, name: str) -> tuple[int, int] | None:
    if isinstance(read_servers(text, host), Mistake):
        return None
    return (toml_edits if host.syntax == "toml" else json_edits).span(text, host.key, name)


def _without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda servers: {each: entry for each, entry in servers.items() if each != name}


def _same(
    after: str, before: str, host: Host, change: Callable[[dict[str, Any]], dict[str, Any]], *, but: str | None = None
) -> bool:
    """Whether two texts say the same but for servers, and those are as after `change`, or there is also `but`."""
    if isinstance(read_servers(after, host), Mistake):
        return False
    new, old = _data(after, host), _data(before, host)
    servers = dict(new.pop(host.key, {}))
    servers.pop(but, None)
    return (servers, new) == (change(dict(old.pop(host.key, {}))), old)


def _data(text: str, host: Host) -> dict[str, Any]:
    if host.syntax == "toml":
        return tomllib.loads(text.removeprefix("\ufeff"))
    parsed = parse(text)
    assert isinstance(parsed, Parsed), "it was read before"
    return dict(cast("dict[str, Any]", parsed.root.data)) if parsed.root else {}


def _at(text: str, host: Host, name: str, what: str) -> Mistake:
    found = _span(text, host, name)
    line = text.count("\n", 0, found[0]) + 1 if found else None
    return Mistake(what=what, place=f"{host.key}.{name}", line=line)
