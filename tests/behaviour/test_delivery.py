"""How results reach a host: as long as it can bear it waits, then it has the task id, and nothing is lost."""

import re
from typing import Any

import anyio
import pytest
from front import (
    AT_ONCE,
    PASS,
    PATIENT,
    Gate,
    ask,
    call,
    connected,
    delegate,
    host_of,
    outcome,
    said,
    server_of,
    subagent,
    view,
)
from mcp import MCPError

from mcp_subagents.errors import ConfigError
from mcp_subagents.server import DeliverySettings
from mcp_subagents.server.hosts import HOSTS, Host, host_named


@pytest.mark.parametrize(
    ("mode", "more", "hints", "chosen"),
    [
        ("sync", {}, {}, "sync"),
        ("async", {}, {}, "async"),
        ("auto", {}, {}, "async"),
        ("auto", {}, {"complexity": "simple"}, "sync"),
        ("auto", {"typical_complexity": "simple"}, {}, "sync"),
        ("auto", {"typical_complexity": "simple"}, {"complexity": "complex"}, "async"),
        ("auto", {}, {"requires_user_context": True}, "sync"),
        ("auto", {"typically_needs_context": True}, {}, "sync"),
        ("auto", {"typically_needs_context": True}, {"requires_user_context": False}, "async"),
        ("auto", {}, {"can_run_independently": False}, "sync"),
        ("auto", {}, {"may_need_clarification": True}, "async"),
        ("auto", {}, {"may_need_clarification": True, "is_time_sensitive": True}, "sync"),
        ("auto", {"preferred_mode": "sync"}, {"complexity": "complex"}, "sync"),
        ("auto", {"preferred_mode": "async"}, {"complexity": "simple"}, "async"),
        ("sync", {"preferred_mode": "async"}, {}, "sync"),
        ("async", {"preferred_mode": "sync"}, {}, "async"),
    ],
)
async def test_the_mode_is_the_callers_word_or_chosen(
    mode: str, more: dict[str, Any], hints: dict[str, Any], chosen: str
):
    async with host_of(subagent("Done.", **more), era="2026-07-28") as host:
        task = await call(host, "task", description="Go.", mode=mode, **hints)
    assert task["mode"] == chosen
    assert (task["status"] == "completed") == (chosen == "sync")


async def test_a_host_that_notifies_waits_where_we_choose(era: str):
    async with host_of(subagent("Done.", "Done."), era=era, host="claude-code") as host:
        assert (await call(host, "task", description="Go.", mode="auto"))["mode"] == "sync"
        assert (await call(host, "task", description="Go.", mode="async"))["mode"] == "async"


@pytest.mark.parametrize(
    ("name", "near", "remote"),
    [
        (None, 45, 45),
        ("", 45, 45),
        ("anything", 45, 45),
        ("claude-ai", 45, 45),
        ("claude-code", 1_500, 270),
        ("Claude-Code", 1_500, 270),
        ("codex-mcp-client", 240, 240),
        ("gemini-cli-mcp-client", 300, 300),
        ("opencode", 25, 25),
        ("Visual Studio Code - Insiders", 600, 600),
    ],
)
def test_what_is_known_of_a_host(name: str | None, near: float, remote: float):
    host = host_named(name)
    assert (host.bears(remote=False), host.bears(remote=True)) == (near, remote)


