"""The MCP Inspector as the host: it lists and calls every tool, in both eras, over every transport."""

import json
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
import scripted_server
from listening import listening
from node_tools import install, node

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = str(Path(scripted_server.__file__))
TOOLS = {
    *("task", "check_task", "wait_tasks", "answer_subagent", "send_message_to_subagent"),
    *("list_active_tasks", "soft_cancel_task", "hard_cancel_task"),
}
ERAS = ["legacy", "modern"]
every_era = pytest.mark.parametrize("era", ERAS)


class Inspector:
    """The command line of the Inspector, at one server."""

    def __init__(self, program: str, home: Path, target: Sequence[str], era: str) -> None:
        # Options first: what follows the target is the target's own.
        self._start = [program, "--cli", "--protocol-era", era, "--format", "json"]
        self._home = str(home)
        self._target = target

    async def ask(self, *options: str) -> Any:
        """What it prints, when it has succeeded."""
        with anyio.fail_after(60):
            done = await node(*self._start, *options, *self._target, HOME=self._home)
        assert (done.returncode, done.stderr.decode()) == (0, "")
        return json.loads(done.stdout)["result"]

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """The structured result of a tool."""
        given = ["--tool-name", tool, "--tool-args-json", json.dumps(arguments)]
        return (await self.ask("--method", "tools/call", *given))["structuredContent"]


@pytest.fixture(scope="module")
def program() -> str:
    """The Inspector, installed if it is not there."""
    return str(install() / "@modelcontextprotocol/inspector/clients/launcher/build/index.js")


@pytest.fixture(scope="module")
async def addresses(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[dict[str, str]]:
    """Where a server of ours listens."""
    store = tmp_path_factory.mktemp("network") / "tasks.db"
    async with listening(PROGRAM, "network", str(store)) as [http, sse]:
        yield {"http": http, "sse": sse}


@every_era
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_it_has_nothing_to_say_against_the_tools_on_the_network(
    program: str, addresses: dict[str, str], tmp_path: Path, transport: str, era: str
):
    inspector = Inspector(program, tmp_path, ["--transport", transport, addresses[transport]], era)
    listed = await inspector.ask("--method", "tools/list", "--strict")
    assert {tool["name"] for tool in listed["tools"]} == TOOLS
    assert (await inspector.call("list_active_tasks"))["tasks"] == []


@every_era
async def test_it_has_nothing_to_say_against_the_tools_on_standard_input_and_output(
    program: str, tmp_path: Path, era: str
):
    command = ["-e", f"PYTHONPATH={ROOT}", sys.executable, PROGRAM, "stdio", str(tmp_path / "tasks.db")]
    inspector = Inspector(program, tmp_path, command, era)
    listed = await inspector.ask("--method", "tools/list", "--strict")
    assert {tool["name"] for tool in listed["tools"]} == TOOLS
    done = await inspector.call("task", description="Greet.", subagent_type="greeter")
    assert (done["status"], done["result"]) == ("completed", "Hello.")


@every_era
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_it_calls_every_tool_on_the_network(
    program: str, addresses: dict[str, str], tmp_path: Path, transport: str, era: str
):
    inspector = Inspector(program, tmp_path, ["--transport", transport, addresses[transport]], era)
    async with anyio.create_task_group() as group:
        for story in (delegating, answering, cancelling):
            group.start_soon(story, inspector)


@every_era
async def test_it_calls_every_tool_on_standard_input_and_output(program: str, tmp_path: Path, era: str):
    """Each call starts a server of its own, which goes on with what the one before it has left."""
    command = ["-e", f"PYTHONPATH={ROOT}", sys.executable, PROGRAM, "stdio", str(tmp_path / "tasks.db")]
    inspector = Inspector(program, tmp_path, command, era)
    async with anyio.create_task_group() as group:
        for story in (delegating, answering, cancelling):
            group.start_soon(story, inspector)


async def delegating(inspector: Inspector) -> None:
    done = await inspector.call("task", description="Greet.", subagent_type="greeter")
    assert (done["status"], done["result"]) == ("completed", "Hello.")
    checked = await inspector.call("check_task", task_id=done["task_id"])
    assert (checked["status"], checked["result"]) == ("completed", "Hello.")
    read = await inspector.ask("--method", "resources/read", "--uri", done["result_uri"])
    assert read["contents"][0]["text"] == "Hello."


async def answering(inspector: Inspector) -> None:
    task_id = (await inspector.call("task", description="Go.", subagent_type="asker", mode="async"))["task_id"]
    waited = await inspector.call("wait_tasks", task_ids=[task_id])
    assert [each["question"] for each in waited["tasks"][0]["questions"]] == ["Which river?"]
    await inspector.call("answer_subagent", task_id=task_id, answer="the Rhine")
    waited = await inspector.call("wait_tasks", task_ids=[task_id])
    assert waited["tasks"][0]["result"] == "Then the Rhine."


async def cancelling(inspector: Inspector) -> None:
    task_id = (await inspector.call("task", description="Go.", subagent_type="sleeper", mode="async"))["task_id"]
    await inspector.call("send_message_to_subagent", task_id=task_id, message="Wake up.")
    listed = await inspector.call("list_active_tasks")
    assert task_id in [task["task_id"] for task in listed["tasks"]]
    # At once, if its server has left and the next one has not begun with it.
    assert (await inspector.call("soft_cancel_task", task_id=task_id))["status"] in ("running", "cancelled")
    assert (await inspector.call("hard_cancel_task", task_id=task_id))["status"] == "cancelled"
