import json
import socket
import sys
from collections.abc import AsyncIterable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream
from pydantic_ai import Agent, AgentRunResult, AgentStreamEvent, RunContext
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ModelResponse, PartDeltaEvent, PartStartEvent, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from mcp_subagents.testing import (
    CloseEarly,
    CutBody,
    CutStream,
    Drip,
    Gateway,
    Hang,
    ProviderError,
    Raw,
    Received,
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

FOX = Text("The quick brown fox jumps over the lazy dog.")

on_both_wires = pytest.mark.parametrize("wire", ["openai", "anthropic"])
streamed_or_not = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def model_on(gateway: Gateway, wire: str) -> Model[Any]:
    return gateway.openai_model() if wire == "openai" else gateway.anthropic_model()


async def ask(
    gateway: Gateway,
    wire: str,
    *,
    stream: bool,
    tools: Sequence[Callable[..., object]] = (),
    settings: ModelSettings | None = None,
    pieces: list[AgentStreamEvent] | None = None,
) -> AgentRunResult[str]:
    # With a small `max_tokens` the Anthropic model streams only when it is told to.
    defaults = ModelSettings(max_retries=0, max_tokens=1000)
    agent = Agent(model_on(gateway, wire), tools=tools, model_settings=defaults, retries=1)

    async def watch(_: RunContext[object], events: AsyncIterable[AgentStreamEvent]) -> None:
        async for event in events:
            if pieces is not None and isinstance(event, PartStartEvent | PartDeltaEvent):
                pieces.append(event)

    with anyio.fail_after(5):
        return await agent.run("Hi", model_settings=settings, event_stream_handler=watch if stream else None)


async def failure_of(reply: Reply, wire: str, *, stream: bool, settings: ModelSettings | None = None) -> Exception:
    async with Gateway([reply]) as gateway:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the caller looks at it
            await ask(gateway, wire, stream=stream, settings=settings)
        assert len(gateway.requests) == 1
    return caught.value


async def connect(gateway: Gateway) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", int(gateway.url.rpartition(":")[2]))


def request(body: object, path: str = "/v1/chat/completions") -> bytes:
    content = json.dumps(body).encode()
    return b"POST %b HTTP/1.1\r\nhost: here\r\ncontent-length: %d\r\n\r\n%b" % (path.encode(), len(content), content)


async def read_until(stream: SocketStream, mark: bytes) -> bytes:
    answer = b""
    while mark not in answer:
        answer += await stream.receive()
    return answer


@on_both_wires
@streamed_or_not
async def test_a_text_arrives_with_its_usage_and_finish_reason(wire: str, stream: bool):
    async with Gateway([Text("Forty-two.", usage=(11, 5))]) as gateway:
        result = await ask(gateway, wire, stream=stream)

    assert (result.output, result.response.finish_reason) == ("Forty-two.", "stop")
    assert (result.usage.input_tokens, result.usage.output_tokens) == (11, 5)
    [received] = gateway.requests
    assert (received.wire, received.stream) == (wire, stream)
    assert received.body["messages"][-1]["role"] == "user"
    assert received.headers["content-type"] == "application/json"


@on_both_wires
async def test_a_streamed_text_comes_in_several_pieces(wire: str):
    pieces: list[AgentStreamEvent] = []
    async with Gateway([FOX]) as gateway:
        result = await ask(gateway, wire, stream=True, pieces=pieces)

    assert result.output == FOX.text
    assert len(pieces) == len(FOX.text) / 4


@on_both_wires
async def test_a_drip_comes_one_character_at_a_time(wire: str):
    pieces: list[AgentStreamEvent] = []
    async with Gateway([Drip("drop", 0.001)]) as gateway:
        result = await ask(gateway, wire, stream=True, pieces=pieces)

    assert (result.output, len(pieces)) == ("drop", 4)


@on_both_wires
async def test_a_drip_that_is_not_streamed_comes_at_once_in_the_end(wire: str):
    async with Gateway([Drip("drop", 0.001)]) as gateway:
        result = await ask(gateway, wire, stream=False)

    assert result.output == "drop"


@on_both_wires
@streamed_or_not
async def test_tool_calls_are_run_and_their_results_come_back(wire: str, stream: bool):
    seen: list[tuple[int, int]] = []

    def add(a: int, b: int) -> int:
        seen.append((a, b))
        return a + b

    calls = ToolCalls([ToolCall("add", {"a": 1, "b": 2}), ToolCall("add", {"a": 30, "b": 40}, id="mine")], "Adding.")
    async with Gateway([calls, Text("Done.")]) as gateway:
        result = await ask(gateway, wire, stream=stream, tools=[add])

    assert (result.output, sorted(seen)) == ("Done.", [(1, 2), (30, 40)])
    [answer, _] = [message for message in result.all_messages() if isinstance(message, ModelResponse)]
    assert (answer.text, answer.finish_reason) == ("Adding.", "tool_call")
    first, second = [part.tool_call_id for part in answer.parts if isinstance(part, ToolCallPart)]
    assert first.startswith("call_" if wire == "openai" else "toolu_")
    assert second == "mine"
    assert "mine" in json.dumps(gateway.requests[1].body)


@on_both_wires
@streamed_or_not
async def test_a_call_without_an_id_gets_a_fresh_one_in_each_reply(wire: str, stream: bool):
    again = ToolCalls([ToolCall("ping")])
    async with Gateway([again, again, Text("Done.")]) as gateway:
        result = await ask(gateway, wire, stream=stream, tools=[ping])

    answers = [message for message in result.all_messages() if isinstance(message, ModelResponse)]
    ids = {part.tool_call_id for answer in answers for part in answer.parts if isinstance(part, ToolCallPart)}
    assert len(ids) == 2


def ping() -> str:
    return "pong"


@on_both_wires
@streamed_or_not
async def test_broken_arguments_reach_the_agent_as_they_are(wire: str, stream: bool):
    async with Gateway([ToolCalls([ToolCall("ping", '{"a": ')]), Text("Sorry.")]) as gateway:
        result = await ask(gateway, wire, stream=stream, tools=[ping])

    assert result.output == "Sorry."
    [call] = [part for part in result.all_messages()[1].parts if isinstance(part, ToolCallPart)]
    assert call.args == '{"a": '


@on_both_wires
@streamed_or_not
async def test_an_empty_text_makes_the_agent_ask_again(wire: str, stream: bool):
    async with Gateway([Text(""), Text("Here.")]) as gateway:
        result = await ask(gateway, wire, stream=stream)

    assert (result.output, len(gateway.requests)) == ("Here.", 2)


@on_both_wires
@streamed_or_not
async def test_a_cut_off_answer_says_so_in_its_finish_reason(wire: str, stream: bool):
    async with Gateway([Text("The quick", finish="length")]) as gateway:
        result = await ask(gateway, wire, stream=stream)

    assert (result.output, result.response.finish_reason) == ("The quick", "length")


@on_both_wires
@streamed_or_not
async def test_a_filtered_answer_is_a_content_filter_error(wire: str, stream: bool):
    failure = await failure_of(Text("", finish="content_filter"), wire, stream=stream)

    assert isinstance(failure, ContentFilterError)


@on_both_wires
@streamed_or_not
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Status(401), ModelAuthenticationError),
        (Status(404), ModelNotFoundError),
        (Status(418), ModelHTTPError),
        (Status(429), ModelRateLimitError),
        (Status(500), ModelServerError),
        (Status(502, html=True), ModelServerError),
        (Status(502, body="<h1>Bad gateway</h1>", html=True), ModelServerError),
        (Status(503, body="busy"), ModelUnavailableError),
        (Status(503, body={"error": {"message": "busy"}}), ModelUnavailableError),
        (Status(520), ModelServerError),
        (Status(529), ModelOverloadedError),
        (ProviderError("insufficient_quota"), ModelQuotaExceededError),
        (ProviderError("context_length_exceeded"), ModelContextWindowExceededError),
        (ProviderError("invalid_api_key"), ModelAuthenticationError),
    ],
)
async def test_an_error_status_is_understood_by_the_client(
    reply: Reply, expected: type[ModelHTTPError], wire: str, stream: bool
):
    failure = await failure_of(reply, wire, stream=stream)

    assert isinstance(failure, expected)
    assert isinstance(failure, ModelHTTPError)
    if isinstance(reply, Status):
        assert failure.status_code == reply.code


