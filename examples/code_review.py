"""A code-review trio: three reviewers look at one change at the same time, and their verdicts are counted.

Each reviewer has an `output_schema`, so its result is a JSON object that fits, and a program can decide by it. One of
them gets it wrong at first: what does not fit goes back to its model, and comes again mended. This uses the engine
itself, without MCP: the same tasks, the same promises. The models are scripted.

Run it: python examples/code_review.py

Prints:

    correctness: mend - an empty list divides by zero
    security: merge
    style: merge - `l` is hard to read, after 2 requests
    2 of 3 would merge it: mend it first
"""

import json

import anyio
from pydantic_ai import ToolCallPart

from mcp_subagents import Roster, SubAgentConfig, Submission, run_engine
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.testing import ScriptedModel

CHANGE = "def mean(l): return sum(l) / len(l)"

VERDICT = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["merge", "mend"]},
        "flaws": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["verdict", "flaws"],
    "additionalProperties": False,
}


def says(verdict: str, *flaws: str) -> ToolCallPart:
    """How a model hands in a result of a given shape."""
    return ToolCallPart("final_result", {"verdict": verdict, "flaws": list(flaws)})


def reviewer(name: str, instructions: str, *lines: ToolCallPart) -> SubAgentConfig:
    return SubAgentConfig(
        name=name,
        description=f"Reviews a change for {name}.",
        instructions=instructions,
        model=ScriptedModel(*lines),  # or "anthropic:claude-sonnet-5-5"
        output_schema=VERDICT,
        can_ask_questions=False,
        limits={"requests": 6, "cost_usd": 0.2},
    )


TRIO = [
    reviewer("correctness", "Look for inputs that break it.", says("mend", "an empty list divides by zero")),
    reviewer("security", "Look for ways to abuse it.", says("merge")),
    reviewer(
        "style", "Look for what the next reader will trip over.", says("fine"), says("merge", "`l` is hard to read")
    ),
]


async def main() -> None:
    async with run_engine(MemoryStore(), Roster(TRIO)) as engine:
        tasks = [
            await engine.submit(Submission(description=f"Review this change:\n{CHANGE}", subagent=each.get("name", "")))
            for each in TRIO
        ]
        waited = await engine.wait([task.task_id for task in tasks])

    verdicts: list[str] = []
    for task in waited.tasks:
        result = json.loads(task.result or "{}")  # over MCP it is an object already
        verdicts.append(result["verdict"])
        flaws = f" - {'; '.join(result['flaws'])}" if result["flaws"] else ""
        requests = task.usage.requests if task.usage else 0
        tries = f", after {requests} requests" if requests > 1 else ""
        print(f"{task.subagent_name}: {result['verdict']}{flaws}{tries}")
    merging = verdicts.count("merge")
    print(f"{merging} of {len(verdicts)} would merge it: {'merge it' if merging == len(verdicts) else 'mend it first'}")


if __name__ == "__main__":
    anyio.run(main)
