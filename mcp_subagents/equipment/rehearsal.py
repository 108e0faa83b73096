"""Whether all tools are there that a subagent names: its agent is run up to the first request, and no further."""

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents.errors import SubagentsError


class _Enough(Exception):
    """The request would now be sent."""


def _refuse(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    raise _Enough


async def rehearse(agent: Agent[Any, Any]) -> None:
    """Bring up all tools of the agent, as its first turn would, without asking a model.

    Raises:
        ConfigError: it names a tool that does not exist.
        ToolServerDown: a tool server does not start.
    """
    try:
        await agent.run("", model=FunctionModel(_refuse), infer_name=False)
    except SubagentsError:
        raise
    except Exception:
        return  # of the model we put in, which cannot all that the subagent's own can
