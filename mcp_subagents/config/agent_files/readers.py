"""What the keys of agent files mean here. Each reader takes the value of one key into a draft."""

from collections.abc import Mapping
from typing import Any, cast

from mcp_subagents.config.agent_files.drafts import REST, Draft, Key, Reader, place_of
from mcp_subagents.config.agent_files.models import INHERITED, model_named
from mcp_subagents.config.mistakes import named, shown

_DEFAULT = "the default model is used"


def name(draft: Draft, key: Key, value: Any) -> None:
    if (text := draft.text(key, value)) is not None:
        draft.values["name"] = text.strip()


def description(draft: Draft, key: Key, value: Any) -> None:
    if (text := draft.text(key, value)) is not None:
        draft.values["description"] = text.strip()


def instructions(draft: Draft, key: Key, value: Any) -> None:
    if (text := draft.text(key, value)) is not None:
        draft.values["instructions"] = text.strip()


def model(draft: Draft, key: Key, value: Any) -> None:
    """One model, or several in the order in which they are tried."""
    wanted = [value] if isinstance(value, str) else draft.names(key, value)
    found = list[str]()
    for each in wanted:
        if each.strip().lower() in INHERITED:
            continue
        known = model_named(each)
        if known is None:
            draft.note(key, f"no provider is known for {shown(each)}; write provider:model. Until then {_DEFAULT}")
        else:
            found.append(known)
    if found:
        draft.values["model"] = found[0]
    if found[1:]:
        draft.values["fallback_models"] = found[1:]


def tools(draft: Draft, key: Key, value: Any) -> None:
    if isinstance(value, dict):  # OpenCode's older form: {write: false, read: true}
        for tool, allowed in draft.mapping(key, cast("object", value)).items():
            _permit(draft, key, tool, "allow" if allowed else "deny")
        return
    draft.granted = [*(draft.granted or []), *((place_of(key), each) for each in draft.names(key, value))]


def disallowed_tools(draft: Draft, key: Key, value: Any) -> None:
    draft.denied += [(place_of(key), each) for each in draft.names(key, value)]


def servers(draft: Draft, key: Key, value: Any) -> None:
    """MCP servers: names, or definitions by name, alone or in a list."""
    for each in cast("list[object]", value) if isinstance(value, list) else [cast("object", value)]:
        if isinstance(each, str):
            _server(draft, key, each, None)
        else:
            for known, definition in draft.mapping(key, each).items():
                _server(draft, key, known, definition)


def _server(draft: Draft, key: Key, known: str, definition: object) -> None:
    if known in draft.ground.servers:
        draft.servers[known] = None
    elif definition is None:
        draft.note(key, f"there is no MCP server {known!r}; define it under mcp_servers in subagents.yaml")
    elif not draft.ground.is_trusted:
        draft.note(key, f"a project cannot start {known!r} itself; define it under mcp_servers in subagents.yaml")
    else:
        draft.servers[known] = _definition(draft, (*place_of(key), known), definition)


_SERVER_KEYS = {
    **{name: name for name in ("command", "args", "env", "cwd", "url", "headers", "type", "timeout")},
    "httpUrl": "url",
    "http_headers": "headers",
    "tool_timeout_sec": "timeout",
}
"""What the definition of a server says, in the words of several apps and in ours."""


def _definition(draft: Draft, key: Key, value: object) -> dict[str, Any]:
    given = draft.mapping(key, value)
    strange = [each for each in given if each not in _SERVER_KEYS]
    if strange:
        draft.note(key, f"{', '.join(strange)}: not honoured: settings of the app's own")
    kept = {_SERVER_KEYS[each]: setting for each, setting in given.items() if each in _SERVER_KEYS}
    return {name: setting for name, setting in kept.items() if (name, setting) != ("type", "local")}


def turns(draft: Draft, key: Key, value: Any) -> None:
    if (amount := draft.number(key, value)) is not None:
        draft.limit(key, "requests", int(amount))


def minutes(draft: Draft, key: Key, value: Any) -> None:
    if (amount := draft.number(key, value)) is not None:
        draft.limit(key, "seconds", amount * 60)


_EFFORTS = {"minimal": "low", "none": "low", "low": "low", "medium": "medium", "high": "high"} | {
    "xhigh": "high",
    "max": "high",
}


def effort(draft: Draft, key: Key, value: Any) -> None:
    known = _EFFORTS.get(value) if isinstance(value, str) else None
    if known is None:
        draft.note(key, f"must be low, medium or high, not {shown(value)}; the model's own is used")
        return
    draft.values["effort"] = known
    if known != value:
        draft.note(key, f"{value} is taken for {known}: there are low, medium and high")


def background(draft: Draft, key: Key, value: Any) -> None:
    if draft.flag(key, value):
        draft.values["preferred_mode"] = "async"


def read_only(draft: Draft, key: Key, value: Any) -> None:
    if draft.flag(key, value) is False:
        draft.note(key, "files are only read, whatever it says")


def subagents(draft: Draft, key: Key, value: Any) -> None:
    chosen = draft.names(key, value)
    if "*" in chosen:
        draft.note(key, "name the subagents it may delegate to; * does not")
    draft.values["subagents"] = [each for each in chosen if each != "*"]


def permissions(draft: Draft, key: Key, value: Any) -> None:
    """OpenCode's map of tools to allow, ask or deny."""
    if isinstance(value, str):
        _permit(draft, key, "*", value)
        return
    for tool, allowed in draft.mapping(key, value).items():
        _permit(draft, key, tool, cast("object", allowed))


def _permit(draft: Draft, key: Key, tool: str, allowed: object) -> None:
    if isinstance(allowed, Mapping):
        draft.note(key, f"{tool}: rules for single commands and paths are not known here; it is denied")
    elif allowed == "ask":
        draft.note(key, f"{tool}: there is nobody to ask while it runs; it is denied")
    if tool == "*":
        # Rules count in their order: what comes after this one holds again.
        draft.is_shut = allowed != "allow"
        draft.granted = [] if draft.is_shut else draft.granted
    elif allowed == "allow":
        # What such a map does not name is allowed, so far as it can be.
        draft.granted = [*(draft.granted or [(place_of(key), REST)]), (place_of(key), tool)]
    else:
        draft.denied.append((place_of(key), tool))


def permission_mode(draft: Draft, key: Key, value: Any) -> None:
    if value not in ("default", "plan"):
        draft.note(key, f"{shown(value)} is never granted by an agent file; what it may use is in tools")


def sandbox(draft: Draft, key: Key, value: Any) -> None:
    if value != "read-only":
        draft.note(key, f"{shown(value)} is never granted by an agent file; files are only read")


def left_out_if(wanted: object, why: str) -> Reader:
    """Leave the file out, without blame, if it says `wanted`."""

    def read(draft: Draft, key: Key, value: Any) -> None:
        if value == wanted:
            draft.left_out = f"{named(place_of(key))}: {why}"

    return read


def ignored(why: str) -> Reader:
    """Not honoured, and that is said."""

    def read(draft: Draft, key: Key, _value: Any) -> None:
        draft.note(key, f"not honoured: {why}")

    return read


def ignored_if(wanted: object, why: str) -> Reader:
    """Not honoured, which is said if the file says `wanted`; otherwise it says nothing that would matter here."""

    def read(draft: Draft, key: Key, value: Any) -> None:
        if value == wanted:
            draft.note(key, f"not honoured: {why}")

    return read
