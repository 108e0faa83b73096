"""Retry and resume, by scripted models: every rule, and every trap on the way."""

import asyncio
import math
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent, CancellationToken, Conversation, DeferredToolRequests, RunContext, UsageLimits
from pydantic_ai.exceptions import (
    CallDeferred,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelHTTPError,
    ModelRateLimitError,
    RunCancelled,
    RunTimedOut,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage, RunUsage

from mcp_subagents import (
    Checkpoint,
    ConfigError,
    IncompleteAnswer,
    RetryConfig,
    SubAgentConfig,
    SubAgentSpec,
    checkpoint_of,
    compute_backoff_delay,
    run_with_retry,
)
from mcp_subagents.testing import ScriptedModel

BUSY = ModelHTTPError(503, "scripted")
AT_ONCE = RetryConfig(initial_delay=0.0)
SEARCH = ToolCallPart("search", {}, tool_call_id="call-1")


class Searches:
    """An agent with a `search` tool, and a count of how often it ran."""

    def __init__(self, *lines: Any, **options: Any) -> None:
        self.model = ScriptedModel(*lines)
        self.agent: Agent[None, Any] = Agent(self.model, **options)
        self.count = 0
        self.agent.tool_plain(self.search)

    def search(self) -> str:
        self.count += 1
        return f"result {self.count}"

    async def run(self, prompt: str | None = "Find it.", retry: RetryConfig = AT_ONCE, **kwargs: Any) -> Any:
        kwargs.setdefault("run_kwargs", {})
        with anyio.fail_after(5):
            return await run_with_retry(self.agent, prompt, retry=retry, **kwargs)


def user_texts(messages: list[ModelMessage]) -> list[str]:
    return [
        part.content
        for message in messages
        for part in message.parts
        if isinstance(part, UserPromptPart) and isinstance(part.content, str)
    ]


def tool_returns(messages: tuple[ModelMessage, ...] | list[ModelMessage]) -> list[object]:
    return [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


async def test_a_resumed_run_repeats_neither_its_tools_nor_its_prompt():
    script = Searches(SEARCH, BUSY, ModelHTTPError(429, "scripted"), "42", instructions="Be brief.")
    result = await script.run()
    assert (result.output, script.count) == ("42", 1)
    assert user_texts(script.model.requests[-1]) == ["Find it."]
    assert tool_returns(script.model.requests[-1]) == ["result 1"]


async def test_the_caller_hears_of_every_retry_before_its_backoff():
    heard: list[object] = []

    async def sleep(delay: float) -> None:
        heard.append(("sleep", delay))

    retry = RetryConfig(initial_delay=1.0, max_delay=3.0, jitter=False)
    script = Searches(BUSY, BUSY, BUSY, "42")

    def on_retry(attempt: int, exc: BaseException, delay: float) -> None:
        heard.append((attempt, exc, delay))

    await script.run(retry=retry, sleep=sleep, on_retry=on_retry)
    assert heard == [(1, BUSY, 1.0), ("sleep", 1.0), (2, BUSY, 2.0), ("sleep", 2.0), (3, BUSY, 3.0), ("sleep", 3.0)]


async def test_on_retry_may_be_a_coroutine():
    heard: list[int] = []

    async def on_retry(attempt: int, exc: BaseException, delay: float) -> None:
        await anyio.lowlevel.checkpoint()
        heard.append(attempt)

    await Searches(BUSY, "42").run(on_retry=on_retry)
    assert heard == [1]


@pytest.mark.parametrize("most", [0, 1, 3])
async def test_the_last_failure_is_raised_when_no_retry_is_left(most: int):
    script = Searches(*[BUSY] * (most + 1))
    with pytest.raises(ModelHTTPError) as failed:
        await script.run(retry=RetryConfig(max_retries=most, initial_delay=0.0))
    assert len(script.model.requests) == most + 1
    checkpoint = checkpoint_of(failed.value)
    assert checkpoint is not None
    assert checkpoint.retries == most


async def test_a_failure_that_does_not_pass_is_raised_at_once():
    script = Searches(ModelHTTPError.for_category(ModelAuthenticationError, status_code=500, model_name="scripted"))
    with pytest.raises(ModelAuthenticationError):
        await script.run()
    assert len(script.model.requests) == 1


async def test_the_callers_own_predicate_decides():
    script = Searches(UnexpectedModelBehavior("odd"), "42")
    result = await script.run(retry=RetryConfig(initial_delay=0.0, retry_on=lambda exc: "odd" in str(exc)))
    assert result.output == "42"
    with pytest.raises(ModelHTTPError):
        await Searches(BUSY, "42").run(retry=RetryConfig(initial_delay=0.0, retry_on=lambda exc: False))


async def test_no_predicate_can_retry_a_cancelled_run():
    token = CancellationToken()
    script = Searches(SEARCH)

    def search() -> str:
        token.cancel()
        return "never seen"

    async def sleep(delay: float) -> None:
        raise AssertionError("nothing is waited for")

    script.agent = Agent(script.model, tools=[search])
    retry = RetryConfig(retry_on=lambda exc: True)
    with pytest.raises(RunCancelled):
        await script.run(retry=retry, sleep=sleep, run_kwargs={"cancellation_token": token})
    assert len(script.model.requests) == 1


@pytest.mark.parametrize(
    ("asked", "backoff", "waited"),
    [(7.0, 1.0, 7.0), (0.5, 1.0, 1.0), (100.0, 1.0, 100.0)],
    ids=["longer than the backoff: obeyed", "shorter: the backoff holds", "longer than max_delay: obeyed"],
)
async def test_retry_after_is_the_least_wait(asked: float, backoff: float, waited: float):
    slept: list[float] = []

    async def sleep(delay: float) -> None:
        slept.append(delay)

    limited = ModelHTTPError.for_category(
        ModelRateLimitError,
        status_code=429,
        model_name="scripted",
        headers={"Retry-After": f"{asked:g}", "retry-after-ms": f"{asked * 1000:g}"},
    )
    await Searches(limited, "42").run(retry=RetryConfig(initial_delay=backoff, jitter=False), sleep=sleep)
    assert slept == [waited]


@pytest.mark.parametrize(
    ("asked", "longest_backoff", "waited"),
    [(3600, 30.0, 3600.0), (3601, 30.0, None), (7200, 7200.0, 7200.0), (7201, 7200.0, None)],
    ids=["an hour", "more than an hour", "more, as the policy waits itself", "more than that"],
)
def test_a_provider_that_wants_to_be_left_alone_for_hours_is_not_waited_for(
    asked: int, longest_backoff: float, waited: float | None
):
    limited = ModelHTTPError(429, "scripted", headers={"retry-after": str(asked)})
    assert RetryConfig(max_delay=longest_backoff).delay_after(limited, 1) == waited


async def test_a_failure_that_is_not_waited_for_is_raised():
    limited = ModelHTTPError(429, "scripted", headers={"retry-after": "86400"})
    with pytest.raises(ModelHTTPError):
        await Searches(limited).run()


def test_a_backoff_of_nothing_stays_nothing_however_often():
    config = RetryConfig(initial_delay=0.0, max_delay=30.0, jitter=False)
    assert [compute_backoff_delay(attempt, config) for attempt in (1, 2, 10**6)] == [0.0, 0.0, 0.0]


@given(
    attempt=st.integers(1, 10**9),
    initial=st.floats(0, 1e6),
    most=st.floats(0, 1e6),
    factor=st.one_of(st.floats(1, 1e6), st.integers(1, 1000)),
    jitter=st.booleans(),
)
def test_a_backoff_never_overflows_and_never_exceeds_its_cap(
    attempt: int, initial: float, most: float, factor: float, jitter: bool
):
    config = RetryConfig(initial_delay=initial, max_delay=most, backoff_multiplier=factor, jitter=jitter)
    assert 0.0 <= compute_backoff_delay(attempt, config) <= most


def test_backoff_doubles_up_to_its_cap():
    config = RetryConfig(jitter=False)
    assert [compute_backoff_delay(n, config) for n in range(1, 8)] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_jitter_draws_between_nothing_and_the_backoff():
    drawn: list[tuple[float, float]] = []

    def rng(low: float, high: float) -> float:
        drawn.append((low, high))
        return 0.25

    assert compute_backoff_delay(3, RetryConfig(), rng) == 0.25
    assert drawn == [(0.0, 4.0)]


def test_a_policy_is_read_from_a_subagent_with_defaults_for_the_rest():
    def never(exc: BaseException) -> bool:
        return False

    assert RetryConfig.from_config(SubAgentConfig(name="a")) == RetryConfig(3, 1.0, 30.0, 2.0, True, None)
    full = SubAgentConfig(
        max_retries=5,
        retry_initial_delay=0.5,
        retry_max_delay=9.0,
        retry_backoff_multiplier=3.0,
        retry_jitter=False,
        retry_on=never,
    )
    assert RetryConfig.from_config(full) == RetryConfig(5, 0.5, 9.0, 3.0, False, never)


def test_what_is_null_in_a_config_counts_as_not_given():
    nulls: Any = {"max_retries": None, "retry_initial_delay": None, "retry_jitter": None, "retry_on": None}
    assert RetryConfig.from_config(nulls) == RetryConfig()


def test_a_policy_is_read_from_a_spec_too():
    spec = SubAgentSpec(name="a", max_retries=0, retry_max_delay=9.0, retry_jitter=False)
    assert RetryConfig.from_config(spec) == RetryConfig(max_retries=0, max_delay=9.0, jitter=False)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_retries": 2.5}, "max_retries must be a whole number, 0 for no retries, not 2.5."),
        ({"max_retries": "3"}, "max_retries must be a whole number, 0 for no retries, not '3'."),
        ({"max_retries": True}, "max_retries must be a whole number, 0 for no retries, not True."),
        ({"max_retries": None}, "max_retries must be a whole number, 0 for no retries, not None."),
        ({"initial_delay": math.nan}, "initial_delay must be a finite number of seconds, 0 or more, not nan."),
        ({"initial_delay": -1}, "initial_delay must be a finite number of seconds, 0 or more, not -1."),
        ({"initial_delay": "1"}, "initial_delay must be a finite number of seconds, 0 or more, not '1'."),
        ({"max_delay": math.inf}, "max_delay must be a finite number of seconds, 0 or more, not inf."),
        ({"max_delay": True}, "max_delay must be a finite number of seconds, 0 or more, not True."),
        ({"backoff_multiplier": 0}, "backoff_multiplier must be a finite number above 0, such as 2.0, not 0."),
        ({"backoff_multiplier": math.nan}, "backoff_multiplier must be a finite number above 0, such as 2.0, not nan."),
        ({"retry_on": 5}, "retry_on must be a function from an exception to a bool, or None, not 5."),
    ],
)
def test_a_policy_that_nobody_could_follow_is_refused(values: dict[str, Any], message: str):
    with pytest.raises(ConfigError) as refused:
        RetryConfig(**values)
    assert str(refused.value) == message


