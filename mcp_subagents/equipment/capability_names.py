"""pydantic-ai's capabilities by name, without loading them."""

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any, cast

from mcp_subagents.errors import ConfigError, did_you_mean

CAPABILITY_NAMES = frozenset(
    {"BatchModelRequests", "Caching", "Citations", "FileUnderstanding", "ImageGeneration", "IncludeToolReturnSchemas"}
    | {"Instrumentation", "LocalWorkspace", "MCP", "ModelFallback", "NativeTool", "PrefixTools"}
    | {"RaiseContentFilterError", "ReinjectSystemPrompt", "SetToolMetadata", "Thinking", "ToolSearch", "WebFetch"}
    | {"WebSearch", "XSearch"}
)
"""Those of pydantic-ai that a file can hold; a test compares them with its registry."""
EXTRAS = {"WebFetch": "web", "WebSearch": "web"}
"""What of mcp-subagents to install for those that have a local form, for models that cannot do it themselves."""
_PACKAGES = {"WebFetch": ("bs4", "markdownify"), "WebSearch": ("ddgs",)}


def lacks_packages(name: str) -> bool:
    """Whether something is not installed that the local form of a capability needs."""
    return any(find_spec(each) is None for each in _PACKAGES.get(name, ()))


def named(entry: object, subagent: str) -> tuple[str, object]:
    """The name of a capability and its settings, `None` for none. Raises: `ConfigError`."""
    if isinstance(entry, str):
        name, settings = entry, None
    elif isinstance(entry, Mapping) and len(cast("Mapping[str, Any]", entry)) == 1:
        name, settings = next(iter(cast("Mapping[str, Any]", entry).items()))
    else:
        raise ConfigError(
            f"The subagent {subagent!r} has {entry!r} among its capabilities; each is a name, or one name with its "
            "settings: {WebFetch: {allowed_domains: [example.com]}}."
        )
    if name not in CAPABILITY_NAMES:
        lower = {each.lower(): each for each in CAPABILITY_NAMES}
        hint = did_you_mean(name.replace("_", "").replace("-", ""), lower)
        for small, right in lower.items():
            hint = hint.replace(f"'{small}'", repr(right))
        if hint.startswith("known"):
            hint = f"known: {', '.join(sorted(CAPABILITY_NAMES))}"
        raise ConfigError(f"The subagent {subagent!r} names an unknown capability {name!r}; {hint}")
    return name, settings


_COMMON = ("id", "description", "defer_loading")
_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "BatchModelRequests": ("max_requests", "max_wait", "max_resubmissions", "poll_interval", "max_poll_interval"),
    "Caching": ("retention", "messages", *_COMMON),
    "FileUnderstanding": ("fallback_subagent_model", "instructions", *_COMMON),
    "LocalWorkspace": ("working_dir", "read_only", "authority", "env", *_COMMON),
    "MCP": (
        *("url", "native", "local", "authorization_token", "headers", "allowed_tools", "tool_prefix"),
        *("include_instructions", *_COMMON),
    ),
    "Thinking": ("effort", *_COMMON),
    "ToolSearch": ("strategy", "max_results", "tool_description", "parameter_description", *_COMMON),
    "WebFetch": (
        *("native", "local", "allowed_domains", "blocked_domains", "max_uses", "enable_citations"),
        *("max_content_tokens", *_COMMON),
    ),
    "WebSearch": (
        *("native", "local", "search_context_size", "user_location", "blocked_domains", "allowed_domains", "max_uses"),
        *("external_web_access", *_COMMON),
    ),
}
"""The settings of those that people set; a test compares them with pydantic-ai's."""


def misspelt(name: str, settings: Iterable[str]) -> list[tuple[str, str]]:
    """Settings that a capability does not have, each with the nearest right one.

    One that is like no other is left to pydantic-ai: a later version may have it.
    """
    known = _SETTINGS.get(name, ())
    hints = [(key, did_you_mean(key, known)) for key in map(str, settings) if known and key not in known]
    return [(key, hint) for key, hint in hints if hint.startswith("did")]
