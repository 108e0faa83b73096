"""What the engine costs: CPU per task beside the bare agent, latencies, and what it does when there is nothing to do.

python benchmarks/engine_overhead.py [--rounds 10] [--tasks 100]
"""

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents.agents import Roster
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.delegation import Submission
from mcp_subagents.engine import Engine, run_engine
from mcp_subagents.records import TaskRecord
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.types import TaskHandle, TaskStatus, utc_now

SLOTS = 8


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table."""

    what: str
    measured: str
    target: str = ""


def three_turns(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Two turns with a tool call each, then the answer."""
    turn = sum(isinstance(message, ModelResponse) for message in messages)
    part = TextPart("done") if turn == 2 else ToolCallPart("search", {"query": f"number {turn}"})
    return ModelResponse(parts=[part])


async def search(query: str) -> str:
    """Find something."""
    return f"{query}: " + 190 * "x"


MODEL = FunctionModel(three_turns)


def searcher() -> Agent[object, str]:
    return Agent(MODEL, tools=[search])


def subagent(name: str) -> SubAgentConfig:
    """The same, declared."""
    return SubAgentConfig(name=name, model=MODEL, agent_kwargs={"tools": [search]})


@asynccontextmanager
async def open_engine(folder: Path, *subagents: SubAgentConfig, hot_wait: float = 1.0) -> AsyncGenerator[Engine]:
    settings = EngineSettings(max_concurrency=SLOTS, hot_wait=hot_wait, max_open_tasks=1_000_000)
    async with open_sqlite(folder / "tasks.db") as store, run_engine(store, Roster(subagents), settings) as engine:
        yield engine


async def cpu_of(work: Callable[[], Awaitable[None]]) -> float:
    """Seconds of CPU, all threads together."""
    began = time.process_time()
    await work()
    return time.process_time() - began


async def side_by_side(tasks: int, run: Callable[[str], Awaitable[str | None]]) -> None:
    """As many callers as there are slots; each waits for its task before it comes with the next one."""
    waiting = iter(range(tasks))

    async def caller() -> None:
        for number in waiting:
            assert await run(f"task {number}") == "done"

    async with anyio.create_task_group() as group:
        for _ in range(SLOTS):
            group.start_soon(caller)


async def run_bare(agent: Agent[object, str], tasks: int) -> None:
    async def run(description: str) -> str:
        return (await agent.run(description)).output

    await side_by_side(tasks, run)


async def run_on(engine: Engine, name: str, tasks: int) -> None:
    async def run(description: str) -> str | None:
        task = await engine.submit(Submission(description=description, subagent=name))
        [ended] = (await engine.wait([task.task_id])).tasks
        return ended.result

    await side_by_side(tasks, run)


async def run_queued(engine: Engine, name: str, tasks: int) -> None:
    """All at once, so that most of them wait in the queue."""
    wanted = [Submission(description=f"task {number}", subagent=name) for number in range(tasks)]
    ids = [(await engine.submit(each)).task_id for each in wanted]
    waited = await engine.wait(ids)
    assert all(task.result == "done" for task in waited.tasks)


async def overhead(folder: Path, rounds: int, tasks: int) -> Sequence[Line]:
    agent = searcher()
    spent: dict[str, list[float]] = {"bare": [], "ours": [], "queued": [], "ready-made": []}
    async with open_engine(folder, subagent("ours"), SubAgentConfig(name="ready-made", agent=agent)) as engine:
        for number in range(rounds + 1):  # the first round pays for what is made once, and is dropped
            if number == 1:
                gc.collect()
                gc.freeze()  # or now one round and now another pays for looking through all that was ever imported
            spent["bare"].append(await cpu_of(lambda: run_bare(agent, tasks)) / tasks)
            spent["ours"].append(await cpu_of(lambda: run_on(engine, "ours", tasks)) / tasks)
            spent["queued"].append(await cpu_of(lambda: run_queued(engine, "ours", tasks)) / tasks)
            spent["ready-made"].append(await cpu_of(lambda: run_on(engine, "ready-made", tasks)) / tasks)
    bare, declared, queued, ready = (each[1:] for each in spent.values())
    return [
        Line("CPU of a 3-turn task, bare agent.run", f"{1000 * statistics.median(bare):.2f} ms"),
        Line("CPU of a 3-turn task, engine on SQLite", f"{1000 * statistics.median(declared):.2f} ms"),
        Line("ratio", beside(declared, bare), "<= 1.40"),
        Line("ratio for tasks that come all at once", beside(queued, bare)),
        Line("ratio for an agent that was made elsewhere", beside(ready, bare)),
    ]


