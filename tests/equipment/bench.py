"""Helpers to give subagents tools in tests."""

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from pydantic_ai.messages import ToolReturnPart

from mcp_subagents.agents import Roster
from mcp_subagents.config import SubAgentConfig
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.delegation import Submission
from mcp_subagents.engine import Engine, run_engine
from mcp_subagents.equipment.kits import Equipment
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.testing import Line, ScriptedModel
from mcp_subagents.types import TaskHandle

TOOLBENCH = str(Path(__file__).with_name("toolbench.py"))
BENCH: dict[str, Any] = {"command": sys.executable, "args": [TOOLBENCH]}


def worker(*lines: Line, model: Any = None, **more: Any) -> SubAgentConfig:
    """A subagent that we build, on a model that speaks these lines."""
    config: Any = {"name": "worker", "description": "", "instructions": "", "model": model or ScriptedModel(*lines)}
    return SubAgentConfig(**{**config, **more})


@asynccontextmanager
async def at_work(*subagents: SubAgentConfig, seconds: float = 60, **equipment: Any) -> AsyncGenerator[Engine]:
    """An engine with these subagents; the whole block is bounded."""
    with anyio.fail_after(seconds):
        roster = Roster(subagents, equipment=Equipment(**equipment))
        async with run_engine(MemoryStore(), roster, EngineSettings(hot_wait=0.01)) as engine:
            yield engine


async def ended(engine: Engine, subagent: str = "worker") -> TaskHandle:
    """A task of that subagent, when it has ended."""
    handle = await engine.submit(Submission(description="Go.", subagent=subagent))
    return (await engine.wait([handle.task_id])).tasks[0]


def returned(model: ScriptedModel) -> list[Any]:
    """What the tools returned to the model, in order."""
    seen = model.requests[-1] if model.requests else []
    parts = [part for message in seen for part in message.parts]
    return [part.content for part in parts if isinstance(part, ToolReturnPart)]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        # Dead, but its parent has not asked about it.
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return not Path("/proc").exists()


async def until(holds: Callable[[], bool]) -> None:
    """Return as soon as it holds; whoever calls bounds the wait."""
    while not holds():  # noqa: ASYNC110  # another process changes it, and does not tell
        await anyio.sleep(0.01)
