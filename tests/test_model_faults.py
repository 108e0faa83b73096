"""Every fault of a model's gateway, over real HTTP and the real clients of OpenAI and Anthropic."""

from collections.abc import AsyncIterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from pydantic_ai import Agent
from pydantic_ai import exceptions as pai
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from mcp_subagents import FailureType, IncompleteAnswer, RetryConfig, checkpoint_of, failure_of, run_with_retry
from mcp_subagents.testing import (
    CloseEarly,
    CutBody,
    CutStream,
    Drip,
    Gateway,
    Hang,
    ProviderError,
    Raw,
    Reply,
    Reset,
    Status,
    StreamError,
    Text,
    ToolCall,
    ToolCalls,
    rate_limited,
)

QUOTA_BODY = {
    "error": {"message": "You exceeded your quota.", "type": "insufficient_quota", "code": "insufficient_quota"}
}
LONG = Text("The quick brown fox jumps over the lazy dog.")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One row: what the gateway does, and what becomes of it after two retries."""

    name: str
    reply: Reply
    raises: type[Exception] | tuple[type[Exception], ...]
    type: FailureType
    retried: bool
    settings: dict[str, float] | None = None
    wires: tuple[str, ...] = ("openai", "anthropic")

    @property
    def requests(self) -> int:
        return 3 if self.retried else 1


def passing(name: str, reply: Reply, raises: Any, **more: Any) -> Fault:
    return Fault(name=name, reply=reply, raises=raises, type=FailureType.TRANSIENT, retried=True, **more)


def lasting(name: str, reply: Reply, raises: Any, type: FailureType, **more: Any) -> Fault:
    return Fault(name=name, reply=reply, raises=raises, type=type, retried=False, **more)


IMPATIENT = {"timeout": 0.1}
UNREADABLE = (pai.UnexpectedModelBehavior, pai.ModelAPIError, TypeError, IndexError)

FAULTS = [
    passing("429 with Retry-After in seconds", rate_limited(seconds=1), pai.ModelRateLimitError),
    passing("429 with retry-after-ms", rate_limited(ms=300), pai.ModelRateLimitError),
    passing("429 until a date", rate_limited(until=datetime.now(UTC) + timedelta(minutes=9)), pai.ModelRateLimitError),
    passing("429 without a word", Status(429), pai.ModelRateLimitError),
    lasting("429 that means an empty account", Status(429, body=QUOTA_BODY), pai.ModelHTTPError, FailureType.PERMANENT),
    lasting("no quota", ProviderError("insufficient_quota"), pai.ModelQuotaExceededError, FailureType.PERMANENT),
    lasting("402", Status(402), pai.ModelQuotaExceededError, FailureType.PERMANENT),
    passing("500", Status(500), pai.ModelServerError),
    passing("502", Status(502), pai.ModelServerError),
    passing("502 with the error page of a proxy", Status(502, html=True), pai.ModelServerError),
    passing("504", Status(504), pai.ModelServerError),
    passing("520", Status(520), pai.ModelServerError),
    passing("522", Status(522), pai.ModelServerError),
    passing("524", Status(524), pai.ModelServerError),
    passing("503", Status(503), pai.ModelUnavailableError),
    passing("529", Status(529), pai.ModelOverloadedError),
    passing("408", Status(408), pai.ModelHTTPError),
    passing("409", Status(409), pai.ModelHTTPError),
    passing("425", Status(425), pai.ModelHTTPError),
    lasting("501", Status(501), pai.ModelServerError, FailureType.PERMANENT),
    lasting("413", Status(413), pai.ModelHTTPError, FailureType.VALIDATION),
    lasting("499", Status(499), pai.ModelHTTPError, FailureType.VALIDATION),
    lasting("503, do not retry", Status(503, {"x-should-retry": "false"}), pai.ModelHTTPError, FailureType.PERMANENT),
    lasting("400", Status(400), pai.ModelRequestRejectedError, FailureType.VALIDATION),
    lasting("422", Status(422), pai.ModelRequestRejectedError, FailureType.VALIDATION),
    lasting(
        "too long a context",
        ProviderError("context_length_exceeded"),
        pai.ModelContextWindowExceededError,
        FailureType.VALIDATION,
    ),
    lasting("401", ProviderError("invalid_api_key"), pai.ModelAuthenticationError, FailureType.PERMANENT),
    lasting("403", Status(403), pai.ModelAuthenticationError, FailureType.PERMANENT),
    lasting("404", Status(404), pai.ModelNotFoundError, FailureType.PERMANENT),
    passing("reset before a byte", Reset(), pai.ModelConnectionError),
    passing("closed before a byte", CloseEarly(), pai.ModelConnectionError),
    passing("reset in the body", CutBody(), pai.ModelConnectionError),
    passing("closed in the body", CutBody(how="close"), pai.ModelConnectionError),
    passing("no answer", Hang(), pai.ModelTimeoutError, settings=IMPATIENT),
    passing("silence in the body", CutBody(how="hang"), pai.ModelTimeoutError, settings=IMPATIENT),
    Fault(
        name="no answer within request_timeout",
        reply=Hang(),
        raises=pai.ModelRequestTimeout,
        type=FailureType.TIMEOUT,
        retried=True,
        settings={"request_timeout": 0.1},
    ),
    Fault(
        name="an answer that drips",
        reply=Drip("The quick brown fox", 0.04),
        raises=pai.ModelRequestTimeout,
        type=FailureType.TIMEOUT,
        retried=True,
        settings={"request_timeout": 0.1},
    ),
    passing("broken JSON", Raw(b'{"id": "chatcmpl-1", "cho'), UNREADABLE),
    passing("an empty body", Raw(b""), UNREADABLE),
    passing("an empty stream", Raw(b"", "text/event-stream"), UNREADABLE),
    passing("an error page with status 200", Raw(b"<html>Oops</html>", "text/html"), UNREADABLE),
    passing("an error object with status 200", Raw(b'{"error": {"message": "Oops"}}'), UNREADABLE),
    passing("no choices", Raw(b'{"id": "1", "object": "chat.completion", "choices": []}'), UNREADABLE),
    passing("broken events", Raw(b"data: {oops\n\n", "text/event-stream"), UNREADABLE),
    passing("a stream reset in the text", CutStream(LONG), pai.ModelConnectionError),
    passing("a stream closed in the text", CutStream(LONG, how="close"), pai.ModelConnectionError),
    passing("a stream ended in good order in the text", CutStream(LONG, how="clean"), pai.ModelAPIError),
    passing("overloaded in mid-stream", StreamError("overloaded_error"), pai.ModelOverloadedError),
    passing("a server error in mid-stream", StreamError("server_error"), pai.ModelAPIError),
    passing("a rate limit in mid-stream", StreamError("rate_limit_error"), pai.ModelRateLimitError),
    lasting("rejected in mid-stream", StreamError("invalid_request_error"), pai.ModelAPIError, FailureType.VALIDATION),
    lasting("cut off by max_tokens", Text("The quick", finish="length"), IncompleteAnswer, FailureType.LIMIT),
    lasting(
        "cut off by a filter", Text("The quick", finish="content_filter"), IncompleteAnswer, FailureType.VALIDATION
    ),
    lasting("blank", Text(" \n"), IncompleteAnswer, FailureType.VALIDATION),
]


async def drain(ctx: object, events: AsyncIterable[object]) -> None:
    async for _ in events:
        pass


def agent_on(gateway: Gateway, wire: str, **options: Any) -> Agent[None, str]:
    return Agent(gateway.openai_model() if wire == "openai" else gateway.anthropic_model(), **options)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("fault", "wire"),
    [pytest.param(fault, wire, id=f"{fault.name}-{wire}") for fault in FAULTS for wire in fault.wires],
)
async def test_each_fault_costs_the_right_number_of_requests_and_is_told_for_what_it_is(
    fault: Fault, wire: str, streamed: bool
):
    slept: list[float] = []

    async def sleep(delay: float) -> None:
        slept.append(delay)

    async with Gateway([fault.reply] * 3) as gateway:
        # With a small `max_tokens`, Anthropic's client really does not stream unless it is told to.
        settings = {"max_tokens": 1000, **(fault.settings or {})}
        with pytest.raises(fault.raises) as failed, anyio.fail_after(5):
            await run_with_retry(
                agent_on(gateway, wire, retries=0),
                "Go.",
                run_kwargs={"model_settings": settings},
                retry=RetryConfig(max_retries=2),
                sleep=sleep,
                event_stream_handler=drain if streamed else None,
            )
    failure = failure_of(failed.value)
    assert len(gateway.requests) == fault.requests
    assert (failure.failure_type, failure.retries) == (fault.type, fault.requests - 1)
    assert all(delay >= (failure.retry_after or 0.0) - 1.0 for delay in slept)
    assert "sk-" not in failure.message
    assert "Oops" not in failure.message


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_run_goes_on_through_a_502_and_a_rate_limit(wire: str, streamed: bool):
    searches = 0

    def search(q: str) -> str:
        nonlocal searches
        searches += 1
        return f"found {q}"

    calls = ToolCalls([ToolCall("search", {"q": "the answer"})], usage=(100, 10))
    script: list[Reply] = [calls, Status(502), rate_limited(ms=200), Text("42", usage=(150, 5))]
    async with Gateway(script) as gateway:
        with anyio.fail_after(5):
            result = await run_with_retry(
                agent_on(gateway, wire, tools=[search]),
                "What is the answer?",
                run_kwargs={},
                retry=RetryConfig(initial_delay=0.0),
                event_stream_handler=drain if streamed else None,
            )
    assert (result.output, searches, len(gateway.requests)) == ("42", 1, 4)
    assert str(gateway.requests[-1].body["messages"]).count("What is the answer?") == 1
    assert gateway.requests[3].at - gateway.requests[2].at >= 0.2
    assert (result.usage.requests, result.usage.tool_calls) == (2, 1)
    assert (result.usage.input_tokens, result.usage.output_tokens) == (250, 15)


@pytest.mark.parametrize("how", ["reset", "close", "clean"])
@pytest.mark.parametrize("instructions", [None, "Be brief."], ids=["without instructions", "with instructions"])
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_half_a_text_never_passes_for_the_answer(wire: str, instructions: str | None, how: Any):
    async with Gateway([CutStream(LONG, how=how), LONG]) as gateway:
        with anyio.fail_after(5):
            result = await run_with_retry(
                agent_on(gateway, wire, instructions=instructions),
                "Go.",
                run_kwargs={},
                retry=RetryConfig(initial_delay=0.0),
                event_stream_handler=drain,
            )
    assert (result.output, len(gateway.requests)) == (LONG.text, 2)
    # The piece is not sent back to the model either.
    assert [message["role"] for message in gateway.requests[1].body["messages"] if message["role"] == "assistant"] == []


@pytest.mark.parametrize("how", ["reset", "close", "clean"])
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_tool_is_not_run_from_a_call_that_was_cut_off(wire: str, how: Any):
    ran: list[int] = []

    def launch(count: int = 1, of: int = 0) -> str:
        ran.append(count)
        return "launched"

    call = ToolCalls([ToolCall("launch", '{"count": 12345}', id="call-1")])
    # All the arguments arrive and parse; only the end of the response is missing.
    async with Gateway([CutStream(call, after_events=-3, how=how), call, Text("Done.")]) as gateway:
        with anyio.fail_after(5):
            result = await run_with_retry(
                agent_on(gateway, wire, tools=[launch]),
                "Go.",
                run_kwargs={},
                retry=RetryConfig(initial_delay=0.0),
                event_stream_handler=drain,
            )
    assert (result.output, ran, len(gateway.requests)) == ("Done.", [12345], 3)


async def test_the_clients_own_retries_are_off_unless_the_caller_asks_for_them():
    async with Gateway([Status(503)] * 6) as gateway:
        agent = agent_on(gateway, "openai", model_settings={"max_retries": 5})
        with pytest.raises(pai.ModelHTTPError), anyio.fail_after(5):
            await run_with_retry(agent, "Go.", run_kwargs={}, retry=RetryConfig(max_retries=0))
        assert len(gateway.requests) == 1
        kwargs = {"model_settings": {"max_retries": 1}}
        with pytest.raises(pai.ModelHTTPError), anyio.fail_after(5):
            await run_with_retry(agent, "Go.", run_kwargs=kwargs, retry=RetryConfig(max_retries=0))
        assert len(gateway.requests) == 3


async def test_a_refused_connection_is_retried_and_told_as_transient():
    slept: list[float] = []

    async def sleep(delay: float) -> None:
        slept.append(delay)

    async with Gateway([]) as gateway:
        url = gateway.url
    provider = OpenAIProvider(base_url=f"{url}/v1", api_key="sk-scripted")
    async with provider.client:
        agent = Agent(OpenAIChatModel("gpt-4o-mini", provider=provider))
        with pytest.raises(pai.ModelConnectionError) as failed, anyio.fail_after(5):
            await run_with_retry(agent, "Go.", run_kwargs={}, retry=RetryConfig(), sleep=sleep)
    assert len(slept) == 3
    failure = failure_of(failed.value)
    assert (failure.failure_type, failure.is_retryable) == (FailureType.TRANSIENT, True)
    assert failure.message == "The connection to the model provider failed (while connecting)."


async def test_events_of_every_attempt_reach_the_handler():
    seen: list[str] = []

    async def handler(ctx: object, events: AsyncIterable[object]) -> None:
        async for event in events:
            seen.append(type(event).__name__)

    async with Gateway([CutStream(LONG), LONG]) as gateway:
        with anyio.fail_after(5):
            await run_with_retry(
                agent_on(gateway, "openai"),
                "Go.",
                run_kwargs={"event_stream_handler": handler},
                retry=RetryConfig(initial_delay=0.0),
            )
    assert seen.count("PartStartEvent") == 2
    assert seen.count("PartEndEvent") == 1


async def test_a_broken_connection_of_the_handler_costs_no_further_request():
    async def handler(ctx: object, events: AsyncIterable[object]) -> None:
        async for _ in events:
            raise ConnectionError("the screen is gone")

    async with Gateway([LONG] * 4) as gateway:
        with pytest.raises(ConnectionError, match="the screen is gone") as failed, anyio.fail_after(5):
            await run_with_retry(
                agent_on(gateway, "openai"),
                "Go.",
                run_kwargs={},
                retry=RetryConfig(initial_delay=0.0),
                event_stream_handler=handler,
            )
    failure = failure_of(failed.value)
    assert (len(gateway.requests), failure.failure_type, failure.is_retryable) == (1, FailureType.TRANSIENT, True)


async def test_a_failure_carries_the_work_done_before_it():
    calls = ToolCalls([ToolCall("search", {})], text="I will look it up.", usage=(100, 10))

    def search() -> str:
        return "found"

    async with Gateway([calls, *[Status(503)] * 4]) as gateway:
        with pytest.raises(pai.ModelHTTPError) as failed, anyio.fail_after(5):
            await run_with_retry(
                agent_on(gateway, "openai", tools=[search]),
                "Go.",
                run_kwargs={},
                retry=RetryConfig(initial_delay=0.0),
            )
    checkpoint = checkpoint_of(failed.value)
    assert checkpoint is not None
    failure = failure_of(failed.value, other_subagents=["writer"])
    assert failure.message == "The model provider is unavailable (HTTP 503, server_error)."
    assert failure.attempted == "1 turn, tools called: search. Last: asking the model, with what search returned."
    assert failure.partial_results == "I will look it up."
    assert failure.alternatives == (
        "Delegate the same task again later.",
        "Give it to another subagent: writer.",
    )
    assert (failure.retries, failure.usage and failure.usage.total_tokens) == (3, 110)
