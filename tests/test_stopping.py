"""A process that is told to stop gives its tasks back and is gone in time."""

import signal
import sqlite3
import sys
from pathlib import Path

import anyio
import pytest

from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.types import TaskStatus

WORKER = """
import sys, time
from pathlib import Path
import anyio
from pydantic_ai import Agent
from pydantic_ai.messages import ToolCallPart
from mcp_subagents.agents import Roster
from mcp_subagents.delegation import Submission
from mcp_subagents.engine import run_engine
from mcp_subagents.stopping import leave, until_stopped
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.testing import ScriptedModel

def stuck() -> str:
    print("started", flush=True)
    time.sleep(60)
    return "late"

async def work() -> None:
    model = ScriptedModel(ToolCallPart("stuck", {}, tool_call_id="c1"))
    roster = Roster([{"name": "worker", "description": "", "instructions": "", "agent": Agent(model, tools=[stuck])}])
    async with until_stopped(stdin=True), open_sqlite(Path(sys.argv[1])) as store, run_engine(store, roster) as engine:
        task = await engine.submit(Submission(description="Go.", subagent="worker"))
        print(task.task_id, flush=True)
        await anyio.sleep_forever()

anyio.run(work)
leave(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "told_by", [signal.SIGTERM, signal.SIGINT, None], ids=["SIGTERM", "SIGINT", "the end of its standard input"]
)
async def test_a_process_leaves_in_time_though_a_tool_is_stuck_in_a_thread(
    tmp_path: Path, told_by: signal.Signals | None
):
    path = tmp_path / "tasks.db"
    with anyio.fail_after(60):
        async with await anyio.open_process([sys.executable, "-c", WORKER, str(path)], stderr=sys.stderr) as worker:
            assert worker.stdout is not None
            said = ""
            while "started" not in said:
                said += (await worker.stdout.receive()).decode()
            if told_by is None:
                assert worker.stdin is not None
                await worker.stdin.aclose()
            else:
                worker.send_signal(told_by)
            with anyio.fail_after(5):
                code = await worker.wait()
        task_id = said.split()[0]
        async with open_sqlite(path) as store:
            record = await store.read(task_id)
    assert (code, record.handle.status, record.process) == (0, TaskStatus.PENDING, None)
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
