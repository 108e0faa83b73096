"""Unread mail: every answer ends with what nobody has looked at yet, until somebody has."""

from typing import Any, ClassVar

import anyio
import pytest
from front import PASS, Gate, ask, call, connected, delegate, host_of, outcome, refusal, said, server_of, subagent, view
from mcp import Client

from mcp_subagents.delegation import News, Unread
from mcp_subagents.errors import StoreUnavailable
from mcp_subagents.server.mail import see
from mcp_subagents.store import Query
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.types import TaskHandle, TaskStatus
from mcp_subagents.words import mail_in_words


async def ended(host: Client, store: MemoryStore, *task_ids: str) -> None:
    """Wait for tasks without reading them."""
    async with store.watch() as changes:
        for task_id in task_ids:
            while not (await store.read(task_id)).unread:
                await changes.receive()


async def test_every_result_tells_of_unread_mail_in_its_last_line(era: str):
    store, gate = MemoryStore(), Gate()
    server = server_of(subagent("Done.", ask("Which?"), PASS, "Sync.", tools=[gate.gate]), store=store)
    async with connected(server, era) as host:
        done = await delegate(host, "1")
        await ended(host, store, done)
        asking = await delegate(host, "2")
        await ended(host, store, asking)
        running = await delegate(host, "3")
        await gate.reached.wait()
        line = f"Unread: 1 finished ({done}), 1 asks you ({asking}). See check_task."
        for tool, arguments in (
            ("list_active_tasks", {}),
            ("task", {"description": "4"}),
            ("check_task", {"task_id": running}),
            ("wait_tasks", {"task_ids": [running], "timeout": 0}),
            ("send_message_to_subagent", {"task_id": running, "message": "Hi."}),
            ("soft_cancel_task", {"task_id": running}),
            ("hard_cancel_task", {"task_id": running}),
        ):
            result = await host.call_tool(tool, arguments)
            assert said(result).split("\n")[-2:] == ["", line], tool
            assert view(result)["unread"] == line, tool
        for wrong in ({"task_id": "nope"}, {"nope": 1}):
            assert refusal(await host.call_tool("check_task", wrong)).split("\n")[-2:] == ["", line]


READERS = [
    pytest.param("check_task", {"task_id": "{}"}, id="check_task"),
    pytest.param("wait_tasks", {"task_ids": ["{}"]}, id="wait_tasks"),
    pytest.param("resource", "subagents://tasks/{}", id="the task as a resource"),
    pytest.param("resource", "subagents://tasks/{}/result", id="its result as a resource"),
]


@pytest.mark.parametrize(("tool", "arguments"), READERS)
async def test_what_was_read_is_mail_no_more(tool: str, arguments: Any, era: str):
    store = MemoryStore()
    async with connected(server_of(subagent("Done."), store=store), era) as host:
        task_id = await delegate(host)
        await ended(host, store, task_id)
        assert "unread" in await call(host, "list_active_tasks")
        await read(host, tool, arguments, task_id)
        result = await host.call_tool("list_active_tasks", {})
    assert (view(result), said(result)) == ({"tasks": []}, "No task is open.")


async def read(host: Client, tool: str, arguments: Any, task_id: str) -> None:
    if tool == "resource":
        await host.read_resource(arguments.format(task_id))
        return
    given = {"task_id": task_id} if "task_id" in arguments else {"task_ids": [task_id]}
    assert "unread" not in await call(host, tool, **given)


async def test_a_question_is_mail_until_it_is_looked_at(era: str):
    store = MemoryStore()
    async with connected(server_of(subagent(ask("Which?"), "Done."), store=store), era) as host:
        task_id = await delegate(host)
        await ended(host, store, task_id)
        line = f"Unread: 1 asks you ({task_id}). See check_task."
        # To be listed is not to be read.
        assert [(await call(host, "list_active_tasks"))["unread"] for _ in range(2)] == [line, line]
        assert "unread" not in await call(host, "check_task", task_id=task_id)
        assert "unread" not in await call(host, "list_active_tasks")
        await call(host, "answer_subagent", task_id=task_id, answer="This.")
        await ended(host, store, task_id)
        assert (await call(host, "list_active_tasks"))["unread"] == f"Unread: 1 finished ({task_id}). See check_task."


async def test_the_result_of_a_sync_call_is_no_mail(era: str):
    async with host_of(subagent("Done."), era=era) as host:
        assert "unread" not in await call(host, "task", description="Go.")
        assert await call(host, "list_active_tasks") == {"tasks": []}


async def test_a_result_that_comes_after_the_look_is_still_mail(era: str):
    gate = Gate()
    async with host_of(subagent(PASS, "Done.", tools=[gate.gate]), era=era) as host:
        task_id = await delegate(host)
        await gate.reached.wait()
        await call(host, "check_task", task_id=task_id)
        await host.read_resource(f"subagents://tasks/{task_id}")
        gate.open.set()
        while "unread" not in await call(host, "list_active_tasks"):
            await anyio.lowlevel.checkpoint()


async def test_mail_outlives_the_server(era: str):
    store = MemoryStore()
    async with connected(server_of(subagent("Done."), store=store), era) as host:
        task_id = await delegate(host)
        await ended(host, store, task_id)
    async with connected(server_of(subagent(), store=store), era) as host:
        assert task_id in (await call(host, "list_active_tasks"))["unread"]
        await outcome(host, task_id)
        assert "unread" not in await call(host, "list_active_tasks")


async def test_only_a_task_that_asks_or_has_ended_is_seen():
    class Noting:
        seen: ClassVar[list[str]] = []

        async def see(self, shown: TaskHandle, *, owner: str) -> None:
            self.seen.append(shown.task_id)

    engine: Any = Noting()
    for status in TaskStatus:
        await see(engine, TaskHandle(status, "worker", "Go.", status=status), owner="local")
    assert engine.seen == ["waiting_for_answer", "completed", "failed", "cancelled"]


async def test_a_result_is_not_lost_when_the_mail_cannot_be_read(era: str):
    class Forgetful(MemoryStore):
        async def count(self, query: Query) -> int:
            if query.unread:
                raise StoreUnavailable("The disk is full.")
            return await super().count(query)

    async with connected(server_of(subagent("Done."), store=Forgetful()), era) as host:
        assert (await call(host, "task", description="Go."))["result"] == "Done."


NONE = News(count=0, first=[])


@pytest.mark.parametrize(
    ("ended", "asking", "words"),
    [
        (News(count=1, first=["a"]), NONE, "1 finished (a)"),
        (NONE, News(count=1, first=["a"]), "1 asks you (a)"),
        (NONE, News(count=2, first=["a", "b"]), "2 ask you (a, b)"),
        (News(count=3, first=["a", "b", "c"]), News(count=1, first=["d"]), "3 finished (a, b, c), 1 asks you (d)"),
        (News(count=5, first=["a", "b", "c"]), NONE, "5 finished (a, b, c, and 2 more)"),
    ],
)
def test_mail_in_words(ended: News, asking: News, words: str):
    assert mail_in_words(Unread(ended=ended, asking=asking)) == f"Unread: {words}. See check_task."


def test_no_mail_is_no_words():
    assert mail_in_words(Unread(ended=NONE, asking=NONE)) == ""
