"""Our server as a process of its own, with subagents that need no provider: `greeter`, `asker` and `sleeper`."""

import sys
from pathlib import Path

import anyio
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents import SubAgentConfig, create_server
from mcp_subagents.server.network import serve_network
from mcp_subagents.server.stdio import serve_stdio
from mcp_subagents.stopping import leave, until_stopped


async def greeter(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[TextPart("Hello.")])


async def asker(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    answers = [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if not answers:
        return ModelResponse(parts=[ToolCallPart("ask_parent", {"question": "Which river?"})])
    return ModelResponse(parts=[TextPart(f"Then {answers[-1]}.")])


async def sleeper(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    await anyio.sleep_forever()
    raise AssertionError


SUBAGENTS = [
    SubAgentConfig(
        name=model.__name__,
        description=f"It is called {model.__name__}.",
        instructions="",
        agent=Agent(FunctionModel(model)),
    )
    for model in (greeter, asker, sleeper)
]


async def main(transport: str, store: Path) -> None:
    server = create_server(SUBAGENTS, store=store)
    async with until_stopped():
        if transport == "stdio":
            await serve_stdio(server)
        else:
            await serve_network(server, host="127.0.0.1", port=0, sse=True)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], Path(sys.argv[2]))
    leave(0)
