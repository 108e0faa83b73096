"""MCP servers as tools of a subagent, with real processes."""

import logging
import os
import signal
from pathlib import Path

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from bench import BENCH, TOOLBENCH, at_work, ended, is_alive, returned, until, worker
from pydantic_ai.messages import ToolCallPart

from mcp_subagents.agents import Roster
from mcp_subagents.delegation import Submission
from mcp_subagents.engine import run_engine
from mcp_subagents.equipment.definitions import definition_of
from mcp_subagents.equipment.restarts import MOST_STARTS, WITHIN, seconds_to_start, wait_before_start
from mcp_subagents.equipment.served_tools import ServedTools, User
from mcp_subagents.equipment.tool_servers import ToolServers
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.testing import ScriptedModel
from mcp_subagents.types import FailureType, TaskStatus

pytestmark = pytest.mark.slow


async def test_a_subagent_uses_the_tools_of_a_server_over_several_turns():
    model = ScriptedModel(
        ToolCallPart("bench__add", {"left": 2, "right": 3}),
        ToolCallPart("bench__add", {"left": 5, "right": 7}),
        "12",
    )
    async with at_work(worker(model=model, mcp_servers={"bench": BENCH})) as engine:
        task = await ended(engine)
    assert (task.status, task.result, returned(model)) == (TaskStatus.COMPLETED, "12", [5, 12])


async def test_a_server_is_started_once_for_many_tasks_and_subagents_and_is_gone_with_the_engine():
    pid = ToolCallPart("bench__pid", {})
    first, second = ScriptedModel(pid, "done", pid, "done"), ScriptedModel(pid, "done")
    one = worker(model=first, mcp_servers={"bench": BENCH})
    other = worker(model=second, mcp_servers={"bench": BENCH}, name="other")
    async with at_work(one, other) as engine:
        await ended(engine)
        (process,) = returned(first)
        await ended(engine)
        await ended(engine, "other")
        assert (returned(first), returned(second)) == ([process], [process])
        assert is_alive(process)
    assert not is_alive(process)


async def test_no_server_is_started_before_a_task_needs_it(tmp_path: Path):
    mark = tmp_path / "started"
    mute = {"command": BENCH["command"], "args": [TOOLBENCH, "--mute", str(mark)]}
    async with at_work(worker("hello", mcp_servers={"bench": mute}), worker("hello", name="plain")) as engine:
        assert (await ended(engine, "plain")).result == "hello"
    assert not mark.exists()


async def test_a_server_that_dies_in_a_call_is_told_to_the_model_and_started_again(tmp_path: Path):
    notes = tmp_path / "notes"
    pid = ToolCallPart("bench__pid", {})
    model = ScriptedModel(pid, ToolCallPart("bench__die", {"path": str(notes)}), pid, "went on")
    bench = {**BENCH, "env": {"BENCH_TOKEN": "s3cret-of-the-bench"}}
    async with at_work(worker(model=model, mcp_servers={"bench": bench})) as engine:
        task = await ended(engine)
    before, told, after = returned(model)
    assert (task.result, before == after) == ("went on", False)
    assert "stopped during this call (ended by signal 9): it may or may not have taken effect" in told
    assert "the roof fell in; my token is [redacted]" in told
    assert notes.read_text(encoding="utf-8") == "died\n"


async def test_a_server_that_died_between_two_tasks_is_started_again_before_the_call(tmp_path: Path):
    pid = ToolCallPart("bench__pid", {})
    model = ScriptedModel(pid, "one", pid, "two")
    async with at_work(worker(model=model, mcp_servers={"bench": BENCH})) as engine:
        await ended(engine)
        (first,) = returned(model)
        with anyio.fail_after(5):
            os.kill(first, signal.SIGKILL)
            await until(lambda: not is_alive(first))
        task = await ended(engine)
    (second,) = returned(model)
    assert isinstance(second, int), "the call was made, by the new process"
    assert (task.result, second == first) == ("two", False)