@pytest.mark.parametrize("most", [0, -1])
async def test_no_retries_or_fewer_is_none(most: int):
    script = Searches(BUSY)
    with pytest.raises(ModelHTTPError):
        await script.run(retry=RetryConfig(max_retries=most))
    assert len(script.model.requests) == 1


async def test_usage_is_counted_over_all_attempts():
    def answer(*parts: Any) -> ModelResponse:
        return ModelResponse(parts=list(parts), usage=RequestUsage(input_tokens=10, output_tokens=5))

    usage = RunUsage()
    script = Searches(answer(SEARCH), BUSY, answer(TextPart("42")))
    result = await script.run(run_kwargs={"usage": usage})
    assert result.usage is usage
    assert (usage.requests, usage.tool_calls, usage.input_tokens, usage.output_tokens) == (2, 1, 20, 10)


async def test_a_usage_limit_holds_over_all_attempts():
    script = Searches(SEARCH, BUSY, ToolCallPart("search", {}, tool_call_id="call-2"), BUSY, "too late")
    with pytest.raises(UsageLimitExceeded) as failed:
        await script.run(run_kwargs={"usage_limits": UsageLimits(request_limit=2)})
    checkpoint = checkpoint_of(failed.value)
    assert checkpoint is not None
    assert (checkpoint.usage.requests, tool_returns(checkpoint.messages)) == (2, ["result 1", "result 2"])


