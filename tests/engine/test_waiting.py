"""Waiting without polling, watching, and what is unread."""

from dataclasses import replace

import anyio
from office import SETTINGS, at_work, delegate, outcome, subagent
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from test_steering import Gate

from mcp_subagents import moves
from mcp_subagents.delegation import Submission
from mcp_subagents.records import TaskRecord
from mcp_subagents.store import Query, Store
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.testing import ScriptedModel
from mcp_subagents.types import MessageType, TaskStatus
from tests.store.paperwork import NOW, ask, complete, running, start


async def test_waiting_for_what_has_ended_returns_at_once(store: Store):
    async with at_work(store, subagent("42")) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        again = await engine.wait([task_id, task_id], timeout=0)
    assert ([task.result for task in again.tasks], again.timed_out) == (["42", "42"], False)


async def test_waiting_for_any_returns_with_the_first_and_for_all_with_the_last(store: Store):
    gate = Gate()
    held = subagent(agent=Agent(ScriptedModel(ToolCallPart("gate", {}), "Late."), tools=[gate.gate]), name="held")
    async with at_work(store, held, subagent("Early.")) as engine:
        ids = [await delegate(engine, subagent="held"), await delegate(engine)]
        first = await engine.wait(ids, mode="any")
        assert [task.result for task in first.tasks] == [None, "Early."]
        timed_out = await engine.wait(ids, timeout=0.01)
        assert timed_out.timed_out
        gate.open.set()
        both = await engine.wait(ids)
    assert ([task.result for task in both.tasks], both.timed_out) == (["Late.", "Early."], False)


async def test_waiting_for_nothing_returns_at_once(store: Store):
    async with at_work(store, subagent()) as engine:
        for mode in ("all", "any"):
            assert (await engine.wait([], mode=mode)).tasks == []


async def test_many_can_wait_for_one_task(store: Store):
    gate = Gate()
    seen: list[str | None] = []
    worker = subagent(agent=Agent(ScriptedModel(ToolCallPart("gate", {}), "42"), tools=[gate.gate]))
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)

        async def wait() -> None:
            seen.append((await outcome(engine, task_id)).result)

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(wait)
            await gate.reached.wait()
            gate.open.set()
    assert seen == ["42"] * 20


async def test_those_who_wait_need_only_the_last_of_several_changes():
    store = MemoryStore()  # changes a task without a turn of the event loop, so that nobody sees what is in between
    seen: list[str | None] = []

    async with at_work(store, subagent()) as engine:

        async def wait() -> None:
            seen.append((await outcome(engine, "t1")).pending_question)

        async with anyio.create_task_group() as group:
            lease = await running(store, "t1")
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await store.change("t1", ask("q1"), lease=lease)
            await store.change("t1", moves.answer("yes", "", NOW))
            await store.change("t1", ask("q2"), lease=await start(store, "t1"))
    assert seen == ["q2?"]


class CountedReads(MemoryStore):
    """Says how often its tasks were read."""

    reads = 0

    async def read(self, task_id: str) -> TaskRecord:
        self.reads += 1
        return await super().read(task_id)


async def test_those_who_wait_are_told_how_a_task_ended_and_need_not_read_it():
    store = CountedReads()
    seen: list[str | None] = []

    async with at_work(store, subagent()) as engine:

        async def wait() -> None:
            seen.append((await outcome(engine, "t1")).result)

        async with anyio.create_task_group() as group:
            lease = await running(store, "t1")
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await store.change("t1", complete("42"), lease=lease)
            store.reads = 0
    assert (seen, store.reads) == (["42"], 0)


async def test_watching_shows_where_a_task_comes_to_rest_in_order(store: Store):
    seen: list[TaskStatus] = []
    async with at_work(store, subagent(ToolCallPart("ask_parent", {"question": "?"}), "42")) as engine:
        async with engine.watch() as changes:
            task_id = await delegate(engine)
            async for handle in changes:
                seen.append(handle.status)
                if handle.status is TaskStatus.WAITING_FOR_ANSWER:
                    await engine.answer(task_id, "Yes.")
                if handle.status.is_terminal:
                    break
    passing = {TaskStatus.PENDING, TaskStatus.RUNNING}  # may be over before somebody looks
    assert [status for status in seen if status not in passing] == [
        TaskStatus.WAITING_FOR_ANSWER,
        TaskStatus.COMPLETED,
    ]


