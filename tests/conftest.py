"""What tests of every kind share."""

import logging
import os
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from mcp_subagents.store import Store
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.store.sqlite import open_sqlite


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def log_of_its_own() -> Generator[None]:
    """Commands log to the streams of their process, which is ours: the next test has others."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for each in [each for each in root.handlers if each not in handlers]:
        root.removeHandler(each)
    root.setLevel(level)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    async with open_sqlite(tmp_path / "tasks.db") as opened:
        yield opened


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who has nothing configured, in an empty directory."""
    for name in [name for name in os.environ if name.startswith("MCP_SUBAGENTS_")]:
        monkeypatch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("MCP_SUBAGENTS_MODEL", "test")
    monkeypatch.chdir(tmp_path)
    return tmp_path
