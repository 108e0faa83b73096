"""A process is killed between the start of a child and the return of the tool that started it."""

import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from mcp_subagents.agents import Roster
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.engine import run_engine
from mcp_subagents.records import EntryKind
from mcp_subagents.store import Query
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.types import TaskStatus
from tests.crash.delegator import boss, helper

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


async def test_a_delegation_that_was_cut_off_is_found_again_and_not_repeated(tmp_path: Path):
    path = tmp_path / "tasks.db"
    command = [sys.executable, "-m", "tests.crash.delegator", str(path)]
    with anyio.fail_after(30):
        died = await anyio.run_process(command, cwd=ROOT, check=False, stderr=subprocess.PIPE)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()

    roster = Roster([boss("Done.", "Done, really."), helper("42")])
    settings = EngineSettings(max_concurrency=1, dead_after=0.2)
    with anyio.fail_after(20):
        async with open_sqlite(path) as store, run_engine(store, roster, settings) as engine:
            [parent] = await store.select(Query(on_top=True))
            [child] = await store.select(Query(parent_id=parent.task_id))
            await engine.wait([parent.task_id, child.task_id])
            journal = await store.journal(parent.task_id)
            tasks = [record.handle for record in await store.select(Query())]
    assert [task.task_id for task in tasks] == [parent.task_id, child.task_id]
    assert tasks[0].status is TaskStatus.COMPLETED
    # The model was told of that child, when its call was made again.
    [returned] = [entry.body for entry in journal if entry.kind is EntryKind.TOOL_RESULT]
    assert child.task_id in returned
