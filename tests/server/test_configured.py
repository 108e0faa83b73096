"""The command as its files configure it: where it listens, and with which agents it starts."""

from pathlib import Path

import anyio
import pytest
from processes import request, started

pytestmark = pytest.mark.usefixtures("home")


async def test_the_file_can_say_how_to_serve(home: Path):
    (home / "subagents.yaml").write_text("transport: http\nport: 0\n")
    async with started("-m", "mcp_subagents") as talk:
        said = await talk.noted()
        assert said.startswith("mcp-subagents: listening on http://127.0.0.1:")
        assert not said.endswith(":8000/mcp")
        talk.process.terminate()
        with anyio.fail_after(5):
            assert await talk.process.wait() == 0


async def test_a_broken_agent_file_is_told_and_the_server_starts(home: Path):
    project = home / "project"
    agents = project / ".claude/agents"
    agents.mkdir(parents=True)
    (agents / "broken.md").write_text("---\nname: [\n---\n")
    (agents / "good.md").write_text("---\nname: good\ndescription: Does good.\n---\nBe good.\n")
    async with started("-m", "mcp_subagents", "--agents", "auto", cwd=project) as talk:
        await talk.shake_hands()
        await talk.say(request(1, "tools/list"))
        [task] = [each for each in (await talk.hear())["result"]["tools"] if each["name"] == "task"]
        assert task["inputSchema"]["properties"]["subagent_type"]["enum"] == ["good"]
        assert (await talk.noted()).startswith(f"mcp-subagents: WARNING: {agents / 'broken.md'}:3: not valid YAML")
        await talk.hang_up()
        with anyio.fail_after(5):
            assert await talk.process.wait() == 0