async def test_a_server_that_does_not_start_fails_the_task_with_its_cause():
    broken = {"command": BENCH["command"], "args": [TOOLBENCH, "--broken"]}
    async with at_work(worker("never said", mcp_servers={"bench": broken})) as engine:
        task = await ended(engine)
    assert task.failure is not None
    assert (task.status, task.failure.failure_type) == (TaskStatus.FAILED, FailureType.PERMANENT)
    assert "The tool server 'bench' could not be started" in task.failure.message
    assert "(exit code 1); it said: no licence found" in task.failure.message


async def test_a_command_that_does_not_exist_fails_the_task_with_its_cause():
    async with at_work(worker("x", mcp_servers={"bench": {"command": "no-such-command-here"}})) as engine:
        task = await ended(engine)
    assert task.failure is not None
    assert "'bench' could not be started (no-such-command-here)" in task.failure.message


async def test_a_server_that_dies_again_and_again_is_left_alone(tmp_path: Path):
    die = ToolCallPart("bench__die", {"path": str(tmp_path / "notes")})
    model = ScriptedModel(*([die] * (MOST_STARTS + 2)), "gave up")
    async with at_work(worker(model=model, mcp_servers={"bench": BENCH})) as engine:
        task = await ended(engine)
    told = returned(model)
    assert (task.result, len(told)) == ("gave up", MOST_STARTS + 2)
    assert (tmp_path / "notes").read_text(encoding="utf-8") == "died\n" * MOST_STARTS
    assert all("The call was not made." in each for each in told[MOST_STARTS:])


@pytest.mark.parametrize("flags", [[], ["--stubborn"]], ids=["in a call", "deaf to SIGTERM and a closed stdin"])
async def test_no_process_is_left_when_the_engine_stops_in_the_middle_of_a_call(tmp_path: Path, flags: list[str]):
    notes = tmp_path / "notes"
    bench = {"command": BENCH["command"], "args": [TOOLBENCH, *flags]}
    model = ScriptedModel(ToolCallPart("bench__hang", {"path": str(notes)}), "never")
    async with at_work(worker(model=model, mcp_servers={"bench": bench})) as engine:
        await engine.submit(Submission(description="Go.", subagent="worker"))
        await until(lambda: notes.exists() and notes.read_text(encoding="utf-8").endswith("\n"))
    assert not is_alive(int(notes.read_text(encoding="utf-8")))


async def test_no_process_is_left_when_the_engine_stops_while_a_server_starts(tmp_path: Path):
    mark = tmp_path / "pid"
    mute = {"command": BENCH["command"], "args": [TOOLBENCH, "--mute", str(mark)]}
    async with at_work(worker("never", mcp_servers={"bench": mute})) as engine:
        await engine.submit(Submission(description="Go.", subagent="worker"))
        await until(lambda: mark.exists() and mark.read_text(encoding="utf-8") != "")
    assert not is_alive(int(mark.read_text(encoding="utf-8")))


