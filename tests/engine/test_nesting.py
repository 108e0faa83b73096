"""Subagents that delegate themselves: durable children, waited for without holding a slot."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from office import SETTINGS, at_work, delegate, outcome, subagent, until
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from test_steering import Gate

from mcp_subagents import moves
from mcp_subagents.agents import Roster
from mcp_subagents.config import SubAgentConfig
from mcp_subagents.config.limits import EngineSettings, Limits
from mcp_subagents.config.roster import by_name
from mcp_subagents.delegation import Submission
from mcp_subagents.engine import Engine
from mcp_subagents.errors import ConfigError, TaskEnded
from mcp_subagents.past import unfinished
from mcp_subagents.records import EntryKind
from mcp_subagents.standing import standing_of
from mcp_subagents.store import Query, Store
from mcp_subagents.testing import Line, ScriptedModel
from mcp_subagents.types import CancelKind, FailureType, TaskHandle, TaskStatus, utc_now

ALONE = replace(SETTINGS, max_concurrency=1)
ASKING = TaskStatus.WAITING_FOR_ANSWER
GATED = ToolCallPart("gate", {}, tool_call_id="g")
ASK = ToolCallPart("ask_parent", {"question": "Which one?"}, tool_call_id="q")


def task(to: str, call_id: str = "t1", mode: str = "sync", **more: Any) -> ToolCallPart:
    arguments = {"description": f"Go, {to}.", "subagent_type": to, "mode": mode, **more}
    return ToolCallPart("task", arguments, tool_call_id=call_id)


def told(model: ScriptedModel, request: int = -1) -> list[str]:
    """What the tools returned before that request."""
    parts = [part for message in model.requests[request] for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]


def heard(messages: Sequence[ModelMessage]) -> list[str]:
    """What it was told by messages, after the task itself."""
    parts = [part for message in messages for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, UserPromptPart)][1:]


def first_id(model: ScriptedModel) -> str:
    found = re.search(r"Task (\S+) \(", told(model)[0])
    assert found is not None
    return found[1]


def calling(name: str, model: list[ScriptedModel], call_id: str, **more: Any) -> Callable[[], ToolCallPart]:
    """A line that calls a tool on the first task that was delegated."""

    def line() -> ToolCallPart:
        task_id = first_id(model[0])
        who = {"task_ids": [task_id]} if name == "wait_tasks" else {"task_id": task_id}
        return ToolCallPart(name, {**who, **more}, tool_call_id=call_id)

    return line


def boss(*lines: Line, to: Sequence[str] = ("helper",), **more: Any) -> tuple[SubAgentConfig, ScriptedModel]:
    model = ScriptedModel(*lines)
    return subagent(agent=Agent(model), name="boss", subagents=list(to), **more), model


@dataclass(frozen=True)
class OnChild:
    """A line that calls a tool on the first child."""

    tool: str
    call_id: str
    more: dict[str, Any] = field(default_factory=dict[str, Any])


def boss_that(*lines: "Line | OnChild") -> tuple[SubAgentConfig, ScriptedModel]:
    itself: list[ScriptedModel] = []
    spoken: list[Line] = [
        calling(line.tool, itself, line.call_id, **line.more) if isinstance(line, OnChild) else line for line in lines
    ]
    config, model = boss(*spoken)
    itself.append(model)
    return config, model


async def only_child(store: Store, parent_id: str) -> TaskHandle:
    [child] = await store.select(Query(parent_id=parent_id))
    return child.handle


async def child_of(engine: Engine, store: Store, parent_id: str) -> TaskHandle:
    """The only child, as soon as there is one."""
    async with engine.watch() as changes:
        while not (found := await store.select(Query(parent_id=parent_id))):
            await anext(changes)
        return found[0].handle


async def test_one_slot_is_enough_for_a_tree_of_three_levels(store: Store):
    top, model = boss(task("middle"), "All done.", to=["middle"])
    middle = subagent(task("leaf"), "The leaf says 42.", name="middle", subagents=["leaf"])
    async with at_work(store, top, middle, subagent("42", name="leaf"), settings=ALONE) as engine:
        done = await outcome(engine, await delegate(engine, subagent="boss"))
    assert (done.status, done.result, done.depth) == (TaskStatus.COMPLETED, "All done.", 0)
    [said] = told(model)
    assert "(middle): completed." in said
    assert "The leaf says 42." in said
    tasks = [record.handle for record in await store.select(Query())]
    assert [(each.subagent_name, each.depth) for each in tasks] == [("boss", 0), ("middle", 1), ("leaf", 2)]
    assert [each.parent_id for each in tasks] == [None, tasks[0].task_id, tasks[1].task_id]


async def test_a_subagent_that_we_build_can_delegate_too(store: Store):
    top = SubAgentConfig(
        name="boss", description="", instructions="", subagents=["helper"], model=ScriptedModel(task("helper"), "Done.")
    )
    async with at_work(store, top, subagent("42", name="helper")) as engine:
        assert (await outcome(engine, await delegate(engine, subagent="boss"))).result == "Done."


async def test_a_parent_that_waits_says_so_and_holds_no_slot(store: Store):
    gate = Gate()
    top, _ = boss(task("helper"), "Done.")
    helper = subagent(GATED, "42", tools=[gate.gate], name="helper")
    async with at_work(store, top, helper, settings=ALONE) as engine:
        task_id = await delegate(engine, subagent="boss")
        await gate.reached.wait()
        parent = await engine.look(task_id)
        assert (parent.handle.status, parent.doing) == (TaskStatus.PENDING, "waiting for its subagents")
        assert parent.queue_position is None
        gate.open.set()
        assert (await outcome(engine, task_id)).result == "Done."


async def test_a_parent_that_waits_survives_a_restart_and_starts_no_second_child(store: Store):
    gate = Gate()
    top, model = boss(task("helper"), "Done.")
    helper = subagent(GATED, GATED, "42", agent=Agent(ScriptedModel(GATED, "42"), tools=[gate.gate]), name="helper")
    async with at_work(store, top, helper, settings=ALONE) as engine:
        task_id = await delegate(engine, subagent="boss")
        await gate.reached.wait()
    gate.open.set()
    async with at_work(store, top, helper, settings=ALONE) as engine:
        assert (await outcome(engine, task_id)).result == "Done."
    assert (await only_child(store, task_id)).status is TaskStatus.COMPLETED
    assert len(model.requests) == 2


async def test_a_child_that_ended_while_nobody_was_there_is_found_by_its_parent(store: Store):
    gate = Gate()
    top, _ = boss(task("helper"), "Done.")
    helper = subagent(GATED, "42", tools=[gate.gate], name="helper")
    async with at_work(store, top, helper) as engine:
        task_id = await delegate(engine, subagent="boss")
        await gate.reached.wait()
    # This process knows the child only.
    gate.open.set()
    async with at_work(store, helper) as engine:
        child = await outcome(engine, (await only_child(store, task_id)).task_id)
        assert child.status is TaskStatus.FAILED or child.result == "42"
    async with at_work(store, top, helper) as engine:
        assert (await outcome(engine, task_id)).result == "Done."


async def test_several_children_at_a_time_are_waited_for_together(store: Store):
    calls = [task("helper", f"t{number}", "async") for number in range(3)]
    itself: list[ScriptedModel] = []

    def wait() -> ToolCallPart:
        ids = [re.findall(r"Task (\S+) \(", said)[0] for said in told(itself[0])]
        return ToolCallPart("wait_tasks", {"task_ids": ids}, tool_call_id="w")

    top, model = boss(calls, wait, "Done.")
    itself.append(model)
    async with at_work(store, top, subagent("1", "2", "3", name="helper"), settings=ALONE) as engine:
        task_id = await delegate(engine, subagent="boss")
        assert (await outcome(engine, task_id)).result == "Done."
    assert told(model)[-1].startswith("3 of 3 tasks have ended.")
    # Woken once, when the last of them had ended.
    assert (await store.read(task_id)).handle.attempt == 2


async def test_waiting_for_any_returns_with_the_first(store: Store):
    gate = Gate()
    itself: list[ScriptedModel] = []

    def wait() -> ToolCallPart:
        ids = [re.findall(r"Task (\S+) \(", said)[0] for said in told(itself[0])]
        return ToolCallPart("wait_tasks", {"task_ids": ids, "mode": "any"}, tool_call_id="w")

    top, model = boss(
        [task("slow", "a", "async"), task("helper", "b", "async")], wait, "Enough.", "Yes.", to=["slow", "helper"]
    )
    itself.append(model)
    slow = subagent(GATED, tools=[gate.gate], name="slow")
    async with at_work(store, top, slow, subagent("42", name="helper")) as engine:
        assert (await outcome(engine, await delegate(engine, subagent="boss"))).result == "Yes."
    assert told(model)[-1].startswith("1 of 2 tasks have ended.")


async def test_a_wait_ends_when_its_time_is_up(store: Store):
    gate = Gate()
    top, model = boss_that(
        task("helper", mode="async"), OnChild("wait_tasks", "w", {"timeout": 0.05}), "Later.", "Later."
    )
    helper = subagent(GATED, tools=[gate.gate], name="helper")
    async with at_work(store, top, helper) as engine:
        assert (await outcome(engine, await delegate(engine, subagent="boss"))).result == "Later."
    assert "time is up, it goes on" in told(model)[-1]


async def test_the_question_of_a_child_goes_to_its_parent_and_not_to_the_host(store: Store):
    top, model = boss_that(
        task("helper"),
        OnChild("answer_subagent", "a", {"answer": "The red one."}),
        OnChild("wait_tasks", "w"),
        "Done.",
    )
    worker = ScriptedModel(ASK, "Red it is.")
    async with at_work(store, top, subagent(agent=Agent(worker), name="helper"), settings=ALONE) as engine:
        task_id = await delegate(engine, subagent="boss")
        done = await outcome(engine, task_id)
        assert (await engine.unread()).ended.first == [task_id]
    assert done.result == "Done."
    assert "It asks (question_id q): Which one?" in told(model)[0]
    assert "Red it is." in told(model)[-1]
    assert told(worker) == ["The red one."]


async def test_the_host_sees_neither_the_questions_nor_the_tasks_of_a_subagent_unless_it_looks_for_them(store: Store):
    gate = Gate()
    top, _ = boss(task("helper", mode="async"), GATED)
    top["agent"] = Agent(ScriptedModel(task("helper", mode="async"), GATED), tools=[gate.gate])
    async with at_work(store, top, subagent(ASK, name="helper")) as engine:
        task_id = await delegate(engine, subagent="boss")
        await gate.reached.wait()
        child = await child_of(engine, store, task_id)
        await until(engine, child.task_id, lambda task: task.status is ASKING)
        assert (await engine.unread()).asking.count == 0
        assert [each.handle.task_id for each in await engine.active()] == [task_id]
        assert [each.handle.task_id for each in await engine.children(task_id)] == [child.task_id]


async def test_the_host_may_answer_the_question_of_a_child_all_the_same(store: Store):
    gate = Gate()
    itself: list[ScriptedModel] = []
    model = ScriptedModel([task("helper", mode="async"), GATED], calling("wait_tasks", itself, "w"), "Done.")
    itself.append(model)
    top = subagent(agent=Agent(model, tools=[gate.gate]), name="boss", subagents=["helper"])
    async with at_work(store, top, subagent(ASK, "42", name="helper")) as engine:
        task_id = await delegate(engine, subagent="boss")
        await gate.reached.wait()
        child = await child_of(engine, store, task_id)
        await until(engine, child.task_id, lambda task: task.status is ASKING)
        await engine.answer(child.task_id, "The red one.")
        await until(engine, child.task_id, lambda task: task.status.is_terminal)
        gate.open.set()
        assert (await outcome(engine, task_id)).result == "Done."


async def test_of_two_sync_calls_none_keeps_the_question_of_the_other_from_the_parent(store: Store):
    gate = Gate()
    top, model = boss([task("asker", "a"), task("slow", "s")], "I see.", "I see.", to=["asker", "slow"])
    slow = subagent(GATED, tools=[gate.gate], name="slow")
    async with at_work(store, top, subagent(ASK, name="asker"), slow) as engine:
        assert (await outcome(engine, await delegate(engine, subagent="boss"))).result == "I see."
    asker, other = told(model, 1)
    assert "Which one?" in asker
    assert "(slow): running, " in other


@pytest.mark.parametrize("how", ["soft_cancel", "hard_cancel"])
async def test_cancelling_a_parent_that_waits_reaches_its_whole_tree(store: Store, how: str):
    gate = Gate()
    top, model = boss(task("middle"), to=["middle"])
    middle = subagent(task("leaf"), name="middle", subagents=["leaf"])
    leaf = subagent(ModelResponse(parts=[TextPart("Half."), GATED]), tools=[gate.gate], name="leaf")
    async with at_work(store, top, middle, leaf, settings=ALONE) as engine:
        task_id = await delegate(engine, subagent="boss")
        await gate.reached.wait()
        cancelled = await getattr(engine, how)(task_id)
        assert cancelled.status is TaskStatus.CANCELLED
        gate.open.set()
        for record in await store.select(Query()):
            ended = await until(engine, record.task_id, lambda task: task.status.is_terminal)
            assert ended.status is TaskStatus.CANCELLED
            assert ended.failure is not None
            assert "Half." in ended.failure.partial_results
    assert len(model.requests) == 1


async def test_a_task_that_was_told_to_stop_takes_no_more_children(store: Store):
    gate = Gate()
    async with at_work(store, subagent(GATED, "42", tools=[gate.gate])) as engine:
        task_id = await delegate(engine)
        await gate.reached.wait()
        await engine.soft_cancel(task_id)
        with pytest.raises(TaskEnded):
            await engine.submit(Submission(description="Go.", subagent="worker", parent_id=task_id))
        gate.open.set()
        await outcome(engine, task_id)
        with pytest.raises(TaskEnded):
            await engine.submit(Submission(description="Go.", subagent="worker", parent_id=task_id))
    assert await store.count(Query()) == 1


async def test_a_parent_that_fails_takes_its_children_along_and_tells_what_they_had_found(store: Store):
    gate = Gate()
    model = ScriptedModel([task("helper", mode="async"), GATED], ValueError("broken"))
    top = subagent(agent=Agent(model, tools=[gate.gate]), name="boss", subagents=["helper"], max_retries=0)
    asking = ModelResponse(parts=[TextPart("It is one of two."), ASK])
    async with at_work(store, top, subagent(asking, name="helper")) as engine:
        task_id = await delegate(engine, subagent="boss")
        await gate.reached.wait()
        child = await child_of(engine, store, task_id)
        await until(engine, child.task_id, lambda task: task.status is ASKING)
        gate.open.set()
        done = await outcome(engine, task_id)
        ended = await until(engine, child.task_id, lambda task: task.status.is_terminal)
    assert done.status is TaskStatus.FAILED
    assert done.failure is not None
    assert "It is one of two." in done.failure.partial_results
    assert (ended.status, ended.error) == (TaskStatus.CANCELLED, "The task that delegated this one has ended.")


async def test_children_of_a_parent_that_ended_in_another_process_are_cancelled_when_somebody_comes(store: Store):
    async with at_work(store, subagent(ASK, ASK)) as engine:
        parent = await delegate(engine)
        await outcome(engine, parent)
        child = await delegate(engine, parent_id=parent)
        await outcome(engine, child)
    failure = await unfinished(store, parent, FailureType.CANCELLED, "It was killed here.")
    await store.change(parent, moves.cancel(CancelKind.HARD, failure, utc_now()))
    async with at_work(store, subagent()) as engine:
        assert (await until(engine, child, lambda task: task.status.is_terminal)).status is TaskStatus.CANCELLED


async def test_a_parent_that_answers_too_early_is_told_once_and_may_wait(store: Store):
    gate = Gate()

    def open_gate() -> ToolCallPart:
        gate.open.set()
        return calling("wait_tasks", itself, "w")()

    itself: list[ScriptedModel] = []
    top, model = boss(task("helper", mode="async"), "Too early.", open_gate, "Now.")
    itself.append(model)
    helper = subagent(GATED, "42", tools=[gate.gate], name="helper")
    async with at_work(store, top, helper) as engine:
        task_id = await delegate(engine, subagent="boss")
        assert (await outcome(engine, task_id)).result == "Now."
        child = await only_child(store, task_id)
    assert (child.status, child.result) == (TaskStatus.COMPLETED, "42")
    [reminder] = heard(model.requests[-1])
    assert reminder.startswith("You have answered, but tasks that you have delegated are still open:\n- ")
    assert f"{child.task_id} (helper): " in reminder


async def test_a_parent_that_answers_again_ends_and_its_children_are_cancelled(store: Store):
    gate = Gate()
    top, model = boss(task("helper", mode="async"), "Enough.", "Enough, really.")
    helper = subagent(GATED, tools=[gate.gate], name="helper")
    async with at_work(store, top, helper) as engine:
        task_id = await delegate(engine, subagent="boss")
        done = await outcome(engine, task_id)
        child = await only_child(store, task_id)
        await until(engine, child.task_id, lambda task: task.cancel_requested is not None or task.status.is_terminal)
        gate.open.set()
        assert (await until(engine, child.task_id, lambda task: task.status.is_terminal)).status is TaskStatus.CANCELLED
    assert (done.result, len(model.requests)) == ("Enough, really.", 3)


async def test_a_task_may_go_only_so_deep_and_the_model_is_told(store: Store):
    selfish = ScriptedModel(task("boss"), task("boss", "t2"), "Alone.", "Done.")
    top = subagent(agent=Agent(selfish), name="boss", subagents=["boss"], limits={"depth": 1})
    async with at_work(store, top) as engine:
        assert (await outcome(engine, await delegate(engine, subagent="boss"))).result == "Done."
    refused = "Tasks may be delegated 1 levels deep at the most. Do this part yourself."
    assert any(refused in str(message) for message in selfish.requests[2])


async def test_only_so_many_tasks_may_be_below_one_task_on_all_levels_together(store: Store):
    top, model = boss([task("middle", "a"), task("leaf", "b")], task("leaf", "c"), "Done.", to=["middle", "leaf"])
    middle = subagent(task("leaf"), "Done.", name="middle", subagents=["leaf"])
    settings = replace(ALONE, limits=Limits(descendants=3))
    async with at_work(store, top, middle, subagent("1", "2", name="leaf"), settings=settings) as engine:
        task_id = await delegate(engine, subagent="boss")
        assert (await outcome(engine, task_id)).result == "Done."
    assert told(model)[-1].startswith("3 tasks have been delegated below one task of the host, which is the most")
    tree = (await store.read(task_id)).tree
    assert tree is not None
    assert (tree.descendants, tree.children) == (3, ())


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        (task("other"), "No subagent is named 'other'. Configured: helper."),
        (ToolCallPart("check_task", {"task_id": "t"}, tool_call_id="c"), "There is no task 't'."),
        (ToolCallPart("task", {"descripton": "x"}, tool_call_id="c"), "`description` is missing"),
    ],
    ids=["another subagent", "an unknown task", "a misspelt argument"],
)
async def test_what_a_parent_may_not_do_it_is_told(store: Store, call: ToolCallPart, refused: str):
    top, model = boss(call, "Then not.")
    async with at_work(store, top, subagent("42", name="helper"), subagent("42", name="other")) as engine:
        assert (await outcome(engine, await delegate(engine, subagent="boss"))).result == "Then not."
    assert refused in told(model)[0]


async def test_a_task_of_somebody_else_cannot_be_touched(store: Store):
    async with at_work(store, subagent("42", name="helper"), boss("x")[0]) as engine:
        foreign = await delegate(engine, subagent="helper")
        await outcome(engine, foreign)
    calls = [
        ToolCallPart(name, {"task_id": foreign, **more}, tool_call_id=name)
        for name, more in [
            ("check_task", {}),
            ("answer_subagent", {"answer": "x"}),
            ("send_message_to_subagent", {"message": "x"}),
            ("soft_cancel_task", {}),
            ("hard_cancel_task", {}),
        ]
    ]
    wait = ToolCallPart("wait_tasks", {"task_ids": [foreign]}, tool_call_id="w")
    top, model = boss([*calls, wait], "Then not.")
    async with at_work(store, subagent("42", name="helper"), top) as engine:
        await outcome(engine, await delegate(engine, subagent="boss"))
    assert len(told(model)) == 6
    assert all(said.startswith(f"There is no task '{foreign}'.") for said in told(model))


async def test_a_parent_steers_lists_and_cancels_its_children(store: Store):
    gate = Gate()
    top, model = boss_that(
        task("helper", mode="async"),
        OnChild("send_message_to_subagent", "m", {"message": "Hurry."}),
        ToolCallPart("list_active_tasks", {}, tool_call_id="l"),
        OnChild("hard_cancel_task", "h"),
        "Done.",
    )
    helper = subagent(GATED, tools=[gate.gate], name="helper")
    async with at_work(store, top, helper) as engine:
        task_id = await delegate(engine, subagent="boss")
        assert (await outcome(engine, task_id)).result == "Done."
    assert told(model)[2].startswith("1 open:")
    assert "(helper): cancelled." in told(model)[3]


async def test_a_follow_up_remembers_the_child_that_it_follows(store: Store):
    worker = ScriptedModel("42", "Still 42.")
    itself: list[ScriptedModel] = []

    def again() -> ToolCallPart:
        arguments = {"description": "Sure?", "continue_task_id": first_id(itself[0])}
        return ToolCallPart("task", arguments, tool_call_id="t2")

    top, model = boss(task("helper"), again, "Done.")
    itself.append(model)
    async with at_work(store, top, subagent(agent=Agent(worker), name="helper")) as engine:
        assert (await outcome(engine, await delegate(engine, subagent="boss"))).result == "Done."
    assert "Still 42." in told(model)[-1]
    assert len(worker.requests[1]) == 3


async def test_what_a_parent_did_with_its_tools_is_in_its_journal(store: Store):
    top, _ = boss(task("helper"), "Done.")
    async with at_work(store, top, subagent("42", name="helper")) as engine:
        task_id = await delegate(engine, subagent="boss")
        await outcome(engine, task_id)
    kinds = [entry.kind for entry in await store.journal(task_id) if entry.kind is not EntryKind.EVENT]
    assert kinds[:2] == [EntryKind.TURN, EntryKind.TOOL_STARTED]
    assert kinds.count(EntryKind.TOOL_RESULT) == 1


async def test_a_host_reads_what_the_whole_tree_has_used(store: Store):
    top, _ = boss(task("helper"), "Done.")
    async with at_work(store, top, subagent("42", name="helper")) as engine:
        task_id = await delegate(engine, subagent="boss")
        await outcome(engine, task_id)
        standing = await engine.look(task_id)
    assert (standing.usage.requests, standing.usage.tool_calls) == (3, 1)
    assert standing == await standing_of(store, await store.read(task_id))


def test_delegates_are_found_by_what_people_call_them():
    boss = SubAgentConfig(name="boss", description="", instructions="", subagents=["Code Reviewer"])
    reviewer = SubAgentConfig(name="code-reviewer", description="", instructions="")
    assert by_name([boss, reviewer])["boss"].get("subagents") == ["code-reviewer"]


def test_a_subagent_can_delegate_only_to_one_that_is_configured():
    with pytest.raises(
        ConfigError, match="'boss' may delegate to 'helpr', which is not configured; did you mean 'helper'"
    ):
        Roster([boss(to=["helpr"])[0], subagent(name="helper")])


@pytest.mark.parametrize("hot_wait", [0.0, 5.0], ids=["after it was parked", "while it stayed at hand"])
async def test_a_question_and_a_wait_in_one_turn_are_both_waited_for(store: Store, hot_wait: float):
    own = ToolCallPart("ask_parent", {"question": "May I?"}, tool_call_id="own")
    gate = Gate()
    top, model = boss([own, task("helper")], "Done.")
    helper = subagent(GATED, "42", tools=[gate.gate], name="helper")
    async with at_work(store, top, helper, settings=EngineSettings(hot_wait=hot_wait)) as engine:
        task_id = await delegate(engine, subagent="boss")
        await until(engine, task_id, lambda task: task.status is ASKING)
        await engine.answer(task_id, "Yes.")
        await gate.reached.wait()
        gate.open.set()
        assert (await outcome(engine, task_id)).result == "Done."
    first, second = told(model)
    assert first == "Yes."
    assert "(helper): completed." in second