async def test_a_response_that_met_a_limit_is_whole_and_kept():
    spent = ModelResponse(parts=[TextPart("All found.")], usage=RequestUsage(input_tokens=500, output_tokens=1))
    script = Searches(spent)
    with pytest.raises(UsageLimitExceeded) as failed:
        await script.run(run_kwargs={"usage_limits": UsageLimits(total_tokens_limit=100)})
    checkpoint = checkpoint_of(failed.value)
    assert checkpoint is not None
    last = checkpoint.messages[-1]
    assert isinstance(last, ModelResponse)
    assert (last.text, last.state) == ("All found.", "complete")


@pytest.mark.parametrize("most", [0, 3], ids=["without retries", "with retries"])
async def test_a_soft_cancel_stops_before_the_next_step_and_keeps_the_finished_tools(most: int):
    script = Searches(SEARCH, "42")
    retry = RetryConfig(max_retries=most)
    with pytest.raises(asyncio.CancelledError) as stopped:
        await script.run(retry=retry, cancel_check=lambda: script.count > 0)
    checkpoint = checkpoint_of(stopped.value)
    assert checkpoint is not None
    assert tool_returns(checkpoint.messages) == ["result 1"]

    result = await script.run(None, run_kwargs={"message_history": checkpoint.messages})
    assert (result.output, script.count, len(script.model.requests)) == ("42", 1, 2)