@pytest.mark.parametrize(
    ("delivery", "waits"),
    [
        pytest.param(DeliverySettings(), False, id="as long as the host can bear"),
        pytest.param(PATIENT, True, id="as long as the operator says"),
    ],
)
async def test_how_long_a_call_lasts(
    delivery: DeliverySettings, waits: bool, era: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(HOSTS, "hurried", Host(patience=0))
    async with host_of(subagent("Done."), era=era, host="Hurried App", delivery=delivery) as host:
        assert ((await call(host, "task", description="Go."))["status"] == "completed") == waits


async def test_after_its_patience_a_host_has_the_id_and_the_task_goes_on(era: str):
    gate = Gate()
    async with host_of(subagent(PASS, "Done.", tools=[gate.gate]), era=era, delivery=AT_ONCE) as host:
        result = await host.call_tool("task", {"description": "Go."})
        task = view(result)
        assert (task["mode"], task["result"]) == ("sync", None)
        assert task["status"] in ("pending", "running")
        assert task["next"] == (
            "It goes on by itself, do not delegate it again: call wait_tasks "
            f'(task_ids ["{task["task_id"]}"]) when you need the result, or do something else first.'
        )
        assert said(result).endswith(f"Next: {task['next']}")
        await gate.reached.wait()
        gate.open.set()
        while (later := await call(host, "check_task", task_id=task["task_id"]))["status"] != "completed":
            await anyio.lowlevel.checkpoint()
    assert later["result"] == "Done."


async def test_how_it_goes_is_told_while_a_host_waits(era: str):
    gate = Gate()
    told: list[tuple[float, str]] = []
    enough = anyio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        if gate.reached.is_set():
            told.append((progress, message or ""))
        if len(told) == 3:
            enough.set()

    delivery = DeliverySettings(sync_patience=60, progress_every=0.01)
    async with host_of(subagent("First.", PASS, "Done.", tools=[gate.gate]), era=era, delivery=delivery) as host:
        await call(host, "task", description="Warm up.")
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                await host.call_tool("task", {"description": "Go."}, progress_callback=hear)

            group.start_soon(wait)
            await enough.wait()
            gate.open.set()
    numbers = [number for number, _ in told]
    assert numbers == sorted(set(numbers))
    assert re.fullmatch(r"turn 1 · calling gate · \d+ tokens", told[2][1])  # the first may have been on its way before


async def test_the_progress_of_a_wait_tells_of_all_its_tasks(era: str):
    gate = Gate()
    told: list[str] = []
    enough = anyio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")
        enough.set()

    delivery = DeliverySettings(sync_patience=60, progress_every=0.01)
    async with host_of(subagent("First.", PASS, "Done.", tools=[gate.gate]), era=era, delivery=delivery) as host:
        first = (await call(host, "task", description="Warm up."))["task_id"]
        second = await delegate(host)
        await gate.reached.wait()
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                await host.call_tool("wait_tasks", {"task_ids": [first, second]}, progress_callback=hear)

            group.start_soon(wait)
            await enough.wait()
            gate.open.set()
    assert told[0].startswith("1 of 2 ended · general-purpose: turn 1 · calling gate")


async def test_all_are_waited_for(era: str):
    async with host_of(subagent("Done.", "Done."), era=era) as host:
        ids = [await delegate(host), await delegate(host)]
        result = await host.call_tool("wait_tasks", {"task_ids": ids})
    waited = view(result)
    assert set(waited) == {"mode", "finished", "total", "timed_out", "tasks"}
    assert (waited["mode"], waited["finished"], waited["total"], waited["timed_out"]) == ("all", 2, 2, False)
    assert [task["task_id"] for task in waited["tasks"]] == ids
    assert said(result).startswith("2 of 2 tasks have ended.\n\n---\n\nTask ")


async def test_any_is_enough(era: str):
    gate = Gate()
    async with host_of(subagent(PASS, "Quick.", tools=[gate.gate]), era=era) as host:
        slow = await delegate(host)
        await gate.reached.wait()
        quick = await delegate(host)
        waited = await call(host, "wait_tasks", task_ids=[slow, quick], mode="any")
    assert (waited["finished"], waited["total"], waited["timed_out"]) == (1, 2, False)
    assert [task["status"] for task in waited["tasks"]] == ["running", "completed"]


async def test_a_wait_ends_as_soon_as_one_asks(era: str):
    gate = Gate()
    async with host_of(subagent(PASS, ask("Which?"), tools=[gate.gate]), era=era) as host:
        slow = await delegate(host)
        await gate.reached.wait()
        asking = await delegate(host)
        waited = await call(host, "wait_tasks", task_ids=[slow, asking])
    assert (waited["finished"], waited["timed_out"]) == (0, False)
    assert waited["tasks"][1]["questions"] == [{"question_id": "q1", "question": "Which?"}]


async def test_time_runs_out_for_a_wait_but_not_for_its_tasks(era: str):
    gate = Gate()
    async with host_of(subagent("Quick.", PASS, "Done.", tools=[gate.gate]), era=era) as host:
        quick = (await call(host, "task", description="Warm up."))["task_id"]
        slow = await delegate(host)
        await gate.reached.wait()
        result = await host.call_tool("wait_tasks", {"task_ids": [quick, slow], "timeout": 0})
        assert (view(result)["finished"], view(result)["timed_out"]) == (1, True)
        assert said(result).startswith("1 of 2 tasks have ended; time is up, it goes on.")
        gate.open.set()
        assert (await outcome(host, slow))["result"] == "Done."


async def test_a_wait_is_never_longer_than_the_patience(era: str):
    gate = Gate()
    async with host_of(subagent(PASS, tools=[gate.gate]), era=era, delivery=AT_ONCE) as host:
        task_id = await delegate(host)
        await gate.reached.wait()
        assert (await call(host, "wait_tasks", task_ids=[task_id], timeout=3_600))["timed_out"]


async def test_an_ended_task_is_not_waited_for(era: str):
    async with host_of(subagent("Done."), era=era, delivery=PATIENT) as host:
        task_id = (await call(host, "task", description="Go."))["task_id"]
        waited = await call(host, "wait_tasks", task_ids=[task_id], timeout=0)
    assert (waited["finished"], waited["timed_out"]) == (1, False)


async def test_a_task_that_is_named_twice_is_one(era: str):
    async with host_of(subagent("Done."), era=era) as host:
        task_id = await delegate(host)
        waited = await call(host, "wait_tasks", task_ids=[task_id, task_id])
    assert (waited["finished"], waited["total"], len(waited["tasks"])) == (1, 1, 1)


@pytest.mark.parametrize("wire", [False, True], ids=["called directly", "over a wire"])
async def test_a_client_that_gives_up_loses_nothing(wire: bool, era: str):
    gate = Gate()
    server = server_of(subagent(PASS, "Done.", tools=[gate.gate]))
    arguments = {"description": "Go.", "idempotency_key": "once"}
    async with connected(server, era, wire=wire) as host:
        await call(host, "list_active_tasks")  # the engine is there from now on
        with pytest.raises(MCPError, match=r"(?i)timed out"):
            await host.call_tool("task", arguments, read_timeout_seconds=0.3)
        await gate.reached.wait()
        [task] = (await call(host, "list_active_tasks"))["tasks"]
        assert task["status"] == "running"
        gate.open.set()
        again = await call(host, "task", **arguments)
    assert (again["task_id"], again["result"], again["attempt"]) == (task["task_id"], "Done.", 1)


async def test_a_call_that_is_repeated_with_its_key_is_one_task(era: str):
    async with host_of(subagent("Done.", "Other."), era=era) as host:
        first, second = [await call(host, "task", description="Go.", idempotency_key="k") for _ in range(2)]
        other = await call(host, "task", description="Go.", idempotency_key="l")
    assert first["task_id"] == second["task_id"]
    assert other["task_id"] != first["task_id"]


@pytest.mark.parametrize(
    "settings",
    [
        {"sync_patience": -1},
        {"sync_patience": float("nan")},
        {"sync_patience": float("inf")},
        {"sync_patience": "45"},
        {"progress_every": 0},
        {"progress_every": True},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]):
    with pytest.raises(ConfigError, match="must be a number of seconds"):
        DeliverySettings(**settings)
