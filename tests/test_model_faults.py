"""Every fault of a model's gateway, over real HTTP and the real clients of OpenAI and Anthropic."""

import socket
from collections.abc import AsyncIterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from pydantic_ai import Agent
from pydantic_ai import exceptions as pai
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from mcp_subagents import FailureType, IncompleteAnswer, RetryConfig, checkpoint_of, failure_of, run_with_retry
from mcp_subagents.answers import StreamEndedEarly
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

pytestmark = pytest.mark.slow

KEY = "sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z"
LONG = Text("The quick brown fox jumps over the lazy dog.")
AT_ONCE = RetryConfig(initial_delay=0.0)


def leaking(**more: str) -> dict[str, Any]:
    """The body of an error that repeats the key it was sent."""
    return {"error": {"message": f"Incorrect API key provided: {KEY}.", "param": KEY, **more}}


QUOTA_BODY = leaking(type="insufficient_quota", code="insufficient_quota")


@dataclass(frozen=True, kw_only=True)
class By:
    """The exceptions, where they differ: for a whole answer and for a streamed one."""

    openai: tuple[type[Exception], type[Exception]]
    anthropic: tuple[type[Exception], type[Exception]]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One row: what the gateway does, and what becomes of it after two retries."""

    name: str
    reply: Reply
    raises: type[Exception] | By
    failure_type: FailureType
    delays: tuple[float, ...]
    retry_after: float | None = None
    settings: dict[str, float] | None = None

    def exception(self, wire: str, streamed: bool) -> type[Exception]:
        return getattr(self.raises, wire)[streamed] if isinstance(self.raises, By) else self.raises


def transient(name: str, reply: Reply, raises: Any, **more: Any) -> Fault:
    row = Fault(name=name, reply=reply, raises=raises, failure_type=FailureType.TRANSIENT, delays=(1.0, 2.0))
    return replace(row, **more)


def final(name: str, reply: Reply, raises: Any, type: FailureType) -> Fault:
    return Fault(name=name, reply=reply, raises=raises, failure_type=type, delays=())


IMPATIENT = {"timeout": 0.1}
UNREADABLE, ODD = pai.ModelAPIError, pai.UnexpectedModelBehavior

FAULTS = [
    transient(
        "429 with Retry-After in seconds",
        rate_limited(seconds=7),
        pai.ModelRateLimitError,
        delays=(7.0, 7.0),
        retry_after=7.0,
    ),
    transient(
        "429 with retry-after-ms", rate_limited(ms=1500), pai.ModelRateLimitError, delays=(1.5, 2.0), retry_after=1.5
    ),
    transient("429 without a word", Status(429), pai.ModelRateLimitError),
    final(
        "429 that means an empty account",
        Status(429, body=QUOTA_BODY),
        By(
            openai=(pai.ModelQuotaExceededError, pai.ModelQuotaExceededError),
            anthropic=(pai.ModelRateLimitError, pai.ModelRateLimitError),
        ),
        FailureType.PERMANENT,
    ),
    final("no quota", ProviderError("insufficient_quota"), pai.ModelQuotaExceededError, FailureType.PERMANENT),
    final("402", Status(402), pai.ModelQuotaExceededError, FailureType.PERMANENT),
    transient("500", Status(500), pai.ModelServerError),
    transient("500 that repeats the key", Status(500, body=f"no such key: {KEY}"), pai.ModelServerError),
    transient("502", Status(502), pai.ModelServerError),
    transient("502 with the error page of a proxy", Status(502, html=True), pai.ModelServerError),
    transient("504", Status(504), pai.ModelServerError),
    transient("520", Status(520), pai.ModelServerError),
    transient("522", Status(522), pai.ModelServerError),
    transient("524", Status(524), pai.ModelServerError),
    transient("503", Status(503), pai.ModelUnavailableError),
    transient(
        "503 with Retry-After",
        Status(503, {"retry-after": "5"}),
        pai.ModelUnavailableError,
        delays=(5.0, 5.0),
        retry_after=5.0,
    ),
    transient("529", Status(529), pai.ModelOverloadedError),
    transient("408", Status(408), pai.ModelHTTPError),
    transient("409", Status(409), pai.ModelHTTPError),
    transient("425", Status(425), pai.ModelHTTPError),
    final("501", Status(501), pai.ModelServerError, FailureType.PERMANENT),
    final("413", Status(413), pai.ModelHTTPError, FailureType.VALIDATION),
    final(
        "413 without a word", Status(413, body="Request Entity Too Large"), pai.ModelHTTPError, FailureType.VALIDATION
    ),
    final("499", Status(499), pai.ModelHTTPError, FailureType.VALIDATION),
    final(
        "503, do not retry", Status(503, {"x-should-retry": "false"}), pai.ModelUnavailableError, FailureType.PERMANENT
    ),
    final("400", Status(400), pai.ModelRequestRejectedError, FailureType.VALIDATION),
    final(
        "400 that repeats the key",
        Status(400, body=leaking(type="invalid_request_error", code=KEY)),
        pai.ModelRequestRejectedError,
        FailureType.VALIDATION,
    ),
    final("422", Status(422), pai.ModelRequestRejectedError, FailureType.VALIDATION),
    final(
        "too long a context",
        ProviderError("context_length_exceeded"),
        pai.ModelContextWindowExceededError,
        FailureType.VALIDATION,
    ),
    final("401", ProviderError("invalid_api_key"), pai.ModelAuthenticationError, FailureType.PERMANENT),
    final(
        "401 that repeats the key",
        Status(401, body=leaking(type=KEY, code=KEY)),
        pai.ModelAuthenticationError,
        FailureType.PERMANENT,
    ),
    final("403", Status(403), pai.ModelAuthenticationError, FailureType.PERMANENT),
    final("404", Status(404), pai.ModelNotFoundError, FailureType.PERMANENT),
    transient("reset before a byte", Reset(), pai.ModelConnectionError),
    transient("closed before a byte", CloseEarly(), pai.ModelConnectionError),
    transient("reset in the body", CutBody(), pai.ModelConnectionError),
    transient("closed in the body", CutBody(how="close"), pai.ModelConnectionError),
    transient("no answer", Hang(), pai.ModelTimeoutError, settings=IMPATIENT),
    transient("silence in the body", CutBody(how="hang"), pai.ModelTimeoutError, settings=IMPATIENT),
    transient(
        "no answer within request_timeout",
        Hang(),
        pai.ModelRequestTimeout,
        failure_type=FailureType.TIMEOUT,
        settings={"request_timeout": 0.5},
    ),
    transient(
        "an answer that drips",
        Drip("The quick brown fox", 0.1),
        pai.ModelRequestTimeout,
        failure_type=FailureType.TIMEOUT,
        settings={"request_timeout": 0.5},
    ),
    transient(
        "broken JSON",
        Raw(f'{{"id": "{KEY}", "cho'.encode()),
        By(openai=(UNREADABLE, ODD), anthropic=(UNREADABLE, ODD)),
    ),
    transient("an empty body", Raw(b""), By(openai=(UNREADABLE, ODD), anthropic=(UNREADABLE, ODD))),
    transient("an empty stream", Raw(b"", "text/event-stream"), By(openai=(ODD, ODD), anthropic=(UNREADABLE, ODD))),
    transient(
        "an error page with status 200",
        Raw(f"<html>{KEY}</html>".encode(), "text/html"),
        By(openai=(ODD, ODD), anthropic=(UNREADABLE, ODD)),
    ),
    transient(
        "an error object with status 200",
        Raw(f'{{"error": {{"message": "{KEY}"}}}}'.encode()),
        By(openai=(ODD, ODD), anthropic=(TypeError, ODD)),
    ),
    transient(
        "no choices",
        Raw(b'{"id": "1", "object": "chat.completion", "choices": []}'),
        By(openai=(ODD, ODD), anthropic=(TypeError, ODD)),
    ),
    transient(
        "broken events",
        Raw(f"data: {{{KEY}\n\n".encode(), "text/event-stream"),
        By(openai=(ODD, UNREADABLE), anthropic=(UNREADABLE, ODD)),
    ),
    transient("a stream reset in the text", CutStream(LONG), pai.ModelConnectionError),
    transient("a stream closed in the text", CutStream(LONG, how="close"), pai.ModelConnectionError),
    transient(
        "a stream ended in good order in the text",
        CutStream(LONG, how="clean"),
        By(openai=(UNREADABLE, StreamEndedEarly), anthropic=(UNREADABLE, StreamEndedEarly)),
    ),
    transient("overloaded in mid-stream", StreamError("overloaded_error"), pai.ModelOverloadedError),
    transient(
        "a server error in mid-stream",
        StreamError("server_error"),
        By(
            openai=(pai.ModelServerError, pai.ModelServerError),
            anthropic=(pai.ModelServerError, pai.ModelAPIError),
        ),
    ),
    transient("a rate limit in mid-stream", StreamError("rate_limit_error"), pai.ModelRateLimitError),
    final(
        "rejected in mid-stream",
        StreamError("invalid_request_error"),
        By(
            openai=(pai.ModelRequestRejectedError, pai.ModelAPIError),
            anthropic=(pai.ModelRequestRejectedError, pai.ModelRequestRejectedError),
        ),
        FailureType.VALIDATION,
    ),
    final("cut off by max_tokens", Text("The quick", finish="length"), IncompleteAnswer, FailureType.LIMIT),
    final("cut off by a filter", Text("The quick", finish="content_filter"), IncompleteAnswer, FailureType.VALIDATION),
    final("blank", Text(" \n"), IncompleteAnswer, FailureType.VALIDATION),
]

each_wire = pytest.mark.parametrize("wire", ["openai", "anthropic"])
streamed_or_not = pytest.mark.parametrize(
    "streamed", [pytest.param(False, id="whole"), pytest.param(True, id="streamed", marks=pytest.mark.slow)]
)


async def drain(ctx: object, events: AsyncIterable[object]) -> None:
    async for _ in events:
        pass


def agent_on(gateway: Gateway, wire: str, **options: Any) -> Agent[None, str]:
    # Where it is called matters: making the first model imports its client, which takes its time.
    return Agent(gateway.openai_model() if wire == "openai" else gateway.anthropic_model(), **options)


async def run(agent: Agent[None, str], prompt: str = "Go.", *, streamed: bool = False, **more: Any) -> Any:
    handler = drain if streamed else None
    options: dict[str, Any] = {"run_kwargs": {}, "retry": AT_ONCE, "event_stream_handler": handler, **more}
    with anyio.fail_after(5):
        return await run_with_retry(agent, prompt, **options)


class Naps:
    """A `sleep` that takes no time and remembers what it was asked for."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    async def __call__(self, delay: float) -> None:
        self.delays.append(delay)


