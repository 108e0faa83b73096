"""The definition that is stored with a task is enough: whoever runs it runs the same thing, whatever has changed."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from office import SETTINGS, delegate, outcome, subagent
from pydantic_ai import Agent, FunctionToolset

from mcp_subagents import agents
from mcp_subagents.agents import Roster
from mcp_subagents.config import SubAgentConfig
from mcp_subagents.engine import Engine, run_engine
from mcp_subagents.equipment.definitions import definitions_of
from mcp_subagents.equipment.kits import Equipment
from mcp_subagents.equipment.soundness import require_sound
from mcp_subagents.errors import ConfigError, UnknownSubagent
from mcp_subagents.store import Query, Store
from mcp_subagents.testing import Gateway, Text, ToolCall, ToolCalls
from mcp_subagents.testing.script import Received

SERVERS = {"db": {"command": "staging-db", "env": {"TOKEN": "${DB_TOKEN}"}}}


def declared(name: str, **more: Any) -> SubAgentConfig:
    given: Any = {"name": name, "description": "", "instructions": "", "model": "test", **more}
    return SubAgentConfig(**given)


def purposes(roster: Roster, definition: str | None) -> str:
    """What the subagent is told of those that it may delegate to."""
    agent: Any = roster.compiled("boss", definition).agent
    [tool] = [each.tools["task"] for each in agent.toolsets if isinstance(each, FunctionToolset)]
    return tool.function_schema.json_schema["properties"]["subagent_type"]["description"]


class Office:
    """A boss and a helper on one gateway, which notes what they were told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OFFICE_KEY", "for-the-gateway")
        self.gateway = Gateway(self._answer)
        self.subagents: dict[str, SubAgentConfig] = {}
        self.instructions: list[str] = []
        self.on_delegation = lambda: None

    def add(self, name: str, **more: Any) -> None:
        at = {"model": "openai-chat:gpt-4o-mini", "base_url": f"{self.gateway.url}/v1", "api_key_env": "OFFICE_KEY"}
        self.subagents[name] = declared(name, can_ask_questions=False, **{**at, **more})

    def _answer(self, received: Received) -> Any:
        messages: list[dict[str, Any]] = received.body["messages"]
        self.instructions.append(str(messages[0]["content"]))
        if "Help." in str(messages[1]["content"]):
            return Text("42")
        if messages[-1]["role"] == "tool":
            return Text(f"I was told: {messages[-1]['content']}")
        self.on_delegation()
        return ToolCalls([ToolCall("task", {"description": "Help.", "subagent_type": "helper"})])


@pytest.fixture
async def office(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Office]:
    office = Office(monkeypatch)
    async with office.gateway:
        office.add("boss", subagents=["helper"])
        office.add("helper", instructions="You are the first helper.")
        yield office


@asynccontextmanager
async def process(store: Store, roster: Roster) -> AsyncGenerator[Engine]:
    with anyio.fail_after(10):
        async with run_engine(store, roster, SETTINGS) as engine:
            yield engine


async def test_a_process_that_knows_nobody_runs_a_task_and_those_below_it(store: Store, office: Office):
    async with process(store, Roster(office.subagents)) as engine:
        task_id = await delegate(engine, subagent="boss")
    async with process(store, Roster([])) as engine:
        done = await outcome(engine, task_id)
    [child] = await store.select(Query(parent_id=task_id))
    assert (child.handle.subagent_name, child.handle.result) == ("helper", "42")
    assert child.handle.model == "openai-chat:gpt-4o-mini"
    assert done.result is not None
    assert "42" in done.result


@pytest.mark.parametrize("stays", [False, True], ids=["gone", "changed"])
async def test_a_task_at_work_delegates_to_the_one_that_was_there_when_it_began(
    store: Store, office: Office, stays: bool
):
    def change() -> None:
        del office.subagents["helper"]
        office.add("helper" if stays else "aide", instructions="You are the second.", limits={"requests": 3})
        office.add("boss", subagents=["helper" if stays else "aide"])

    office.on_delegation = change
    async with process(store, Roster(office.subagents)) as engine:
        task_id = await delegate(engine, subagent="boss")
        done = await outcome(engine, task_id)
    [child] = await store.select(Query(parent_id=task_id))
    assert (child.handle.result, child.limits) == ("42", None)
    assert ["first" in each for each in office.instructions] == [False, True, False]
    assert done.result is not None
    assert "42" in done.result


async def test_one_that_delegates_to_a_live_object_is_not_run_where_that_is_not(store: Store, office: Office):
    office.subagents["helper"] = subagent("42", name="helper")
    roster = Roster(office.subagents)
    assert (roster.definition("boss"), roster.resident) == (None, {"boss", "helper"})
    async with process(store, roster) as engine:
        task_id = await delegate(engine, subagent="boss")
        assert "42" in str((await outcome(engine, task_id)).result)