@pytest.mark.parametrize("most", [0, 3], ids=["without retries", "with retries"])
async def test_injected_texts_join_the_next_request(most: int):
    mail = [["Look in the attic."], ["And hurry."]]

    async def inject() -> list[str]:
        return mail.pop(0) if mail else []

    script = Searches(SEARCH, "42")
    await script.run(retry=RetryConfig(max_retries=most), inject_messages=inject)
    assert [user_texts(request) for request in script.model.requests] == [
        ["Find it.", "Look in the attic."],
        ["Find it.", "Look in the attic.", "And hurry."],
    ]


async def test_a_text_injected_into_a_failed_request_is_sent_once_more_and_once_only():
    mail = [["Look in the attic."]]

    async def inject() -> list[str]:
        return mail.pop(0) if mail else []

    script = Searches(SEARCH, BUSY, BUSY, "42")
    mail.insert(0, [])
    await script.run(inject_messages=inject)
    assert [user_texts(request) for request in script.model.requests[1:]] == [["Find it.", "Look in the attic."]] * 3
    assert script.count == 1


async def test_a_text_injected_before_the_request_could_be_built_is_not_lost():
    mail = [["Look in the attic."]]
    trouble = [BUSY]

    async def inject() -> list[str]:
        return mail.pop(0) if mail else []

    def instructions() -> str:
        if trouble:
            raise trouble.pop()
        return "Be brief."

    script = Searches("42", instructions=instructions)
    await script.run(inject_messages=inject)
    assert user_texts(script.model.requests[0]) == ["Find it.", "Look in the attic."]


async def test_what_a_tool_enqueued_reaches_the_next_attempt():
    trouble = [BUSY]

    def instructions(ctx: RunContext[None]) -> str:
        if trouble and ctx.run_step > 1:
            raise trouble.pop()
        return "Be brief."

    def search(ctx: RunContext[None]) -> str:
        ctx.enqueue("There is more in the attic.", priority="when_idle")
        return "result"

    model = ScriptedModel(SEARCH, "not yet", "42")
    agent = Agent(model, deps_type=type(None), instructions=instructions, tools=[search])
    with anyio.fail_after(5):
        result = await run_with_retry(agent, "Find it.", run_kwargs={}, retry=AT_ONCE)
    assert result.output == "42"
    assert user_texts(model.requests[-1]) == ["Find it.", "There is more in the attic."]


async def test_a_soft_cancel_ends_a_backoff_at_once():
    script = Searches(SEARCH, BUSY)
    asked = False

    def on_retry(attempt: int, exc: BaseException, delay: float) -> None:
        nonlocal asked
        asked = True

    async def sleep(delay: float) -> None:
        await anyio.sleep_forever()

    with pytest.raises(asyncio.CancelledError) as stopped:
        await script.run(on_retry=on_retry, sleep=sleep, cancel_check=lambda: asked)
    checkpoint = checkpoint_of(stopped.value)
    assert checkpoint is not None
    assert tool_returns(checkpoint.messages) == ["result 1"]
    assert len(script.model.requests) == 2


async def test_a_cancelled_token_ends_a_backoff_at_once():
    token = CancellationToken()
    script = Searches(SEARCH, BUSY)

    async def sleep(delay: float) -> None:
        token.cancel()
        await anyio.sleep_forever()

    with pytest.raises(RunCancelled) as stopped:
        await script.run(sleep=sleep, run_kwargs={"cancellation_token": token})
    checkpoint = checkpoint_of(stopped.value)
    assert checkpoint is not None
    assert tool_returns(checkpoint.messages) == ["result 1"]


