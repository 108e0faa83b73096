"""`mcp_subagents.testing.host`: an app in memory, for those who test their own subagents."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai import Agent, ToolCallPart
from pydantic_ai.exceptions import ModelHTTPError

from mcp_subagents import ConfigError, SubAgentConfig, SubAgentSpec
from mcp_subagents.store.sqlite import open_sqlite
from mcp_subagents.testing import Gateway, ScriptedModel, Text, host

ASK = ToolCallPart("ask_parent", {"question": "Which river?"})


def named(name: str, **more: Any) -> SubAgentConfig:
    given: Any = {"name": name, "description": "", "instructions": "Be brief.", "model": "openai:gpt-5", **more}
    return SubAgentConfig(**given)


async def test_a_task_runs_on_the_model_that_plays_its_subagent():
    model = ScriptedModel("Done.")
    async with host([named("writer")], {"writer": model}) as app:
        task = await app.delegate("Write.", "writer")
    assert (task["status"], task["result"], len(model.requests)) == ("completed", "Done.", 1)


async def test_a_task_that_asks_comes_back_with_its_question_and_goes_on_when_it_is_answered():
    async with host([named("guide")], {"guide": ScriptedModel(ASK, "Then the Rhine.")}) as app:
        asking = await app.delegate("Travel.", "guide")
        assert [each["question"] for each in asking["questions"]] == ["Which river?"]
        done = await app.answer(asking["task_id"], "The Rhine.")
    assert (done["status"], done["result"]) == ("completed", "Then the Rhine.")


async def test_tasks_that_were_started_are_waited_for_together():
    models = {"a": ScriptedModel("A."), "b": ScriptedModel("B.")}
    spec = SubAgentSpec(name="b", description="", instructions="", model="openai:gpt-5")
    async with host([named("a"), spec], models) as app:
        ids = [await app.start("Go.", name) for name in models]
        done = await app.wait(*ids)
    assert [task["result"] for task in done] == ["A.", "B."]


async def test_a_subagent_that_nobody_plays_asks_no_provider_and_says_so(monkeypatch: pytest.MonkeyPatch):
    async with Gateway([Text("From the provider.")]) as provider:
        monkeypatch.setenv("OPENAI_API_KEY", "scripted")
        subagent = named("writer", base_url=f"{provider.url}/v1", fallback_models=["openai:gpt-5-mini"])
        async with host([subagent]) as app:
            task = await app.delegate("Write.", "writer")
    assert "No model plays writer in this test: give `models` one for it." in task["failure"]["message"]
    assert provider.requests == []


async def test_a_model_that_fails_is_not_relieved_by_another():
    subagent = named("writer", fallback_models=["test"])  # pydantic-ai's own, which would answer
    async with host([subagent], {"writer": ScriptedModel(ModelHTTPError(401, "scripted"))}) as app:
        task = await app.delegate("Write.", "writer")
    assert (task["status"], task["failure"]["failure_type"]) == ("failed", "permanent")


async def test_a_retry_does_not_wait():
    model = ScriptedModel(*[ModelHTTPError(503, "scripted")] * 3, "At last.")
    slow = named("writer", retry_initial_delay=3600.0, retry_max_delay=3600.0, retry_jitter=False)
    async with host([slow], {"writer": model}, patience=10) as app:
        task = await app.delegate("Write.", "writer")
    assert (task["result"], task["retry_count"]) == ("At last.", 3)


async def test_what_brings_its_own_agent_or_model_is_used_as_it_is():
    ready = named("ready", agent=Agent(ScriptedModel("By the agent.")))
    modelled = named("modelled", model=ScriptedModel("By the model."))
    async with host([ready, modelled]) as app:
        results = [(await app.delegate("Go.", name))["result"] for name in ("ready", "modelled")]
    assert results == ["By the agent.", "By the model."]


async def test_a_server_without_subagents_has_the_one_that_it_has_for_everybody():
    async with host([], {"general-purpose": ScriptedModel("Done.")}) as app:
        assert (await app.delegate("Go."))["result"] == "Done."


FILE = """
model: openai:gpt-5
limits: {requests: 1}
subagents:
  - name: clerk
    description: Files things.
    base_url: https://llm.example.com/v1
    api_key_env: NOBODYS_KEY
    workspace: papers
"""


async def test_a_file_is_served_with_its_tools_and_its_limits(tmp_path: Path):
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers/note.txt").write_text("Buy ink.", encoding="utf-8")
    (tmp_path / "subagents.yaml").write_text(FILE, encoding="utf-8")
    model = ScriptedModel(ToolCallPart("read_file", {"path": "note.txt"}), "It says: buy ink.")
    async with host(tmp_path / "subagents.yaml", {"clerk": model}) as app:
        task = await app.delegate("Read the note.", "clerk")
    assert task["failure"]["failure_type"] == "limit"
    assert task["usage"]["tool_calls"] == 1


async def test_a_broken_file_is_told_as_the_server_tells_it(tmp_path: Path):
    path = tmp_path / "subagents.yaml"
    path.write_text("subagents:\n  - name: clerk\n    modle: openai:gpt-5\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"subagents\[0\]\.modle: unknown key, did you mean 'model'\?"):
        async with host(path):
            pass


async def test_a_model_for_a_subagent_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"`models` names writter; the subagents are writer, editor\."):
        async with host([named("writer"), named("editor")], {"writter": ScriptedModel()}):
            pass


async def test_a_model_for_a_subagent_with_an_agent_is_refused():
    ready = named("ready", agent=Agent(ScriptedModel("By the agent.")))
    with pytest.raises(ValueError, match="ready brings an agent of its own"):
        async with host([ready], {"ready": ScriptedModel()}):
            pass


async def test_a_call_that_is_refused_fails_the_test_in_the_words_of_the_server():
    async with host([named("writer")]) as app:
        with pytest.raises(AssertionError, match="check_task: There is no task"):
            await app.call("check_task", task_id="nonsense")


async def test_a_call_that_takes_too_long_fails_the_test():
    async def think() -> str:
        await anyio.sleep_forever()
        return ""

    thinker = named("thinker", agent=Agent(ScriptedModel(ToolCallPart("think")), tools=[think]))
    with pytest.raises(TimeoutError):
        async with host([thinker], patience=0.2) as app:
            await app.delegate("Think.", "thinker")


async def test_what_a_test_raises_leaves_the_block_as_it_is():
    with pytest.raises(KeyError, match="mine"):
        async with host([named("writer")]):
            raise KeyError("mine")


async def test_tasks_are_kept_in_the_store_that_is_given(tmp_path: Path):
    async with open_sqlite(tmp_path / "tasks.db") as store:
        async with host([named("writer")], {"writer": ScriptedModel("Done.")}, store=store) as app:
            task = await app.delegate("Write.", "writer")
        assert (await store.read(task["task_id"])).handle.result == "Done."