@streamed_or_not
@each_wire
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_each_fault_costs_the_right_number_of_requests_and_is_told_for_what_it_is(
    fault: Fault, wire: str, streamed: bool
):
    naps = Naps()
    policy = RetryConfig(max_retries=2, jitter=False)
    async with Gateway([fault.reply] * 3) as gateway:
        agent = agent_on(gateway, wire, retries=0)
        # With a small `max_tokens`, Anthropic's client really does not stream unless it is told to.
        kwargs = {"model_settings": {"max_tokens": 1000, **(fault.settings or {})}}
        expected = fault.exception(wire, streamed)
        with pytest.raises(expected) as failed:
            await run(agent, streamed=streamed, run_kwargs=kwargs, retry=policy, sleep=naps)
    # By its name, since pydantic-ai's classes for errors with a status are its own.
    assert type(failed.value).__name__ == expected.__name__
    failure = failure_of(failed.value)
    assert (failure.failure_type, failure.retries) == (fault.failure_type, len(fault.delays))
    assert (tuple(naps.delays), failure.retry_after) == (fault.delays, fault.retry_after)
    assert len(gateway.requests) == 1 + len(fault.delays)
    assert KEY[8:] not in repr(failure)


@streamed_or_not
@each_wire
async def test_a_rate_limit_until_a_date_is_waited_for(wire: str, streamed: bool):
    naps = Naps()

    def until_then(request: object) -> Reply:
        return LONG if naps.delays else rate_limited(until=datetime.now(UTC) + timedelta(minutes=9))

    async with Gateway(until_then) as gateway:
        agent = agent_on(gateway, wire)
        await run(agent, streamed=streamed, sleep=naps)
    [delay] = naps.delays
    # A date has whole seconds, and the run takes five at most.
    assert 534.0 <= delay <= 540.0


