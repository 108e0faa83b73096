"""Arguments: as they were sent, or refused in words that say what would be right."""

import json
from typing import Any

import anyio
import pytest
from front import PASS, Gate, ask, call, delegate, host_of, outcome, refusal, requests_of, said, subagent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp_types import CallToolResult

from mcp_subagents.arguments import (
    AnswerArguments,
    Arguments,
    MessageArguments,
    NoArguments,
    OneTask,
    TaskArguments,
    WaitArguments,
    parsed,
)
from mcp_subagents.errors import WrongArguments

LIKE_JSON = ["[1]", "null", '{"k":1}', "true", "3", '"quoted"', " spaced ", "zwei\nZeilen", "短", "\u202e"]
TAKES: dict[str, type[Arguments]] = {
    "task": TaskArguments,
    "check_task": OneTask,
    "wait_tasks": WaitArguments,
    "answer_subagent": AnswerArguments,
    "send_message_to_subagent": MessageArguments,
    "list_active_tasks": NoArguments,
    "soft_cancel_task": OneTask,
    "hard_cancel_task": OneTask,
}


async def test_a_description_arrives_as_it_was_sent(era: str):
    worker = subagent(*["Done."] * len(LIKE_JSON))
    async with host_of(worker, era=era) as host:
        shown = [(await call(host, "task", description=text))["description"] for text in LIKE_JSON]
    told = [request[0].parts[-1].content for request in requests_of(worker)]
    assert shown == LIKE_JSON
    assert all(f"\n{text}\n" in each for text, each in zip(LIKE_JSON, told, strict=True))


async def test_an_answer_arrives_as_it_was_sent(era: str):
    worker = subagent(*(ask("Which?", f"q{number}") for number in range(len(LIKE_JSON))), "Done.")
    async with host_of(worker, era=era) as host:
        task_id = (await call(host, "task", description="Go."))["task_id"]
        for text in LIKE_JSON:
            await call(host, "answer_subagent", task_id=task_id, answer=text)
    assert [request[-1].parts[0].content for request in requests_of(worker)[1:]] == LIKE_JSON


async def test_a_message_arrives_as_it_was_sent(era: str):
    gate = Gate()
    worker = subagent(PASS, "Done.", tools=[gate.gate])
    async with host_of(worker, era=era) as host:
        task_id = await delegate(host)
        await gate.reached.wait()
        for text in LIKE_JSON:
            await call(host, "send_message_to_subagent", task_id=task_id, message=text)
        gate.open.set()
        await outcome(host, task_id)
    told = [str(part.content) for part in requests_of(worker)[-1][-1].parts]
    assert all(any(text in each for each in told) for text in LIKE_JSON)


async def test_half_a_character_is_marked_and_not_refused():
    assert parsed(TaskArguments, {"description": "a\ud800b"}).description == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("task", {}, "`description` is missing"),
        ("task", {"description": None}, "`description` is missing"),
        ("task", {"description": "  \n"}, "`description` is empty"),
        ("task", {"description": 7}, "`description` must be text, not 7"),
        ("task", {"description": ["a"]}, "`description` must be text, not ['a']"),
        ("task", {"description": "x" * 200_001}, "`description` is too long: 200,000 characters at the most"),
        ("task", {"description": "x", "mode": "fast"}, "`mode` must be 'sync', 'async' or 'auto', not 'fast'"),
        (
            "task",
            {"description": "x", "priority": "urgent"},
            "`priority` must be 'low', 'normal', 'high' or 'critical', not 'urgent'",
        ),
        (
            "task",
            {"description": "x", "complexity": 3},
            "`complexity` must be 'simple', 'moderate' or 'complex', not 3",
        ),
        (
            "task",
            {"description": "x", "is_time_sensitive": "perhaps"},
            "`is_time_sensitive` must be true or false, not 'perhaps'",
        ),
        ("task", {"description": "x", "subagent": "a"}, "unknown argument 'subagent': did you mean 'subagent_type'?"),
        ("task", {"description": "x", "modus": None}, "unknown argument 'modus': did you mean 'mode'?"),
        (
            "task",
            {"prompt": "x"},
            "`description` is missing; unknown argument 'prompt': known: can_run_independently, ",
        ),
        ("task", {"description": "x", "subagent_type": "y" * 201}, "`subagent_type` is too long: 200 characters"),
        ("task", {"description": "x", "idempotency_key": "y" * 201}, "`idempotency_key` is too long: 200 characters"),
        ("check_task", {}, "`task_id` is missing"),
        ("check_task", {"task_id": 5}, "`task_id` must be text, not 5"),
        ("check_task", {"task_id": "x" * 201}, "`task_id` is too long: 200 characters at the most"),
        ("check_task", {"id": "x"}, "`task_id` is missing; unknown argument 'id': "),
        ("wait_tasks", {"task_ids": []}, "`task_ids` is empty"),
        ("wait_tasks", {"task_ids": {"a": 1}}, "`task_ids` must be a list of task ids, not {'a': 1}"),
        ("wait_tasks", {"task_ids": ["a", 1]}, "`task_ids.1` must be text, not 1"),
        ("wait_tasks", {"task_ids": ["a"] * 1_001}, "`task_ids` is too long: 1,000 tasks at the most"),
        ("wait_tasks", {"task_ids": "[" * 100_000}, "`task_ids` must be a list of task ids, not '[[[["),
        ("wait_tasks", {"task_ids": ["a"], "timeout": -1}, "`timeout` must be 0 or more, not -1"),
        ("wait_tasks", {"task_ids": ["a"], "timeout": "soon"}, "`timeout` must be a number, not 'soon'"),
        ("wait_tasks", {"task_ids": ["a"], "timeout": True}, "`timeout` must be a number, not True"),
        ("wait_tasks", {"task_ids": ["a"], "mode": "some"}, "`mode` must be 'all' or 'any', not 'some'"),
        ("answer_subagent", {"task_id": "a", "answer": ""}, "`answer` is empty"),
        ("answer_subagent", {"task_id": "a"}, "`answer` is missing"),
        ("send_message_to_subagent", {"task_id": "a", "message": " "}, "`message` is empty"),
        ("list_active_tasks", {"all": True}, "unknown argument 'all': this tool takes none"),
        ("soft_cancel_task", {"task_id": "a", "reason": "no"}, "unknown argument 'reason': "),
        ("hard_cancel_task", {}, "`task_id` is missing"),
    ],
)
async def test_wrong_arguments_are_named(tool: str, arguments: dict[str, Any], words: str):
    async with host_of(era="2026-07-28") as host:
        refused = refusal(await host.call_tool(tool, arguments))
    assert refused.startswith(f"Wrong arguments: {words}")
    assert refused.endswith(". Nothing was done.")
    assert len(refused) < 1_000
    assert "pydantic" not in refused


