"""A pydantic-ai agent as the host: it delegates through `MCPToolset`, to the server in a process of its own.

The agent gets the delegation tools from `mcp-subagents`, over standard input and output, and decides by itself: it
delegates two tasks in the background, waits for both, and reports. A gateway on loopback stands for the provider of
the subagents' models, so it needs no network and no key, only the extra `openai`.

Run it: python examples/pydantic_ai_host.py

Prints:

    the host called: task, task, wait_tasks
    the host says: Bread: rye, from the mill. Wine: a red one, from the cellar.
"""

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents.testing import Gateway, Received, Text

SUBAGENTS = """
subagents:
  - {name: baker, description: Knows bread., model: "openai:any", base_url: "URL/v1", api_key_env: KEY}
  - {name: vintner, description: Knows wine., model: "openai:any", base_url: "URL/v1", api_key_env: KEY}
"""


def provider(request: Received) -> Text:
    """What the models of the subagents say."""
    about_bread = "Bread?" in str(request.body)
    return Text("Bread: rye, from the mill." if about_bread else "Wine: a red one, from the cellar.")


def host_model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """What the model of the host decides, by what the tools have returned last."""
    returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    views: list[dict[str, Any]] = [json.loads(part.model_response_str()) for part in returned]
    match [part.tool_name for part in returned]:
        case []:
            bread = {"description": "Bread?", "subagent_type": "baker", "mode": "async"}
            wine = {"description": "Wine?", "subagent_type": "vintner", "mode": "async"}
            return ModelResponse(parts=[ToolCallPart("task", bread), ToolCallPart("task", wine)])
        case ["task", *_]:
            return ModelResponse(parts=[ToolCallPart("wait_tasks", {"task_ids": [view["task_id"] for view in views]})])
        case _:
            return ModelResponse(parts=[TextPart(" ".join(task["result"] for task in views[0]["tasks"]))])


async def main() -> None:
    with TemporaryDirectory() as folder:
        async with Gateway(provider) as gateway:
            config = Path(folder) / "subagents.yaml"
            config.write_text(SUBAGENTS.replace("URL", gateway.url), encoding="utf-8")
            server = StdioTransport(
                command=sys.executable,  # in your project: command="mcp-subagents", args=["--config", ...]
                args=["-m", "mcp_subagents", "--config", str(config), "--store", f"sqlite:///{folder}/tasks.db"],
                env={**os.environ, "KEY": "scripted"},
            )
            agent = Agent(FunctionModel(host_model), toolsets=[MCPToolset(server, init_timeout=30)])
            async with agent:
                result = await agent.run("Plan the supper.")
    parts = [part for message in result.all_messages() for part in message.parts]
    print("the host called:", ", ".join(part.tool_name for part in parts if isinstance(part, ToolCallPart)))
    print("the host says:", result.output)


if __name__ == "__main__":
    anyio.run(main)
