"""How the tools present themselves: names, titles, descriptions, schemas and hints."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp_types import ToolAnnotations

from mcp_subagents import prompts
from mcp_subagents.addresses import AGENTS
from mcp_subagents.arguments import (
    AnswerArguments,
    Arguments,
    MessageArguments,
    NoArguments,
    OneTask,
    TaskArguments,
    WaitArguments,
    schema_of,
)
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.server.desk import Desk, ToolMethod
from mcp_subagents.server.tools import Tools
from mcp_subagents.shortening import clipped
from mcp_subagents.views import LIST_OUTLINE, TASK_OUTLINE, WAIT_OUTLINE

_LARGEST_CHOICE = 650
"""Bytes that the subagents may add to the list of tools."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Face:
    """How one tool presents itself."""

    title: str
    description: str
    takes: type[Arguments]
    gives: Mapping[str, Any] = field(default_factory=lambda: TASK_OUTLINE)
    hints: ToolAnnotations


def _hints(*, reads: bool = False, destroys: bool = False, again: bool = False, world: bool = False) -> ToolAnnotations:
    return ToolAnnotations(
        read_only_hint=reads, destructive_hint=destroys, idempotent_hint=again, open_world_hint=world
    )


FACES = {
    "task": Face(
        title="Delegate a task",
        description=prompts.TASK_TOOL_DESCRIPTION,
        takes=TaskArguments,
        # What its tools do in the world is up to the subagent.
        hints=_hints(destroys=True, world=True),
    ),
    "check_task": Face(
        title="Look at a task",
        description=prompts.CHECK_TASK_DESCRIPTION,
        takes=OneTask,
        hints=_hints(reads=True, again=True),
    ),
    "wait_tasks": Face(
        title="Wait for tasks",
        description=prompts.WAIT_TASKS_DESCRIPTION,
        takes=WaitArguments,
        gives=WAIT_OUTLINE,
        hints=_hints(reads=True, again=True),
    ),
    "answer_subagent": Face(
        title="Answer a question",
        description=prompts.ANSWER_SUBAGENT_DESCRIPTION,
        takes=AnswerArguments,
        hints=_hints(destroys=True, world=True),
    ),
    "send_message_to_subagent": Face(
        title="Send a message to a task",
        description=prompts.SEND_MESSAGE_DESCRIPTION,
        takes=MessageArguments,
        hints=_hints(destroys=True, world=True),
    ),
    "list_active_tasks": Face(
        title="List open tasks",
        description=prompts.LIST_ACTIVE_TASKS_DESCRIPTION,
        takes=NoArguments,
        gives=LIST_OUTLINE,
        hints=_hints(reads=True, again=True),
    ),
    "soft_cancel_task": Face(
        title="Cancel a task at its next turn",
        description=prompts.SOFT_CANCEL_TASK_DESCRIPTION,
        takes=OneTask,
        hints=_hints(destroys=True, again=True),
    ),
    "hard_cancel_task": Face(
        title="Cancel a task now",
        description=prompts.HARD_CANCEL_TASK_DESCRIPTION,
        takes=OneTask,
        hints=_hints(destroys=True, again=True),
    ),
}


class DelegationTool(Tool):
    """A tool that checks its arguments itself, so that its errors are in our words and text stays as it was sent."""

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        return await self.fn(arguments, context)


def tools_of(desk: Desk, tools: Tools, subagents: Mapping[str, SubAgentConfig]) -> list[Tool]:
    """All tools, ready for a server with these subagents."""
    return [_tool(name, face, desk, getattr(tools, name), subagents) for name, face in FACES.items()]


def _tool(
    name: str, face: Face, desk: Desk, method: ToolMethod[Any], subagents: Mapping[str, SubAgentConfig]
) -> DelegationTool:
    async def serve(arguments: dict[str, Any], context: Context[Any, Any]) -> Any:
        return await desk.serve(method, face.takes, arguments, context)

    return DelegationTool(
        fn=serve,
        name=name,
        title=face.title,
        description=face.description,
        parameters=_parameters(face.takes, subagents),
        fn_metadata=FuncMetadata(arg_model=ArgModelBase, output_schema=dict(face.gives)),
        is_async=True,
        context_kwarg=None,
        annotations=face.hints,
    )


def _parameters(takes: type[Arguments], subagents: Mapping[str, SubAgentConfig]) -> dict[str, Any]:
    if takes is not TaskArguments:
        return schema_of(takes)
    schema = schema_of(takes, subagent_type=_choice(subagents))
    default = schema["properties"]["subagent_type"]["default"]
    if default not in subagents:
        # Nobody of that name is here, so that it has to be said who.
        del schema["properties"]["subagent_type"]["default"]
        schema["required"].append("subagent_type")
    return schema


def _choice(subagents: Mapping[str, SubAgentConfig]) -> dict[str, Any]:
    """What the host's model is told of the subagents it can choose from: as much as there is room for."""
    for longest in (160, 80, 40):
        told = "\n".join(["Who does it.", *(f"{name}: {_purpose(each, longest)}" for name, each in subagents.items())])
        if _fits(choice := {"enum": list(subagents), "description": told}):
            return choice
    names = {"enum": list(subagents), "description": f"Who does it; {AGENTS} says what each is good for."}
    return names if _fits(names) else {"description": f"Who does it: one of the {len(subagents)} in {AGENTS}."}


def _fits(choice: Mapping[str, Any]) -> bool:
    return len(json.dumps(choice, ensure_ascii=False).encode()) <= _LARGEST_CHOICE


def _purpose(config: SubAgentConfig, longest: int) -> str:
    return clipped(" ".join(config.get("description", "").split()), longest)