def beside(values: Sequence[float], others: Sequence[float]) -> str:
    """The median ratio of what was measured right after each other, and the quarters around it.

    A processor that others use too is faster at times, by more than what is to be measured.
    """
    low, middle, high = statistics.quantiles([one / other for one, other in zip(values, others, strict=True)], n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


async def start_latency(folder: Path, count: int = 200) -> Sequence[Line]:
    called_at = 0.0

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal called_at
        called_at = time.perf_counter()
        return ModelResponse(parts=[TextPart("done")])

    starts: list[float] = []
    submits: list[float] = []
    async with open_engine(folder, SubAgentConfig(name="worker", model=FunctionModel(answer))) as engine:
        for _ in range(count):
            began = time.perf_counter()
            task = await engine.submit(Submission(description="go", subagent="worker"))
            submits.append(time.perf_counter() - began)
            await engine.wait([task.task_id])
            starts.append(called_at - began)
    return [
        Line("submit accepted, p50 / p95", milliseconds(submits)),
        Line("submit to first model call, p50 / p95", milliseconds(starts)),
    ]


async def answer_latency(folder: Path, *, parked: bool, count: int = 100) -> Sequence[Line]:
    called_at = 0.0

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal called_at
        called_at = time.perf_counter()
        told = any(isinstance(part, ToolReturnPart) for part in messages[-1].parts)
        return ModelResponse(parts=[TextPart("done") if told else ToolCallPart("ask_parent", {"question": "Why?"})])

    latencies: list[float] = []
    hot_wait = 0.0 if parked else 1.0
    worker = SubAgentConfig(name="worker", model=FunctionModel(answer))
    async with open_engine(folder, worker, hot_wait=hot_wait) as engine:
        for _ in range(count):
            task = await engine.submit(Submission(description="go", subagent="worker"))
            [asking] = (await engine.wait([task.task_id])).tasks
            assert asking.status is TaskStatus.WAITING_FOR_ANSWER
            if parked:
                await anyio.sleep(0.02)  # until its attempt has left
            began = time.perf_counter()
            await engine.answer(task.task_id, "because")
            await engine.wait([task.task_id])
            latencies.append(called_at - began)
    how = "a parked task" if parked else "a task at hand"
    return [Line(f"answer to next model call of {how}, p50 / p95", milliseconds(latencies))]


async def idle_cpu(folder: Path, seconds: float = 10.0) -> Sequence[Line]:
    async with open_engine(folder, SubAgentConfig(name="worker", model=FunctionModel(three_turns))):
        await anyio.sleep(1)
        used = await cpu_of(lambda: anyio.sleep(seconds))
    return [Line("CPU of an open engine with nothing to do", f"{100 * used / seconds:.2f} % of a core", "< 0.50 %")]


async def notice(folder: Path, count: int = 40) -> Sequence[Line]:
    """How long it takes another process to notice a change."""
    path = folder / "shared.db"
    command = [sys.executable, __file__, "--watch", str(path), str(count)]
    async with open_sqlite(path) as store, await anyio.open_process(command, stderr=None) as other:
        assert other.stdout is not None
        assert await other.stdout.receive() == b"ready\n"
        stored: dict[str, float] = {}
        for number in range(count):
            await anyio.sleep(0.037 + number / 1000)
            record = TaskRecord(handle=TaskHandle(f"t{number}", "worker", "go"), due_at=utc_now())
            await store.create(record, most_open=count)
            stored[record.task_id] = time.time()
        printed = b"".join([chunk async for chunk in other.stdout])
    seen: dict[str, float] = json.loads(printed)
    late = [seen[task_id] - at for task_id, at in stored.items()]
    return [
        Line("change noticed by another process, p50 / p95", milliseconds(late)),
        Line("change noticed by another process, longest", f"{1000 * max(late):.0f} ms", "< 200 ms"),
    ]


async def watch(path: str, count: int) -> None:
    """The other process of `notice`."""
    seen: dict[str, float] = {}
    async with open_sqlite(Path(path)) as store, store.watch() as changes:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        async for record in changes:
            seen[record.task_id] = time.time()
            if len(seen) == count:
                break
    sys.stdout.write(json.dumps(seen))


def milliseconds(values: Sequence[float]) -> str:
    cuts = statistics.quantiles(values, n=20)
    return f"{1000 * cuts[9]:.2f} / {1000 * cuts[18]:.2f} ms"


async def measure(rounds: int, tasks: int) -> Sequence[Line]:
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines += await overhead(folder, rounds, tasks)
        lines += await start_latency(folder)
        lines += await answer_latency(folder, parked=False)
        lines += await answer_latency(folder, parked=True)
        lines += await idle_cpu(folder)
        lines += await notice(folder)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--watch", nargs=2, metavar=("PATH", "COUNT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.watch:
        anyio.run(watch, args.watch[0], int(args.watch[1]))
        return
    lines = anyio.run(measure, args.rounds, args.tasks)
    width = max(len(line.what) for line in lines)
    for line in lines:
        sys.stdout.write(f"{line.what:<{width}}  {line.measured:>20}  {line.target}".rstrip() + "\n")


if __name__ == "__main__":
    main()
