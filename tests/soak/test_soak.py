"""Many tasks through one engine: time grows with their number, and nothing else does."""

import asyncio
import gc
import os
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents.agents import Roster
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.delegation import Submission
from mcp_subagents.engine import Engine, run_engine
from mcp_subagents.store import Query, Store
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.types import TaskStatus

pytestmark = [
    pytest.mark.alone,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="counts what Linux tells of a process"),
]

TASKS = int(os.environ.get("SOAK_TASKS", "1800"))
QUESTIONS = 1000


@dataclass(frozen=True, slots=True)
class Footprint:
    """What the process has."""

    megabytes: float
    threads: int
    files: int

    @classmethod
    def now(cls) -> "Footprint":
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return cls(
            pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
            len(os.listdir("/proc/self/task")),
            len(os.listdir("/proc/self/fd")),
        )


@dataclass(slots=True)
class Spent:
    """Seconds of CPU, all threads together."""

    submitting: float = 0
    listing: float = 0
    waiting: float = 0


@asynccontextmanager
async def open_engine(
    path: Path, model: FunctionModel, settings: EngineSettings
) -> AsyncGenerator[tuple[Engine, Store]]:
    roster = Roster([{"name": "worker", "agent": Agent(model)}])
    async with open_sqlite(path) as store, run_engine(store, roster, settings) as engine:
        yield engine, store


async def test_time_grows_with_the_number_of_tasks_and_nothing_else_does(tmp_path: Path):
    gate = anyio.Event()

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await gate.wait()
        return ModelResponse(parts=[TextPart("done")])

    async def wave(engine: Engine, count: int, spent: Spent) -> None:
        """Submit, list and wait, each by itself: no task can end before the gate is opened."""
        nonlocal gate
        gate = anyio.Event()
        t0 = time.process_time()
        tasks = [await engine.submit(Submission(description=f"number {n}", subagent="worker")) for n in range(count)]
        t1 = time.process_time()
        assert len(await engine.list()) == count
        t2 = time.process_time()
        gate.set()
        waited = await engine.wait([task.task_id for task in tasks])
        t3 = time.process_time()
        assert {task.status for task in waited.tasks} == {TaskStatus.COMPLETED}
        spent.submitting += t1 - t0
        spent.listing += t2 - t1
        spent.waiting += t3 - t2

    settings = EngineSettings(max_open_tasks=TASKS)
    first_half, second_half = Spent(), Spent()
    with anyio.fail_after(60 + TASKS / 20):
        async with open_engine(tmp_path / "tasks.db", FunctionModel(answer), settings) as (engine, _):
            await wave(engine, 1000, Spent())
            early = Footprint.now()
            for _ in range(3):
                await wave(engine, TASKS // 6, first_half)
            # Three times as many at once, on top of all that were there before.
            await wave(engine, TASKS // 2, second_half)
            late = Footprint.now()

    assert late.megabytes - early.megabytes < 50
    assert late.threads == early.threads
    assert late.files == early.files
    # Quadratic growth in the number of open tasks, or of stored ones, would triple at least one of these.
    assert second_half.submitting < 1.8 * first_half.submitting
    assert second_half.listing < 1.8 * first_half.listing + 0.05
    assert second_half.waiting < 1.8 * first_half.waiting


async def test_a_thousand_parked_questions_cost_nothing_and_outlast_a_restart(tmp_path: Path):
    settings = EngineSettings(max_open_tasks=2 * QUESTIONS, hot_wait=0.001)
    together, everybody = set[str](), anyio.Event()

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        told = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if told:
            return ModelResponse(parts=[TextPart(str(told[0]))])
        if "ask me" in str(messages[0]):
            return ModelResponse(parts=[ToolCallPart("ask_parent", {"question": "Why?"})])
        together.add(str(messages[0]))
        if len(together) == settings.max_concurrency:
            everybody.set()
        await everybody.wait()
        return ModelResponse(parts=[TextPart("met")])

    with anyio.fail_after(120):
        async with open_engine(tmp_path / "tasks.db", FunctionModel(answer), settings) as (engine, store):
            before = len(asyncio.all_tasks())
            ids = await _ask_many(engine)
            while len(asyncio.all_tasks()) > before:  # noqa: ASYNC110  # an attempt ends a moment after it has asked
                await anyio.sleep(0.01)
            assert await store.count(Query(statuses=frozenset({TaskStatus.WAITING_FOR_ANSWER}))) == QUESTIONS

            began = time.process_time()
            await anyio.sleep(2)
            assert time.process_time() - began < 0.1

            # No slot is taken: as many tasks as there are slots run at once, each waiting for all the others.
            wanted = [Submission(description=f"meet, {n}", subagent="worker") for n in range(settings.max_concurrency)]
            met = await engine.wait([(await engine.submit(each)).task_id for each in wanted])
            assert {task.result for task in met.tasks} == {"met"}

        async with open_engine(tmp_path / "tasks.db", FunctionModel(answer), settings) as (engine, _):
            for task_id in ids:
                await engine.answer(task_id, f"because of {task_id}")
            waited = await engine.wait(ids)

    assert [(task.status, task.result) for task in waited.tasks] == [
        (TaskStatus.COMPLETED, f"because of {task_id}") for task_id in ids
    ]


async def _ask_many(engine: Engine) -> Sequence[str]:
    async with engine.watch() as changes:
        tasks = [await engine.submit(Submission(description="ask me", subagent="worker")) for _ in range(QUESTIONS)]
        silent = {task.task_id for task in tasks}
        async for task in changes:
            if task.status is TaskStatus.WAITING_FOR_ANSWER:
                silent.discard(task.task_id)
            if not silent:
                break
    return [task.task_id for task in tasks]