@on_both_wires
@pytest.mark.parametrize(
    ("reply", "least", "most"),
    [
        pytest.param(rate_limited(seconds=7), 7, 7, id="seconds"),
        pytest.param(rate_limited(seconds=1_000_001), 1_000_001, 1_000_001, id="many seconds"),
        pytest.param(rate_limited(ms=300), 0.3, 0.3, id="milliseconds"),
        pytest.param(rate_limited(until=datetime.now(UTC) + timedelta(hours=9)), 8 * 3600, 9 * 3600, id="a date"),
    ],
)
async def test_a_rate_limit_says_how_long_to_wait(reply: Reply, least: float, most: float, wire: str):
    failure = await failure_of(reply, wire, stream=False)

    assert isinstance(failure, ModelRateLimitError)
    assert failure.retry_after is not None
    assert least <= failure.retry_after <= most


def test_a_rate_limit_counts_whole_seconds_only():
    with pytest.raises(TypeError, match="integer"):
        rate_limited(seconds=1.5)  # pyright: ignore[reportArgumentType]  # the point of the test


@on_both_wires
@streamed_or_not
@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (Reset(), "ReadError"),
        (CloseEarly(), "RemoteProtocolError"),
        (CutBody(how="reset"), "ReadError"),
        (CutBody(how="close"), "RemoteProtocolError"),
        (CutStream(how="reset"), "ReadError"),
        (CutStream(how="close"), "RemoteProtocolError"),
        (CutStream(ToolCalls([ToolCall("ping", {"a": "b" * 40})]), how="reset"), "ReadError"),
    ],
)
async def test_a_lost_connection_is_a_connection_error(reply: Reply, cause: str, wire: str, stream: bool):
    failure = await failure_of(reply, wire, stream=stream)

    assert isinstance(failure, ModelConnectionError)
    assert failure.phase == "read"
    assert cause in causes(failure)