async def test_everything_that_is_wrong_is_named_at_once(era: str):
    async with host_of(era=era) as host:
        refused = refusal(await host.call_tool("task", {"mode": "x", "complexity": "y", "more": 1}))
        many = refusal(await host.call_tool("wait_tasks", {"task_ids": list(range(9))}))
    assert [each.split()[0] for each in refused.removeprefix("Wrong arguments: ").split("; ")] == [
        "`description`",
        "`mode`",
        "`complexity`",
        "unknown",
    ]
    assert many.endswith("`task_ids.4` must be text, not 4; and 4 more. Nothing was done.")


async def test_an_unknown_subagent_is_refused_and_the_others_are_named(era: str):
    async with host_of(subagent(name="b"), subagent(name="a"), era=era) as host:
        refused = refusal(await host.call_tool("task", {"description": "Go.", "subagent_type": "c"}))
        assert (await call(host, "list_active_tasks"))["tasks"] == []
    assert refused == "No subagent is named 'c'. Configured: a, b."


async def test_an_argument_that_is_null_is_one_that_was_left_out(era: str):
    async with host_of(subagent("Done."), era=era) as host:
        task = await call(host, "task", description="Go.", mode=None, complexity=None, idempotency_key=None)
    assert (task["mode"], task["result"]) == ("sync", "Done.")


@pytest.mark.parametrize("written", ['["{0}"]', "{0}", ' ["{0}", "{0}"] '])
async def test_a_list_that_was_written_as_text_is_understood(written: str, era: str):
    async with host_of(subagent("Done."), era=era) as host:
        task_id = await delegate(host)
        waited = await call(host, "wait_tasks", task_ids=written.replace("{0}", task_id))
    assert (waited["total"], waited["tasks"][0]["task_id"]) == (1, task_id)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def any_arguments(tool: str) -> st.SearchStrategy[dict[str, Any]]:
    known = st.dictionaries(st.sampled_from(sorted(TAKES[tool].model_fields) or ["x"]), JSON, max_size=6)
    right = {"description": st.text(), "task_id": st.text(), "task_ids": st.lists(st.text()), "answer": st.text()}
    mostly_right = st.fixed_dictionaries(
        {}, optional={name: right[name] for name in right if name in TAKES[tool].model_fields}
    )
    unknown = st.dictionaries(st.text(), JSON, max_size=1)
    return st.tuples(known, mostly_right, unknown).map(lambda each: {**each[0], **each[1], **each[2]})


@pytest.mark.slow
@pytest.mark.parametrize("tool", TAKES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_is_given_is_taken_or_refused_in_our_words(tool: str, data: st.DataObject):
    refused = _refusal(TAKES[tool], data.draw(any_arguments(tool)))
    assert refused is None or refused.startswith("Wrong arguments: ")
    assert "something else" not in (refused or "")
    assert len(refused or "") < 2_000


def _refusal(takes: type[Arguments], arguments: dict[str, Any]) -> str | None:
    try:
        parsed(takes, arguments)
    except WrongArguments as exc:
        return str(exc)
    return None


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_call_ends_in_an_exception(era: str, data: st.DataObject):
    calls = data.draw(st.lists(st.sampled_from(sorted(TAKES)).flatmap(_call_of), max_size=5))

    async def play(host: Client) -> list[CallToolResult]:
        return [await host.call_tool(tool, arguments) for tool, arguments in calls]

    async def main() -> list[CallToolResult]:
        async with host_of(subagent(*["Done."] * 5), era=era) as host:
            return await play(host)

    for result in anyio.run(main):
        assert "made a mistake" not in said(result)
        assert result.is_error or result.structured_content is not None
        json.dumps(result.structured_content)


def _call_of(tool: str) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return any_arguments(tool).map(lambda arguments: (tool, arguments))
