"""The subagents of a server, each under a name of its own."""

import re
from collections.abc import Iterable, Mapping

from mcp_subagents.config.limits import Limits, require_count
from mcp_subagents.config.schemas import require_result_schema
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.errors import ConfigError, UnknownSubagent, did_you_mean


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
        if (schema := config.get("output_schema")) is not None:
            _require_schema(name, schema)
        if idle := sorted(_OF_MODELS & config.keys()) if config.get("agent") is not None else ():
            raise ConfigError(f"{name!r} is a ready-made agent; set {', '.join(idle)} on that.")
        known[name] = config
    return {name: _with_delegates(config, known) for name, config in known.items()}


def _with_delegates(config: SubAgentConfig, known: Mapping[str, SubAgentConfig]) -> SubAgentConfig:
    """`config`, its delegates called by the names that they have."""
    try:
        names = [meant(other, known) for other in config.get("subagents", ())]
    except UnknownSubagent as unknown:
        hint = did_you_mean(unknown.name, known)
        raise ConfigError(
            f"The subagent {config.get('name')!r} may delegate to {unknown.name!r}, which is not configured; {hint}"
        ) from unknown
    return {**config, "subagents": names} if names else config


def without_model(configs: Iterable[SubAgentConfig]) -> list[str]:
    """The names of those that run on the default model, and cannot run if there is none."""
    own = ("model", "agent", "agent_factory")
    return [config.get("name", "") for config in configs if all(config.get(key) is None for key in own)]


_OF_MODELS = frozenset({"fallback_models", "base_url", "api_key_env", "effort", "output_schema"})
"""What is built into an agent, so that it comes too late for one that is ready."""


def _require_schema(name: str, schema: object) -> None:
    try:
        require_result_schema(schema)
    except ConfigError as why:
        raise ConfigError(f"{name!r}: {why}.") from why


def meant(name: str, known: Iterable[str]) -> str:
    """The one of `known` that people mean by `name`. Raises: `UnknownSubagent`."""
    names = list(known)
    if name in names:
        return name
    found = next((each for each in names if alike(each) == alike(name)), None)
    if found is None:
        raise UnknownSubagent(name, names)
    return found


def alike(name: str) -> str:
    """What names have in common that people take for the same: `Code Reviewer`, `code_reviewer`, `code-reviewer`."""
    return re.sub(r"[\s_-]+", "-", name.strip().casefold())
