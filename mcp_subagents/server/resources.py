"""What can be read: the subagents, the tasks, and of each task its state, its result and its transcript."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp_types import Completion, CompletionArgument, CompletionContext, PromptReference, ResourceTemplateReference

from mcp_subagents.addresses import AGENTS, RESULT, TASK, TASKS, TRANSCRIPT, task_uri
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.errors import SubagentsError, UnknownTask
from mcp_subagents.server.calls import OWNER
from mcp_subagents.server.mail import see
from mcp_subagents.server.room import EngineRoom
from mcp_subagents.shortening import clipped
from mcp_subagents.types import TaskHandle
from mcp_subagents.views import view_of

if TYPE_CHECKING:
    from mcp_subagents.engine import Engine

MOST_LISTED = 1_000
_LONGEST_LISTED = 200
MOST_COMPLETED = 100
"""Completions in one answer, as the protocol has it."""


def add_resources(server: MCPServer[Any], room: EngineRoom, subagents: Mapping[str, SubAgentConfig]) -> None:
    """Let `server` show its subagents and the tasks of `room`."""

    @server.resource(
        AGENTS,
        name="agents",
        title="Subagents",
        description="The subagents you can delegate to, and what each is good for.",
        mime_type="application/json",
    )
    async def agents() -> str:
        return _json({"subagents": [_subagent(config) for config in subagents.values()]})

    @server.resource(
        TASKS,
        name="tasks",
        title="Tasks",
        description="All tasks, the newest first: open ones, and ended ones until their retention ends.",
        mime_type="application/json",
    )
    async def tasks() -> str:
        async with _reading(room) as engine:
            shown = [_line(task) for task in await engine.latest(MOST_LISTED, owner=OWNER)]
            omitted = await engine.count(owner=OWNER) - len(shown)
        more = {"omitted": omitted} if omitted > 0 else {}
        return _json({"tasks": shown, **more})

    @server.resource(
        TASK,
        name="task",
        title="A task",
        description="One task as it stands, like check_task shows it.",
        mime_type="application/json",
    )
    async def task(task_id: str) -> str:
        async with _reading(room) as engine:
            standing = await engine.look(task_id, owner=OWNER)
            await see(engine, standing.handle, owner=OWNER)
        return view_of(standing, longest_description=None).model_dump_json(indent=2)

    @server.resource(
        RESULT,
        name="result",
        title="The result of a task",
        description="The whole result of a task, however long; of a task that failed, what it had found.",
        mime_type="text/plain",
    )
    async def result(task_id: str) -> str:
        async with _reading(room) as engine:
            handle = await engine.check(task_id, owner=OWNER)
            if not handle.status.is_terminal:
                raise ResourceError(
                    f"Task {task_id!r} is {handle.status} and has no result yet. Call `wait_tasks` to wait for it."
                )
            await see(engine, handle, owner=OWNER)
        return handle.result if handle.result is not None else _left_over(handle)

    @server.resource(
        TRANSCRIPT,
        name="transcript",
        title="The transcript of a task",
        description="What the subagent was told, thought, called and said, turn by turn; without secrets.",
        mime_type="text/markdown",
    )
    async def transcript(task_id: str) -> str:
        async with _reading(room) as engine:
            return await engine.transcript(task_id, owner=OWNER)

    @server.completion()
    async def complete(
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion | None:
        match argument.name:
            case "task_id":
                async with _reading(room) as engine:
                    tasks = await engine.latest(MOST_LISTED, owner=OWNER)
                return _completion([task.task_id for task in tasks], argument.value)
            case "subagent_type":
                return _completion(list(subagents), argument.value)
            case _:
                return None


@asynccontextmanager
async def _reading(room: EngineRoom) -> "AsyncGenerator[Engine]":
    """The engine, its errors in the terms of resources."""
    try:
        yield await room.engine()
    except UnknownTask as exc:
        raise ResourceNotFoundError(str(exc)) from exc
    except SubagentsError as exc:
        raise ResourceError(str(exc)) from exc


def _completion(choices: list[str], begun: str) -> Completion:
    fitting = [choice for choice in choices if choice.startswith(begun)]
    shown = fitting[:MOST_COMPLETED]
    return Completion(values=shown, total=len(fitting), has_more=len(shown) < len(fitting))


def _subagent(config: SubAgentConfig) -> dict[str, Any]:
    model = config.get("model")
    return {
        "name": config.get("name"),
        "description": config.get("description", ""),
        "model": model if isinstance(model, str) else getattr(model, "model_id", None),
        "preferred_mode": config.get("preferred_mode"),
        "can_ask_questions": config.get("can_ask_questions", True),
    }


def _line(task: TaskHandle) -> dict[str, Any]:
    return {
        "task_id": task.task_id,
        "subagent": task.subagent_name,
        "status": task.status,
        "description": clipped(task.description, _LONGEST_LISTED),
        "created_at": task.created_at.isoformat(),
        "completed_at": task.completed_at.isoformat() if task.completed_at else None,
        "uri": task_uri(task.task_id),
    }


def _left_over(task: TaskHandle) -> str:
    found = task.failure.partial_results if task.failure else ""
    said = [f"The task has no result: it is {task.status}.", *([task.error] if task.error else [])]
    return "\n\n".join([*said, *(["What it had found until then:", found] if found else [])])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
