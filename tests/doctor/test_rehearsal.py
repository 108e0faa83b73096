"""The tools that subagents name are looked for in a rehearsal."""

import json
import os
import sys
from pathlib import Path

import anyio
import pytest
from planting import TOOLBENCH

from mcp_subagents.doctor import Options, gathered
from mcp_subagents.doctor.findings import problem
from mcp_subagents.doctor.tools import missing_tools


@pytest.mark.slow
async def test_a_rehearsal_that_does_not_end_in_time_is_a_problem(home: Path):
    server = {"command": sys.executable, "args": [TOOLBENCH, "--mute", str(home / "pid")]}
    subagents = [{"name": "a", "mcp_servers": ["bench"], "tools": ["bench__add"]}]
    (home / "subagents.yaml").write_text(json.dumps({"mcp_servers": {"bench": server}, "subagents": subagents}))
    there = gathered(Options(patience=0.5), os.environ, home=home)
    with anyio.fail_after(30):
        found = await missing_tools(there.subagents, there)
    assert found == [
        problem(
            "tools",
            "a: whether the tools that it names are there is not known: no answer within 0.5 seconds.",
            "Give it more time: mcp-subagents doctor tools --patience 1.5",
        )
    ]