@streamed_or_not
@each_wire
async def test_a_run_goes_on_through_a_502_and_a_rate_limit(wire: str, streamed: bool):
    searches = 0

    def search(q: str) -> str:
        nonlocal searches
        searches += 1
        return f"found {q}"

    calls = ToolCalls([ToolCall("search", {"q": "the answer"})], usage=(100, 10))
    script: list[Reply] = [calls, Status(502), rate_limited(ms=200), Text("42", usage=(150, 5))]
    async with Gateway(script) as gateway:
        result = await run(agent_on(gateway, wire, tools=[search]), "What is the answer?", streamed=streamed)
    assert (result.output, searches, len(gateway.requests)) == ("42", 1, 4)
    assert str(gateway.requests[-1].body["messages"]).count("What is the answer?") == 1
    assert gateway.requests[3].at - gateway.requests[2].at >= 0.2
    assert (result.usage.requests, result.usage.tool_calls) == (2, 1)
    assert (result.usage.input_tokens, result.usage.output_tokens) == (250, 15)


@pytest.mark.parametrize("how", ["reset", "close", "clean"])
@pytest.mark.parametrize("instructions", [None, "Be brief."], ids=["without instructions", "with instructions"])
@each_wire
async def test_half_a_text_never_passes_for_the_answer(wire: str, instructions: str | None, how: Any):
    async with Gateway([CutStream(LONG, how=how), LONG]) as gateway:
        result = await run(agent_on(gateway, wire, instructions=instructions), streamed=True)
    assert (result.output, len(gateway.requests)) == (LONG.text, 2)
    # The piece is not sent back to the model either.
    assert [message["role"] for message in gateway.requests[1].body["messages"] if message["role"] == "assistant"] == []


