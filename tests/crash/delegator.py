"""A process whose subagent delegates, and which is killed the moment the child is stored: before its tool returns."""

import os
import signal
import sys

import anyio
from pydantic_ai import Agent
from pydantic_ai.messages import ToolCallPart

from mcp_subagents.agents import Roster
from mcp_subagents.config import SubAgentConfig
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.delegation import Submission
from mcp_subagents.engine import Engine, run_engine
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.testing import Line, ScriptedModel
from mcp_subagents.types import TaskHandle

CALL = {"description": "Go.", "subagent_type": "helper", "mode": "async"}


def boss(*lines: Line) -> SubAgentConfig:
    agent = Agent(ScriptedModel(*lines))
    return SubAgentConfig(name="boss", description="", instructions="", agent=agent, subagents=["helper"])


def helper(*lines: Line) -> SubAgentConfig:
    return SubAgentConfig(name="helper", description="", instructions="", agent=Agent(ScriptedModel(*lines)))


async def main(path: str) -> None:
    submit = Engine.submit

    async def submit_and_die(self: Engine, wanted: Submission, *, owner: str = "local") -> TaskHandle:
        task = await submit(self, wanted, owner=owner)
        if wanted.parent_id is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return task

    Engine.submit = submit_and_die
    roster = Roster([boss(ToolCallPart("task", CALL, tool_call_id="t")), helper()])
    async with open_sqlite(path) as store, run_engine(store, roster, EngineSettings(max_concurrency=1)) as engine:
        await engine.submit(Submission(description="Go.", subagent="boss"))
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
