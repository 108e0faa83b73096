"""A process that is told to stop gives its tasks back and is gone in time."""

import signal
import sqlite3
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process
from pydantic_ai import Agent

from mcp_subagents.agents import Roster
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.engine import run_engine
from mcp_subagents.stopping import IN_TIME
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.testing import ScriptedModel
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

STUBBORN = WORKER.replace(
    """def stuck() -> str:
    print("started", flush=True)
    time.sleep(60)
    return "late"
""",
    """async def stuck() -> str:
    print("started", flush=True)
    while True:
        try:
            await anyio.sleep(0.1)
        except BaseException:
            pass
""",
).replace("until_stopped(stdin=True)", f"until_stopped(stdin=True, within={IN_TIME})")

STORE = """
import sys
from datetime import UTC, datetime
import anyio
from mcp_subagents.records import TaskRecord
from mcp_subagents.stopping import leave, until_stopped
from mcp_subagents.store import Capacity
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.types import TaskHandle

async def work() -> None:
    now = datetime.now(UTC)
    async with until_stopped(stdin=True), open_sqlite(sys.argv[1]) as store:
        record = TaskRecord(handle=TaskHandle("t1", "worker", "Go.", created_at=now), due_at=now, definition="{}")
        await store.create(record, most_open=1)
        await store.claim(Capacity(most=1, in_all=1), now)
        print("t1 started", flush=True)
        await anyio.sleep_forever()

anyio.run(work)
leave(0)
"""

pytestmark = pytest.mark.slow

in_every_way = pytest.mark.parametrize(
    "told_by", [signal.SIGTERM, signal.SIGINT, None], ids=["SIGTERM", "SIGINT", "the end of its standard input"]
)


@asynccontextmanager
async def at_work(program: str, path: Path) -> AsyncGenerator[tuple[Process, str]]:
    """A process that runs a task, and the task's id."""
    with anyio.fail_after(60):
        async with await anyio.open_process([sys.executable, "-c", program, str(path)], stderr=sys.stderr) as worker:
            assert worker.stdout is not None
            said = ""
            while "started" not in said:
                said += (await worker.stdout.receive()).decode()
            yield worker, said.split()[0]


async def dismiss(worker: Process, told_by: signal.Signals | None) -> int:
    """Tell a process to leave, by a signal or the end of its standard input, and see it leave in time."""
    if told_by is None:
        assert worker.stdin is not None
        await worker.stdin.aclose()
    else:
        worker.send_signal(told_by)
    with anyio.fail_after(5):
        return await worker.wait()


@contextmanager
def lock(path: Path) -> Generator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield


@in_every_way
@pytest.mark.parametrize(
    ("program", "left"),
    [(WORKER, TaskStatus.PENDING), (STUBBORN, TaskStatus.RUNNING)],
    ids=["in a thread, so its task is given back", "and does not let itself be cancelled, so its task is taken over"],
)
async def test_a_process_leaves_in_time_though_a_tool_is_stuck(
    tmp_path: Path, program: str, left: TaskStatus, told_by: signal.Signals | None
):
    path = tmp_path / "tasks.db"
    async with at_work(program, path) as (worker, task_id):
        code = await dismiss(worker, told_by)
    async with open_sqlite(path) as store:
        record = await store.read(task_id)
    assert (code, record.handle.status) == (0, left)
    assert (record.process is None) == (left is TaskStatus.PENDING)
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


@in_every_way
async def test_a_process_leaves_in_time_though_its_file_is_locked_and_another_goes_on(
    tmp_path: Path, told_by: signal.Signals | None
):
    path = tmp_path / "tasks.db"
    async with at_work(WORKER, path) as (worker, task_id):
        with lock(path):
            code = await dismiss(worker, told_by)
    roster = Roster([{"name": "worker", "description": "", "instructions": "", "agent": Agent(ScriptedModel("Done."))}])
    with anyio.fail_after(10):
        async with open_sqlite(path) as store:
            left = await store.read(task_id)
            async with run_engine(store, roster, EngineSettings(dead_after=1.0)) as engine:
                done = (await engine.wait([task_id])).tasks[0]
    assert (code, left.handle.status) == (0, TaskStatus.RUNNING)
    assert (done.result, done.attempt) == ("Done.", 2)


@in_every_way
async def test_a_store_without_an_engine_is_closed_in_time_though_its_file_is_locked(
    tmp_path: Path, told_by: signal.Signals | None
):
    path = tmp_path / "tasks.db"
    async with at_work(STORE, path) as (worker, task_id):
        with lock(path):
            code = await dismiss(worker, told_by)
    async with open_sqlite(path) as store:
        left = await store.read(task_id)
        lost = await store.lost(timedelta(0))
    assert (code, left.handle.status) == (0, TaskStatus.RUNNING)
    assert lost == [left.lease]
