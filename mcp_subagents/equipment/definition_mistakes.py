"""What is wrong with the definition of a tool server: every mistake, and where it is."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from mcp_subagents.config.mistakes import Place, shown
from mcp_subagents.errors import did_you_mean

Found = tuple[Place, str]
"""Where something is wrong in a definition, and what."""

KEYS = frozenset({"command", "args", "env", "cwd", "url", "headers", "type", "timeout"})
_HOSTS_OWN = frozenset(
    {"alwaysAllow", "autoApprove", "description", "disabled", "disabledTools", "enabled", "envFile", "gallery"}
    | {"icon", "name", "sandbox", "sandboxEnabled", "serverUrl", "startup_timeout_sec", "tools", "transport", "trust"}
    | {"httpUrl", "version"}
)
"""What hosts put beside these for themselves: read past in their files, refused in ours."""
_TYPES: Mapping[str, Literal["stdio", "http", "sse"]] = {
    **{"stdio": "stdio", "http": "http", "streamable-http": "http", "streamableHttp": "http"},
    "sse": "sse",
}


def address_in(given: Mapping[str, Any], *, from_host: bool) -> str:
    """Where the server runs, if the definition says so."""
    # As they are in hosts' files: Gemini's and Windsurf's own words for a URL.
    return str(given.get("url") or (from_host and (given.get("httpUrl") or given.get("serverUrl"))) or "")


def kind_of(said: object, url: str) -> Literal["stdio", "http", "sse"]:
    """How a server is reached whose definition is right."""
    if said is not None:
        return _TYPES[str(said)]
    path = url.split("?", 1)[0].rstrip("/")
    return ("sse" if path.endswith("/sse") else "http") if url else "stdio"


def mistakes_in(name: str, value: object, *, from_host: bool = False) -> Sequence[Found]:
    """All that is wrong with the definition of the server of that name; empty for one that is right."""
    if not name.strip() or not name.isprintable():
        return [((), f"its name must be one line of text, not {name!r}")]
    if not isinstance(value, Mapping):
        return [((), f"must have {{command, args, env, cwd}} or {{url, headers, type}}, not {shown(value)}")]
    given = {str(key): each for key, each in cast("Mapping[object, Any]", value).items()}
    return list(_mistakes(given, KEYS | _HOSTS_OWN if from_host else KEYS, address_in(given, from_host=from_host)))


def _mistakes(given: Mapping[str, Any], known: frozenset[str], url: str) -> Iterator[Found]:
    for key in given:
        if key not in known:
            yield (key,), f"unknown key, {did_you_mean(key, KEYS)}"
    command = given.get("command", "")
    if bool(url) == bool(command):
        yield (), "needs either a `command` to start it or the `url` where it runs"
    else:
        yield from _type(given.get("type"), has_url=bool(url))
    for key in ("command", "cwd"):
        yield from _text((key,), given.get(key))
    if url:
        yield from _url(url)
    args: object = given.get("args") or []
    if not isinstance(args, list):
        yield ("args",), f"must be a list, not {shown(args)}"
    else:
        for number, each in enumerate(cast("list[object]", args)):
            yield from _text(("args", number), each, may_be_missing=False)
    for key in ("env", "headers"):
        yield from _texts(key, given.get(key) or {})
    seconds: object = given.get("timeout", 300.0)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 10**7:
        yield ("timeout",), f"must be a number of seconds above 0, not {shown(seconds)}"


def _type(said: object, *, has_url: bool) -> Iterator[Found]:
    if said is None:
        return
    kind = _TYPES.get(str(said))
    if kind is None or (kind == "stdio") == has_url:
        right = "http or sse, for it has a `url`" if has_url else "stdio, for it has a `command`"
        yield ("type",), f"is {shown(said)}; right would be {right}"


def _url(url: str) -> Iterator[Found]:
    if "${" in url.partition("/")[0]:
        return  # what it begins with is not known yet
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.netloc)
    except ValueError:
        fits = False
    if not fits:
        yield ("url",), f"must begin with http:// or https:// and name a host, not {shown(url)}"


def _text(place: Place, value: object, *, may_be_missing: bool = True) -> Iterator[Found]:
    if value is None and may_be_missing:
        return
    if isinstance(value, bool) or not isinstance(value, str | int | float) or "\0" in str(value):
        yield place, f"must be text, not {shown(value)}"


def _texts(key: str, value: object) -> Iterator[Found]:
    if not isinstance(value, Mapping):
        yield (key,), "must be a mapping of names to texts"  # its values may be secret
        return
    for name, each in cast("Mapping[object, object]", value).items():
        if not isinstance(each, str | int | float) or isinstance(each, bool):
            yield (key, str(name)), "must be text"
