"""Whether all tools are there that a subagent names: its agent is run up to the first request, and no further."""

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.equipment.capability_names import lacks_packages
from mcp_subagents.equipment.tool_lists import names_tools
from mcp_subagents.errors import ConfigError, SubagentsError


class _Enough(Exception):
    """The request would now be sent."""


def _refuse(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    raise _Enough


def may_lack_something(config: SubAgentConfig) -> bool:
    """Whether the definition names what a rehearsal could find to be missing, and nothing else did before."""
    capabilities = [each if isinstance(each, str) else min(each, default="") for each in config.get("capabilities", ())]
    return names_tools(config.get("tools"), config.get("disallowed_tools") or ()) or any(
        map(lacks_packages, capabilities)
    )


async def rehearse(agent: Agent[Any, Any]) -> None:
    """Bring up all tools of the agent, as its first turn would, without asking a model.

    Raises:
        ConfigError: it names a tool that does not exist, two of its tools have the same name, or its model cannot do
            without a tool that is not there.
        ToolServerDown: a tool server does not start.
    """
    own = agent.model if isinstance(agent.model, Model) else None
    stand_in = FunctionModel(_refuse, model_name=own and own.model_name, profile=own and own.profile)
    try:
        await agent.run("", model=stand_in, infer_name=False)
    except _Enough:
        return
    except SubagentsError:
        raise
    except Exception as exc:
        raise ConfigError(f"The subagent {agent.name!r} cannot work: {exc}") from exc
