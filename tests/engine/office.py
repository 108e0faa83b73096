"""Helpers to put subagents to work in tests."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from pydantic_ai import Agent

from mcp_subagents.agents import Roster
from mcp_subagents.config import SubAgentConfig
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.delegation import Submission
from mcp_subagents.engine import Engine, run_engine
from mcp_subagents.store import Store
from mcp_subagents.testing import Line, ScriptedModel
from mcp_subagents.types import TaskHandle

SETTINGS = EngineSettings(hot_wait=0.01)


def subagent(*lines: Line, tools: Any = (), name: str = "worker", agent: Any = None, **more: Any) -> SubAgentConfig:
    """A subagent whose model speaks these lines."""
    made = agent if agent is not None else Agent(ScriptedModel(*lines), tools=tools)
    config: Any = {"name": name, "description": "", "instructions": "", "agent": made, "retry_initial_delay": 0.0}
    return SubAgentConfig(**{**config, **more})


@asynccontextmanager
async def at_work(
    store: Store, *subagents: SubAgentConfig, settings: EngineSettings = SETTINGS
) -> AsyncGenerator[Engine]:
    """An engine with these subagents; the whole block is bounded."""
    with anyio.fail_after(10):
        async with run_engine(store, Roster(subagents), settings) as engine:
            yield engine


async def delegate(engine: Engine, description: str = "Go.", subagent: str = "worker", **more: Any) -> str:
    return (await engine.submit(Submission(description=description, subagent=subagent, **more))).task_id


async def outcome(engine: Engine, task_id: str) -> TaskHandle:
    """The task, when it has ended or asks."""
    return (await engine.wait([task_id])).tasks[0]


async def until(engine: Engine, task_id: str, holds: Callable[[TaskHandle], bool]) -> TaskHandle:
    """The task, as soon as `holds` is true of it."""
    async with engine.watch() as changes:
        handle = await engine.check(task_id)
        while not holds(handle):
            handle = await anext(changes)
            if handle.task_id != task_id:
                handle = await engine.check(task_id)
        return handle
