"""The command as its files configure it: where it listens, and with which agents it starts."""

import os
import sys
from pathlib import Path

import anyio
import pytest
import yaml
from processes import Talk, call, request, started

from mcp_subagents.testing import Gateway, Text, ToolCall, ToolCalls

pytestmark = [pytest.mark.usefixtures("home"), pytest.mark.slow]


async def offered(talk: Talk) -> list[str]:
    """The subagents that a host is offered."""
    await talk.shake_hands()
    await talk.say(request(1, "tools/list"))
    [task] = [each for each in (await talk.hear())["result"]["tools"] if each["name"] == "task"]
    return task["inputSchema"]["properties"]["subagent_type"]["enum"]


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
        assert await offered(talk) == ["good"]
        assert (await talk.noted()).startswith(f"mcp-subagents: WARNING: {agents / 'broken.md'}:3: not valid YAML")
        await talk.hang_up()
        with anyio.fail_after(5):
            assert await talk.process.wait() == 0


async def test_an_agent_file_that_names_what_is_not_there_is_told_and_the_server_starts(home: Path):
    project = home / "project"
    agents = project / ".claude/agents"
    agents.mkdir(parents=True)
    (project / "subagents.yaml").write_text("mcp_servers: {issues: {command: x, args: ['${UNSET_TOKEN}']}}\n")
    (agents / "bad.md").write_text("---\nname: bad\ndescription: Bad.\ntools: mcp__issues__find\n---\nBe bad.\n")
    (agents / "good.md").write_text("---\nname: good\ndescription: Does good.\n---\nBe good.\n")
    async with started("-m", "mcp_subagents", "--agents", "auto", cwd=project) as talk:
        assert await offered(talk) == ["good"]
        told = f"mcp-subagents: WARNING: {agents / 'bad.md'}:4: tools: the tool server 'issues' needs"
        assert (await talk.noted()).startswith(told)
        await talk.hang_up()
        with anyio.fail_after(5):
            assert await talk.process.wait() == 0


async def test_a_file_that_names_what_is_not_there_ends_the_command(home: Path):
    (home / "subagents.yaml").write_text("subagents: [{name: a, python_tools: ['mine:tool']}]\n")
    async with started("-m", "mcp_subagents") as talk:
        with anyio.fail_after(20):
            [line] = await talk.notes()
            assert await talk.process.wait() == 2
    assert line.startswith("mcp-subagents: subagents.yaml:1: subagents[0].python_tools: The subagent 'a' names")


async def test_subagents_work_with_the_tool_servers_of_the_file_from_its_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = home / "settings"
    folder.mkdir()
    bench = Path(__file__).parent.parent / "equipment/toolbench.py"
    (folder / "bench.py").write_text(bench.read_text(encoding="utf-8"), encoding="utf-8")
    given = {
        "mcp_servers": {"bench": {"command": sys.executable, "args": ["bench.py"]}},
        "subagents": [{"name": "a", "model": "openai-chat:gpt-4o-mini", "mcp_servers": ["bench"]}],
    }
    (folder / "subagents.yaml").write_text(yaml.safe_dump(given))
    adds = ToolCalls([ToolCall("bench__add", {"left": 40, "right": 2})])
    async with Gateway([adds, Text("42.")]) as gateway:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{gateway.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted")
        arguments = ("-m", "mcp_subagents", "--config", str(folder / "subagents.yaml"))
        with anyio.fail_after(60):
            async with started(*arguments, env=dict(os.environ)) as talk:
                await talk.shake_hands()
                await talk.say(call(1, "task", description="x", subagent_type="a"))
                while (said := await talk.hear()).get("id") != 1:
                    pass
                await talk.hang_up()
                assert await talk.process.wait() == 0
    assert said["result"]["structuredContent"]["result"] == "42."
    assert gateway.requests[1].body["messages"][-1]["content"] == "42"
