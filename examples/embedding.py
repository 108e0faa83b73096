"""Put subagents into a program of your own: `create_server` with agents that you have built already.

A pydantic-ai agent comes with its tools, its instructions and its state. `create_server` makes an MCP server of it,
which can be used in memory, as here, or run on standard input and output (`server.run()`). Beside it stands a subagent
that is nothing but data. The models are scripted.

Run it: python examples/embedding.py

Prints:

    tools: 8, of which the first is task
    subagents: storekeeper, greeter
    storekeeper: There are 3 lamps left; I have put 2 aside.
    greeter: Good morning.
    in the store afterwards: {'lamp': 1}
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from mcp import Client
from pydantic_ai import Agent, ToolCallPart

from mcp_subagents import EngineSettings, SubAgentConfig, create_server
from mcp_subagents.testing import ScriptedModel

stock = {"lamp": 3}

storekeeper = Agent(
    ScriptedModel(
        ToolCallPart("count", {"item": "lamp"}),
        ToolCallPart("put_aside", {"item": "lamp", "how_many": 2}),
        "There are 3 lamps left; I have put 2 aside.",
    ),
    instructions="You keep the store. Count before you promise.",
)


# What only looks may run again if a crash cut it off; what changes the world may not, unless it says so.
@storekeeper.tool_plain(metadata={"read_only": True})
def count(item: str) -> int:
    """How many of an item there are."""
    return stock[item]


@storekeeper.tool_plain
def put_aside(item: str, how_many: int) -> str:
    """Reserve some of an item."""
    stock[item] -= how_many
    return "done"


SUBAGENTS = [
    SubAgentConfig(name="storekeeper", description="Knows the stock.", instructions="", agent=storekeeper),
    SubAgentConfig(
        name="greeter", description="Greets.", instructions="Be kind.", model=ScriptedModel("Good morning.")
    ),
]


async def main() -> None:
    with TemporaryDirectory() as folder:
        server = create_server(SUBAGENTS, store=Path(folder) / "tasks.db", settings=EngineSettings(max_concurrency=4))
        async with Client(server) as host:
            tools = (await host.list_tools()).tools
            print(f"tools: {len(tools)}, of which the first is {tools[0].name}")
            [page] = (await host.read_resource("subagents://agents")).contents
            names = [each["name"] for each in json.loads(getattr(page, "text", "{}"))["subagents"]]
            print("subagents:", ", ".join(names))
            for name in names:
                done = await host.call_tool("task", {"description": "Two lamps, please.", "subagent_type": name})
                print(f"{name}: {(done.structured_content or {})['result']}")
    print(f"in the store afterwards: {stock}")


if __name__ == "__main__":
    anyio.run(main)