def causes(error: BaseException | None) -> list[str]:
    return [] if error is None else [type(error).__name__, *causes(error.__cause__)]


@on_both_wires
@streamed_or_not
@pytest.mark.parametrize("reply", [Hang(), CutBody(how="hang"), CutStream(how="hang")])
async def test_silence_is_a_timeout(reply: Reply, wire: str, stream: bool):
    failure = await failure_of(reply, wire, stream=stream, settings={"timeout": 0.1})

    assert isinstance(failure, ModelTimeoutError)


@on_both_wires
async def test_a_stream_cut_cleanly_looks_like_a_short_answer_without_a_raw_finish_reason(wire: str):
    async with Gateway([CutStream(FOX, how="clean"), FOX]) as gateway:
        cut = await ask(gateway, wire, stream=True)
        whole = await ask(gateway, wire, stream=True)

    assert FOX.text.startswith(cut.output)
    assert len(cut.output) < len(whole.output)
    assert "finish_reason" not in (cut.response.provider_details or {})
    assert "finish_reason" in (whole.response.provider_details or {})


@on_both_wires
async def test_a_negative_cut_counts_events_from_the_end(wire: str):
    async with Gateway([CutStream(FOX, -1, "clean")]) as gateway:
        result = await ask(gateway, wire, stream=True)

    assert (result.output, result.response.finish_reason) == (FOX.text, "stop")


@on_both_wires
async def test_a_clean_cut_that_is_not_streamed_is_half_a_json(wire: str):
    failure = await failure_of(CutStream(how="clean"), wire, stream=False)

    assert isinstance(failure, ModelAPIError)


@on_both_wires
@pytest.mark.parametrize(
    ("error_type", "status", "expected"),
    [("overloaded_error", 529, ModelOverloadedError), ("rate_limit_error", 429, ModelRateLimitError)],
)
async def test_an_error_inside_a_stream_is_the_status_of_its_type_when_not_streamed(
    error_type: str, status: int, expected: type[ModelAPIError], wire: str
):
    inside = await failure_of(StreamError(error_type), wire, stream=True)
    before = await failure_of(StreamError(error_type), wire, stream=False)

    assert isinstance(inside, expected)
    assert inside.in_stream
    assert isinstance(before, expected)
    assert isinstance(before, ModelHTTPError)
    assert (before.in_stream, before.status_code) == (False, status)


@on_both_wires
@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(Raw(b'{"id": "chat'), id="truncated JSON"),
        pytest.param(Raw(b""), id="empty"),
        pytest.param(Raw(b"<html></html>", "text/html"), id="html"),
    ],
)
async def test_a_200_that_is_no_answer_is_not_taken_for_one(raw: Raw, wire: str):
    failure = await failure_of(raw, wire, stream=False)

    assert isinstance(failure, ModelAPIError | UnexpectedModelBehavior)


@on_both_wires
async def test_several_requests_share_a_connection(wire: str):
    script = [ToolCalls([ToolCall("ping")]), ToolCalls([ToolCall("ping")]), Text("Done.")]
    async with Gateway(script) as gateway:
        await ask(gateway, wire, stream=True, tools=[ping])

    assert (len(gateway.requests), gateway.connections) == (3, 1)
    assert gateway.requests[0].at <= gateway.requests[1].at <= gateway.requests[2].at