async def test_an_error_of_the_callers_sleep_arrives_as_it_is():
    async def sleep(delay: float) -> None:
        raise LookupError("no clock")

    with pytest.raises(LookupError, match="no clock"):
        await Searches(BUSY).run(sleep=sleep)


async def test_a_hard_cancel_carries_what_was_reached():
    reached = anyio.Event()
    caught: list[Checkpoint | None] = []

    async def stuck() -> str:
        reached.set()
        await anyio.sleep_forever()
        raise AssertionError

    script = Searches(SEARCH, ToolCallPart("stuck", {}, tool_call_id="call-2"))
    script.agent.tool_plain(stuck)

    async def run() -> None:
        try:
            await script.run()
        except asyncio.CancelledError as exc:
            caught.append(checkpoint_of(exc))
            raise

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await reached.wait()
            group.cancel_scope.cancel()
    assert caught[0] is not None
    assert "result 1" in tool_returns(caught[0].messages)


async def test_every_step_that_adds_to_the_history_is_told_to_the_caller():
    told: list[Checkpoint] = []
    script = Searches(SEARCH, BUSY, "42")
    await script.run(on_checkpoint=told.append)
    lengths = [len(checkpoint.messages) for checkpoint in told]
    assert lengths == [1, 2, 3, 4]
    assert tool_returns(told[2].messages) == ["result 1"]
    assert told[-1].retries == 1
    assert [checkpoint.usage.requests for checkpoint in told] == [0, 1, 1, 2]


async def test_a_run_killed_between_a_tool_and_the_next_request_does_not_repeat_the_tool():
    told: list[Checkpoint] = []

    def on_checkpoint(checkpoint: Checkpoint) -> None:
        told.append(checkpoint)
        if tool_returns(checkpoint.messages):
            raise KeyboardInterrupt

    script = Searches(SEARCH, "42")
    with pytest.raises(KeyboardInterrupt):
        await script.run(on_checkpoint=on_checkpoint)
    result = await script.run(None, run_kwargs={"message_history": told[-1].messages})
    assert (result.output, script.count) == ("42", 1)


async def test_a_failure_while_a_resume_is_prepared_does_not_shorten_the_history():
    trouble: list[Exception] = []
    script = Searches(SEARCH, BUSY, "42")

    @script.agent.system_prompt(dynamic=True)
    def prompt() -> str:
        if trouble:
            raise trouble.pop()
        return "Be brief."

    assert prompt

    def on_retry(attempt: int, exc: BaseException, delay: float) -> None:
        if attempt == 1:
            trouble.append(BUSY)

    result = await script.run(on_retry=on_retry)
    assert (result.output, script.count) == ("42", 1)
    assert user_texts(script.model.requests[-1]) == ["Find it."]


async def test_a_failure_before_the_prompt_joined_the_history_keeps_the_prompt():
    trouble = [BUSY]
    script = Searches("42")

    @script.agent.system_prompt
    def prompt() -> str:
        if trouble:
            raise trouble.pop()
        return "Be brief."

    assert prompt
    await script.run()
    assert user_texts(script.model.requests[0]) == ["Find it."]


async def test_an_answer_to_a_question_is_applied_once_although_the_model_fails():
    def ask_parent() -> str:
        raise CallDeferred

    model = ScriptedModel(ToolCallPart("ask_parent", {}, tool_call_id="q1"), BUSY, BUSY, "Then Postgres.")
    agent = Agent(model, output_type=[str, DeferredToolRequests], tools=[ask_parent])
    with anyio.fail_after(5):
        asked = await run_with_retry(agent, "Choose.", run_kwargs={}, retry=AT_ONCE)
        result = await run_with_retry(
            agent,
            None,
            run_kwargs={
                "message_history": asked.all_messages(),
                "deferred_tool_results": asked.output.build_results(calls={"q1": "Postgres"}),
            },
            retry=AT_ONCE,
        )
    assert result.output == "Then Postgres."
    assert tool_returns(model.requests[-1]) == ["Postgres"]


