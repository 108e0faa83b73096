"""Large results: a head and a tail within the budget, and all of it at the resource."""

import json
from typing import Any

import pytest
from front import PASS, Gate, ask, call, delegate, host_of, said, subagent, view
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelResponse, TextPart

from mcp_subagents.shortening import BUDGET, left_out, shares, shortened

AROUND = 2_000
"""Characters of what stands around a result in an answer."""


def shown(text: str, omitted: int) -> int:
    return len(text.replace(left_out(omitted), ""))


@settings(deadline=None)
@given(text=st.text(max_size=2_000), budget=st.integers(0, 2_000))
def test_a_shortened_text_keeps_to_its_budget_and_says_what_is_left_out(text: str, budget: int):
    short, omitted = shortened(text, budget)
    assert len(short) <= budget
    assert omitted == 0 or left_out(omitted) in short or short == ""
    if omitted and short:
        head, tail = short.split(left_out(omitted))
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head) + len(tail) + omitted == len(text)
    elif omitted:
        assert omitted == len(text)
    else:
        assert short == text


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        pytest.param([], [], id="nobody"),
        pytest.param([5, 5], [5, 5], id="all of it, if there is enough"),
        pytest.param([200, 200], [50, 50], id="the same for each"),
        pytest.param([10, 500, 20], [10, 70, 20], id="what the short ones leave goes to the long one"),
        pytest.param([0, 0, 101], [0, 0, 100], id="those that want nothing take nothing"),
    ],
)
def test_texts_share_a_budget(wanted: list[int], given: list[int]):
    assert shares(wanted, 100) == given


@settings(deadline=None)
@given(st.lists(st.integers(0, 100_000), max_size=50))
def test_shares_never_exceed_the_budget(wanted: list[int]):
    given = shares(wanted)
    assert sum(given) <= BUDGET
    assert all(part <= want for part, want in zip(given, wanted, strict=True))
    assert sum(given) == sum(wanted) or sum(given) > BUDGET - max(1, len(wanted))


def large(size: int) -> str:
    return ("0123456789" * (size // 10 + 1))[:size]


@pytest.mark.parametrize("size", [BUDGET, BUDGET + 1, 1_000_000])
async def test_a_large_result_is_cut_and_whole_at_its_resource(size: int, era: str):
    async with host_of(subagent(large(size)), era=era) as host:
        result = await host.call_tool("task", {"description": "Go."})
        task = view(result)
        [whole] = (await host.read_resource(task["result_uri"])).contents
    omitted = task["result_omitted_chars"]
    assert len(task["result"]) <= BUDGET
    assert shown(task["result"], omitted) + omitted == size
    assert (omitted > 0) == (size > BUDGET)
    assert getattr(whole, "text", None) == large(size)
    assert len(said(result)) < BUDGET + AROUND
    assert task["result"] in said(result)
    assert (task["result_uri"] in task["next"]) == (omitted > 0)


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 100])
async def test_several_large_results_share_one_budget(number: int, era: str):
    async with host_of(subagent(*[large(5_000)] * number), era=era) as host:
        ids = [await delegate(host, large(2_000)) for _ in range(number)]
        result = await host.call_tool("wait_tasks", {"task_ids": ids})
    tasks = view(result)["tasks"]
    assert [task["task_id"] for task in tasks] == ids
    assert sum(len(task["result"]) for task in tasks) <= BUDGET
    assert all(
        shown(task["result"], task["result_omitted_chars"]) + task["result_omitted_chars"] == 5_000 for task in tasks
    )
    assert len(said(result)) < BUDGET + 600 * number
    assert len(json.dumps(view(result))) < BUDGET + 8_000 + 1_500 * number
    assert all(task["result_uri"] in said(result) for task in tasks if task["result_omitted_chars"])


async def test_a_short_result_is_whole_beside_large_ones(era: str):
    async with host_of(subagent(large(50_000), "Short."), era=era) as host:
        ids = [await delegate(host) for _ in range(2)]
        tasks = (await call(host, "wait_tasks", task_ids=ids))["tasks"]
    by_length = sorted(len(task["result"]) for task in tasks)
    assert by_length[0] == len("Short.")
    assert by_length[1] > BUDGET - 100


async def test_partial_results_keep_to_the_budget(era: str):
    gate = Gate()
    lines = ModelResponse(parts=[TextPart(large(100_000)), PASS])
    async with host_of(subagent(lines, tools=[gate.gate]), era=era) as host:
        task_id = await delegate(host)
        await gate.reached.wait()
        result = await host.call_tool("hard_cancel_task", {"task_id": task_id})
        task = view(result)
        [whole] = (await host.read_resource(task["result_uri"])).contents
    found = task["failure"]["partial_results"]
    assert len(found) <= BUDGET
    assert shown(found, task["result_omitted_chars"]) + task["result_omitted_chars"] == 100_000
    assert len(said(result)) < BUDGET + AROUND
    assert task["next"].endswith(f"All of it is at {task['result_uri']}; or ask for a part with continue_task_id.")
    assert large(100_000) in getattr(whole, "text", "")


async def test_questions_keep_to_the_budget(era: str):
    async with host_of(subagent([ask(large(30_000), "q1"), ask("Short?", "q2")]), era=era) as host:
        result = await host.call_tool("task", {"description": "Go."})
        refused = await host.call_tool("answer_subagent", {"task_id": view(result)["task_id"], "answer": "Yes."})
    questions: list[dict[str, Any]] = view(result)["questions"]
    assert sum(len(each["question"]) for each in questions) <= BUDGET
    assert questions[1] == {"question_id": "q2", "question": "Short?"}
    assert len(said(result)) < BUDGET + AROUND
    assert refused.is_error
    assert len(said(refused)) < 5_000


async def test_a_description_is_shown_as_far_as_it_helps(era: str):
    async with host_of(subagent("Done."), era=era) as host:
        task = await call(host, "task", description=large(5_000))
        [whole] = (await host.read_resource(f"subagents://tasks/{task['task_id']}")).contents
    assert (len(task["description"]), task["description"][-1]) == (1_000, "…")
    assert json.loads(getattr(whole, "text", ""))["description"] == large(5_000)
