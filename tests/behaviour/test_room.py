"""One engine behind all connections: opened once, closed after the last, and never loaded before it is needed."""

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from front import PASS, Gate, call, connected, delegate, refusal, server_of, subagent
from mcp import Client, MCPError

from mcp_subagents.config import SubAgentConfig
from mcp_subagents.errors import ConfigError, StoreError, StoreUnavailable
from mcp_subagents.server import create_server
from mcp_subagents.server.room import EngineRoom
from mcp_subagents.store import Store
from mcp_subagents.store.memory import MemoryStore


class Log(list[str]):
    """What was opened and closed, in order."""

    @asynccontextmanager
    async def store(self) -> AsyncGenerator[Store]:
        self.append("store opened")
        try:
            yield MemoryStore()
        finally:
            self.append("store closed")

    @asynccontextmanager
    async def engine(self, store: Store) -> AsyncGenerator[Any]:
        self.append("engine started")
        try:
            yield object()
        finally:
            self.append("engine stopped")


ONE_LIFE = ["store opened", "engine started", "engine stopped", "store closed"]


async def test_connections_share_one_engine_which_ends_with_the_last():
    log = Log()
    room = EngineRoom(log.store, log.engine)
    with anyio.fail_after(5):
        async with room.use():
            async with room.use(), room.use():
                engines = [await room.engine(), await room.engine()]
            assert log == ONE_LIFE[:2]
        assert engines[0] is engines[1]
        assert log == ONE_LIFE
        async with room.use():
            assert await room.engine() is not engines[0]
    assert log == [*ONE_LIFE, *ONE_LIFE]


async def test_connections_that_come_and_go_together_open_one_engine():
    log = Log()
    room = EngineRoom(log.store, log.engine)
    together = anyio.Event()

    async def visit() -> None:
        async with room.use():
            await room.engine()
            await together.wait()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(visit)
            await anyio.wait_all_tasks_blocked()
            assert log == ONE_LIFE[:2]
            together.set()
    assert log == ONE_LIFE


async def test_the_engine_starts_by_itself_soon_after_the_store_is_open():
    log = Log()
    started = anyio.Event()

    @asynccontextmanager
    async def engine(store: Store) -> AsyncGenerator[Any]:
        async with log.engine(store) as opened:
            started.set()
            yield opened

    room = EngineRoom(log.store, engine, before_work=0.0)
    with anyio.fail_after(5):
        async with room.use():
            await started.wait()
    assert log == ONE_LIFE


async def test_a_connection_that_ends_before_the_engine_is_wanted_never_starts_it():
    log = Log()
    room = EngineRoom(log.store, log.engine, before_work=60)
    with anyio.fail_after(5):
        async with room.use():
            pass
    assert log == ["store opened", "store closed"]


async def test_a_store_that_is_not_wanted_any_more_is_closed():
    log = Log()
    opening, go_on = anyio.Event(), anyio.Event()

    @asynccontextmanager
    async def slow_store() -> AsyncGenerator[Store]:
        async with log.store() as store:
            opening.set()
            await go_on.wait()
            yield store

    room = EngineRoom(slow_store, log.engine)

    async def visit() -> None:
        async with room.use():
            raise AssertionError("the store was not open yet")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(visit)
            await opening.wait()
            group.cancel_scope.cancel()
            go_on.set()
    assert log == ["store opened", "store closed"]


async def test_the_engine_is_not_to_be_had_outside():
    with pytest.raises(RuntimeError, match="outside the lifespan"):
        await EngineRoom(Log().store, Log().engine).engine()


async def test_a_store_that_cannot_be_opened_is_told_at_once(era: str, tmp_path: Path):
    broken = tmp_path / "tasks.db"
    broken.write_bytes(b"this is no database, whatever its name says" * 100)
    server = create_server(store=broken, default_model="test")
    with pytest.raises((StoreError, BaseExceptionGroup)) as refused:
        async with Client(server, mode=era):  # pyright: ignore[reportArgumentType]
            raise AssertionError("it was not opened")
    assert isinstance(refused.value, StoreError) or refused.group_contains(StoreError)


class BrokenStore(MemoryStore):
    """Can be opened, but not watched."""

    @asynccontextmanager
    async def watch(self) -> AsyncGenerator[Any]:
        raise StoreUnavailable("The disk is full.")
        yield


UNUSABLE = SubAgentConfig(name="general-purpose", description="", instructions="", max_retries=-1)
NOT_STARTED = [
    pytest.param(server_of(UNUSABLE), "The engine is not running (", id="a definition"),
    pytest.param(server_of(subagent(), store=BrokenStore()), "The disk is full.", id="the store"),
]


@pytest.mark.parametrize(("server", "words"), NOT_STARTED)
async def test_an_engine_that_cannot_start_says_why_in_every_result(server: Any, words: str, era: str):
    async with connected(server, era) as host:
        refused = [
            refusal(await host.call_tool("task", {"description": "Go."})),
            refusal(await host.call_tool("list_active_tasks", {})),
        ]
        with pytest.raises(MCPError) as unreadable:
            await host.read_resource("subagents://tasks")
        assert (await host.list_tools()).tools
    assert refused == [refused[0]] * 2
    assert refused[0].startswith(words)
    assert words in unreadable.value.error.message


async def test_clients_share_their_tasks(era: str):
    gate = Gate()
    server = server_of(subagent(PASS, "Done.", tools=[gate.gate]))
    async with connected(server, era) as one, connected(server, era) as two:
        task_id = await delegate(one)
        await gate.reached.wait()
        assert (await call(two, "check_task", task_id=task_id))["status"] == "running"


async def test_a_server_can_be_used_again(era: str):
    server = server_of(subagent("Done."))
    async with connected(server, era) as host:
        task_id = (await call(host, "task", description="Go."))["task_id"]
    async with connected(server, era) as host:
        assert (await call(host, "check_task", task_id=task_id))["result"] == "Done."


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "from mcp_subagents.server import create_server; create_server()",
        "from mcp_subagents.server import create_server;"
        "create_server([dict(name='a', description='', instructions='', model='openai:gpt-5')])",
    ],
)
def test_a_server_does_not_load_pydantic_ai_before_it_is_run(code: str):
    found = "import sys; print([name for name in sys.modules if name.startswith(('pydantic_ai', 'apsw'))])"
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}\n{found}"], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize(
    ("subagents", "words"),
    [
        ([{"name": "a"}, {"name": "a"}], "Two subagents are named 'a'; each needs a name of its own."),
        ([{"name": " "}], "A subagent's name must be text, not ' '."),
        ([{"name": "a", "limits": {"request": 1}}], "limits: unknown limit 'request', did you mean 'requests'?"),
    ],
)
def test_a_wrong_definition_is_refused_before_anything_runs(subagents: Any, words: str):
    with pytest.raises(ConfigError) as refused:
        create_server(subagents)
    assert str(refused.value) == words


async def test_a_store_of_another_kind_is_refused():
    with pytest.raises(ConfigError, match="sqlite:///FILE"):
        async with Client(create_server(store="postgresql://somewhere")):
            raise AssertionError("it was opened")
