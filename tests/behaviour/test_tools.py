"""The eight tools: what they take, what they give, and how they present themselves."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from front import (
    PASS,
    Gate,
    ask,
    call,
    connected,
    delegate,
    host_of,
    outcome,
    refusal,
    requests_of,
    said,
    server_of,
    subagent,
    view,
)
from mcp_types import ListToolsResult
from pydantic_ai.messages import ModelResponse, TextPart

from mcp_subagents.config import SubAgentConfig
from mcp_subagents.server import tools
from mcp_subagents.store.memory import MemoryStore

SNAPSHOT = Path(__file__).parent / "tools.json"
LARGEST = 12_000
KEYS = {
    *("task_id", "subagent", "description", "status", "mode", "priority", "created_at", "started_at", "completed_at"),
    *("attempt", "retry_count", "result", "result_omitted_chars", "result_uri", "questions", "failure", "usage"),
    *("activity", "queue_position", "next", "model", "models_used"),
}
FAILURE = {
    *("failure_type", "is_retryable", "message", "attempted", "partial_results", "alternatives", "retries"),
    "retry_after",
}
UNPRICED = "The price of its model is not known: its limits on tokens and requests hold, not the one on cost."
ONE_TASK = ["check_task", "soft_cancel_task", "hard_cancel_task"]


async def listed(*subagents: SubAgentConfig, era: str) -> ListToolsResult:
    async with host_of(*subagents, era=era) as host:
        return await host.list_tools()


def on_the_wire(told: ListToolsResult) -> bytes:
    return told.model_dump_json(by_alias=True, exclude_none=True).encode()


async def test_the_list_of_tools_is_as_it_was_reviewed(era: str):
    """After a change of words, and a look at the difference: delete the file and run this twice."""
    told = (await listed(era=era)).model_dump(by_alias=True, mode="json", exclude_none=True)["tools"]
    if not SNAPSHOT.exists():
        SNAPSHOT.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        pytest.fail(f"{SNAPSHOT} was missing; it is written now")
    assert told == json.loads(SNAPSHOT.read_text(encoding="utf-8"))


def crowd(number: int, *, name: str = "agent-{}", description: str = "Does it all. " * 80) -> list[SubAgentConfig]:
    return [SubAgentConfig(name=name.format(i), description=description, instructions="") for i in range(number)]


@pytest.mark.parametrize(
    "subagents",
    [
        pytest.param([], id="no subagents"),
        pytest.param(crowd(1), id="one with a long description"),
        pytest.param(crowd(5, description="短い説明。" * 30), id="five of three bytes a character"),
        pytest.param(crowd(25), id="25 with long descriptions"),
        pytest.param(crowd(25, name="a-very-long-name-" * 5 + "{}"), id="25 with long names"),
        pytest.param(crowd(500), id="500"),
        pytest.param(crowd(8, description='"\n\\' * 60), id="what JSON has to escape"),
    ],
)
async def test_the_list_of_tools_costs_a_host_less_than_12_kb(subagents: list[SubAgentConfig], era: str):
    assert len(on_the_wire(await listed(*subagents, era=era))) < LARGEST


async def test_a_model_is_told_whom_it_can_choose(era: str):
    subagents = [subagent(name="reviewer"), subagent(name="researcher")]
    task = next(tool for tool in (await listed(*subagents, era=era)).tools if tool.name == "task")
    choice = task.input_schema["properties"]["subagent_type"]
    assert choice["enum"] == ["reviewer", "researcher"]
    assert "reviewer: What reviewer does." in choice["description"]


async def test_who_does_it_must_be_said_where_nobody_is_general_purpose(era: str):
    task = (await listed(subagent(name="reviewer"), era=era)).tools[0]
    assert task.input_schema["required"] == ["description", "subagent_type"]
    assert "default" not in task.input_schema["properties"]["subagent_type"]
    async with host_of(subagent(name="reviewer"), era=era) as host:
        refused = await host.call_tool("task", {"description": "Go."})
    assert refusal(refused) == "No subagent is named 'general-purpose'. Configured: reviewer."


@pytest.mark.parametrize("name", ["Code Reviewer", "code_reviewer", "CODE-REVIEWER"])
async def test_a_subagent_is_found_by_what_people_call_it(era: str, name: str):
    async with host_of(subagent("Fine.", name="code-reviewer"), era=era) as host:
        task = await call(host, "task", description="Go.", subagent_type=name)
    assert (task["subagent"], task["result"]) == ("code-reviewer", "Fine.")


async def test_hints_are_honest(era: str):
    hints = {tool.name: tool.annotations for tool in (await listed(era=era)).tools}
    assert {name for name, each in hints.items() if each and each.read_only_hint} == {
        "check_task",
        "wait_tasks",
        "list_active_tasks",
    }
    # A subagent may have tools that change the world, and goes on with them when it is answered or told something.
    assert {name for name, each in hints.items() if each and each.open_world_hint} == {
        "task",
        "answer_subagent",
        "send_message_to_subagent",
    }
    assert {name for name, each in hints.items() if each and each.destructive_hint and each.idempotent_hint} == {
        "soft_cancel_task",
        "hard_cancel_task",
    }


async def test_a_finished_task_on_the_wire(era: str):
    async with host_of(subagent("42"), era=era) as host:
        result = await host.call_tool("task", {"description": "What is the answer?", "priority": "high"})
    task = view(result)
    assert set(task) == KEYS
    assert set(task["usage"]) == {"requests", "tool_calls", "input_tokens", "output_tokens", "cost_usd"}
    assert set(task["activity"]) == {"turns", "doing", "last_activity_at"}
    expected: dict[str, Any] = {
        "subagent": "general-purpose",
        "description": "What is the answer?",
        "status": "completed",
        "mode": "sync",
        "priority": "high",
        "attempt": 1,
        "retry_count": 0,
        "result": "42",
        "result_omitted_chars": 0,
        "result_uri": f"subagents://tasks/{task['task_id']}/result",
        "questions": [],
        "failure": None,
        "queue_position": None,
        "next": "Use the result, but check it before you rely on it.",
    }
    assert {key: task[key] for key in expected} == expected
    assert task["created_at"] <= task["started_at"] <= task["completed_at"]
    assert (task["usage"]["requests"], task["activity"]["turns"], task["activity"]["doing"]) == (1, 1, "done")
    head, facts, *rest = said(result).split("\n")
    assert head == f"Task {task['task_id']} (general-purpose): completed."
    assert facts.startswith("1 turn · ")
    assert rest == [UNPRICED, "", "42", "", f"Next: {task['next']}"]


async def test_a_failed_task_on_the_wire(era: str):
    async with host_of(subagent(ValueError("sk-abcdefghijklmnopqrstuvwxyz1234567890 leaked")), era=era) as host:
        result = await host.call_tool("task", {"description": "Go."})
    task = view(result)
    assert set(task) == KEYS
    assert set(task["failure"]) == FAILURE
    assert (task["status"], task["result"], task["failure"]["is_retryable"]) == ("failed", None, False)
    assert task["next"].startswith("It failed and would fail again unchanged")
    assert task["failure"]["message"] in said(result)
    assert all(f"You could: {each}" in said(result) for each in task["failure"]["alternatives"])
    assert "sk-abc" not in said(result) + json.dumps(task)


async def test_a_cancelled_task_keeps_what_it_found(era: str):
    gate = Gate()
    lines = ModelResponse(parts=[TextPart("Half of it."), PASS])
    async with host_of(subagent(lines, tools=[gate.gate]), era=era) as host:
        task_id = await delegate(host)
        await gate.reached.wait()
        task = await call(host, "hard_cancel_task", task_id=task_id)
        again = await call(host, "hard_cancel_task", task_id=task_id)
    assert set(task) == KEYS
    assert task == again
    assert (task["status"], task["failure"]["failure_type"]) == ("cancelled", "cancelled")
    assert task["failure"]["partial_results"] == "Half of it."
    assert task["next"] == "It was cancelled: failure.partial_results has what it found until then."


async def test_a_task_that_is_to_stop_softly_says_so(era: str):
    gate = Gate()
    async with host_of(subagent(PASS, tools=[gate.gate]), era=era) as host:
        task_id = await delegate(host)
        await gate.reached.wait()
        task = await call(host, "soft_cancel_task", task_id=task_id)
        assert task["status"] == "running"
        assert task["next"].startswith("It stops at its next turn: call wait_tasks")
        gate.open.set()
        assert (await outcome(host, task_id))["status"] == "cancelled"


async def test_a_message_reaches_the_running_subagent(era: str):
    gate = Gate()
    worker = subagent(PASS, "Done in French.", tools=[gate.gate])
    async with host_of(worker, era=era) as host:
        task_id = await delegate(host)
        await gate.reached.wait()
        task = await call(host, "send_message_to_subagent", task_id=task_id, message="In French, please.")
        assert task["next"].startswith("It reads your message with its next turn. It goes on by itself")
        gate.open.set()
        assert (await outcome(host, task_id))["result"] == "Done in French."
        late = await host.call_tool("send_message_to_subagent", {"task_id": task_id, "message": "And in German."})
    assert "In French, please." in str(requests_of(worker)[-1])
    assert refusal(late) == f"Task {task_id!r} is completed; it takes no more messages."


async def test_a_list_has_every_open_task_and_no_other(era: str):
    gate = Gate()
    worker = subagent("Done.", PASS, ask("Which?"), tools=[gate.gate])
    async with host_of(worker, era=era) as host:
        await call(host, "task", description="The first.")
        running = await delegate(host, "The\nsecond.")
        await gate.reached.wait()
        asking = await delegate(host, "The third.")
        await outcome(host, asking)
        result = await host.call_tool("list_active_tasks", {})
    tasks = view(result)["tasks"]
    assert set(view(result)) == {"tasks"}
    assert [(task["task_id"], task["status"]) for task in tasks] == [
        (running, "running"),
        (asking, "waiting_for_answer"),
    ]
    assert all(set(task) == KEYS for task in tasks)
    head, first, second, question = said(result).split("\n")
    assert head == "2 open:"
    assert first.startswith(f"- {running} (general-purpose): running, calling gate, last activity 0 s ago · ")
    assert first.endswith(" · The second.")
    assert second.startswith(f"- {asking} (general-purpose): waiting for your answer · ")
    assert question == f"  {asking} asks (q1): Which?"


async def test_a_list_that_is_too_long_keeps_those_who_ask(era: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tools, "MOST_LISTED", 1)
    gate = Gate()
    async with host_of(subagent(PASS, ask("Which?"), tools=[gate.gate]), era=era) as host:
        await delegate(host, "The first.")
        await gate.reached.wait()
        asking = await delegate(host, "The second.")
        await outcome(host, asking)
        listed = await call(host, "list_active_tasks")
    assert ([task["task_id"] for task in listed["tasks"]], listed["omitted"]) == ([asking], 1)


async def test_nothing_to_list(era: str):
    async with host_of(era=era) as host:
        result = await host.call_tool("list_active_tasks", {})
    assert (view(result), said(result)) == ({"tasks": []}, "No task is open.")


async def test_a_queued_task_says_where_it_stands(era: str):
    gate = Gate()
    busy = subagent(PASS, "Done.", "Done.", "Done.", tools=[gate.gate], max_concurrency=1)
    async with host_of(busy, era=era) as host:
        await delegate(host)
        await gate.reached.wait()
        await delegate(host, priority="low")
        second = await delegate(host, priority="normal")
        result = await host.call_tool("check_task", {"task_id": second})
    assert (view(result)["status"], view(result)["queue_position"]) == ("pending", 1)
    assert "queued, number 1." in said(result)


async def test_a_follow_up_remembers(era: str):
    worker = subagent("It is blue.", "As I said, blue.", name="painter")
    async with host_of(worker, subagent(name="other"), era=era) as host:
        first = await call(host, "task", description="Which colour?", subagent_type="painter")
        second = await call(host, "task", description="Again?", continue_task_id=first["task_id"])
        unknown = await host.call_tool("task", {"description": "Again?", "continue_task_id": "nope"})
    assert (second["subagent"], second["result"]) == ("painter", "As I said, blue.")
    assert "Which colour?" in str(requests_of(worker)[-1])
    assert refusal(unknown).startswith("There is no task 'nope'.")


@pytest.mark.parametrize("tool", ONE_TASK)
async def test_an_unknown_id_is_an_error_that_says_how_to_find_the_right_one(tool: str, era: str):
    async with host_of(era=era) as host:
        refused = await host.call_tool(tool, {"task_id": "nope"})
    assert refusal(refused) == "There is no task 'nope'. `list_active_tasks` lists those that have not ended."


async def test_an_unknown_id_among_known_ones_fails_the_wait(era: str):
    async with host_of(subagent("Done."), era=era) as host:
        task_id = await delegate(host)
        refused = await host.call_tool("wait_tasks", {"task_ids": [task_id, "nope"]})
        assert refusal(refused).startswith("There is no task 'nope'.")


async def test_every_result_is_valid_against_its_schema(era: str):
    gate = Gate()
    worker = subagent("Done.", ValueError("no"), ask("Which?"), PASS, tools=[gate.gate])
    async with host_of(worker, era=era) as host:
        schemas = {tool.name: tool.output_schema for tool in (await host.list_tools()).tools}
        done = await call(host, "task", description="1")
        failed = await call(host, "task", description="2")
        asking = await call(host, "task", description="3")
        running = await delegate(host, "4")
        await gate.reached.wait()
        given: list[tuple[str, dict[str, Any]]] = [
            ("check_task", {"task_id": done["task_id"]}),
            ("check_task", {"task_id": failed["task_id"]}),
            ("check_task", {"task_id": running}),
            ("wait_tasks", {"task_ids": [done["task_id"], asking["task_id"]]}),
            ("list_active_tasks", {}),
            ("send_message_to_subagent", {"task_id": running, "message": "Hi."}),
            ("soft_cancel_task", {"task_id": asking["task_id"]}),
            ("hard_cancel_task", {"task_id": running}),
        ]
        for tool, arguments in given:
            jsonschema.validate(await call(host, tool, **arguments), schemas[tool] or {})
        for each in (done, failed, asking):
            jsonschema.validate(each, schemas["task"] or {})


async def test_a_call_that_crashes_is_an_error_and_the_server_goes_on(era: str, caplog: pytest.LogCaptureFixture):
    class Broken(MemoryStore):
        async def read(self, task_id: str) -> Any:
            raise ZeroDivisionError("a detail nobody outside should see")

    async with connected(server_of(store=Broken()), era) as host:
        crashed = refusal(await host.call_tool("check_task", {"task_id": "any"}))
        assert await call(host, "list_active_tasks") == {"tasks": []}
    assert crashed.startswith("The server made a mistake, which its log describes.")
    assert "detail" not in crashed
    assert "a call of 'check_task' crashed" in caplog.text


async def test_tasks_outlive_their_server(era: str):
    store = MemoryStore()
    async with connected(server_of(subagent("Done."), store=store), era) as host:
        task_id = await delegate(host)
        await outcome(host, task_id)
    async with connected(server_of(subagent(), store=store), era) as host:
        assert (await call(host, "check_task", task_id=task_id))["result"] == "Done."