@pytest.mark.parametrize("how", ["reset", "close", "clean"])
@pytest.mark.parametrize(
    ("wire", "after_events"),
    [
        # The call without its arguments, which parse as none; some of them, which do not; all but the white space
        # at their end, which do; all of them.
        *(("openai", number) for number in range(2, 8)),
        *(("anthropic", number) for number in range(2, 8)),
        # And the end of the call, but not of the response.
        ("anthropic", 8),
    ],
)
async def test_a_tool_is_not_run_from_a_call_that_was_cut_off(wire: str, after_events: int, how: Any):
    ran: list[int] = []

    def launch(count: int = 1, of: int = 0) -> str:
        ran.append(count)
        return "launched"

    call = ToolCalls([ToolCall("launch", '{"count": 12345}    ', id="call-1")])
    async with Gateway([CutStream(call, after_events=after_events, how=how), call, Text("Done.")]) as gateway:
        result = await run(agent_on(gateway, wire, tools=[launch]), streamed=True)
    assert (result.output, ran, len(gateway.requests)) == ("Done.", [12345], 3)


async def test_the_clients_own_retries_are_off_unless_the_caller_asks_for_them():
    never = RetryConfig(max_retries=0)
    async with Gateway([Status(503)] * 6) as gateway:
        agent = agent_on(gateway, "openai", model_settings={"max_retries": 5})
        with pytest.raises(pai.ModelHTTPError):
            await run(agent, retry=never)
        assert len(gateway.requests) == 1
        with pytest.raises(pai.ModelHTTPError):
            await run(agent, retry=never, run_kwargs={"model_settings": {"max_retries": 1}})
        assert len(gateway.requests) == 3