def test_a_tool_server_that_is_named_is_the_one_of_the_process_that_took_the_task_on(tmp_path: Path):
    here = Roster([declared("boss", mcp_servers=["db"])], equipment=Equipment(mcp_servers=SERVERS, base=tmp_path))
    stored = here.definition("boss")
    elsewhere = Equipment(mcp_servers={"db": {"command": "production-db"}}, base=Path("/"))
    config = Roster([], equipment=elsewhere).compiled("boss", stored).config
    [server] = definitions_of(config, {}, Path("/"))
    assert (server.name, server.command, server.cwd) == ("db", "staging-db", str(tmp_path))
    assert server.env == {"TOKEN": "${DB_TOKEN}"}


def test_the_file_of_a_host_stays_a_file_and_its_secrets_where_they_are(tmp_path: Path):
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"db": {"command": "db", "env": {"T": "hush"}}}}', "utf-8")
    roster = Roster([declared("boss", mcp_servers=[{"from": "mcp.json"}])], equipment=Equipment(base=tmp_path))
    stored = json.loads(roster.definition("boss") or "")
    assert stored["mcp_servers"] == [{"from": str(tmp_path / "mcp.json")}]


async def test_a_tool_server_that_is_not_defined_is_told_before_a_task_is_taken_on(store: Store):
    named = {"boss": declared("boss")}
    async with process(store, Roster(named)) as engine:
        named["boss"] = declared("boss", mcp_servers=["db"])
        with pytest.raises(ConfigError, match="names the tool server 'db', which is not defined"):
            await delegate(engine, subagent="boss")
    assert await store.count(Query()) == 0


def test_a_shared_tool_server_with_a_secret_written_out_is_warned_of(caplog: pytest.LogCaptureFixture):
    secret = "sk-" + "ant-" + "0123456789abcdefghij" * 2
    require_sound([declared("boss", mcp_servers=["db"])], mcp_servers={"db": {"command": "x", "env": {"K": secret}}})
    assert "the tool server db of the subagent boss has a secret written out" in caplog.text
    assert secret not in caplog.text


def test_the_default_model_is_stored_with_a_task_and_with_all_whom_it_may_reach():
    plain: list[Any] = [
        {"name": "boss", "description": "", "instructions": "", "subagents": ["helper", "other"]},
        {"name": "helper", "description": "", "instructions": ""},
        {"name": "other", "description": "", "instructions": "", "model": "groq:b"},
    ]
    stored = json.loads(Roster(plain, default_model="groq:a").definition("boss") or "")
    models = {name: each["model"] for name, each in stored["delegates"].items()}
    assert (stored["model"], models) == ("groq:a", {"helper": "groq:a", "other": "groq:b"})


def test_a_task_reads_the_words_of_its_delegates_as_they_were_and_the_next_one_as_they_are():
    team = {
        "boss": declared("boss", subagents=["helper"]),
        "helper": declared("helper", description="Old words."),
    }
    roster = Roster(team)
    before = roster.definition("boss")
    assert "Old words." in purposes(roster, before)
    team["helper"] = declared("helper", description="New words.")
    assert "New words." in purposes(roster, roster.definition("boss"))
    assert "Old words." in purposes(Roster(team), before)


def test_a_definition_that_was_stored_without_its_delegates_finds_them_by_their_names():
    old = '{"name":"boss","description":"","instructions":"","model":"test","subagents":["helper","gone"]}'
    roster = Roster([declared("helper", description="Helps."), declared("boss")])
    delegates = roster.compiled("boss", old).delegates
    assert delegates == {"helper": roster.config("helper")}
    assert roster.assignment("helper", old).definition == roster.definition("helper")
    with pytest.raises(UnknownSubagent):
        roster.assignment("gone", old)


def test_one_that_no_definition_can_stand_for_is_made_again_when_it_has_changed():
    ready = Agent("test", name="one")
    team = {"boss": subagent(name="boss", agent=ready)}
    roster = Roster(team)
    first = roster.compiled("boss", None)
    assert roster.compiled("boss", None) is first
    team["boss"] = subagent(name="boss", agent=Agent("test", name="two"))
    assert roster.compiled("boss", None) is not first


def test_only_so_many_definitions_are_kept_ready(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(agents, "MOST_COMPILED", 2)
    roster = Roster([])
    stored = [json.dumps({"name": name, "model": "test"}) for name in "abc"]
    a, b, _ = roster.compiled("a", stored[0]), roster.compiled("b", stored[1]), roster.compiled("a", stored[0])
    roster.compiled("c", stored[2])
    assert roster.compiled("a", stored[0]) is a
    assert roster.compiled("b", stored[1]) is not b
