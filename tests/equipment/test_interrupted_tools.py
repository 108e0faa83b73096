"""Calls that were under way at a crash: made again only if the server's own words allow it."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from bench import TOOLBENCH, returned, until, worker
from pydantic_ai.messages import ToolCallPart

from mcp_subagents.agents import Roster
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.delegation import Submission
from mcp_subagents.engine import run_engine
from mcp_subagents.journal import INTERRUPTED
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.testing import ScriptedModel

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("tool", "marks", "told"),
    [("hang", 1, INTERRUPTED), ("hang_harmless", 2, "harmless")],
    ids=["a tool that says nothing", "a tool that says it only reads"],
)
async def test_a_call_that_was_under_way_is_made_again_only_if_that_does_no_harm(
    tmp_path: Path, tool: str, marks: int, told: str
):
    notes = tmp_path / "notes"
    env = {"BENCH_NOTES": str(notes), "BENCH_HANGS": str(tmp_path / "hangs")}
    bench: Any = {"command": sys.executable, "args": [TOOLBENCH], "env": env}
    first = ScriptedModel(ToolCallPart(f"bench__{tool}", {}))
    second = ScriptedModel("done")
    with anyio.fail_after(60):
        async with open_sqlite(tmp_path / "tasks.db") as store:
            async with run_engine(store, Roster([worker(model=first, mcp_servers={"bench": bench})])) as engine:
                handle = await engine.submit(Submission(description="Go.", subagent="worker"))
                await until(lambda: notes.exists() and notes.read_text(encoding="utf-8").endswith("\n"))
            roster = Roster([worker(model=second, mcp_servers={"bench": bench})])
            async with run_engine(store, roster, EngineSettings()) as engine:
                (task,) = (await engine.wait([handle.task_id])).tasks
    assert (task.result, returned(second)) == ("done", [told])
    assert len(notes.read_text(encoding="utf-8").splitlines()) == marks