async def test_a_refused_connection_is_retried_and_told_as_transient():
    naps = Naps()
    # Bound, so that nobody else gets the port, but deaf.
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        provider = OpenAIProvider(base_url=f"http://127.0.0.1:{deaf.getsockname()[1]}/v1", api_key="sk-scripted")
        async with provider.client:
            agent = Agent(OpenAIChatModel("gpt-4o-mini", provider=provider))
            with pytest.raises(pai.ModelConnectionError) as failed:
                await run(agent, retry=RetryConfig(jitter=False), sleep=naps)
    assert naps.delays == [1.0, 2.0, 4.0]
    failure = failure_of(failed.value)
    assert (failure.failure_type, failure.is_retryable) == (FailureType.TRANSIENT, True)
    assert failure.message == "The connection to the model provider failed (while connecting)."


async def test_events_of_every_attempt_reach_the_handler():
    seen: list[str] = []

    async def handler(ctx: object, events: AsyncIterable[object]) -> None:
        async for event in events:
            seen.append(type(event).__name__)

    async with Gateway([CutStream(LONG), LONG]) as gateway:
        await run(agent_on(gateway, "openai"), run_kwargs={"event_stream_handler": handler})
    assert seen.count("PartStartEvent") == 2
    assert seen.count("PartEndEvent") == 1


async def test_a_broken_connection_of_the_handler_costs_no_further_request():
    async def handler(ctx: object, events: AsyncIterable[object]) -> None:
        async for _ in events:
            raise ConnectionError("the screen is gone")

    async with Gateway([LONG] * 4) as gateway:
        agent = agent_on(gateway, "openai")
        with pytest.raises(ConnectionError, match="the screen is gone") as failed:
            await run(agent, event_stream_handler=handler)
    failure = failure_of(failed.value)
    assert (len(gateway.requests), failure.failure_type, failure.is_retryable) == (1, FailureType.TRANSIENT, True)


async def test_a_failure_carries_the_work_done_before_it():
    calls = ToolCalls([ToolCall("search", {})], text="I will look it up.", usage=(100, 10))

    def search() -> str:
        return "found"

    async with Gateway([calls, *[Status(503)] * 4]) as gateway:
        agent = agent_on(gateway, "openai", tools=[search])
        with pytest.raises(pai.ModelHTTPError) as failed:
            await run(agent)
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


@streamed_or_not
@each_wire
async def test_an_error_of_a_client_that_a_tool_uses_is_told_without_its_words(wire: str, streamed: bool):
    """As raised by the real clients, when somebody uses them without pydantic-ai."""
    body = leaking(type="invalid_request_error", code="invalid_api_key")
    async with Gateway([ToolCalls([ToolCall("ask", {})]), Status(401, body=body)]) as gateway:
        client: Any = (gateway.openai_model() if wire == "openai" else gateway.anthropic_model()).client
        talk: list[Any] = [{"role": "user", "content": "Go."}]

        async def ask() -> str:
            create = client.chat.completions.create if wire == "openai" else client.messages.create
            return str(await create(model="m", messages=talk, max_tokens=10))

        agent = agent_on(gateway, wire, tools=[ask])
        with pytest.raises(Exception, match=KEY) as failed:
            await run(agent, streamed=streamed)
    failure = failure_of(failed.value)
    assert (failure.failure_type, failure.is_retryable) == (FailureType.PERMANENT, False)
    assert failure.message == (
        f"A service that the subagent uses refused the credentials it was given (HTTP 401, {wire}.AuthenticationError)."
    )
    assert len(gateway.requests) == 2
