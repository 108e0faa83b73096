"""The processes of tool servers: their death is noticed, their talk does no harm, and nothing of them is left."""

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from bench import BENCH, TOOLBENCH, at_work, ended, is_alive, returned, until, worker
from processes import call, started
from pydantic_ai.messages import ToolCallPart

from mcp_subagents.testing import ScriptedModel
from mcp_subagents.types import TaskStatus

pytestmark = pytest.mark.slow

PID = ToolCallPart("bench__pid", {})


def with_child(notes: Path) -> dict[str, Any]:
    """A tool server that has a child, which holds all its pipes."""
    return {"command": sys.executable, "args": [TOOLBENCH, "--child"], "env": {"BENCH_CHILD": str(notes)}}


def children(notes: Path) -> list[int]:
    return [int(line) for line in notes.read_text(encoding="utf-8").splitlines()]


async def test_a_server_whose_child_holds_its_pipes_is_missed_at_once_and_started_again(tmp_path: Path):
    die = ToolCallPart("bench__die", {"path": str(tmp_path / "notes")})
    model = ScriptedModel(die, PID, "went on")
    server = with_child(tmp_path / "children")
    async with at_work(worker(model=model, mcp_servers={"bench": server}), seconds=30) as engine:
        task = await ended(engine)
        first, _ = children(tmp_path / "children")
        assert not is_alive(first), "the child of the first life went with it"
    told, process = returned(model)
    assert (task.result, type(process)) == ("went on", int)
    assert "stopped during this call (ended by signal 9)" in told


async def test_no_child_of_a_server_is_left_when_it_leaves_by_itself(tmp_path: Path):
    model = ScriptedModel(PID, "done")
    async with at_work(worker(model=model, mcp_servers={"bench": with_child(tmp_path / "children")})) as engine:
        await ended(engine)
        (child,) = children(tmp_path / "children")
        assert is_alive(child)
    assert not is_alive(child)


async def test_a_server_in_a_call_and_its_child_are_ended_when_we_are_killed(home: Path):
    notes, offspring = home / "notes", home / "children"
    bench = with_child(offspring)
    bench["env"]["BENCH_NOTES"] = str(notes)
    subagent = {"name": "worker", "mcp_servers": {"bench": bench}, "tools": ["bench__hang"], "can_ask_questions": False}
    (home / "subagents.json").write_text(json.dumps({"subagents": [subagent]}), encoding="utf-8")
    async with started("-m", "mcp_subagents", "--config", str(home / "subagents.json")) as talk:
        await talk.shake_hands()
        await talk.say(call(1, "task", description="Go.", subagent_type="worker", mode="async"))
        await talk.hear()
        await until(lambda: notes.exists() and notes.read_text(encoding="utf-8").endswith("\n"))
        left = [*children(notes), *children(offspring)]
        assert all(map(is_alive, left))
        talk.process.kill()
        await talk.process.wait()
    with anyio.fail_after(15):
        await until(lambda: not any(map(is_alive, left)))


async def test_idle_talk_on_standard_output_is_logged_by_name_and_does_no_harm(caplog: pytest.LogCaptureFixture):
    model = ScriptedModel(ToolCallPart("bench__mumble", {}), PID, ToolCallPart("bench__mumble", {}), "done")
    bench = {**BENCH, "env": {"BENCH_TOKEN": "s3cret-of-the-bench"}}
    async with at_work(worker(model=model, mcp_servers={"bench": bench}), seconds=30) as engine:
        await ended(engine)
    first, _, second = returned(model)
    assert (first, second) == ("clear again", "clear again")
    records = [record for record in caplog.records if record.levelno >= logging.WARNING]
    said = "tool server bench wrote a line to its standard output that is no message, and was not heeded"
    assert [record.getMessage() for record in records] == [
        f"{said}: starting up, token [redacted]",
        f"{said}: \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}",
        f"{said}; further ones are logged at level debug: []",
    ]
    assert [record.exc_info for record in records] == [None] * 3


async def test_a_result_that_cannot_be_read_is_told_as_that_and_the_server_lives_on():
    odd = ToolCallPart("bench__odd", {})
    model = ScriptedModel(PID, *[odd] * 6, PID, "done")
    async with at_work(worker(model=model, mcp_servers={"bench": BENCH})) as engine:
        await ended(engine)
    before, *told, after = returned(model)
    assert before == after
    assert {each.partition(" (")[0] for each in told} == {
        "The tool server 'bench' answered with something that cannot be read"
    }


async def test_an_answer_that_is_no_message_fails_its_call_at_once():
    model = ScriptedModel(PID, ToolCallPart("bench__blurt", {}), PID, "done")
    async with at_work(worker(model=model, mcp_servers={"bench": BENCH}), seconds=30) as engine:
        await ended(engine)
    before, told, after = returned(model)
    assert before == after
    assert told == "The tool server 'bench' refused the call: its answer is not a JSON-RPC message"


async def test_a_call_that_takes_too_long_is_told_and_a_server_that_hangs_is_started_again(tmp_path: Path):
    hang = ToolCallPart("bench__hang", {"path": str(tmp_path / "notes")})
    model = ScriptedModel(PID, hang, PID, "done")
    async with at_work(worker(model=model, mcp_servers={"bench": {**BENCH, "timeout": 6}}), seconds=40) as engine:
        task = await ended(engine)
    before, told, after = returned(model)
    assert (task.result, type(after), before == after) == ("done", int, False)
    assert told.startswith(
        "The tool server 'bench' did not answer within 6 seconds: it may or may not have taken effect."
    )


@pytest.mark.parametrize("flags", [[], ["--stubborn"]], ids=["at once", "only when it is killed"])
async def test_a_server_that_does_not_answer_is_ended_and_fails_the_task_after_one_timeout(
    tmp_path: Path, flags: list[str]
):
    mark = tmp_path / "pid"
    mute = {"command": BENCH["command"], "args": [TOOLBENCH, *flags, "--mute", str(mark)], "timeout": 1}
    async with at_work(worker("never", mcp_servers={"bench": mute}), seconds=15) as engine:
        task = await ended(engine)
        assert not is_alive(int(mark.read_text(encoding="utf-8")))
    assert task.failure is not None
    assert task.status is TaskStatus.FAILED
    assert "'bench' could not be started" in task.failure.message
    assert "it did not answer within 1 seconds" in task.failure.message


async def test_more_than_a_model_can_bear_is_left_out_of_a_result_and_said():
    model = ScriptedModel(ToolCallPart("bench__flood", {}), "done")
    async with at_work(worker(model=model, mcp_servers={"bench": BENCH})) as engine:
        await ended(engine)
    (result,) = returned(model)
    assert len(result) == 100_000
    assert (result[:2], result[-2:]) == ("az", "zb")
    assert "characters left out …]" in result


async def test_no_descriptor_is_left_open_by_a_server_that_came_and_went():
    async def serve() -> None:
        async with at_work(worker(PID, "done", mcp_servers={"bench": BENCH})) as engine:
            await ended(engine)

    def opened() -> int:
        return len(os.listdir("/dev/fd"))

    await serve()
    before = opened()
    await serve()
    assert opened() <= before
