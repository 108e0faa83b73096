"""What a client gets wrong is told to it, and does not look like a crash of ours."""

import anyio
import pytest
from mcp import MCPError
from mcp.client import Client
from mcp_types import INVALID_PARAMS

from mcp_subagents import create_server
from mcp_subagents.store.memory import MemoryStore


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("deligate", "Unknown prompt: deligate"),
        ("delegate", "Missing required arguments: {'goal'}"),
        ("x" * 1000, f"Unknown prompt: {'x' * 284}"),
    ],
    ids=["unknown", "not described", "long"],
)
async def test_a_prompt_that_cannot_be_had(mode: str, name: str, told: str, caplog: pytest.LogCaptureFixture):
    with anyio.fail_after(5):
        async with Client(create_server(store=MemoryStore()), mode=mode) as client:
            with pytest.raises(MCPError) as wrong:
                await client.get_prompt(name)
    assert (wrong.value.code, str(wrong.value)) == (INVALID_PARAMS, told)
    assert caplog.records == []