async def test_a_server_gets_no_keys_but_those_it_is_given(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-providers-own-key")
    monkeypatch.setenv("BENCH_TOKEN", "s3cret-of-the-bench")
    model = ScriptedModel(ToolCallPart("bench__environment", {}), "done")
    bench = {**BENCH, "env": {"TOKEN": "${BENCH_TOKEN}", "MODE": "${BENCH_MODE:-plain}"}}
    async with at_work(worker(model=model, mcp_servers={"bench": bench})) as engine:
        await ended(engine)
    (given,) = returned(model)
    assert (given["TOKEN"], given["MODE"]) == ("s3cret-of-the-bench", "plain")
    assert "OPENAI_API_KEY" not in given
    assert "BENCH_TOKEN" not in given


async def test_two_engines_on_one_roster_share_servers_and_the_first_keeps_them():
    pid = ToolCallPart("bench__pid", {})
    model = ScriptedModel(pid, "one", pid, "two", pid, "three")
    roster = Roster([worker(model=model, mcp_servers={"bench": BENCH})])
    with anyio.fail_after(30):
        async with run_engine(MemoryStore(), roster) as first:
            async with run_engine(MemoryStore(), roster) as second:
                await ended(second)
                (process,) = returned(model)
                await ended(first)
                assert returned(model) == [process]
            task = await ended(first)
            assert (task.result, returned(model)) == ("three", [process])
    assert not is_alive(process)


async def test_the_engine_that_stays_starts_servers_again_that_went_with_the_one_that_left():
    pid = ToolCallPart("bench__pid", {})
    model = ScriptedModel(pid, "one", pid, "two")
    roster = Roster([worker(model=model, mcp_servers={"bench": BENCH})])
    left = anyio.Event()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:

            async def first(*, task_status: anyio.abc.TaskStatus[None]) -> None:
                async with run_engine(MemoryStore(), roster) as engine:
                    await ended(engine)
                    task_status.started()
                    await left.wait()

            await group.start(first)
            (process,) = returned(model)
            async with run_engine(MemoryStore(), roster) as second:
                left.set()
                await until(lambda: not is_alive(process))
                task = await ended(second)
                (again,) = returned(model)
                assert (task.result, is_alive(again), again == process) == ("two", True, False)


async def test_a_server_whose_definition_was_replaced_is_ended_when_no_run_needs_it():
    servers, before = ToolServers(), definition_of("bench", {**BENCH, "env": {"EDITION": "1"}})
    after, kept = definition_of("bench", {**BENCH, "env": {"EDITION": "2"}}), definition_of("other", BENCH)
    old = ServedTools(before, servers, User("worker", frozenset({before.key, kept.key})))
    new = ServedTools(after, servers, User("worker", frozenset({after.key, kept.key})))
    with anyio.fail_after(30):
        async with servers.open(anyio.lowlevel.checkpoint):
            async with old:
                first, other = await servers.server(before).session(), await servers.server(kept).session()
                async with new:
                    second = await servers.server(after).session()
                assert not first.is_over, "a run is still at work with it"
            assert (first.is_over, second.is_over, other.is_over) == (True, False, False)


async def test_an_error_of_a_tool_is_told_to_the_model_and_not_run_again():
    model = ScriptedModel(ToolCallPart("bench__fail", {}), ToolCallPart("bench__fail", {}), "so be it")
    async with at_work(worker(model=model, mcp_servers={"bench": BENCH})) as engine:
        task = await ended(engine)
    assert (task.result, returned(model)) == ("so be it", ["no such planet", "no such planet"])


async def test_a_stored_definition_keeps_variables_as_they_are_written(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BENCH_TOKEN", "s3cret-of-the-bench")
    bench = {**BENCH, "env": {"TOKEN": "${BENCH_TOKEN}"}}
    stored = Roster([worker(mcp_servers={"bench": bench}, model="test")]).definition("worker")
    assert stored is not None
    assert "${BENCH_TOKEN}" in stored
    assert "s3cret" not in stored


async def test_what_a_server_says_is_logged_without_its_secrets(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, logger="mcp_subagents")
    bench = {**BENCH, "env": {"BENCH_TOKEN": "s3cret-of-the-bench"}}
    model = ScriptedModel(ToolCallPart("bench__die", {"path": str(tmp_path / "notes")}), "done")
    async with at_work(worker(model=model, mcp_servers={"bench": bench})) as engine:
        await ended(engine)
    assert "the roof fell in" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    ("starts", "now", "wait"),
    [
        ([], 0.0, 0.0),
        ([0.0] * (MOST_STARTS - 1), 1.0, 0.0),
        ([0.0] * MOST_STARTS, 100.0, WITHIN - 100.0),
        ([0.0] * MOST_STARTS, WITHIN, 0.0),
    ],
    ids=["the first start", "a few starts", "too many starts", "long enough ago"],
)
def test_a_server_is_started_so_many_times_within_a_while(starts: list[float], now: float, wait: float):
    assert wait_before_start(starts, now) == wait


@pytest.mark.parametrize(("timeout", "seconds"), [(4.0, 4.0), (300.0, 60.0)], ids=["a short one", "a long one"])
def test_a_server_comes_up_within_its_timeout_or_a_minute(timeout: float, seconds: float):
    assert seconds_to_start(timeout) == seconds
