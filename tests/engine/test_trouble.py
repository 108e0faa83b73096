"""Things that go wrong at a bad moment: no task is lost, repeated or forgotten for them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from office import SETTINGS, at_work, delegate, outcome, subagent, until
from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.exceptions import ModelHTTPError, ModelRateLimitError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from test_steering import Gate

from mcp_subagents import moves
from mcp_subagents.config import SubAgentConfig
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.delegation import Submission
from mcp_subagents.engine import Engine
from mcp_subagents.errors import ConfigError, EngineStopped, StoreDamaged, StoreUnavailable, TaskEnded
from mcp_subagents.records import Change, Entry, EntryKind
from mcp_subagents.store import Query, Store
from mcp_subagents.store.memory import MemoryStore
from mcp_subagents.testing import ScriptedModel
from mcp_subagents.types import FailureType, TaskFailure, TaskStatus, TaskUsage, utc_now

ASK = ToolCallPart("ask_parent", {"question": "A or B?"}, tool_call_id="q")
ASKING = TaskStatus.WAITING_FOR_ANSWER
GONE = TaskFailure(failure_type=FailureType.PERMANENT, is_retryable=False, message="Lost again and again.")


class Moody(MemoryStore):
    """A store whose methods do what they are told to, once."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, Callable[..., Awaitable[None]]] = {}

    async def append(self, *args: Any, **kwargs: Any) -> Any:
        await self._mood("append", *args)
        return await super().append(*args, **kwargs)

    async def journal(self, *args: Any, **kwargs: Any) -> Any:
        await self._mood("journal", *args)
        return await super().journal(*args, **kwargs)

    async def claim(self, *args: Any, **kwargs: Any) -> Any:
        await self._mood("claim", *args, **kwargs)
        return await super().claim(*args, **kwargs)

    async def _mood(self, name: str, *args: Any, **kwargs: Any) -> None:
        if (mood := self.before.get(name)) is not None:
            await mood(*args, **kwargs)


async def test_a_store_that_fails_after_an_answer_does_not_keep_the_task():
    """The attempt had gone on under a new number, since the answer came while it stayed at hand."""
    store = Moody()
    ran = 0

    def launch() -> str:
        nonlocal ran
        ran += 1
        return "launched"

    async def full(*args: Any) -> None:
        if (await store.read(args[0].task_id)).handle.turns == 2:
            del store.before["append"]
            raise StoreUnavailable("The disk is full.")

    model = ScriptedModel(ASK, ToolCallPart("launch", {}, tool_call_id="c"), "Done.")
    store.before["append"] = full
    settings = replace(SETTINGS, hot_wait=5.0)
    async with at_work(store, subagent(agent=Agent(model, tools=[launch])), settings=settings) as engine:
        task_id = await delegate(engine)
        await until(engine, task_id, lambda task: task.status is ASKING)
        await engine.answer(task_id, "A")
        done = await outcome(engine, task_id)
    assert (done.result, ran) == ("Done.", 1)


@pytest.mark.slow
async def test_a_task_that_counts_as_running_here_but_is_not_is_found_and_run(store: Store):
    async with at_work(store, subagent("42")) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        record = await store.read(task_id)
        lost = replace(
            record,
            handle=replace(record.handle, task_id="lost", status=TaskStatus.RUNNING, result=None, completed_at=None),
            process=store.process,
            unread=False,
        )
        await store.create(lost, await store.journal(task_id, frozenset({EntryKind.TURN})), most_open=10)
        assert (await outcome(engine, "lost")).result == "42"


async def test_a_task_whose_journal_is_damaged_ends_and_says_so():
    store = Moody()

    async def damaged(*args: Any) -> None:
        raise StoreDamaged("The store is damaged: the journal is not what was written.")

    store.before["journal"] = damaged
    async with at_work(store, subagent(ModelHTTPError(503, "scripted"), "42")) as engine:
        done = await outcome(engine, await delegate(engine))
    assert done.failure is not None
    assert (done.failure.failure_type, done.attempt) == (FailureType.PERMANENT, 2)
    assert "damaged" in done.failure.message


