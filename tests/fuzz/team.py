"""The server under fire, as a process of its own: `python team.py stdio|sse STORE`. Its subagents answer at once."""

import logging
import os
import sys
from pathlib import Path
from typing import Any

import anyio
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents import SubAgentConfig, create_server
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.server import DeliverySettings
from mcp_subagents.server.network import serve_network
from mcp_subagents.server.stdio import serve_stdio
from mcp_subagents.stopping import leave, until_stopped

MOST_OPEN_TASKS = 40
LONGEST_LINE = 512 * 1024


async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[TextPart("42")])


async def ask(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    said = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if not said:
        return ModelResponse(parts=[ToolCallPart("ask_parent", {"question": "Which colour?"})])
    return ModelResponse(parts=[TextPart(f"Took {said[0]}.")])


async def fail(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    raise ValueError("out of order")


def subagent(name: str, think: Any) -> SubAgentConfig:
    return SubAgentConfig(name=name, description=name, instructions="", agent=Agent(FunctionModel(think)))


async def main(transport: str, store: str) -> None:
    server = create_server(
        [subagent("general-purpose", answer), subagent("asker", ask), subagent("broken", fail)],
        store=Path(store),
        # A question nobody answers gives its place back, so that there is always room for the next task.
        settings=EngineSettings(max_open_tasks=MOST_OPEN_TASKS, question_timeout=1.0, hot_wait=0.01),
        delivery=DeliverySettings(sync_patience=0.2, progress_every=0.1),
    )
    logging.basicConfig(level=logging.WARNING, force=True)
    async with until_stopped():
        if transport == "stdio":
            await serve_stdio(server, longest_line=LONGEST_LINE)
        else:
            await serve_network(server, host="127.0.0.1", port=0, sse=True)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
    os.write(2, b"gone in good order\n")
    leave(0)
