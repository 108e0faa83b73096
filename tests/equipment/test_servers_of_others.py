"""Subagents at work with MCP servers that others have written."""

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest
from bench import at_work, is_alive, returned, worker
from others import server_of_others
from pydantic_ai.messages import ToolCallPart

from mcp_subagents.delegation import Submission
from mcp_subagents.engine import Engine
from mcp_subagents.testing import ScriptedModel
from mcp_subagents.types import TaskHandle

pytestmark = pytest.mark.slow


def children() -> set[int]:
    """The processes that this one has started, and that run."""
    found = Path("/proc/self/task").glob("*/children")
    return {int(pid) for each in found for pid in each.read_text(encoding="utf-8").split() if is_alive(int(pid))}


def program(process: int) -> str:
    """What it was started as."""
    return Path(Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0].decode()).name


async def go(engine: Engine) -> TaskHandle:
    handle = await engine.submit(Submission(description="Go.", subagent="worker"))
    return (await engine.wait([handle.task_id])).tasks[0]


@pytest.fixture(scope="module")
def everything() -> dict[str, Any]:
    return server_of_others("server-everything")


async def test_a_task_of_several_turns_is_done_with_the_reference_server(everything: dict[str, Any]):
    model = ScriptedModel(
        ToolCallPart("everything__echo", {"message": "hello"}),
        [ToolCallPart("everything__get-sum", {"a": 2, "b": 3}), ToolCallPart("everything__get-env", {})],
        ToolCallPart("everything__get-structured-content", {"location": "New York"}),
        ToolCallPart("everything__get-sum", {"a": "two"}),
        "All done.",
    )
    before = children()
    async with at_work(worker(model=model, mcp_servers={"everything": everything}), seconds=120) as engine:
        task = await go(engine)
        assert sorted(map(program, children() - before)) == ["node", "sh"], "the server, and who looks after its end"
    assert task.result == "All done."
    echo, total, environment, weather, refused = returned(model)
    assert (echo, total) == ("Echo: hello", "The sum of 2 and 3 is 5.")
    assert "PATH" in environment
    assert "PYTHONPATH" not in environment
    assert set(weather) == {"temperature", "conditions", "humidity"}
    assert "expected number" in str(refused).lower()
    assert children() == before


async def test_a_reference_server_that_is_killed_in_a_call_is_told_to_the_model(everything: dict[str, Any]):
    model = ScriptedModel(
        ToolCallPart("everything__echo", {"message": "hello"}),
        ToolCallPart("everything__trigger-long-running-operation", {"duration": 600, "steps": 5}),
        ToolCallPart("everything__echo", {"message": "again"}),
        "went on",
    )
    before = children()
    async with at_work(worker(model=model, mcp_servers={"everything": everything}), seconds=120) as engine:
        handle = await engine.submit(Submission(description="Go.", subagent="worker"))
        for _ in range(10):
            # Several times in a row, until the call is sure to have left us.
            while "long-running" not in (await engine.look(handle.task_id)).doing:  # noqa: ASYNC110  # nobody tells
                await anyio.sleep(0.01)
        (process,) = [each for each in children() - before if program(each) == "node"]
        os.kill(process, signal.SIGKILL)
        (task,) = (await engine.wait([handle.task_id])).tasks
    echo, told, again = returned(model)
    assert (task.result, echo, again) == ("went on", "Echo: hello", "Echo: again")
    assert "The tool server 'everything' stopped" in told
    assert children() == before


async def test_files_are_written_and_read_by_a_server_of_others_within_the_lists(tmp_path: Path):
    files = server_of_others("server-filesystem", str(tmp_path))
    model = ScriptedModel(
        ToolCallPart("files__write_file", {"path": str(tmp_path / "a.txt"), "content": "hello"}),
        ToolCallPart("files__read_text_file", {"path": str(tmp_path / "a.txt")}),
        ToolCallPart("files__read_text_file", {"path": "/etc/passwd"}),
        ToolCallPart("files__move_file", {"source": str(tmp_path / "a.txt"), "destination": str(tmp_path / "b.txt")}),
        "done",
    )
    config = worker(
        model=model,
        mcp_servers={"files": files},
        tools=["files__write_file", "files__read_*"],
        disallowed_tools=["*move*"],
    )
    async with at_work(config, seconds=120) as engine:
        task = await go(engine)
    assert task.result == "done"
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "hello"
    _, text, denied, unknown = returned(model)
    assert (text["content"] if isinstance(text, dict) else text) == "hello"
    assert "Access denied" in str(denied)
    assert "Unknown tool name: 'files__move_file'" in str(unknown)
