"""Answer the questions of subagents from a program, and leave to a person only what the program does not know.

Three tasks run at once, and each asks something. What is in its policy, the program answers at once; what is not, it
would put to a person, who is played here. A task that asks holds nothing while it waits, for days if need be, and an
answer reaches the question that it is for, also when one task has two of them open. The models are scripted.

Run it: python examples/answering_questions.py

Prints:

    traveller asks: Which budget? -> Up to 300 euros. (policy)
    traveller asks: By train or by plane? -> By train. (policy)
    gardener asks: Shall I cut down the old oak? -> Never. (a person)
    clerk asks: Which budget? -> Up to 300 euros. (policy)
    traveller: Booked: Up to 300 euros. By train.
    gardener: About the oak: Never.
    clerk: Noted: Up to 300 euros.
"""

from typing import Any

import anyio
from mcp import Client
from pydantic_ai import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents import SubAgentConfig, create_server
from mcp_subagents.store.memory import MemoryStore

POLICY = {"budget": "Up to 300 euros.", "train or by plane": "By train."}


def asker(name: str, questions: list[str], opening: str) -> SubAgentConfig:
    """A subagent that asks all it needs to know in one turn, and then reports."""

    def think(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        answers = [str(part.content) for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if answers:
            return ModelResponse(parts=[TextPart(f"{opening}: {' '.join(answers)}")])
        return ModelResponse(parts=[ToolCallPart("ask_parent", {"question": each}) for each in questions])

    return SubAgentConfig(name=name, description=f"The {name}.", instructions="", model=FunctionModel(think))


TEAM = [
    asker("traveller", ["Which budget?", "By train or by plane?"], "Booked"),
    asker("gardener", ["Shall I cut down the old oak?"], "About the oak"),
    asker("clerk", ["Which budget?"], "Noted"),
]


def answer_to(question: str) -> tuple[str, str]:
    """What to answer, and on whose word."""
    for known, answer in POLICY.items():
        if known in question:
            return answer, "policy"
    return "Never.", "a person"  # here a program would ask somebody, and may take its time


async def main() -> None:
    async with Client(create_server(TEAM, store=MemoryStore())) as host:

        async def call(tool: str, **arguments: Any) -> dict[str, Any]:
            return (await host.call_tool(tool, arguments)).structured_content or {}

        ids: list[str] = []
        for name in ("traveller", "gardener", "clerk"):
            task = await call("task", description="Do your part.", subagent_type=name, mode="async")
            ids.append(task["task_id"])

        while True:
            # It returns when all have ended, and as soon as one asks.
            tasks = (await call("wait_tasks", task_ids=ids))["tasks"]
            asking = [(task, each) for task in tasks for each in task["questions"]]
            if not asking:
                break
            for task, each in asking:
                answer, source = answer_to(each["question"])
                print(f"{task['subagent']} asks: {each['question']} -> {answer} ({source})")
                given = {"task_id": task["task_id"], "answer": answer, "question_id": each["question_id"]}
                await call("answer_subagent", **given)
    for task in tasks:
        print(f"{task['subagent']}: {task['result']}")


if __name__ == "__main__":
    anyio.run(main)
