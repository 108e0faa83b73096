"""Real hosts, from npm: each finds what `install` wrote, and Claude Code delegates and answers through it."""

import json
from pathlib import Path

import anyio
import pytest
from machine import Machine, programs, results
from node_tools import install, node

from mcp_subagents.testing import Gateway, Received, Reply, Text, ToolCall, ToolCalls

pytestmark = pytest.mark.slow

SERVER = "mcp__subagents"
"""What Claude Code calls ours."""
TEAM = """\
subagents:
  - name: buyer
    description: Buys things, and asks what you like.
    instructions: Buy what you are told to.
    model: openai:scripted
    base_url: {url}/v1
    api_key_env: TEAM_KEY
"""


@pytest.fixture(scope="module")
def hosts() -> dict[str, list[str]]:
    return programs()


@pytest.fixture
def machine(tmp_path: Path, hosts: dict[str, list[str]]) -> Machine:
    return Machine(home=tmp_path, programs=hosts)


async def test_claude_code_is_connected_until_it_is_uninstalled(machine: Machine) -> None:
    await machine.install("claude-code")
    assert "mcp-subagents" in (listed := await machine.call("claude-code", "mcp", "list"))
    assert "Connected" in listed
    await machine.uninstall("claude-code")
    assert "subagents" not in await machine.call("claude-code", "mcp", "list")


async def test_codex_reads_the_entry_with_its_patience_and_its_variables(machine: Machine) -> None:
    (machine.home / ".codex").mkdir()
    await machine.install()
    entry = json.loads(await machine.call("codex", "mcp", "get", "subagents", "--json"))
    transport = entry["transport"]
    assert (entry["enabled"], entry["startup_timeout_sec"], entry["tool_timeout_sec"]) == (True, 60, 300)
    assert transport["command"].endswith("mcp-subagents")
    assert {"ANTHROPIC_API_KEY", "OPENAI_API_KEY"} <= set(transport["env_vars"])


async def test_gemini_is_connected_and_hands_its_keys_on(machine: Machine) -> None:
    settings = machine.home / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{\n  // me\n  "security": {"folderTrust": {"enabled": false}}\n}\n')
    await machine.install("gemini")
    assert '"GEMINI_API_KEY": "$GEMINI_API_KEY"' in settings.read_text()
    listed = (await machine.call("gemini", "mcp", "list")).splitlines()
    assert [line.split()[-1] for line in listed if line.split()[1:2] == ["subagents:"]] == ["Connected"]


async def test_opencode_is_connected(machine: Machine) -> None:
    await machine.install("opencode")
    listed = await machine.call("opencode", "mcp", "list")
    assert "subagents" in listed
    assert "connected" in listed


async def test_the_inspector_calls_the_server_that_a_file_of_servers_names(machine: Machine) -> None:
    await machine.install("cursor")
    inspector = str(install() / "@modelcontextprotocol/inspector/clients/launcher/build/index.js")
    file = str(machine.home / ".cursor" / "mcp.json")
    where = ["--cli", "--config", file, "--server", "subagents", "--format", "json"]
    with anyio.fail_after(60):
        done = await node(
            inspector, *where, "--method", "tools/call", "--tool-name", "list_active_tasks", **machine.environment()
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"]["structuredContent"]["tasks"] == []


async def test_claude_code_delegates_answers_a_question_and_reports(machine: Machine) -> None:
    """Both models are scripted: that of Claude Code in Anthropic's words, that of the subagent in OpenAI's."""
    async with Gateway(play) as gateway:
        config = machine.home / "team.yaml"
        config.write_text(TEAM.format(url=gateway.url))
        await machine.install("claude-code", "--config", str(config))
        said = await machine.call(
            "claude-code",
            *("-p", "Have a hat bought.", "--output-format", "json"),
            *("--allowedTools", SERVER),
            ANTHROPIC_BASE_URL=gateway.url,
            TEAM_KEY="only-for-the-team",
            ENABLE_TOOL_SEARCH="false",
        )
    outcome = json.loads(said)
    assert (outcome["is_error"], outcome["result"]) == (False, "The buyer says: Bought one in red.")
    keys = {each.headers.get("authorization") for each in gateway.requests if each.wire == "openai"}
    assert keys == {"Bearer only-for-the-team"}
    await machine.quiet()


def play(received: Received) -> Reply:
    return buy(received) if received.wire == "openai" else delegate(received)


def delegate(received: Received) -> Reply:
    """The host: wait for the server, delegate, answer what is asked, wait, report."""
    offered = {tool["name"] for tool in received.body.get("tools", [])}
    told = [each for each in results(received.body) if each.keys() & {"task_id", "tasks"}]
    if not told and f"{SERVER}__task" not in offered:
        return ToolCalls([ToolCall("WaitForMcpServers")])
    if not told:
        return ToolCalls([ToolCall(f"{SERVER}__task", {"description": "Buy a hat.", "subagent_type": "buyer"})])
    task = told[-1].get("tasks", told[-1:])[0]
    if task["questions"]:
        return ToolCalls([ToolCall(f"{SERVER}__answer_subagent", {"task_id": task["task_id"], "answer": "red"})])
    if task["status"] == "completed":
        return Text(f"The buyer says: {task['result']}")
    return ToolCalls([ToolCall(f"{SERVER}__wait_tasks", {"task_ids": [task["task_id"]]})])


def buy(received: Received) -> Reply:
    """The subagent: ask, then do."""
    answers = [message["content"] for message in received.body["messages"] if message["role"] == "tool"]
    if not answers:
        return ToolCalls([ToolCall("ask_parent", {"question": "Which colour?"})])
    return Text(f"Bought one in {answers[-1]}.")
