"""A changed file holds for the next task: hosts are told, running tasks keep what they started with."""

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated, ToolsListChanged
from processes import Talk, call, request, started

from mcp_subagents.config.environment import examine
from mcp_subagents.config.live import LiveRoster
from mcp_subagents.equipment.loading import Loader
from mcp_subagents.server import GENERAL_PURPOSE, create_server
from mcp_subagents.server.reloading import Reloading
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.testing import Gateway, Text, ToolCall, ToolCalls

AGENT = "---\nname: {}\ndescription: {}\ntools: Read\n---\nHelp.\n"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def write(path: Path, text: str) -> None:
    """Change a file so that it can be seen, however fast."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(before + 10**9, max(before + 10**9, path.stat().st_mtime_ns)))


def live(clock: Clock) -> LiveRoster:
    loader = Loader(read=lambda: examine(None, {}), env={}, otherwise=GENERAL_PURPOSE)
    return LiveRoster(loader.load(), loader.again, clock=clock)


async def test_a_changed_file_is_followed_once_a_second(home: Path):
    write(home / "subagents.yaml", "subagents: [{name: a}]")
    clock = Clock()
    roster = live(clock)
    write(home / "subagents.yaml", "subagents: [{name: a}, {name: b}]")
    await roster.refresh()
    assert list(roster) == ["a"]
    clock.now = 1.0
    await roster.refresh()
    assert list(roster) == ["a", "b"]
    write(home / "subagents.yaml", "{}")
    await roster.refresh(at_once=True)
    assert list(roster) == ["general-purpose"]


async def test_files_are_followed_though_tools_use_all_threads(home: Path):
    write(home / "subagents.yaml", "subagents: [{name: a}]")
    roster = live(Clock())
    write(home / "subagents.yaml", "subagents: [{name: b}]")
    threads = anyio.to_thread.current_default_thread_limiter()
    tools = [object() for _ in range(int(threads.total_tokens))]
    for tool in tools:
        threads.acquire_on_behalf_of_nowait(tool)
    try:
        with anyio.fail_after(5):
            await roster.refresh(at_once=True)
    finally:
        for tool in tools:
            threads.release_on_behalf_of(tool)
    assert list(roster) == ["b"]


async def test_a_repeated_call_returns_its_task_though_its_subagent_is_gone(home: Path):
    write(home / "subagents.yaml", "subagents: [{name: a, model: test}, {name: b, model: test}]")
    roster = live(Clock())
    server = create_server(roster, store=MemoryStore())
    call: dict[str, Any] = {"description": "Go.", "subagent_type": "a", "mode": "auto", "idempotency_key": "k"}
    with anyio.fail_after(10):
        async with Client(server) as host:
            first = await host.call_tool("task", call)
            write(home / "subagents.yaml", "subagents: [{name: b, model: test}]")
            await roster.refresh(at_once=True)
            again = [await host.call_tool("task", {**call, "mode": mode}) for mode in ("auto", "sync", "async")]
            new = await host.call_tool("task", {**call, "idempotency_key": "l"})
    assert first.structured_content is not None
    for each in again:
        assert each.structured_content is not None
        assert each.structured_content["task_id"] == first.structured_content["task_id"]
    assert new.is_error


async def test_a_file_that_appears_is_followed(home: Path):
    roster = live(Clock())
    assert list(roster) == ["general-purpose"]
    write(home / "subagents.yaml", "subagents: [{name: a}]")
    await roster.refresh(at_once=True)
    assert list(roster) == ["a"]


async def test_a_broken_edit_keeps_the_subagents_and_is_told_once(home: Path, caplog: pytest.LogCaptureFixture):
    write(home / "subagents.yaml", "subagents: [{name: a}]")
    roster = live(Clock())
    write(home / "subagents.yaml", "subagents: [{nam: a}]")
    for _ in range(3):
        await roster.refresh(at_once=True)
    assert list(roster) == ["a"]
    assert [each.message for each in caplog.records] == [
        "the configuration has changed and is not used: subagents.yaml:1: subagents[0].nam: unknown key, "
        "did you mean 'name'?",
        "the configuration has changed and is not used: subagents.yaml:1: subagents[0].name: is missing",
    ]
    write(home / "subagents.yaml", "subagents: [{name: b}]")
    await roster.refresh(at_once=True)
    assert list(roster) == ["b"]


async def test_agent_files_come_change_break_and_go(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    project = home / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    write(project / "subagents.yaml", "agents: auto")
    roster = live(Clock())
    told = list[int]()

    roster.on_change.append(lambda: told.append(len(roster)))
    path = project / ".claude/agents/a.md"
    write(path, AGENT.format("a", "One."))
    await roster.refresh(at_once=True)
    assert roster["a"].get("description") == "One."
    write(path, AGENT.format("a", "Two."))
    await roster.refresh(at_once=True)
    assert roster["a"].get("description") == "Two."
    write(path, "---\nname: [\n---\n")
    for _ in range(2):
        await roster.refresh(at_once=True)
    assert roster["a"].get("description") == "Two."
    [line] = [each.message for each in caplog.records]
    assert line.startswith(f"{path}:3: not valid YAML: ")
    path.unlink()
    await roster.refresh(at_once=True)
    assert list(roster) == ["general-purpose"]
    assert told == [1, 1, 1]


async def enum(client: Any) -> list[str]:
    [task] = [each for each in (await client.list_tools()).tools if each.name == "task"]
    return task.input_schema["properties"]["subagent_type"]["enum"]


async def test_tools_and_resources_say_who_is_there_now(home: Path):
    write(home / "subagents.yaml", "subagents: [{name: a}]")
    clock = Clock()
    with anyio.fail_after(20):
        async with Client(create_server(live(clock), store=home / "tasks.db")) as client:
            assert await enum(client) == ["a"]
            write(home / "subagents.yaml", "subagents: [{name: b}]")
            clock.now = 1.0
            assert await enum(client) == ["b"]
            write(home / "subagents.yaml", "subagents: [{name: c}]")
            clock.now = 2.0
            [agents] = (await client.read_resource("subagents://agents")).contents
            assert '"name": "c"' in agents.model_dump()["text"]


async def test_hosts_are_told_also_if_who_found_the_change_is_gone(home: Path):
    write(home / "subagents.yaml", "subagents: [{name: a}]")
    roster, bus, heard = live(Clock()), InMemorySubscriptionBus(), list[object]()
    all_told, scope = anyio.Event(), anyio.CancelScope()

    def hear(event: object) -> None:
        heard.append(event)
        if len(heard) == 2:
            all_told.set()

    bus.subscribe(hear)
    reloading = Reloading(roster, bus)
    reloading.install(MCPServer("hosts"), [], list, str)
    roster.on_change.append(scope.cancel)  # the host hangs up as soon as the files are read
    write(home / "subagents.yaml", "subagents: [{name: b}]")
    with anyio.fail_after(5):
        async with reloading.telling():
            with scope:
                await roster.refresh(at_once=True)
                await anyio.lowlevel.checkpoint()
            assert scope.cancelled_caught
            await all_told.wait()
    assert heard == [ToolsListChanged(), ResourceUpdated("subagents://agents")]


async def changed(talk: Any) -> list[str]:
    """The methods of what the server says by itself, until it has told of the tools."""
    heard = list[str]()
    while "notifications/tools/list_changed" not in heard:
        message = await talk.hear()
        heard += [message["method"]] if "method" in message else []
    return heard


@pytest.mark.slow
async def test_a_task_keeps_its_definition_and_the_next_one_gets_the_new(home: Path, monkeypatch: pytest.MonkeyPatch):
    def file(name: str, says: str) -> str:
        return f"subagents:\n- name: {name}\n  model: openai-chat:gpt-4o-mini\n  instructions: {says}\n"

    async def called(talk: Talk, number: int, tool: str, /, **arguments: Any) -> dict[str, Any]:
        await talk.say(call(number, tool, **arguments))
        while (said := await talk.hear()).get("id") != number:
            pass
        return said["result"]

    write(home / "subagents.yaml", file("a", "The old way."))
    asks = ToolCalls([ToolCall("ask_parent", {"question": "Which?"})])
    async with Gateway([asks, Text("Done."), Text("Done, too.")]) as gateway:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{gateway.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted")
        async with started("-m", "mcp_subagents", env=dict(os.environ)) as talk:
            await talk.shake_hands()
            old = (await called(talk, 1, "task", description="x", subagent_type="a"))["structuredContent"]
            assert old["status"] == "waiting_for_answer"

            write(home / "subagents.yaml", file("b", "The new way."))
            talk.process.send_signal(signal.SIGHUP)
            await changed(talk)
            assert (await called(talk, 2, "task", description="x", subagent_type="a"))["isError"]

            done = await called(talk, 3, "answer_subagent", task_id=old["task_id"], answer="That one.")
            assert (done["structuredContent"]["status"], done["structuredContent"]["subagent"]) == ("completed", "a")
            new = await called(talk, 4, "task", description="x", subagent_type="b")
            assert (new["structuredContent"]["status"], new["structuredContent"]["result"]) == (
                "completed",
                "Done, too.",
            )
    said = [str(each.body["messages"]) for each in gateway.requests]
    assert ["The old way." in each for each in said] == [True, True, False]
    assert "The new way." in said[2]


@pytest.mark.slow
async def test_hosts_of_the_older_era_are_told_when_a_signal_comes(home: Path):
    write(home / "subagents.yaml", "subagents: [{name: a}]")
    async with started("-m", "mcp_subagents") as talk:
        await talk.shake_hands()
        await talk.say(request(1, "resources/subscribe", uri="subagents://agents"))
        while (await talk.hear()).get("id") != 1:
            pass
        write(home / "subagents.yaml", "subagents: [{name: b}]")
        talk.process.send_signal(signal.SIGHUP)
        with anyio.fail_after(5):
            heard = await changed(talk)
            while "notifications/resources/updated" not in heard:
                heard.append((await talk.hear())["method"])
        await talk.say(request(2, "tools/list"))
        [task] = [each for each in (await talk.hear())["result"]["tools"] if each["name"] == "task"]
        assert task["inputSchema"]["properties"]["subagent_type"]["enum"] == ["b"]
        await talk.say(call(3, "task", description="x", subagent_type="a"))
        assert (await talk.hear())["result"]["isError"]


@pytest.mark.slow
async def test_hosts_of_the_newer_era_are_told_if_they_listen(home: Path):
    write(home / "subagents.yaml", "subagents: [{name: a}]")
    meta: dict[str, Any] = call(0, "x", modern=True)["params"]["_meta"]
    async with started("-m", "mcp_subagents") as talk:
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["subagents://agents"]}
        await talk.say(request(1, "subscriptions/listen", notifications=wanted, _meta=meta))
        assert (await talk.hear())["method"] == "notifications/subscriptions/acknowledged"
        write(home / "subagents.yaml", "subagents: [{name: b}]")
        talk.process.send_signal(signal.SIGHUP)
        with anyio.fail_after(5):
            told = {(await talk.hear())["method"], (await talk.hear())["method"]}
        assert told == {"notifications/tools/list_changed", "notifications/resources/updated"}


async def test_the_older_era_is_promised_what_it_is_told(home: Path):
    server = create_server(live(Clock()), store=home / "tasks.db")
    low: Any = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]  # what the handshake says
    assert low.create_initialization_options().capabilities.tools.list_changed
