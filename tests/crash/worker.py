"""One worker: an engine on the shared file, with tools that leave a trace each time they really run."""

import hashlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from openai import AsyncOpenAI
from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from mcp_subagents.agents import Roster
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.delegation import Submission
from mcp_subagents.engine import Engine, run_engine
from mcp_subagents.errors import NotWaiting, StoreUnavailable
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.types import TaskHandle, TaskStatus
from tests.crash.story import answer_to, name_of, outcome_of

WAITING = frozenset({TaskStatus.WAITING_FOR_ANSWER})


class Trace:
    """An append-only file: a line that was written is there, whatever becomes of its writer."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def note(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


async def work(
    *, name: str, folder: str, submit: Sequence[int], settings: dict[str, Any], linger: float, patience: float
) -> None:
    """Submit these tasks, answer whatever is asked, and run what is due, until told to stop.

    `linger` is how long a tool takes at the most before it acts, and again before it returns; `patience` how long
    it waits for the file when somebody else has it locked.
    """
    here = Path(folder)
    waits, beats = timedelta(seconds=patience), timedelta(seconds=settings.get("dead_after", 5.0) / 5)
    accepted, answered = Trace(here / "accepted"), Trace(here / "answered")
    client = AsyncOpenAI(
        base_url=(here / "address").read_text(encoding="utf-8") + "/v1",
        api_key="sk-of-nobody",
        default_headers={"x-worker": name},
        max_retries=0,
    )
    roster = Roster(
        [
            {
                "name": "walker",
                "agent": _agent(client, Trace(here / "tools"), linger),
                "retry_initial_delay": 0.02,
                "retry_max_delay": 0.05,
            }
        ]
    )
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            await group.start(_stop_when_told, scope)
            async with client, open_sqlite(here / "tasks.db", busy_timeout=waits, beat_every=beats) as store:
                async with run_engine(store, roster, EngineSettings(**settings)) as engine:
                    Trace(here / "ready").note(name, os.getpid(), time.time())
                    async with anyio.create_task_group() as hosts:
                        hosts.start_soon(_submit, engine, submit, accepted)
                        hosts.start_soon(_answer, engine, answered)


async def _stop_when_told(scope: anyio.CancelScope, *, task_status: Any) -> None:
    """As a server does on SIGTERM and Ctrl-C: leave the block."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()


async def _submit(engine: Engine, numbers: Sequence[int], accepted: Trace) -> None:
    for number in numbers:
        wanted = Submission(description=f"Do {name_of(number)}.", subagent="walker", idempotency_key=name_of(number))
        task = await _insist(partial(engine.submit, wanted))
        accepted.note(number, task.task_id)
        await anyio.sleep(0.005)


async def _answer(engine: Engine, answered: Trace) -> None:
    async with engine.watch() as changes:
        for task in await engine.list(statuses=WAITING):
            await _answer_all(engine, task, answered)
        async for task in changes:
            if task.status in WAITING:
                await _answer_all(engine, task, answered)


async def _answer_all(engine: Engine, task: TaskHandle, answered: Trace) -> None:
    for question in task.questions:
        if question.answer is not None:
            continue
        answer = partial(engine.answer, question_id=question.question_id)
        try:
            await _insist(partial(answer, task.task_id, answer_to(question.text)))
        except NotWaiting:
            continue  # somebody else has answered it
        answered.note(question.question_id)


async def _insist(call: Callable[[], Awaitable[TaskHandle]]) -> TaskHandle:
    """As a host does that is told to try again later."""
    while True:
        try:
            return await call()
        except StoreUnavailable:
            await anyio.sleep(0.05)


def _agent(client: AsyncOpenAI, trace: Trace, linger: float) -> Agent[object, str]:
    async def act(ctx: RunContext[object], item: str) -> str:
        assert ctx.tool_call_id is not None
        assert ctx.tool_name is not None
        before, after = _moments(item, linger)
        await anyio.sleep(before)
        trace.note(*item.split(".")[:2], ctx.tool_call_id, ctx.tool_name, client.default_headers["x-worker"])
        await anyio.sleep(after)
        return outcome_of(ctx.tool_name, item)

    async def effect(ctx: RunContext[object], item: str) -> str:
        """Change the world."""
        return await act(ctx, item)

    async def lookup(ctx: RunContext[object], item: str) -> str:
        """Look at the world."""
        return await act(ctx, item)

    tools: list[Tool[object]] = [Tool(effect), Tool(lookup, metadata={"idempotent": True})]
    model = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(openai_client=client))
    return Agent(model, tools=tools)


def _moments(item: str, longest: float) -> tuple[float, float]:
    """How long a call takes before and after it acts: chosen by its id, so that every run is alike."""
    digest = hashlib.sha256(item.encode()).digest()
    return digest[0] / 255 * longest, digest[1] / 255 * longest
