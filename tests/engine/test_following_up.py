"""A new task that goes on from the history of one that has ended."""

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from office import at_work, delegate, outcome, subagent
from pydantic_ai import Agent, Tool, ToolFailed
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from test_nesting import boss, first_id, task, told
from test_steering import Gate

from mcp_subagents import nesting
from mcp_subagents.config import SubAgentConfig
from mcp_subagents.delegation import Submission
from mcp_subagents.engine import Engine
from mcp_subagents.errors import FollowedUp, NotEnded, UnknownTask
from mcp_subagents.store import Query, Store
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.testing import Line
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
    assert transcript.index("> paid Ann") < transcript.index("**Failed (")
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


async def test_a_task_has_one_follow_up_at_a_time_and_another_when_that_has_ended(store: Store):
    asks = subagent("One.", ToolCallPart("ask_parent", {"question": "Which?"}), "Two.", "Three.")
    async with at_work(store, asks) as engine:
        past = await delegate(engine)
        await outcome(engine, past)
        first = await delegate(engine, "And then?", continues=past)
        await outcome(engine, first)
        with pytest.raises(FollowedUp) as refused:
            await delegate(engine, "And then what?", continues=past)
        assert str(refused.value) == (
            f"Task '{past}' is being followed up already, by task '{first}', which is waiting_for_answer. "
            f"Wait until '{first}' has ended and follow that one up, since it knows all that '{past}' does; "
            "or tell it now with `send_message_to_subagent`."
        )
        assert refused.value.task_id == first
        assert len(await engine.list()) == 1
        await engine.answer(first, "This.")
        await outcome(engine, first)
        again = await outcome(engine, await delegate(engine, "And then what?", continues=past))
    assert again.result == "Three."


async def test_of_two_follow_ups_in_two_processes_one_is_refused(tmp_path: Path):
    gate = Gate()
    worker = subagent("One.", ToolCallPart("gate", {}), "Two.", tools=[gate.gate])
    async with open_sqlite(tmp_path / "tasks.db") as here, open_sqlite(tmp_path / "tasks.db") as there:
        async with at_work(here, worker) as engine, at_work(there, worker) as other:
            past = await delegate(engine)
            await outcome(engine, past)
            taken, refused = list[str](), list[Exception]()

            async def follow_up(on: Engine) -> None:
                try:
                    taken.append(await delegate(on, continues=past))
                except FollowedUp as exc:
                    refused.append(exc)

            async with anyio.create_task_group() as group:
                group.start_soon(follow_up, engine)
                group.start_soon(follow_up, other)
            gate.open.set()
            assert (len(taken), len(refused)) == (1, 1)
            assert (await outcome(engine, taken[0])).result == "Two."


async def test_the_follow_ups_of_different_tasks_and_owners_do_not_meet(store: Store):
    gate = Gate()
    worker = subagent("One.", "Two.", *[ToolCallPart("gate", {})] * 3, tools=[gate.gate])
    async with at_work(store, worker) as engine:
        pasts = [await delegate(engine) for _ in range(2)]
        await engine.wait(pasts)
        follow_ups = [await delegate(engine, continues=past) for past in pasts]
        assert len(set(follow_ups)) == 2
        with pytest.raises(NotEnded):
            await delegate(engine, continues=follow_ups[0])


class Bosses:
    """A boss whose tasks follow one another, and its helper."""

    def __init__(self, *lines: Line, helper: SubAgentConfig) -> None:
        self.boss, self.model = boss(*lines)
        self.helper = helper

    def on_first_child(self, tool: str, **more: Any) -> ToolCallPart:
        task_id = first_id(self.model)
        who = {"wait_tasks": {"task_ids": [task_id]}, "task": {"continue_task_id": task_id, "description": "More."}}
        return ToolCallPart(tool, {**who.get(tool, {"task_id": task_id}), **more}, tool_call_id=f"{tool}-again")


async def test_a_follow_up_goes_on_with_the_children_of_all_the_tasks_before_it(store: Store):
    team = Bosses(
        task("helper"),
        "Done.",
        "Nothing new.",
        lambda: team.on_first_child("check_task"),
        lambda: team.on_first_child("task"),
        lambda: team.on_first_child("wait_tasks"),
        "Done again.",
        helper=subagent("42", "43", name="helper"),
    )
    async with at_work(store, team.boss, team.helper) as engine:
        past = ""
        for description in ("Begin.", "Go on.", "And on."):
            past = (await outcome(engine, await delegate(engine, description, subagent="boss", continues=past))).task_id
    _, checked, more, waited = told(team.model)
    assert "(helper): completed." in checked
    assert "42" in checked
    assert "43" in more
    assert waited.startswith("1 of 1 task has ended.")
    [child] = await store.select(Query(parent_id=past))
    assert child.handle.result == "43"


@pytest.mark.parametrize("how", ["its own", "ours"])
async def test_a_follow_up_waits_for_what_was_told_to_stop_with_the_task_before_it_until_time_is_up(
    store: Store, how: str, monkeypatch: pytest.MonkeyPatch
):
    gate = Gate()
    patience: dict[str, float] = {"timeout": 0.01} if how == "its own" else {}
    if how == "ours":
        monkeypatch.setattr(nesting, "LAST_TURN", 0.01)

    def open_and_wait() -> ToolCallPart:
        monkeypatch.undo()
        gate.open.set()
        return team.on_first_child("wait_tasks")

    team = Bosses(
        task("helper", mode="async"),
        "Enough.",
        "Enough, really.",
        lambda: team.on_first_child("wait_tasks", **patience),
        open_and_wait,
        "Done.",
        helper=subagent(ToolCallPart("gate", {}), tools=[gate.gate], name="helper"),
    )
    async with at_work(store, team.boss, team.helper) as engine:
        past = await delegate(engine, subagent="boss")
        await outcome(engine, past)
        await gate.reached.wait()
        done = await outcome(engine, await delegate(engine, "Go on.", subagent="boss", continues=past))
    assert (done.result, done.attempt) == ("Done.", 1)
    _, in_vain, at_last = told(team.model)
    assert "time is up, it goes on" in in_vain
    assert at_last.startswith("1 of 1 task has ended.")


async def test_a_subagent_cannot_follow_up_a_task_that_is_not_below_it(store: Store):
    async with at_work(store, subagent("42", name="helper"), boss("x")[0]) as engine:
        foreign = await delegate(engine, subagent="helper")
        await outcome(engine, foreign)
    top, model = boss(task("helper", continue_task_id=foreign), "Then not.")
    async with at_work(store, subagent("42", name="helper"), top) as engine:
        await outcome(engine, await delegate(engine, subagent="boss"))
    assert told(model)[0].startswith(f"There is no task '{foreign}'.")
    assert len(await store.select(Query())) == 2


async def test_the_same_child_cannot_be_followed_up_twice_at_once(store: Store):
    team = Bosses(
        task("helper"),
        lambda: [team.on_first_child("task"), replace(team.on_first_child("task"), tool_call_id="other")],
        "Done.",
        helper=subagent("42", "43", name="helper"),
    )
    async with at_work(store, team.boss, team.helper) as engine:
        task_id = await delegate(engine, subagent="boss")
        assert (await outcome(engine, task_id)).result == "Done."
    said = " ".join(told(team.model)[1:])
    assert "43" in said
    assert "is being followed up already, by task" in said
    assert len(await store.select(Query(parent_id=task_id))) == 2
