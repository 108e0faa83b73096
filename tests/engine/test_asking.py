"""Questions and answers: parked without holding anything, and told once."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import pytest
from office import SETTINGS, at_work, delegate, outcome, subagent, until
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from mcp_subagents import moves
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.errors import NotWaiting
from mcp_subagents.records import EntryKind
from mcp_subagents.store import Store
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.testing import ScriptedModel
from mcp_subagents.types import FailureType, Question, TaskStatus, utc_now

ASKING = TaskStatus.WAITING_FOR_ANSWER


def ask(question: str, call_id: str = "q1") -> ToolCallPart:
    return ToolCallPart("ask_parent", {"question": question}, tool_call_id=call_id)


def told(model: ScriptedModel) -> list[object]:
    parts = [part for message in model.requests[-1] for part in message.parts]
    return [part.content for part in parts if isinstance(part, ToolReturnPart)]


async def test_a_question_is_parked_and_its_answer_goes_to_the_model(store: Store):
    model = ScriptedModel(ask("Which database?"), "Then Postgres.")
    async with at_work(store, subagent(agent=Agent(model))) as engine:
        task_id = await delegate(engine)
        asking = await outcome(engine, task_id)
        assert (asking.status, asking.pending_question) == (ASKING, "Which database?")
        assert asking.questions == (Question(question_id="q1", text="Which database?"),)
        await engine.answer(task_id, "Postgres")
        done = await outcome(engine, task_id)
    assert (done.result, done.attempt, done.pending_question) == ("Then Postgres.", 2, None)
    assert told(model) == ["Postgres"]


@pytest.mark.parametrize("hot_wait", [0.0, 5.0], ids=["after it was parked", "while it stayed at hand"])
async def test_an_answer_is_told_once_and_tools_of_the_same_turn_run_once(store: Store, hot_wait: float):
    ran = 0

    def launch() -> str:
        nonlocal ran
        ran += 1
        return "launched"

    lines = [ask("Really?"), ToolCallPart("launch", {}, tool_call_id="c1")]
    model = ScriptedModel(lines, ModelHTTPError(503, "scripted"), "Done.")
    settings = replace(SETTINGS, hot_wait=hot_wait)
    async with at_work(store, subagent(agent=Agent(model, tools=[launch])), settings=settings) as engine:
        task_id = await delegate(engine)
        await until(engine, task_id, lambda task: task.status is ASKING)
        await engine.answer(task_id, "Yes.")
        done = await outcome(engine, task_id)
    assert (done.result, ran) == ("Done.", 1)
    assert told(model) == ["Yes.", "launched"]
    answers = [
        entry for entry in await store.journal(task_id, frozenset({EntryKind.EVENT})) if '"answer"' in entry.body
    ]
    assert len(answers) == 1


async def test_an_attempt_that_stayed_at_hand_goes_on_without_asking_the_store_for_its_history(store: Store):
    model = ScriptedModel(ask("Really?"), "Done.")
    async with at_work(store, subagent(agent=Agent(model)), settings=replace(SETTINGS, hot_wait=5.0)) as engine:
        task_id = await delegate(engine)
        await until(engine, task_id, lambda task: task.status is ASKING)
        await engine.answer(task_id, "Yes.")
        assert (await outcome(engine, task_id)).result == "Done."
    # Resumed from the store, a run has an id of its own.
    runs = {message.run_id for request in model.requests for message in request}
    assert len(runs) == 1


async def test_several_questions_of_one_turn_are_all_seen_and_all_answered(store: Store):
    model = ScriptedModel([ask("A or B?", "qa"), ask("C or D?", "qc")], "B and C.")
    async with at_work(store, subagent(agent=Agent(model))) as engine:
        task_id = await delegate(engine)
        asking = await outcome(engine, task_id)
        assert [(each.question_id, each.text) for each in asking.questions] == [("qa", "A or B?"), ("qc", "C or D?")]
        with pytest.raises(NotWaiting, match="'qa': A or B\\?; 'qc': C or D\\?"):
            await engine.answer(task_id, "B")
        first = await engine.answer(task_id, "C", question_id="qc")
        assert (first.status, first.pending_question) == (ASKING, "A or B?")
        # Only one is open now, so it need not be named.
        await engine.answer(task_id, "B")
        assert (await outcome(engine, task_id)).result == "B and C."
    assert told(model) == ["B", "C"]


async def test_an_answer_that_nobody_waits_for_is_refused(store: Store):
    async with at_work(store, subagent(ask("A or B?"), "A.")) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        with pytest.raises(NotWaiting, match="no open question 'nope'"):
            await engine.answer(task_id, "A", question_id="nope")
        await engine.answer(task_id, "A")
        with pytest.raises(NotWaiting, match="asks nothing"):
            await engine.answer(task_id, "B")
        await outcome(engine, task_id)
        with pytest.raises(NotWaiting, match="it is completed"):
            await engine.answer(task_id, "B")


async def test_a_question_survives_a_restart(store: Store):
    model = ScriptedModel(ask("A or B?"), "A.")
    worker = subagent(agent=Agent(model, instructions="Be brief."))
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
    async with at_work(store, worker) as engine:
        assert (await outcome(engine, task_id)).pending_question == "A or B?"
        await engine.answer(task_id, "A")
        assert (await outcome(engine, task_id)).result == "A."


async def test_a_parked_question_holds_no_slot(store: Store):
    settings = EngineSettings(max_concurrency=1, hot_wait=0.0)
    async with at_work(store, subagent(ask("A or B?")), subagent("42", name="other"), settings=settings) as engine:
        await outcome(engine, await delegate(engine))
        assert (await outcome(engine, await delegate(engine, subagent="other"))).result == "42"


async def test_a_question_that_nobody_answers_ends_the_task_with_what_it_has(store: Store):
    async with at_work(store, subagent(ask("A or B?"), question_timeout=0.01)) as engine:
        task_id = await delegate(engine)
        done = await until(engine, task_id, lambda task: task.status.is_terminal)
    assert done.failure is not None
    assert (done.failure.failure_type, done.failure.message) == (
        FailureType.TIMEOUT,
        "Nobody answered the question in time.",
    )


async def test_an_answer_at_the_last_moment_wins_over_the_timeout(store: Store):
    async with at_work(store, subagent(ask("A or B?"), "A.")) as engine:
        task_id = await delegate(engine)
        handle = await outcome(engine, task_id)
        await engine.answer(task_id, "A")
        failure = (await store.read(task_id)).handle.failure
        late = moves.expire(failure, at=utc_now() + timedelta(days=99))  # pyright: ignore[reportArgumentType]
        await store.change(task_id, late)
        assert (await outcome(engine, task_id)).result == "A."
    assert handle.status is ASKING


async def test_a_subagent_that_has_asked_enough_is_told_to_decide(store: Store):
    model = ScriptedModel(ask("A or B?", "1"), [ask("C or D?", "2"), ask("E or F?", "3")], "Done.")
    async with at_work(store, subagent(agent=Agent(model), max_questions=2)) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        await engine.answer(task_id, "A")
        asking = await until(engine, task_id, lambda task: task.pending_question == "C or D?")
        assert len(asking.questions) == 1
        await engine.answer(task_id, "C")
        await outcome(engine, task_id)
    assert told(model) == ["A", "C", "You have asked all the questions you may ask. Decide for yourself."]


@pytest.mark.parametrize("setting", [{"can_ask_questions": False}, {"max_questions": 0}])
async def test_a_subagent_that_may_not_ask_has_no_way_to(store: Store, setting: dict[str, Any]):
    model = ScriptedModel("42")
    async with at_work(store, subagent(agent=Agent(model), **setting)) as engine:
        await outcome(engine, await delegate(engine))
    assert "ask_parent" not in str(model.requests[0])


async def test_waiting_for_answers_ends_at_once_when_a_task_asks(store: Store):
    async with at_work(store, subagent(ask("A or B?"))) as engine:
        task_id = await delegate(engine)
        with anyio.fail_after(2):
            waited = await engine.wait([task_id], timeout=60.0)
    assert (waited.timed_out, waited.tasks[0].status) == (False, ASKING)


@pytest.mark.slow
async def test_the_time_until_an_answer_comes_is_no_running_time_though_the_attempt_stays_at_hand():
    async def hang(messages: list[ModelMessage], info: object) -> ModelResponse:
        await anyio.sleep_forever()
        raise AssertionError

    store = MemoryStore()
    asks = subagent(ToolCallPart("ask_parent", {"question": "Which?"}), "Done.")
    slow = subagent(agent=Agent(FunctionModel(hang)), name="slow", limits={"seconds": 1.0})
    async with at_work(store, asks, slow, settings=EngineSettings(hot_wait=60.0)) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        await outcome(engine, await delegate(engine, subagent="slow"))
        await engine.answer(task_id, "This.")
        done = await outcome(engine, task_id)
    assert (done.result, done.attempt) == ("Done.", 2)
    assert (await store.read(task_id)).active_seconds < 1.0
