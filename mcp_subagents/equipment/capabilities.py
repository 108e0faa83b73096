"""From the name of a capability, and its settings, to the capability."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic_ai import exceptions as pai
from pydantic_ai.capabilities import CAPABILITY_TYPES, AbstractCapability

from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.equipment.capability_names import named
from mcp_subagents.errors import ConfigError

_FALLBACKS: Mapping[str, Mapping[str, object]] = {"WebFetch": {"local": True}, "WebSearch": {"local": "duckduckgo"}}
"""What lets a capability work with every model. Without it, those that cannot do it themselves refuse to run."""
_EXTRAS = {"WebFetch": "web", "WebSearch": "web"}


def capabilities_of(config: SubAgentConfig) -> Sequence[AbstractCapability[Any]]:
    """The capabilities that the subagent names. Raises: `ConfigError`."""
    subagent = config.get("name", "")
    return [_made(*named(entry, subagent), subagent) for entry in config.get("capabilities") or ()]


def _made(name: str, settings: object, subagent: str) -> AbstractCapability[Any]:
    make = CAPABILITY_TYPES[name].from_spec
    fallback = _FALLBACKS.get(name, {})
    try:
        match settings:
            case None:
                return make(**fallback)
            case dict():
                return make(**{**fallback, **cast("dict[str, Any]", settings)})
            case _:
                return make(settings, **fallback)
    except (pai.UserError, ImportError) as exc:
        if name not in _EXTRAS:
            raise ConfigError(f"The capability {name} of {subagent!r} cannot be used: {exc}") from exc
        raise ConfigError(
            f"The capability {name} of {subagent!r} cannot be used: {exc} For its local form install "
            f"mcp-subagents[{_EXTRAS[name]}]. For a model that can do it itself write `{name}: {{local: false}}`."
        ) from exc
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"The capability {name} of {subagent!r} does not take these settings: {exc}") from exc
