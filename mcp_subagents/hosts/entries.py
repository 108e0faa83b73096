"""What the entry of our server looks like in each host's file, and how it comes by its variables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from mcp_subagents.config.providers import PROVIDERS
from mcp_subagents.hosts.known import HOSTS, Host
from mcp_subagents.hosts.launches import Launch

KEYS = tuple(provider.variable for provider in PROVIDERS)
"""The variables that hold the keys of models."""
_SETTINGS = ("MCP_SUBAGENTS_CONFIG", "MCP_SUBAGENTS_STORE", "MCP_SUBAGENTS_MODEL")

CODEX_STARTUP, CODEX_CALL = 60, 300
"""Seconds. A first start by uvx may have to download; we hand a call back to Codex after 240 seconds."""
GEMINI_PATIENCE = 600_000
"""Milliseconds for a call, as without it; but `gemini mcp list` would wait for 5 seconds only."""
OPENCODE_PATIENCE = 60_000
"""Milliseconds, for the list of tools and for each call; without it 5 seconds for the list."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variables:
    """What our server gets from the environment of a host, beside what the host hands on."""

    named: tuple[str, ...] = ()
    """Named in the entry, and looked up by the host."""
    written: Mapping[str, str] = field(default_factory=dict[str, str])
    """Written into the entry."""
    withheld: tuple[str, ...] = ()
    """Set here, but neither: the host can look up none, and nobody asked for their values to be written."""


def variables(
    host: Host,
    env: Mapping[str, str],
    *,
    also: Iterable[str] = (),
    given: Mapping[str, str] | None = None,
    copy_keys: bool = False,
) -> Variables:
    """How the keys and settings in `env`, and the variables `also`, reach the server in `host`.

    A value is written down only if it was `given`, or if `copy_keys` asks for it and the host leaves no other way.
    """
    written = dict(given or {})
    wanted = [*(name for name in (*KEYS, *_SETTINGS) if env.get(name, "").strip()), *also]
    names = tuple(name for name in dict.fromkeys(wanted) if name not in written)
    if host.hands_on:
        return Variables(written=written)
    if host.reference is None:
        if not copy_keys:
            return Variables(written=written, withheld=names)
        return Variables(written={**{name: env[name] for name in names if name in env}, **written})
    if host.name == "codex":  # which passes over those that are not set: so a key that is set later gets through
        names = tuple(dict.fromkeys([*KEYS, *_SETTINGS, *also]))
    return Variables(named=names, written=written)


def entry_for(host: Host, launch: Launch, given: Variables) -> dict[str, Any]:
    """The entry of a server that is started by `launch`, as `host` wants it."""
    reference = host.reference or "%s"
    env = {**{name: reference % name for name in given.named}, **given.written}
    match host.name:
        case "codex":
            return {
                "command": launch.command,
                "args": list(launch.args),
                "env_vars": [name for name in given.named if name not in given.written],
                "startup_timeout_sec": CODEX_STARTUP,
                "tool_timeout_sec": CODEX_CALL,
                **({"env": dict(given.written)} if given.written else {}),
            }
        case "opencode":
            return {
                "type": "local",
                "command": [launch.command, *launch.args],
                "enabled": True,
                "timeout": OPENCODE_PATIENCE,
                **({"environment": env} if env else {}),
            }
        case _:
            kind = {"type": "stdio"} if host.name in ("claude-code", "vscode") else {}
            patience = {"timeout": GEMINI_PATIENCE} if host.name == "gemini" else {}
            known = {"env": env} if env else {}
            return {**kind, "command": launch.command, "args": list(launch.args), **patience, **known}


def merged(old: object, new: Mapping[str, Any]) -> dict[str, Any]:
    """Our entry renewed: what it starts is as in `new`; what somebody has added to `old`, or set there, stays."""
    given = _mapping(old)
    result = {**given, **new}
    for key in ("env", "environment"):
        if key in given:
            result[key] = _mapping(given[key])
            for name, value in _mapping(new.get(key)).items():
                if name not in result[key] or not is_reference(name, value):
                    result[key] = {**result[key], name: value}
    if isinstance(given.get("env_vars"), list):
        before = cast("list[Any]", given["env_vars"])
        result["env_vars"] = [*before, *(each for each in new.get("env_vars", ()) if each not in before)]
    for key in ("enabled", "timeout", "startup_timeout_sec", "tool_timeout_sec"):
        if key in given:
            result[key] = given[key]
    return result


def is_reference(name: str, value: object) -> bool:
    """Whether `value` does nothing but name the variable `name`, in the way of some host."""
    return any(host.reference and host.reference % name == value for host in HOSTS.values())


def _mapping(value: object) -> dict[str, Any]:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}
