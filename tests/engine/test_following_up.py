"""A new task that goes on from the history of one that has ended."""

import ast

import anyio
import pytest
from office import at_work, delegate, outcome, subagent
from pydantic_ai import Agent, Tool, ToolFailed
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents.delegation import Submission
from mcp_subagents.errors import NotEnded, UnknownTask
from mcp_subagents.store import Store
from mcp_subagents.types import TaskStatus


def heard(messages: list[ModelMessage]) -> list[str]:
    """What the user has said, the last line of each prompt's task."""
    prompts = (part for message in messages for part in message.parts if isinstance(part, UserPromptPart))
    return [str(part.content).split("\n")[2] for part in prompts]


async def test_a_follow_up_remembers_the_task_and_is_a_task_of_its_own(store: Store):
    async def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(" | ".join(heard(messages)))])

    async with at_work(store, subagent(agent=Agent(FunctionModel(think)))) as engine:
        first = await outcome(engine, await delegate(engine, "Count to one."))
        second = await outcome(engine, await delegate(engine, "And to two.", continues=first.task_id))
        third = await outcome(engine, await delegate(engine, "And to three.", continues=second.task_id))
    assert (second.result, second.turns, second.status) == ("Count to one. | And to two.", 1, TaskStatus.COMPLETED)
    assert third.result == "Count to one. | And to two. | And to three."
    assert second.usage is not None
    assert second.usage.requests == 1


async def test_a_cancelled_task_can_be_followed_up_though_it_was_in_the_middle_of_a_tool(store: Store):
    started = anyio.Event()

    async def dig() -> str:
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = heard(messages)
        part = ToolCallPart("dig", {}, tool_call_id="d1") if len(said) == 1 else TextPart(" | ".join(said))
        return ModelResponse(parts=[part])

    async with at_work(store, subagent(agent=Agent(FunctionModel(think), tools=[dig]))) as engine:
        task_id = await delegate(engine, "Dig.")
        await started.wait()
        await engine.hard_cancel(task_id)
        done = await outcome(engine, await delegate(engine, "Never mind: report.", continues=task_id))
    assert done.result == "Dig. | Never mind: report."


async def test_a_task_that_has_not_ended_or_is_somebody_else_s_is_not_followed_up(store: Store):
    asks = subagent(ToolCallPart("ask_parent", {"question": "Which?"}), "Done.")
    async with at_work(store, asks) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        with pytest.raises(NotEnded, match=r"is waiting_for_answer and cannot be followed up yet\. Wait until"):
            await delegate(engine, continues=task_id)
        with pytest.raises(UnknownTask):
            await delegate(engine, continues="no-such-task")
        wanted = Submission(description="Go.", subagent="worker", continues=task_id)
        with pytest.raises(UnknownTask):
            await engine.submit(wanted, owner="mallory")
        assert len(await engine.list()) == 1


def returns(messages: list[ModelMessage]) -> list[tuple[str, object, str]]:
    """What the model is told of its calls."""
    parts = (part for message in messages for part in message.parts if isinstance(part, ToolReturnPart))
    return [(part.tool_call_id, part.content, part.outcome) for part in parts]


async def test_a_follow_up_knows_what_the_tools_returned_before_the_task_failed(store: Store):
    def pay(to: str) -> str:
        if to == "Eve":
            raise ToolFailed("no such account")
        return f"paid {to}"

    calls = [ToolCallPart("pay", {"to": name}, tool_call_id=name) for name in ("Ann", "Eve")]

    async def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(heard(messages)) == 2:
            return ModelResponse(parts=[TextPart(str(returns(messages)))])
        if returns(messages):
            raise ModelHTTPError(400, "scripted")
        return ModelResponse(parts=calls)

    async with at_work(store, subagent(agent=Agent(FunctionModel(think), tools=[pay]))) as engine:
        failed = await outcome(engine, await delegate(engine, "Pay."))
        transcript = await engine.transcript(failed.task_id)
        done = await outcome(engine, await delegate(engine, "Who was paid?", continues=failed.task_id))
    assert failed.status is TaskStatus.FAILED
    assert "**`pay` returned**\n\n> paid Ann" in transcript
    assert done.result == str([("Ann", "paid Ann", "success"), ("Eve", "no such account", "failed")])


async def test_a_follow_up_knows_which_calls_were_under_way_or_never_made(store: Store):
    started = anyio.Event()

    async def dig() -> str:
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    calls = [ToolCallPart("dig", {}, tool_call_id="d1"), ToolCallPart("bury", {}, tool_call_id="b1")]

    async def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=calls if len(heard(messages)) == 1 else [TextPart(str(returns(messages)))])

    agent = Agent(FunctionModel(think), tools=[Tool(dig, sequential=True), Tool(bury, sequential=True)])
    async with at_work(store, subagent(agent=agent)) as engine:
        task_id = await delegate(engine, "Dig.")
        await started.wait()
        await engine.hard_cancel(task_id)
        done = await outcome(engine, await delegate(engine, "Report.", continues=task_id))
    [under_way, not_made] = ast.literal_eval(done.result or "")
    assert (under_way[0], under_way[2], "may or may not have taken effect" in under_way[1]) == (
        "d1",
        "interrupted",
        True,
    )
    assert (not_made[0], not_made[2], "was not made" in not_made[1]) == ("b1", "interrupted", True)


def bury() -> str:
    raise AssertionError("it is never called")


async def test_a_follow_up_of_a_task_that_never_got_anywhere_knows_what_was_asked(store: Store):
    async def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = [part.content for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
        if len(said) == 1:
            raise ModelHTTPError(401, "scripted")
        return ModelResponse(parts=[TextPart(str(said[0]))])

    async with at_work(store, subagent(agent=Agent(FunctionModel(think)))) as engine:
        failed = await outcome(engine, await delegate(engine, "Count the sheep."))
        done = await outcome(engine, await delegate(engine, "Try again.", continues=failed.task_id))
    assert (failed.status, done.result) == (TaskStatus.FAILED, "Count the sheep.")
