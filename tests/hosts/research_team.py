"""A server with a few scripted subagents, for hosts to delegate to: `python research_team.py STORE`."""

import os
import sys
from pathlib import Path
from typing import Any

import anyio
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents import SubAgentConfig, create_server
from mcp_subagents.server.stdio import serve_stdio


def told(messages: list[ModelMessage]) -> str:
    """The task, as the host described it."""
    prompt = next(part for part in messages[0].parts if isinstance(part, UserPromptPart))
    return str(prompt.content).split("\n")[2]


def returned(messages: list[ModelMessage]) -> list[Any]:
    return [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]


async def research(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[TextPart(f"All about: {told(messages)}")])


async def buy(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    answers = returned(messages)
    if not answers:
        return ModelResponse(parts=[ToolCallPart("ask_parent", {"question": "Which colour?"})])
    return ModelResponse(parts=[TextPart(f"Bought one in {answers[0]}.")])


async def linger(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Think until the file that the task names is there."""
    while not await anyio.Path(told(messages)).exists():  # noqa: ASYNC110  # it is made by another process
        await anyio.sleep(0.02)
    return ModelResponse(parts=[TextPart("It is there.")])


def subagent(name: str, description: str, think: Any) -> SubAgentConfig:
    agent = Agent(FunctionModel(think))
    return SubAgentConfig(name=name, description=description, instructions="", agent=agent)


SUBAGENTS = [
    subagent("researcher", "Finds out all about something.", research),
    subagent("buyer", "Buys things, and asks what you like.", buy),
    subagent("watcher", "Waits for a file.", linger),
]

if __name__ == "__main__":
    anyio.run(serve_stdio, create_server(SUBAGENTS, store=Path(sys.argv[1])))
    os._exit(0)
