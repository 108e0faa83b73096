"""pydantic-ai's capabilities by name, without loading them."""

from collections.abc import Mapping
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