@pytest.mark.slow
@pytest.mark.parametrize("body", ["[{}]", "no JSON"])
async def test_a_history_that_cannot_be_read_does_not_keep_a_task_from_ending(store: Store, body: str):
    async with at_work(store, subagent(ASK, ASK, "42"), subagent("43", name="other")) as engine:
        ids = [await delegate(engine) for _ in range(2)]
        await engine.wait(ids[:1])
        await until(engine, ids[1], lambda task: task.status is ASKING)
        odd = Entry(kind=EntryKind.TURN, body=body, at=utc_now())
        for task_id in ids:
            await store.change(task_id, lambda record: Change(record=record, entries=(odd,)))
        cancelled = await engine.hard_cancel(ids[0])
        assert cancelled.failure is not None
        assert cancelled.failure.message == "The task was cancelled. What it had done cannot be read."
        await store.change(ids[1], lambda record: Change(record=replace(record, due_at=utc_now())))
        late = await until(engine, ids[1], lambda task: task.status.is_terminal)
        assert late.failure is not None
        assert late.failure.failure_type is FailureType.TIMEOUT
        assert (await outcome(engine, await delegate(engine, subagent="other"))).result == "43"


async def test_a_task_that_costs_one_process_after_the_other_is_ended(store: Store):
    failures = [(await _after_losses(store, losses)).status for losses in (moves.MOST_LOSSES - 1, moves.MOST_LOSSES)]
    assert failures == [TaskStatus.PENDING, TaskStatus.FAILED]


async def _after_losses(store: Store, losses: int) -> Any:
    async with at_work(store, subagent(ASK)) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
    record = await store.read(task_id)
    running = replace(
        record,
        handle=replace(record.handle, task_id=f"lost-{losses}", status=TaskStatus.RUNNING, pending_question=None),
        process="gone",
        losses=losses,
        unread=False,
    )
    await store.create(running, most_open=10)
    lost = moves.lose(GONE, utc_now())
    return (await store.change(running.task_id, lost, lease=running.lease)).handle


async def test_a_turn_that_was_stored_while_its_attempt_was_cancelled_is_stored_once(store: Store):
    turn = Entry(kind=EntryKind.TURN, body="[]", at=utc_now())
    done = moves.finish_turn(turn, number=1, usage=TaskUsage(), seconds=1.0, delivered=frozenset())
    async with at_work(store, subagent(ASK)) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        before = await store.read(task_id)
        assert before.handle.turns == 1
        assert await store.change(task_id, done) == before


@pytest.mark.parametrize(
    "line", [ASK, ModelHTTPError(503, "scripted")], ids=["it would have asked", "it would have tried again"]
)
async def test_a_soft_cancel_is_obeyed_though_the_turn_ends_in_waiting(store: Store, line: Any):
    asked, go = anyio.Event(), anyio.Event()

    async def think(messages: list[ModelMessage], info: object) -> ModelResponse:
        asked.set()
        await go.wait()
        if isinstance(line, Exception):
            raise line
        return ModelResponse(parts=[TextPart("Hm."), line])

    patient: dict[str, Any] = {"retry_initial_delay": 60.0, "retry_max_delay": 60.0, "retry_jitter": False}
    worker = subagent(agent=Agent(FunctionModel(think)), **patient)
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        await asked.wait()
        await engine.soft_cancel(task_id)
        go.set()
        done = await until(engine, task_id, lambda task: task.status is not TaskStatus.RUNNING)
    assert done.status is TaskStatus.CANCELLED


async def test_a_soft_cancel_before_a_restart_runs_no_tool_after_it(store: Store):
    gate = Gate()
    ran: list[str] = []

    def launch() -> str:
        ran.append("launch")
        return "launched"

    model = ScriptedModel([ToolCallPart("gate", {}, tool_call_id="a"), ToolCallPart("launch", {}, tool_call_id="b")])
    worker = subagent(agent=Agent(model, tools=[gate.gate, launch]))
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        await gate.reached.wait()
        await engine.soft_cancel(task_id)
    ran.clear()
    async with at_work(store, worker) as engine:
        assert (await outcome(engine, task_id)).status is TaskStatus.CANCELLED
    assert ran == []


@pytest.mark.parametrize("ours", [True, False], ids=["an agent of ours", "an agent of somebody else"])
async def test_a_message_at_the_last_moment_reaches_a_task_with_a_structured_result(store: Store, ours: bool):
    answered, go = anyio.Event(), anyio.Event()
    requests: list[list[ModelMessage]] = []

    async def think(messages: list[ModelMessage], info: object) -> ModelResponse:
        requests.append(messages)
        if len(requests) == 1:
            answered.set()
            await go.wait()
        return ModelResponse(parts=[ToolCallPart("final_result", {"response": len(requests)})])

    model = FunctionModel(think)
    given = {"output_type": int}
    made = SubAgentConfig(name="worker", description="", instructions="", model=model, agent_kwargs=given)
    worker = made if ours else subagent(agent=Agent(model, output_type=int))
    async with at_work(store, worker) as engine:
        task_id = await delegate(engine)
        await answered.wait()
        await engine.send(task_id, "And once more?")
        go.set()
        done = await outcome(engine, task_id)
    assert (done.status, done.result, len(requests)) == (TaskStatus.COMPLETED, "2", 2)
    assert str(requests[1]).count("And once more?") == 1


