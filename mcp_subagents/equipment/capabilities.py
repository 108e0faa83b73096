"""From the name of a capability, and its settings, to the capability."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic_ai import RunContext
from pydantic_ai import exceptions as pai
from pydantic_ai.capabilities import CAPABILITY_TYPES, AbstractCapability
from pydantic_ai.models import Model
from pydantic_ai.native_tools import AbstractNativeTool, WebFetchTool, WebSearchTool
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.equipment.capability_names import EXTRAS, lacks_packages, named
from mcp_subagents.errors import ConfigError

_FALLBACKS: Mapping[str, Mapping[str, object]] = {"WebFetch": {"local": True}, "WebSearch": {"local": "duckduckgo"}}
"""What lets a capability work with every model. Without it, those that cannot do it themselves refuse to run."""
_OF_THE_MODEL: Mapping[str, type[AbstractNativeTool]] = {"WebFetch": WebFetchTool, "WebSearch": WebSearchTool}
"""The same, as a model does it that can do it itself."""


class NotInstalled(AbstractToolset[Any]):
    """Stands where the local form of a capability would be: well with a model that does without, and else refused."""

    def __init__(self, capability: str, subagent: str) -> None:
        self._capability = capability
        self._subagent = subagent

    @property
    def id(self) -> str:
        return f"{self._capability} not installed"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """No tools. Raises: `ConfigError`, if the model cannot do it itself."""
        asked = cast("object", ctx.model)
        model = cast("Model[Any]", asked) if isinstance(asked, Model) else None
        if model is not None and _OF_THE_MODEL[self._capability] in model.profile.get("supported_native_tools", ()):
            return {}
        which = f"the model {model.model_name}" if model is not None else "the model"
        raise ConfigError(_refusal(self._capability, self._subagent, f"{which} cannot do it."))

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        raise NotImplementedError


def capabilities_of(config: SubAgentConfig) -> Sequence[AbstractCapability[Any]]:
    """The capabilities that the subagent names. Raises: `ConfigError`."""
    subagent = config.get("name", "")
    return [_made(*named(entry, subagent), subagent) for entry in config.get("capabilities") or ()]


def _made(name: str, settings: object, subagent: str) -> AbstractCapability[Any]:
    make: Any = CAPABILITY_TYPES[name].from_spec
    fallback = {"local": NotInstalled(name, subagent)} if lacks_packages(name) else _FALLBACKS.get(name, {})
    try:
        match settings:
            case None:
                return make(**fallback)
            case dict():
                return make(**{**fallback, **cast("dict[str, Any]", settings)})
            case _:
                return make(settings, **fallback)
    except (pai.UserError, ImportError) as exc:
        if name not in EXTRAS:
            raise ConfigError(f"The capability {name} of {subagent!r} cannot be used: {exc}") from exc
        raise ConfigError(_refusal(name, subagent, str(exc))) from exc
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"The capability {name} of {subagent!r} does not take these settings: {exc}") from exc


def _refusal(name: str, subagent: str, why: str) -> str:
    return (
        f"The capability {name} of {subagent!r} cannot be used: {why} For its local form, which works with every "
        f"model, install mcp-subagents[{EXTRAS[name]}]."
    )
