"""Tools whose calls are native tasks: each is a task of ours, of a scripted subagent that bears the tool's name."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio
from asking_fixtures import asks, filled, form
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.server import require_client_extension
from mcp_types import INTERNAL_ERROR, CallToolResult, InputRequiredResult
from plain_fixtures import text
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents import SubAgentConfig
from mcp_subagents.server.calls import Call
from mcp_subagents.server.native import TASKS, Foreground, Native, NativeTasks

Arguments = Mapping[str, Any]
JOBS = ("slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input", "test_tool_with_task")


def subagents() -> list[SubAgentConfig]:
    return [
        SubAgentConfig(
            name=name, description=f"Does {name}.", instructions="", agent=Agent(FunctionModel(work, model_name=name))
        )
        for name in JOBS
    ]


async def work(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """What a subagent says. All it knows is in the messages, so that it serves any number of tasks."""
    parts = [part for message in messages for part in message.parts]
    told = next(str(part.content) for part in parts if isinstance(part, UserPromptPart))
    wanted = json.loads(told[told.index("{") : told.rindex("}") + 1])
    answers = [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]
    await anyio.sleep(wanted.get("seconds", 0))
    questions = wanted.get("ask", [])
    if questions and not answers:
        return ModelResponse(parts=[ToolCallPart("ask_parent", {"question": each}) for each in questions])
    return ModelResponse(parts=[TextPart(" ".join([wanted.get("say", "Done."), *answers]))])


class Job:
    """A tool whose call is a task of the subagent of that name. What there is to know of it is in the store."""

    def __init__(self, name: str, task: Foreground, wanted: Callable[[Arguments], Arguments]) -> None:
        self._name = name
        self._prefix = f"{name}."
        self._task = task
        self._wanted = wanted

    def owns(self, task_id: str) -> bool:
        return task_id.startswith(self._prefix)

    def about(self, task_id: str) -> Sequence[str]:
        return self._task.about(self._ours(task_id))

    async def begin(self, call: Call, arguments: Arguments) -> Native | None:
        native = await self._task.begin(call, self.delegated(arguments))
        return native and self._theirs(native)

    async def look(self, call: Call, task_id: str) -> Native:
        return self._theirs(await self._task.look(call, self._ours(task_id)))

    async def result(self, call: Call, task_id: str, *, unasked: bool) -> CallToolResult:
        return await self._task.result(call, self._ours(task_id), unasked=unasked)

    async def update(self, call: Call, task_id: str, said: Mapping[str, Any]) -> None:
        """The suite fills in fields of its own, whatever the form; all of them are the answer here."""
        await self._task.update(call, self._ours(task_id), {key: _answered(each) for key, each in said.items()})

    async def cancel(self, call: Call, task_id: str) -> None:
        await self._task.cancel(call, self._ours(task_id))

    def delegated(self, arguments: Arguments) -> dict[str, Any]:
        """The arguments of `task` that stand for a call of this tool."""
        return {"description": json.dumps(self._wanted(arguments)), "subagent_type": self._name}

    def _ours(self, task_id: str) -> str:
        return task_id.removeprefix(self._prefix)

    def _theirs(self, native: Native) -> Native:
        return replace(native, task_id=self._prefix + native.task_id)


class FailingJob(Job):
    """Its calls end in a tool's error."""

    async def result(self, call: Call, task_id: str, *, unasked: bool) -> CallToolResult:
        await super().result(call, task_id, unasked=unasked)
        return CallToolResult(content=[text("It has failed, as it always does.")], is_error=True)


class BrokenJob(Job):
    """Its calls end in an error of the protocol."""

    def _theirs(self, native: Native) -> Native:
        native = super()._theirs(native)
        if native.status != "completed":
            return native
        return replace(native, status="failed", error={"code": INTERNAL_ERROR, "message": "It is broken."})


class AskingFirst(Job):
    """Asks before there is a task."""

    async def begin(self, call: Call, arguments: Arguments) -> Native | None:
        name = filled(call.context, "user_name", "name")
        return await super().begin(call, {"name": name}) if name else None


def add_jobs(server: MCPServer[Any]) -> None:
    extensions = server._extensions  # pyright: ignore[reportPrivateUsage]  # the factory keeps its own to itself
    native = next(each for each in extensions if isinstance(each, NativeTasks))
    task = native.foreground["task"]
    slow = Job("slow_compute", task, lambda given: {"seconds": given["seconds"], "say": f"Computed {given['label']}."})
    deleting = Job("confirm_delete", task, lambda given: {"ask": [f"Delete {given['filename']}?"]})
    asking = Job("multi_input", task, lambda given: {"ask": ["Who?", "Really?"]})
    jobs = {
        "slow_compute": slow,
        "failing_job": FailingJob("failing_job", task, lambda given: {}),
        "protocol_error_job": BrokenJob("protocol_error_job", task, lambda given: {}),
        "confirm_delete": deleting,
        "multi_input": asking,
        "test_tool_with_task": AskingFirst(
            "test_tool_with_task", task, lambda given: {"say": f"Hello, {given['name']}!"}
        ),
    }
    native.foreground = {**jobs, **native.foreground}

    @server.tool()
    async def greet(name: str) -> str:
        """Greet somebody, at once."""
        return f"Hello, {name}!"

    async def plainly(job: Job, ctx: Context[Any], **arguments: Any) -> Any:
        """The call as a client without the extension makes it."""
        return await server.call_tool("task", job.delegated(arguments), ctx)

    @server.tool(structured_output=False)
    async def slow_compute(seconds: float, label: str, ctx: Context[Any]) -> CallToolResult:
        """Take some time."""
        return await plainly(slow, ctx, seconds=seconds, label=label)

    @server.tool(structured_output=False)
    async def confirm_delete(filename: str, ctx: Context[Any]) -> CallToolResult:
        """Delete a file, when the user agrees."""
        return await plainly(deleting, ctx, filename=filename)

    @server.tool(structured_output=False)
    async def multi_input(ctx: Context[Any]) -> CallToolResult:
        """Ask two things at once."""
        return await plainly(asking, ctx)

    @server.tool(structured_output=False)
    async def failing_job(ctx: Context[Any]) -> CallToolResult:
        """Fail, as a native task only."""
        require_client_extension(ctx.request_context, TASKS)
        raise AssertionError("with the extension, this is never called")

    @server.tool(structured_output=False)
    async def protocol_error_job(ctx: Context[Any]) -> CallToolResult:
        """Break, as a native task only."""
        require_client_extension(ctx.request_context, TASKS)
        raise AssertionError("with the extension, this is never called")

    @server.tool(structured_output=False)
    async def test_tool_with_task(ctx: Context[Any]) -> InputRequiredResult:
        """Ask for a name, and then take some time."""
        return asks(user_name=form("What is your name?", name="string"))


def _answered(response: Any) -> Any:
    if response.get("action") != "accept":
        return response
    return {"action": "accept", "content": {"answer": json.dumps(response["content"])}}
