"""A process that lacks a key or a package leaves tasks to one that has it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from office import SETTINGS, delegate, outcome, until
from pydantic_ai import Tool
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.usage import RequestUsage
from test_steering import Gate

from mcp_subagents import unfit
from mcp_subagents.agents import CompiledSubAgent, Roster
from mcp_subagents.config import SubAgentConfig
from mcp_subagents.engine import Engine, run_engine
from mcp_subagents.errors import ConfigError
from mcp_subagents.store import Store
from mcp_subagents.store.sqlite import SqliteStore, open_sqlite
from mcp_subagents.testing import Line, ScriptedModel
from mcp_subagents.types import FailureType, TaskStatus

WORKER = SubAgentConfig(name="worker", description="", instructions="", model="test")


class Keyed(Roster):
    """Runs the worker of any definition on a model that speaks these lines."""

    def __init__(self, *lines: Line, tools: Sequence[Tool[Any]] = ()) -> None:
        super().__init__([WORKER])
        self._own = Roster([{**WORKER, "model": ScriptedModel(*lines), "agent_kwargs": {"tools": tools}}])

    def compiled(self, name: str, definition: str | None) -> CompiledSubAgent:
        return self._own.compiled(name, None)


class Keyless(Roster):
    def __init__(self) -> None:
        super().__init__([WORKER])
        self.asked = 0

    def compiled(self, name: str, definition: str | None) -> CompiledSubAgent:
        self.asked += 1
        raise ConfigError("Set OPENAI_API_KEY.")


@asynccontextmanager
async def process(path: Path, roster: Roster, slots: int = 8) -> AsyncGenerator[Engine]:
    with anyio.fail_after(20):
        settings = replace(SETTINGS, max_concurrency=slots)
        async with open_sqlite(path) as store, run_engine(store, roster, settings) as engine:
            yield engine


class Offers:
    """How often processes looked whether others are at work, before they gave a task up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.changed = anyio.Event()
        self.count = 0
        really = SqliteStore.others_at_work

        async def counted(store: SqliteStore, dead_after: timedelta) -> bool:
            self.count += 1
            self.changed.set()
            return await really(store, dead_after)

        monkeypatch.setattr(SqliteStore, "others_at_work", counted)
        monkeypatch.setattr(unfit, "OTHERS_FIRST", 0.01)

    async def more(self, number: int) -> None:
        """Wait until they have looked that often again."""
        wanted = self.count + number
        while self.count < wanted:
            self.changed = anyio.Event()
            await self.changed.wait()


async def test_a_process_without_the_key_leaves_tasks_to_the_one_that_has_it(tmp_path: Path):
    path, keyless = tmp_path / "tasks.db", Keyless()
    async with process(path, keyless), process(path, Keyed(*["Done."] * 16)) as keyed:
        tasks = [await delegate(keyed) for _ in range(16)]
        waited = await keyed.wait(tasks)
    assert {task.status for task in waited.tasks} == {TaskStatus.COMPLETED}


async def test_what_was_taken_on_here_fails_at_once(store: Store):
    with anyio.fail_after(5):
        async with run_engine(store, Keyless(), SETTINGS) as engine:
            failed = await outcome(engine, await delegate(engine))
    assert failed.failure is not None
    assert (failed.failure.failure_type, failed.failure.message) == (FailureType.PERMANENT, "Set OPENAI_API_KEY.")


async def test_what_nobody_can_run_fails_with_all_that_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unfit, "OTHERS_FIRST", 0.01)
    path, keyless = tmp_path / "tasks.db", Keyless()
    asking = ModelResponse(
        parts=[TextPart("I need to know."), ToolCallPart("ask_parent", {"question": "Which?"})],
        usage=RequestUsage(input_tokens=12, output_tokens=7),
    )
    async with process(path, Keyed(asking)) as keyed:
        task_id = await delegate(keyed)
        before = await outcome(keyed, task_id)
    async with process(path, keyless) as engine:
        await engine.answer(task_id, "This.")
        failed = await outcome(engine, task_id)
    assert (failed.status, keyless.asked) == (TaskStatus.FAILED, 2)
    assert failed.failure is not None
    assert failed.failure.partial_results == "I need to know."
    assert failed.failure.attempted.startswith("1 turn, tools called: ask_parent.")
    assert before.usage is not None
    assert before.usage.requests == 1
    assert failed.usage == failed.failure.usage == before.usage


async def test_others_go_first_whenever_one_of_them_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, keyless, offers = tmp_path / "tasks.db", Keyless(), Offers(monkeypatch)
    gates = [Gate(), Gate(), Gate()]
    tools = [Tool(gate.gate, name=f"gate{number}") for number, gate in enumerate(gates)]
    busy, wanted, busy_again = (ToolCallPart(f"gate{number}", {}) for number in range(3))
    ask = ToolCallPart("ask_parent", {"question": "Which?"})
    keyed = Keyed(busy, "Busy.", wanted, ask, busy_again, "Busy.", "Done.", tools=tools)
    async with process(path, keyed, slots=1) as engine:
        await delegate(engine)
        await gates[0].reached.wait()
        async with process(path, keyless) as other:
            task_id = await delegate(engine)
            await offers.more(3)
            gates[0].open.set()
            await gates[1].reached.wait()
            await until(other, task_id, lambda task: task.status is TaskStatus.RUNNING)
            gates[1].open.set()
            await outcome(engine, task_id)
            await delegate(engine)
            await gates[2].reached.wait()
            # To have left it to others once is no reason to fail it the second time.
            asked = keyless.asked
            await engine.answer(task_id, "This.")
            await offers.more(3)
            assert keyless.asked == asked + 1
            gates[2].open.set()
            assert (await outcome(engine, task_id)).result == "Done."