async def test_a_conversation_goes_on_with_its_history_and_usage():
    script = Searches("First.", BUSY, "Second.")
    first = await script.run()
    # Its messages do not tell the id of the conversation.
    messages = [replace(message, conversation_id=None) for message in first.all_messages()]
    conversation = Conversation(messages=messages, usage=first.usage, conversation_id="talk-1")
    second = await script.run("And then?", run_kwargs={"conversation": conversation})
    assert user_texts(script.model.requests[-1]) == ["Find it.", "And then?"]
    assert second.conversation_id == "talk-1"
    assert (second.usage.requests, conversation.usage.requests) == (2, 1)


async def test_what_is_given_next_to_a_conversation_outweighs_it():
    script = Searches("First.", "Second.")
    first = await script.run()
    usage = RunUsage(requests=5)
    kwargs: dict[str, Any] = {
        "conversation": first.conversation,
        "message_history": [],
        "usage": usage,
        "conversation_id": "talk-2",
    }
    second = await script.run("And then?", run_kwargs=kwargs)
    assert (second.conversation_id, usage.requests) == ("talk-2", 6)
    assert user_texts(script.model.requests[-1]) == ["And then?"]


async def test_a_fallback_chain_whose_models_are_all_busy_is_retried():
    first, second = ScriptedModel(BUSY, "42"), ScriptedModel(BUSY)
    agent = Agent(FallbackModel(first, second))
    with anyio.fail_after(5):
        result = await run_with_retry(agent, "Find it.", run_kwargs={}, retry=AT_ONCE)
    assert (result.output, len(first.requests), len(second.requests)) == ("42", 2, 1)


async def test_the_model_is_told_when_the_model_inside_a_tool_fails():
    async def delegate() -> str:
        raise ModelHTTPError(503, "nested", body={"error": "sk-secret-secret-secret"})

    model = ScriptedModel(ToolCallPart("delegate", {}), "I did it myself.")
    with anyio.fail_after(5):
        result = await run_with_retry(Agent(model, tools=[delegate]), "Go.", run_kwargs={}, retry=AT_ONCE)
    assert result.output == "I did it myself."
    assert tool_returns(model.requests[-1]) == [
        "The tool's own model failed. The model provider is unavailable (HTTP 503)."
    ]


async def test_a_broken_connection_inside_a_tool_is_not_the_models():
    async def fetch() -> str:
        raise ConnectionResetError("peer left")

    model = ScriptedModel(ToolCallPart("fetch", {}))
    with pytest.raises(ConnectionResetError), anyio.fail_after(5):
        await run_with_retry(Agent(model, tools=[fetch]), "Go.", run_kwargs={}, retry=AT_ONCE)
    assert len(model.requests) == 1


async def test_a_broken_connection_that_pydantic_ai_does_not_know_of_is_not_resumed():
    # It wraps those of its own: this one is of something else that runs with a request.
    script = Searches(SEARCH, ConnectionResetError("peer left"))
    with pytest.raises(ConnectionResetError):
        await script.run()
    assert len(script.model.requests) == 2


async def test_a_broken_connection_of_the_model_is_resumed():
    lost = ModelConnectionError("scripted", "connection lost", phase="read")
    assert (await Searches(SEARCH, lost, "42").run()).output == "42"


async def test_a_timeout_covers_all_attempts():
    async def sleep(delay: float) -> None:
        raise AssertionError("there is no time for a backoff")

    script = Searches(BUSY)
    with pytest.raises(ModelHTTPError):
        await script.run(
            retry=RetryConfig(jitter=False, initial_delay=60.0, max_delay=60.0),
            sleep=sleep,
            run_kwargs={"timeout": 5.0},
        )

    async def stuck() -> str:
        await anyio.sleep_forever()
        raise AssertionError

    slow = ScriptedModel(ToolCallPart("stuck", {}))
    with pytest.raises(RunTimedOut), anyio.fail_after(5):
        await run_with_retry(Agent(slow, tools=[stuck]), "Go.", run_kwargs={"timeout": 0.05}, retry=AT_ONCE)


async def test_the_callers_arguments_stay_as_they_are():
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart("Before.")]),
        ModelResponse(parts=[TextPart("Yes.")]),
    ]
    run_kwargs: dict[str, Any] = {"message_history": history, "model_settings": {"temperature": 0.0}, "run_id": "run-1"}
    before = {**run_kwargs, "message_history": list(history), "model_settings": {"temperature": 0.0}}
    script = Searches(BUSY, "42")
    await script.run(run_kwargs=run_kwargs)
    assert run_kwargs == before
    assert user_texts(script.model.requests[-1]) == ["Before.", "Find it."]


