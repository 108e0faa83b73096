"""A research team: a lead who delegates to researchers, all at once, and makes one report of what they find.

The host delegates one task, to the lead. The lead starts three researchers in one turn and waits for them, which holds
no slot, not even with `max_concurrency: 1`. Limits and cost are those of the whole tree. The models are scripted; with
real ones the definitions stay as they are, but for `model`.

Run it: python examples/research_team.py

Prints:

    the lead has delegated to: researcher, researcher, researcher
    completed, in 5 requests by 4 tasks:
    Which database? That depends.
    - SQLite is a library, not a server: one machine.
    - Postgres is a server: many machines.
    - DuckDB reads columns, not rows: questions about all of it.
"""

import json
from typing import Any

import anyio
from mcp import Client
from pydantic_ai import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents import SubAgentConfig, create_server
from mcp_subagents.store.memory import MemoryStore

KNOWN = {
    "SQLite": "SQLite is a library, not a server: one machine.",
    "Postgres": "Postgres is a server: many machines.",
    "DuckDB": "DuckDB reads columns, not rows: questions about all of it.",
}


def lead(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """What a model would decide: first to delegate, one task for each database, then to report."""
    found = [str(part.content) for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if not found:
        return ModelResponse(
            parts=[
                ToolCallPart("task", {"description": f"What is {name} good for?", "subagent_type": "researcher"})
                for name in KNOWN
            ]
        )
    facts = [fact for fact in KNOWN.values() if any(fact in report for report in found)]
    return ModelResponse(parts=[TextPart("\n- ".join(["Which database? That depends.", *facts]))])


def researcher(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """What a model would know about the database that its task names."""
    return ModelResponse(parts=[TextPart(next(fact for name, fact in KNOWN.items() if name in str(messages[0])))])


TEAM = [
    SubAgentConfig(
        name="lead",
        description="Answers a broad question with a team of researchers.",
        instructions="Split the question, delegate the parts all at once, and write one report.",
        model=FunctionModel(lead),
        subagents=["researcher"],
        limits={"requests": 40, "cost_usd": 1.0, "descendants": 5},
    ),
    SubAgentConfig(
        name="researcher",
        description="Finds out one thing.",
        instructions="Answer one question in one sentence.",
        model=FunctionModel(researcher),
    ),
]


async def main() -> None:
    async with Client(create_server(TEAM, store=MemoryStore())) as host:
        done = await host.call_tool("task", {"description": "Which database?", "subagent_type": "lead"})
        [page] = (await host.read_resource("subagents://tasks")).contents

    tasks = json.loads(getattr(page, "text", "{}"))["tasks"]
    helpers = [task["subagent"] for task in tasks if task["subagent"] != "lead"]
    report: dict[str, Any] = done.structured_content or {}
    print("the lead has delegated to:", ", ".join(helpers))
    print(f"{report['status']}, in {report['usage']['requests']} requests by {len(tasks)} tasks:")
    print(report["result"])


if __name__ == "__main__":
    anyio.run(main)