async def test_others_tasks_are_not_watched(store: Store):
    async with at_work(store, subagent("42", "43")) as engine:
        async with engine.watch(owner="somebody") as changes:
            mine = await delegate(engine)
            await outcome(engine, mine)
            theirs = await engine.submit(Submission(description="Go.", subagent="worker"), owner="somebody")
            assert (await anext(changes)).task_id == theirs.task_id


async def test_what_ended_is_unread_until_it_is_seen(store: Store):
    async with at_work(store, subagent("42")) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        assert await store.count(Query(owner="local", unread=True)) == 1
        await engine.see(await engine.check(task_id))
        assert await store.count(Query(owner="local", unread=True)) == 0
        assert (await engine.check(task_id)).result == "42"


async def test_only_open_tasks_are_listed_unless_others_are_asked_for(store: Store):
    gate = Gate()
    held = subagent(agent=Agent(ScriptedModel(ToolCallPart("gate", {})), tools=[gate.gate]), name="held")
    async with at_work(store, held, subagent("42")) as engine:
        ended = await delegate(engine)
        await outcome(engine, ended)
        running = await delegate(engine, subagent="held")
        await gate.reached.wait()
        assert [task.task_id for task in await engine.list()] == [running]
        everything = await engine.list(statuses=frozenset(TaskStatus))
        assert [task.task_id for task in everything] == [ended, running]


async def test_pruning_deletes_what_ended_before_its_retention(store: Store):
    async with at_work(store, subagent("42"), settings=replace(SETTINGS, retention_days=0.0)) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        assert await engine.prune() == 1
        assert await engine.list(statuses=frozenset(TaskStatus)) == []
        assert await store.journal(task_id) == []


async def test_a_task_can_be_asked_what_it_is_doing(store: Store):
    gate = Gate()
    question = ToolCallPart("ask_parent", {"question": "?"}, tool_call_id="q")
    worker = subagent(agent=Agent(ScriptedModel(ToolCallPart("gate", {}), question, "Done."), tools=[gate.gate]))
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        await gate.reached.wait()
        assert (await engine.look(task_id)).doing == "calling gate"
        await engine.send(task_id, "Hurry.")
        assert (await engine.look(task_id)).doing == "calling gate"
        gate.open.set()
        await outcome(engine, task_id)
        assert (await engine.look(task_id)).doing == "waiting for an answer"
        await engine.answer(task_id, "Yes.")
        await outcome(engine, task_id)
        assert (await engine.look(task_id)).doing == "done"


async def test_a_model_at_work_is_what_a_task_is_doing(store: Store):
    asked, go = anyio.Event(), anyio.Event()

    async def think(messages: list[ModelMessage], info: object) -> ModelResponse:
        asked.set()
        await go.wait()
        return ModelResponse(parts=[TextPart("Done.")])

    async with at_work(store, subagent(agent=Agent(FunctionModel(think)))) as engine:
        task_id = await delegate(engine)
        await asked.wait()
        assert (await engine.look(task_id)).doing == "asking the model"
        go.set()
        await outcome(engine, task_id)


async def test_all_that_passed_between_host_and_subagent_can_be_read(store: Store):
    question = ToolCallPart("ask_parent", {"question": "A or B?"}, tool_call_id="q")
    async with at_work(store, subagent(question, "Done.")) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        await engine.send(task_id, "Hurry.")
        await engine.answer(task_id, "A")
        await outcome(engine, task_id)
        messages = await engine.messages(task_id)
    assert [(each.type, each.sender, each.receiver, each.payload) for each in messages] == [
        (MessageType.TASK_ASSIGNED, "host", "worker", {}),
        (MessageType.QUESTION, "worker", "host", {"question_id": "q", "question": "A or B?"}),
        (MessageType.TASK_UPDATE, "host", "worker", {"message": "Hurry."}),
        (MessageType.ANSWER, "host", "worker", {"question_id": "q", "answer": "A"}),
        (MessageType.TASK_COMPLETED, "worker", "host", {}),
    ]
    assert {each.task_id for each in messages} == {task_id}