async def test_a_history_that_ends_in_a_piece_of_a_response_is_resumed_without_it():
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart("Find it.")]),
        ModelResponse(parts=[SEARCH], state="interrupted"),
    ]
    script = Searches("42")
    result = await script.run(None, run_kwargs={"message_history": history})
    assert (result.output, script.count, len(script.model.requests)) == ("42", 0, 1)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (ModelResponse(parts=[TextPart("Once upon a")], finish_reason="length"), "length"),
        (ModelResponse(parts=[TextPart("I cannot")], finish_reason="content_filter"), "content_filter"),
        (ModelResponse(parts=[TextPart(" \n")]), "empty"),
    ],
    ids=["cut off at the output limit", "cut off by a filter", "blank"],
)
async def test_an_answer_that_is_not_whole_is_an_error(line: ModelResponse, why: str):
    script = Searches(line)
    with pytest.raises(IncompleteAnswer) as failed:
        await script.run()
    checkpoint = checkpoint_of(failed.value)
    assert (failed.value.why, failed.value.text) == (why, line.text)
    assert checkpoint is not None
    assert user_texts(list(checkpoint.messages)) == ["Find it."]
    assert len(checkpoint.messages) == 1


async def test_an_answer_without_any_part_is_an_error_too():
    with pytest.raises(UnexpectedModelBehavior):
        await Searches(*[ModelResponse(parts=[])] * 2, retries=1).run()


async def test_a_structured_answer_that_ended_at_the_limit_is_not_whole_although_it_is_valid():
    # Some clients complete half an object, and some providers send one: what was left out has its default.
    call = ModelResponse(parts=[ToolCallPart("final_result", {"response": 42})], finish_reason="length")
    with pytest.raises(IncompleteAnswer, match="output limit"), anyio.fail_after(5):
        await run_with_retry(Agent(ScriptedModel(call), output_type=int), "Go.", run_kwargs={}, retry=AT_ONCE)


def test_an_exception_from_elsewhere_carries_no_checkpoint():
    assert checkpoint_of(ValueError("elsewhere")) is None
    assert checkpoint_of(ValueError("elsewhere").__cause__) is None


def lukewarm(ctx: RunContext[None]) -> Any:
    return {"temperature": ctx.run_step / 2}


def persistent(ctx: RunContext[None]) -> Any:
    return {"max_retries": 2}


@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        (None, {"max_retries": 0}),
        ({"temperature": 0.5}, {"max_retries": 0, "temperature": 0.5}),
        ({"max_retries": 2}, {"max_retries": 2}),
        (lukewarm, {"max_retries": 0, "temperature": 0.5}),
        (persistent, {"max_retries": 2}),
    ],
    ids=["none", "some", "some with retries", "made for each request", "made for each request, with retries"],
)
async def test_the_clients_retries_are_off_unless_the_settings_of_the_run_say_otherwise(settings: Any, seen: Any):
    asked_with: list[Any] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked_with.append(info.model_settings)
        return ModelResponse(parts=[TextPart("42")])

    agent = Agent(FunctionModel(answer), model_settings={"max_retries": 5})
    with anyio.fail_after(5):
        await run_with_retry(agent, "Go.", run_kwargs={"model_settings": settings}, retry=AT_ONCE)
    assert asked_with == [seen]


async def test_an_agent_without_a_name_stays_so():
    agent = Agent(ScriptedModel("42"))
    await run_with_retry(agent, "Go.", run_kwargs={}, retry=AT_ONCE)
    assert agent.name is None


@pytest.mark.parametrize("wanted", [False, True], ids=["by our rules", "by a predicate that says yes"])
async def test_a_model_error_of_an_output_validator_is_not_the_models(wanted: bool):
    trouble = [BUSY]
    script = Searches("42", "43")

    @script.agent.output_validator
    def check(output: str) -> str:
        if trouble:
            raise trouble.pop()
        return output

    assert check
    if wanted:
        result = await script.run(retry=RetryConfig(initial_delay=0.0, retry_on=lambda exc: True))
        assert result.output == "42"
    else:
        with pytest.raises(ModelHTTPError):
            await script.run()
    # Resumed or not, the model had answered.
    assert len(script.model.requests) == 1


async def test_a_bare_transport_error_is_resumed():
    assert (await Searches(SEARCH, ModelAPIError("scripted", "connection lost"), "42").run()).output == "42"
