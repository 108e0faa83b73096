"""A server under fire: the process, what it answered, what it used, and what it left behind."""

import os
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from mcp_subagents.store import Query
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.types import TaskStatus
from tests.fuzz.corpus import Known
from tests.fuzz.footprint import Footprint
from tests.fuzz.team import MOST_OPEN_TASKS

SUMMARIES = pytest.StashKey[list[str]]()

SEED = int(os.environ.get("FUZZ_SEED", "1"))
CANARY_EVERY = 200
PATIENCE = 20.0
"""Seconds in which a well-formed request is answered, whatever goes on around it."""
MOST_MEGABYTES = 24
"""What a server may have gained since the warm-up. One that kept each message would be far beyond."""

ENDED_SESSIONS = (
    "ERROR:mcp.server.streamable_http:SSE response",
    "ERROR:mcp.server.streamable_http:Error handling POST",
)
"""What the SDK logs when a session is ended while its messages come in; their senders are none the worse."""


def how_many(in_ten_seconds: int) -> int:
    """Messages to send: what was asked for, or as many as go out in about ten seconds."""
    return int(os.environ.get("FUZZ_MESSAGES", in_ten_seconds))


class Siege:
    """One run of a server."""

    def __init__(self, process: anyio.abc.Process, log: Path, store: Path, messages: int) -> None:
        self.process, self.log, self.store, self.messages = process, log, store, messages
        self.greeting = ""
        self.known = Known()
        self.answers: Counter[str] = Counter()
        self.canaries: list[float] = []
        self.last_task = self.summary = ""
        self._started = time.monotonic()
        self._warm_up = messages // 4
        """Messages after which nothing is taken for a first use any more."""
        self._early: Footprint | None = None

    def footprint(self) -> Footprint:
        return Footprint.of(self.process.pid)

    def look(self, sent: int) -> None:
        """Notice what the server uses, once it has warmed up, and that it lives."""
        assert self.process.returncode is None, self.log.read_text(encoding="utf-8")[-4000:]
        if self._early is None and sent >= self._warm_up:
            self._early = self.footprint()

    def judge(self, what: str) -> None:
        """Say what it has come to, in numbers. Fails if the server has grown."""
        early, late = self._early, self.footprint()
        assert early is not None
        seconds = time.monotonic() - self._started
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.answers.most_common(14))
        self.summary = summary = (
            f"{what}, seed {SEED}: {self.messages} messages in {seconds:.0f} s ({self.messages / seconds:.0f}/s); "
            f"{early} after {self._warm_up}, {late} at the end; slowest canary {max(self.canaries):.2f} s; "
            f"log {self.log.stat().st_size // 1024} KB; {kinds}"
        )
        assert late.megabytes - early.megabytes < MOST_MEGABYTES, summary
        assert late.threads <= early.threads + 2, summary
        assert late.files <= early.files + 4, summary

    async def inspect(self) -> str:
        """What is in the store, now that the server is gone. It is checked when it is opened."""
        async with open_sqlite(self.store) as store:
            tasks = await store.select(Query())
            for task in tasks:
                await store.journal(task.handle.task_id)
            last = await store.read(self.last_task)
        standing = Counter(str(task.handle.status) for task in tasks)
        assert last.handle.status is TaskStatus.COMPLETED
        assert last.handle.result == "42"
        assert sum(not task.handle.status.is_terminal for task in tasks) <= MOST_OPEN_TASKS
        return f"tasks: {dict(standing)}"

    def log_is_clean(self) -> None:
        """Nothing broke on the inside, either: what was wrong with a message is told to its sender."""
        notes = re.split(r"^(?=[A-Z]+:[\w.]+:)", self.log.read_text(encoding="utf-8", errors="replace"), flags=re.M)
        broken = [note for note in notes if "Traceback (most" in note and not note.startswith(ENDED_SESSIONS)]
        assert not broken, f"{len(broken)} tracebacks, the first:\n{broken[0][-4000:]}"


@asynccontextmanager
async def besieged(transport: str, folder: Path, config: pytest.Config, messages: int) -> AsyncGenerator[Siege]:
    """A server on `transport`, for as long as the block lasts. What it leaves behind is judged, and reported."""
    program = str(Path(__file__).with_name("team.py"))
    log, store = folder / "log.txt", folder / "tasks.db"
    async with await anyio.open_process([sys.executable, program, transport, str(store)]) as process:
        assert process.stderr
        notes = BufferedByteReceiveStream(process.stderr)
        siege = Siege(process, log, store, messages)
        if transport != "stdio":
            with anyio.fail_after(PATIENCE):
                siege.greeting = (await notes.receive_until(b"\n", 65536)).decode()
        async with anyio.create_task_group() as group:
            group.start_soon(_keep, notes, log)
            try:
                yield siege
            finally:
                if process.returncode is None:
                    process.kill()
    config.stash.setdefault(SUMMARIES, []).append(f"{siege.summary}; {await siege.inspect()}")
    siege.log_is_clean()


async def _keep(notes: BufferedByteReceiveStream, log: Path) -> None:
    # To the last word, also when all is lost: that is when it is wanted.
    with anyio.CancelScope(shield=True):
        async with await anyio.open_file(log, "wb") as kept:
            async for note in notes:
                await kept.write(note)
