"""The subagents of a server, each under a name of its own."""

import re
from collections.abc import Iterable, Mapping

from mcp_subagents.config.limits import Limits, require_count
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.errors import ConfigError


def by_name(configs: Iterable[SubAgentConfig]) -> Mapping[str, SubAgentConfig]:
    """The subagents by their names. Raises: `ConfigError` for a definition that cannot be used."""
    known: dict[str, SubAgentConfig] = {}
    for config in configs:
        name = config.get("name", "")
        if not str(name).strip() or name != str(name):
            raise ConfigError(f"A subagent's name must be text, not {name!r}.")
        if name in known:
            raise ConfigError(f"Two subagents are named {name!r}; each needs a name of its own.")
        Limits.of(config.get("limits"))
        if (most := config.get("max_concurrency")) is not None:
            require_count(f"max_concurrency of {name!r}", most)
        known[name] = config
    return known


def alike(name: str) -> str:
    """What names have in common that people take for the same: `Code Reviewer`, `code_reviewer`, `code-reviewer`."""
    return re.sub(r"[\s_-]+", "-", name.strip().casefold())
