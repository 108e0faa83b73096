"""Messages to a task at work: each is carried by exactly one turn."""

from typing import Any

import anyio
import pytest
from office import at_work, delegate, outcome, subagent
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel

from mcp_subagents.errors import TaskEnded
from mcp_subagents.store import Store
from mcp_subagents.testing import ScriptedModel


def heard(messages: list[ModelMessage]) -> list[Any]:
    """What the host said, after the task itself."""
    parts = [part for message in messages for part in message.parts]
    return [part.content for part in parts if isinstance(part, UserPromptPart)][1:]


class Gate:
    """A tool that holds its task until it is let go."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self.open = anyio.Event()

    async def gate(self) -> str:
        self.reached.set()
        await self.open.wait()
        return "through"


async def test_a_message_joins_the_next_turn_and_no_other(store: Store):
    gate = Gate()
    busy = ModelHTTPError(503, "scripted")
    model = ScriptedModel(ToolCallPart("gate", {}), busy, ToolCallPart("done", {}), "Done.")

    def done() -> str:
        return "ok"

    async with at_work(store, subagent(agent=Agent(model, tools=[gate.gate, done]))) as engine:
        task_id = await delegate(engine)
        await gate.reached.wait()
        await engine.send(task_id, "Look in the attic.")
        await engine.send(task_id, "And hurry.")
        gate.open.set()
        await outcome(engine, task_id)
    said = ["Look in the attic.", "And hurry."]
    assert [heard(request) for request in model.requests] == [[], said, said, said]
    assert (await store.read(task_id)).mail == ()


async def test_a_message_that_comes_when_the_task_is_about_to_end_gives_it_one_more_turn(store: Store):
    answered, go = anyio.Event(), anyio.Event()
    requests: list[list[object]] = []

    async def think(messages: list[ModelMessage], info: object) -> ModelResponse:
        requests.append(heard(messages))
        if len(requests) == 1:
            answered.set()
            await go.wait()
        return ModelResponse(parts=[TextPart(f"Answer {len(requests)}.")])

    async with at_work(store, subagent(agent=Agent(FunctionModel(think)))) as engine:
        task_id = await delegate(engine)
        await answered.wait()
        await engine.send(task_id, "And in French?")
        go.set()
        done = await outcome(engine, task_id)
    assert (done.result, done.turns, requests) == ("Answer 2.", 2, [[], ["And in French?"]])


async def test_a_message_to_a_task_that_asks_is_read_with_the_answer(store: Store):
    model = ScriptedModel(ToolCallPart("ask_parent", {"question": "A or B?"}, tool_call_id="q"), "Done.")
    async with at_work(store, subagent(agent=Agent(model))) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        await engine.send(task_id, "By the way: hurry.")
        await engine.answer(task_id, "A")
        await outcome(engine, task_id)
    assert heard(model.requests[-1]) == ["By the way: hurry."]


async def test_a_message_survives_the_engine_that_took_it(store: Store):
    gate = Gate()
    model = ScriptedModel(ToolCallPart("gate", {}), "Done.")
    worker = subagent(agent=Agent(model, tools=[gate.gate]))
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        await gate.reached.wait()
        await engine.send(task_id, "Hurry.")
    async with at_work(store, worker) as engine:
        await outcome(engine, task_id)
    assert heard(model.requests[-1]) == ["Hurry."]


async def test_a_task_that_has_ended_takes_no_message(store: Store):
    async with at_work(store, subagent("42")) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        with pytest.raises(TaskEnded, match="is completed; it takes no more messages"):
            await engine.send(task_id, "Wait!")
