"""What tests of every kind share."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mcp_subagents.store import Store
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.store.sqlite import open_sqlite


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    async with open_sqlite(tmp_path / "tasks.db") as opened:
        yield opened