async def test_a_task_that_was_told_to_stop_takes_no_more_tasks_below_it(store: Store):
    async with at_work(store, subagent(ASK)) as engine:
        parent = await delegate(engine)
        await outcome(engine, parent)
        await engine.soft_cancel(parent)
        with pytest.raises(TaskEnded):
            await engine.submit(Submission(description="Go.", subagent="worker", parent_id=parent))
    assert await store.count(Query(parent_id=parent)) == 0


async def test_an_answer_at_once_does_not_break_the_limit_on_concurrency(store: Store):
    gate = Gate()
    held = subagent(agent=Agent(ScriptedModel(ToolCallPart("gate", {}), "Late."), tools=[gate.gate]), name="held")
    settings = replace(SETTINGS, max_concurrency=1, hot_wait=1.0)
    async with at_work(store, subagent(ASK, "A."), held, settings=settings) as engine:
        asking = await delegate(engine)
        await until(engine, asking, lambda task: task.status is ASKING)
        running = await delegate(engine, subagent="held")
        await gate.reached.wait()
        await engine.answer(asking, "A")
        waiting = await engine.wait([asking], timeout=0.2)
        assert waiting.tasks[0].status is TaskStatus.PENDING
        gate.open.set()
        done = await engine.wait([asking, running])
    assert [task.result for task in done.tasks] == ["A.", "Late."]


async def test_a_rate_limit_that_ends_a_task_still_holds_back_the_others(store: Store):
    limited = ModelHTTPError.for_category(
        ModelRateLimitError, status_code=429, model_name="scripted", headers={"retry-after": "30"}
    )
    model = ScriptedModel(limited)
    async with at_work(store, subagent(agent=Agent(model), max_retries=0)) as engine:
        assert (await outcome(engine, await delegate(engine))).status is TaskStatus.FAILED
        waiting = await engine.wait([await delegate(engine)], timeout=0.1)
    assert (waiting.tasks[0].status, len(model.requests)) == (TaskStatus.PENDING, 1)


async def cancelled_from_within() -> str:
    async def forever() -> None:
        await anyio.sleep_forever()

    inner = asyncio.ensure_future(forever())
    await anyio.lowlevel.checkpoint()
    inner.cancel()
    await inner
    raise AssertionError


async def cancels_its_own_task() -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await anyio.lowlevel.checkpoint()
    raise AssertionError


def exits() -> str:
    raise SystemExit(3)


class Panic(BaseException):
    """What libraries written in Rust raise."""


def panics() -> str:
    raise Panic("index out of bounds")


@pytest.mark.parametrize("tool", [cancelled_from_within, cancels_its_own_task, exits, panics])
async def test_a_tool_that_ends_itself_ends_its_task_and_no_more(store: Store, tool: Any):
    gate = Gate()
    held = subagent(agent=Agent(ScriptedModel(ToolCallPart("gate", {}), "Late."), tools=[gate.gate]), name="held")
    broken = subagent(agent=Agent(ScriptedModel(ToolCallPart(tool.__name__, {})), tools=[tool]))
    async with at_work(store, broken, held) as engine:
        beside = await delegate(engine, subagent="held")
        await gate.reached.wait()
        done = await outcome(engine, await delegate(engine))
        assert (done.status, done.attempt) == (TaskStatus.FAILED, 1)
        gate.open.set()
        assert (await outcome(engine, beside)).attempt == 1


async def test_a_panic_outside_of_tools_ends_its_task_and_no_more(store: Store):
    def think(messages: object, info: object) -> ModelResponse:
        raise Panic("index out of bounds")

    broken = subagent(agent=Agent(FunctionModel(think)), name="broken")
    async with at_work(store, broken, subagent(agent=Agent(ScriptedModel("42")))) as engine:
        done = await outcome(engine, await delegate(engine, subagent="broken"))
        assert done.failure is not None
        assert "Panic: index out of bounds" in done.failure.message
        assert (await outcome(engine, await delegate(engine))).result == "42"


async def test_an_output_validator_has_its_say_after_an_interruption_too(store: Store):
    reached = anyio.Event()
    calls = 0
    agent = Agent(ScriptedModel("draft"), instructions="Be brief.")

    @agent.output_validator
    async def stamp(output: str) -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            reached.set()
            await anyio.sleep_forever()
        return f"stamped {output}"

    assert stamp
    async with at_work(store, subagent(agent=agent)) as engine:
        task_id = await delegate(engine)
        await reached.wait()
    async with at_work(store, subagent(agent=agent)) as engine:
        assert (await outcome(engine, task_id)).result == "stamped draft"
    assert calls == 2


