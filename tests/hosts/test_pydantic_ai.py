"""pydantic-ai as the host, through its own MCP toolset, over real standard input and output."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents.store import Query
from mcp_subagents.store.sqlite import open_sqlite

pytestmark = pytest.mark.slow

TEAM = str(Path(__file__).with_name("research_team.py"))


def team(store: Path, **options: Any) -> MCPToolset[Any]:
    return MCPToolset(StdioTransport(command=sys.executable, args=[TEAM, str(store)]), **options)


def tasks_in(messages: list[ModelMessage]) -> list[dict[str, Any]]:
    """The tasks that the last tools returned."""
    returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    views: list[dict[str, Any]] = [json.loads(part.model_response_str()) for part in returned]
    return [task for view in views for task in view.get("tasks", [view])]


async def lead(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Delegate two tasks, wait for them, answer what one of them asks, and report."""
    if len(messages) == 1:
        return ModelResponse(
            parts=[
                ToolCallPart("task", {"description": "Cats.", "subagent_type": "researcher", "mode": "async"}),
                ToolCallPart("task", {"description": "A hat.", "subagent_type": "buyer", "mode": "async"}),
            ]
        )
    tasks = tasks_in(messages)
    asking = [task for task in tasks if task["questions"]]
    if asking:
        return ModelResponse(
            parts=[ToolCallPart("answer_subagent", {"task_id": asking[0]["task_id"], "answer": "Red"})]
        )
    if all(task["result"] for task in tasks) and len(tasks) == 2:
        return ModelResponse(parts=[TextPart(" ".join(task["result"] for task in tasks))])
    known = [task["task_id"] for message in messages[:3] for task in tasks_in([message]) if task]
    return ModelResponse(parts=[ToolCallPart("wait_tasks", {"task_ids": known})])


async def test_an_agent_delegates_waits_for_two_tasks_and_answers_a_question(tmp_path: Path):
    agent = Agent(FunctionModel(lead), toolsets=[team(tmp_path / "tasks.db")])
    with anyio.fail_after(60):
        async with agent:
            result = await agent.run("Cats and a hat.")
    assert result.output == "All about: Cats. Bought one in Red."


async def test_a_call_that_is_tried_again_after_a_timeout_gets_the_same_task(tmp_path: Path):
    """The host gives up after 2 seconds and calls again with the same key: one task, one result."""
    gate = tmp_path / "gate"
    wanted = {"description": str(gate), "subagent_type": "watcher", "idempotency_key": "once"}
    with anyio.fail_after(60):
        async with team(tmp_path / "tasks.db", read_timeout=2) as toolset:
            with pytest.raises(Exception, match="imed out"):
                await toolset.direct_call_tool("task", wanted)
            gate.touch()
            done: Any = await toolset.direct_call_tool("task", wanted)
    async with open_sqlite(tmp_path / "tasks.db") as store:
        [record] = await store.select(Query())
    assert (done["status"], done["result"]) == ("completed", "It is there.")
    assert (done["task_id"], done["attempt"]) == (record.task_id, 1)