@on_both_wires
async def test_the_clients_own_retries_are_left_to_the_caller(wire: str):
    impatient = Status(503, {"retry-after-ms": "1"})
    async with Gateway([impatient, Text("Here.")]) as gateway:
        result = await ask(gateway, wire, stream=False, settings={"max_retries": 1})

    assert (result.output, len(gateway.requests)) == ("Here.", 2)


async def test_a_used_up_script_fails_at_once_and_is_remembered():
    async with Gateway([]) as gateway:
        with pytest.raises(ModelServerError, match="script used up") as caught:
            await ask(gateway, "openai", stream=False, settings={"max_retries": 2})

    assert isinstance(caught.value, ModelHTTPError)
    assert caught.value.status_code == 500
    assert gateway.unscripted == gateway.requests
    assert len(gateway.requests) == 1


async def test_a_function_can_choose_the_reply():
    def by_wire(received: Received) -> Reply:
        return Text(f"Hello, {received.wire}.")

    async with Gateway(by_wire) as gateway:
        outputs = [(await ask(gateway, wire, stream=False)).output for wire in ("openai", "anthropic")]

    assert outputs == ["Hello, openai.", "Hello, anthropic."]
    assert gateway.unscripted == []


async def test_the_blocks_own_error_leaves_it_unwrapped():
    with pytest.raises(KeyError):
        async with Gateway([]):
            raise KeyError


@pytest.mark.parametrize("reply", [CutStream(Text("Hi"), 99), CutBody(Text("Hi"), 9999)])
async def test_a_cut_that_does_not_fit_its_reply_ends_the_block(reply: Reply):
    with anyio.fail_after(5), pytest.raises(ExceptionGroup) as caught:
        async with Gateway([reply]) as gateway:
            await ask(gateway, "openai", stream=True)

    assert caught.group_contains(ValueError, match="cannot be cut after")


async def test_usage_comes_in_a_stream_only_if_it_was_asked_for():
    async with Gateway([Text("Hi"), Text("Hi")]) as gateway, await connect(gateway) as stream:
        with anyio.fail_after(5):
            await stream.send(request({"model": "m", "stream": True}))
            without = await read_until(stream, b"0\r\n\r\n")
            await stream.send(request({"model": "m", "stream": True, "stream_options": {"include_usage": True}}))
            with_usage = await read_until(stream, b"0\r\n\r\n")

    assert b'"usage"' not in without
    assert b'"usage"' in with_usage


async def test_a_chunked_request_is_read_whole():
    content = json.dumps({"model": "m"}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (content[:4], content[4:]))
    async with Gateway([Text("Hi")]) as gateway, await connect(gateway) as stream:
        with anyio.fail_after(5):
            await stream.send(head + chunks + b"0\r\n\r\n")
            await read_until(stream, b'"Hi"')

    assert gateway.requests[0].body == {"model": "m"}


async def test_another_path_is_not_found_and_costs_no_reply():
    async with Gateway([Text("Hi")]) as gateway, await connect(gateway) as stream:
        with anyio.fail_after(5):
            await stream.send(request({}, "/v1/responses"))
            refusal = await read_until(stream, b"not /v1/responses.")
            await stream.send(request({"model": "m"}))
            await read_until(stream, b'"Hi"')

    assert refusal.startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert len(gateway.requests) == 1


async def test_a_hanging_request_is_let_go_when_the_client_leaves():
    async with Gateway([Hang()]) as gateway, await connect(gateway) as stream:
        with anyio.fail_after(5):
            await stream.send(request({"model": "m"}))
            await stream.send_eof()
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()


async def test_nothing_is_left_of_a_gateway_after_its_block():
    arrived = anyio.Event()

    def hang(_: Received) -> Reply:
        arrived.set()
        return Hang()

    before = {task.id for task in anyio.get_running_tasks()}
    with anyio.fail_after(5):
        async with Gateway(hang) as gateway:
            stream = await connect(gateway)
            await stream.send(request({"model": "m"}))
            await arrived.wait()
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()
        await stream.aclose()

    assert {task.id for task in anyio.get_running_tasks()} == before
    with pytest.raises(OSError, match="refused"), socket.socket() as probe:
        probe.connect(("127.0.0.1", int(gateway.url.rpartition(":")[2])))


async def test_importing_the_testing_tools_imports_no_provider():
    code = "import sys, mcp_subagents.testing; sys.exit(bool({'openai', 'anthropic'} & sys.modules.keys()))"
    await anyio.run_process([sys.executable, "-c", code])