async def test_a_tool_that_needs_an_approval_fails_the_task_and_is_named(store: Store):
    def launch() -> str:
        return "launched"

    model = ScriptedModel([ASK, ToolCallPart("launch", {}, tool_call_id="c")])
    agent = Agent(model, tools=[Tool(launch, requires_approval=True)], output_type=[str, DeferredToolRequests])
    async with at_work(store, subagent(agent=agent)) as engine:
        done = await outcome(engine, await delegate(engine))
    assert done.error == "Nobody here can approve or carry out these tools: launch."


async def test_those_who_wait_are_told_when_the_engine_stops(store: Store):
    gate = Gate()
    told: list[str] = []
    worker = subagent(agent=Agent(ScriptedModel(ToolCallPart("gate", {})), tools=[gate.gate]))
    engines: list[Engine] = []

    async def wait(task_id: str) -> None:
        with pytest.raises(EngineStopped):
            await engines[0].wait([task_id])
        told.append("stopped")

    async with anyio.create_task_group() as group, at_work(store, worker) as engine:
        engines.append(engine)
        task_id = await delegate(engine)
        await gate.reached.wait()
        group.start_soon(wait, task_id)
        await anyio.wait_all_tasks_blocked()
    assert told == ["stopped"]
    with pytest.raises(EngineStopped):
        await delegate(engines[0])


@pytest.mark.parametrize(
    "given",
    [{"description": 5}, {"description": " "}, {"idempotency_key": 7}, {"mode": "later"}, {"priority": "urgent"}],
)
def test_a_submission_that_makes_no_sense_is_refused(given: dict[str, Any]):
    wanted: dict[str, Any] = {"description": "Go.", "subagent": "worker", **given}
    with pytest.raises((TypeError, ValueError)):
        Submission(**wanted)


@pytest.mark.slow
async def test_an_engine_leaves_a_store_that_does_not_answer():
    """Neither to a claim that nothing must cut short, nor to anything else."""
    store, reached = Moody(), anyio.Event()

    async def never_answer(*args: Any, task_id: str | None = None) -> None:
        if reached.is_set() or task_id is not None:
            reached.set()
            await anyio.sleep_forever()

    store.before["claim"] = never_answer
    with anyio.fail_after(5):
        async with at_work(store, subagent(ASK), settings=replace(SETTINGS, hot_wait=0.0)) as engine:
            task_id = await delegate(engine)
            await reached.wait()
    assert (await store.read(task_id)).handle.status is ASKING


async def test_texts_must_be_texts(store: Store):
    wrong: Any = None
    async with at_work(store, subagent(ASK)) as engine:
        task_id = await delegate(engine)
        await outcome(engine, task_id)
        for call in (engine.answer(task_id, wrong), engine.send(task_id, wrong), engine.wait(task_id)):
            with pytest.raises(TypeError):
                await call
        with pytest.raises(TypeError):
            await engine.submit(Submission(description="Go.", subagent="worker"), owner=wrong)
        assert (await engine.check(task_id)).status is ASKING


@pytest.mark.parametrize(
    "given",
    [
        {"max_concurrency": 0},
        {"max_concurrency": True},
        {"max_open_tasks": -1},
        {"request_timeout": 0},
        {"question_timeout": None},
        {"dead_after": float("nan")},
        {"hot_wait": -1},
        {"limits": {"requests": 1}},
    ],
)
def test_settings_that_nobody_could_follow_are_refused(given: dict[str, Any]):
    with pytest.raises(ConfigError):
        EngineSettings(**given)


async def test_retention_can_be_for_ever(store: Store):
    async with at_work(store, subagent("42"), settings=replace(SETTINGS, retention_days=float("inf"))) as engine:
        await outcome(engine, await delegate(engine))
        assert await engine.prune() == 0


async def test_a_model_that_runs_out_of_items_fails_its_task_instead_of_being_asked_for_ever(store: Store):
    asked = 0

    def think(messages: list[ModelMessage], info: object) -> ModelResponse:
        nonlocal asked
        asked += 1
        raise StopAsyncIteration

    async with at_work(store, subagent(agent=Agent(FunctionModel(think)))) as engine:
        done = await outcome(engine, await delegate(engine))
    assert (done.status, asked) == (TaskStatus.FAILED, 1)
