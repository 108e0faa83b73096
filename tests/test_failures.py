"""From an exception to a `TaskFailure`: every kind, compared as a whole, and no secret in any of them."""

import asyncio
from dataclasses import replace
from decimal import Decimal
from typing import Any

import httpx2
import openai
import pytest
from pydantic import BaseModel, ValidationError
from pydantic_ai import exceptions as pai
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RunUsage

from mcp_subagents import (
    Checkpoint,
    ConfigError,
    FailureType,
    IncompleteAnswer,
    TaskFailure,
    TaskUsage,
    failure_of,
)
from mcp_subagents.answers import StreamEndedEarly
from mcp_subagents.failures import run_usage, task_usage
from mcp_subagents.history import attach_checkpoint

SECRET = "sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z"
BODY = {"error": {"message": f"Incorrect API key provided: {SECRET}", "code": SECRET, "type": SECRET}}
LATER = "Delegate the same task again later."
FUTILE = "Trying again will not help: go on without this result, or tell the user what failed."
OTHERWISE = "Put the task differently: simpler, and more specific."
LESS = "Ask for a smaller piece of the work, or allow more time."
CHANGE = "Change the task; unchanged, it will be rejected again."

HISTORY: list[ModelMessage] = [
    ModelRequest(parts=[UserPromptPart(f"My key is {SECRET}.")]),
    ModelResponse(parts=[TextPart(f"Your key {SECRET} works."), ToolCallPart(SECRET, {"key": SECRET}, "call-1")]),
    ModelRequest(parts=[ToolReturnPart(SECRET, f"token {SECRET}", "call-1")]),
    ModelResponse(parts=[TextPart(f"half of {SECRET}")], state="interrupted"),
]
USAGE = RunUsage(requests=2, tool_calls=1, input_tokens=30, output_tokens=4, cost=Decimal("0.01"))


class Order(BaseModel):
    number: int


def invalid_data() -> ValidationError:
    with pytest.raises(ValidationError) as refused:
        Order.model_validate({"number": SECRET})
    return refused.value


def http(status: int, category: Any = None, **more: Any) -> pai.ModelHTTPError:
    return pai.ModelHTTPError.for_category(
        category,
        status_code=status,
        model_name=SECRET,
        body=BODY,
        provider_error_code=SECRET,
        provider_error_type=SECRET,
        hint=SECRET,
        **more,
    )


def raw_client_error() -> openai.AuthenticationError:
    response = httpx2.Response(401, request=httpx2.Request("POST", f"https://{SECRET}@example.com"))
    return openai.AuthenticationError(f"Incorrect API key provided: {SECRET}", response=response, body=BODY)


def told(name: str, exc: BaseException, type: FailureType, message: str, remedy: str, **more: Any) -> Any:
    """One row: an exception after a turn with a tool, and all that is told of it."""
    also: tuple[str, ...] = more.pop("also", ())
    expected = TaskFailure(
        failure_type=type,
        is_retryable=False,
        message=message,
        attempted="1 turn, tools called: [redacted]. Last: asking the model, with what [redacted] returned.",
        partial_results="Your key [redacted] works.",
        alternatives=(remedy, *also, "Give it to another subagent: writer, librarian."),
        retries=2,
        usage=TaskUsage(requests=2, tool_calls=1, input_tokens=30, output_tokens=4, cost_usd=Decimal("0.01")),
    )
    return pytest.param(exc, replace(expected, **more), id=name)


ROWS = [
    told(
        "a rate limit",
        http(429, pai.ModelRateLimitError, retry_after=30.0),
        FailureType.TRANSIENT,
        "The model provider's rate limit was reached (HTTP 429).",
        LATER,
        is_retryable=True,
        retry_after=30.0,
        also=("Wait 30 seconds or more before that: the provider asked for it.",),
    ),
    told(
        "an empty account",
        http(429, pai.ModelQuotaExceededError),
        FailureType.PERMANENT,
        "The account with the model provider has no quota or credit left (HTTP 429).",
        "Tell the user to top up the account with the model provider, or to raise its spending limit.",
    ),
    told(
        "too long a context",
        http(400, pai.ModelContextWindowExceededError),
        FailureType.VALIDATION,
        "The task has outgrown the context window of '[redacted]' (HTTP 400).",
        "Split the task, or give less input; or use a model with a larger context window.",
    ),
    told(
        "wrong credentials",
        http(401, pai.ModelAuthenticationError),
        FailureType.PERMANENT,
        "The model provider refused the credentials for '[redacted]' (HTTP 401).",
        "Tell the user to check the provider's API key and its rights.",
    ),
    told(
        "an unknown model",
        http(404, pai.ModelNotFoundError, suggested_model_id=SECRET),
        FailureType.PERMANENT,
        "The model provider does not know the model '[redacted]' (HTTP 404).",
        "Tell the user to correct the model's name or the provider's address.",
    ),
    told(
        "a rejected request",
        http(422, pai.ModelRequestRejectedError),
        FailureType.VALIDATION,
        "The model provider rejected the request to '[redacted]' (HTTP 422).",
        CHANGE,
    ),
    told(
        "a lost connection",
        pai.ModelConnectionError(SECRET, SECRET, phase="read"),
        FailureType.TRANSIENT,
        "The connection to the model provider failed (while reading the response).",
        LATER,
        is_retryable=True,
    ),
    told(
        "a slow transport",
        pai.ModelTimeoutError(SECRET, SECRET, phase="connect"),
        FailureType.TRANSIENT,
        "The model provider took too long to answer (while connecting).",
        LATER,
        is_retryable=True,
    ),
    told(
        "a slow model",
        pai.ModelRequestTimeout(SECRET, 2.5),
        FailureType.TIMEOUT,
        "The model '[redacted]' did not answer in time (request_timeout 2.5 s).",
        LESS,
        is_retryable=True,
    ),
    told(
        "an unreadable answer",
        pai.ModelAPIError(SECRET, SECRET, body=BODY),
        FailureType.TRANSIENT,
        "The model provider sent an answer that could not be read.",
        LATER,
        is_retryable=True,
    ),
    told(
        "a cut stream",
        StreamEndedEarly(SECRET),
        FailureType.TRANSIENT,
        "The connection to the model provider failed (while reading the response).",
        LATER,
        is_retryable=True,
    ),
    told(
        "a fallback chain",
        pai.FallbackExceptionGroup(SECRET, [http(401, pai.ModelAuthenticationError), ValueError(SECRET)]),
        FailureType.PERMANENT,
        "Every model of the fallback chain failed: 1. The model provider refused the credentials for '[redacted]' "
        "(HTTP 401). 2. The subagent or one of its tools failed: ValueError: [redacted].",
        "Tell the user to check the provider's API key and its rights.",
    ),
    told(
        "a client of a tool's own",
        raw_client_error(),
        FailureType.PERMANENT,
        "A service that the subagent uses refused the credentials it was given (HTTP 401, openai.AuthenticationError).",
        "Tell the user to check the API key for that service and its rights.",
    ),
    told(
        "a connection of a tool's own",
        ConnectionResetError(f"https://me:{SECRET}@example.com is gone"),
        FailureType.TRANSIENT,
        "A connection failed: ConnectionResetError: https://[redacted]@example.com is gone.",
        LATER,
        is_retryable=True,
    ),
    told(
        "a tool",
        ValueError(f"no such key: {SECRET}\n{BODY}"),
        FailureType.PERMANENT,
        "The subagent or one of its tools failed: ValueError: no such key: [redacted].",
        FUTILE,
    ),
    told(
        "several tools",
        ExceptionGroup(SECRET, [ValueError(SECRET), http(503)]),
        FailureType.PERMANENT,
        "The subagent or one of its tools failed: ValueError: [redacted]. (1 more failed with it.)",
        FUTILE,
    ),
    told(
        "a slow tool",
        TimeoutError(SECRET),
        FailureType.TIMEOUT,
        "Something took too long: TimeoutError: [redacted].",
        LESS,
    ),
    told(
        "a usage limit",
        pai.UsageLimitExceeded(f"The next request with {SECRET} would exceed the request_limit of 2"),
        FailureType.LIMIT,
        "A usage limit was reached: The next request with [redacted] would exceed the request_limit of 2.",
        "Ask for a smaller piece of the work, or have the limit raised.",
    ),
    told(
        "a limit in the library's words",
        pai.UsageLimitExceeded("The next tool call(s) would exceed the tool_calls_limit of 4.0 (tool_calls=6)."),
        FailureType.LIMIT,
        "A usage limit was reached: at most 4 tool calls.",
        "Ask for a smaller piece of the work, or have the limit raised.",
    ),
    told(
        "too many at once",
        pai.ConcurrencyLimitExceeded(SECRET),
        FailureType.LIMIT,
        "Too many requests are waiting for the model.",
        "Delegate the same task again when others have ended.",
        is_retryable=True,
    ),
    told(
        "an unacceptable answer",
        pai.UnexpectedModelBehavior(f"Exceeded maximum output retries ({SECRET})", str(BODY)),
        FailureType.VALIDATION,
        "The model gave no acceptable answer: Exceeded maximum output retries ([redacted]).",
        OTHERWISE,
    ),
    told(
        "an error page",
        pai.UnexpectedModelBehavior(f"Invalid response from openai: {SECRET}", str(BODY)),
        FailureType.TRANSIENT,
        "The model provider sent an answer that could not be read.",
        LATER,
        is_retryable=True,
    ),
    told(
        "an empty answer",
        IncompleteAnswer("empty", ""),
        FailureType.VALIDATION,
        "The model ended its run with an empty answer.",
        OTHERWISE,
        is_retryable=True,
    ),
    told(
        "a cut answer",
        IncompleteAnswer("length", f"The key is {SECRET}, and"),
        FailureType.LIMIT,
        "The answer was cut off at the model's output limit; raise `max_tokens`, or ask for less at a time.",
        "Ask for less at a time, or have `max_tokens` raised.",
        partial_results="Your key [redacted] works.\n\nThe key is [redacted], and",
    ),
    told(
        "a cut tool call",
        pai.IncompleteToolCall(SECRET, str(BODY)),
        FailureType.LIMIT,
        "The answer was cut off at the model's output limit; raise `max_tokens`, or ask for less at a time.",
        "Ask for less at a time, or have `max_tokens` raised.",
    ),
    told(
        "a filtered answer",
        pai.ContentFilterError(SECRET, str(BODY)),
        FailureType.VALIDATION,
        "The provider's content filter cut the answer off; rephrase the task.",
        OTHERWISE,
    ),
    told(
        "invalid data",
        invalid_data(),
        FailureType.VALIDATION,
        "Some data was not valid: Order.number: Input should be a valid integer, unable to parse string as an integer.",
        OTHERWISE,
    ),
    told(
        "a wrong set-up",
        pai.UserError(f"api_key={SECRET} is not set"),
        FailureType.PERMANENT,
        "The subagent is set up wrongly: api_key=[redacted] is not set.",
        FUTILE,
    ),
    told(
        "an error of ours",
        ConfigError(f"modle: {SECRET}"),
        FailureType.PERMANENT,
        "modle: [redacted]",
        FUTILE,
    ),
    told(
        "cancelled from outside",
        asyncio.CancelledError(SECRET),
        FailureType.CANCELLED,
        "The run was cancelled.",
        "Delegate the task again if it is still wanted.",
    ),
    told(
        "out of time",
        pai.RunTimedOut(SECRET),
        FailureType.TIMEOUT,
        "The run reached its time limit.",
        LESS,
    ),
]


@pytest.mark.parametrize(("exc", "expected"), ROWS)
def test_each_failure_is_told_as_a_whole_and_without_secrets(exc: BaseException, expected: TaskFailure):
    others = ["writer", "librarian"]
    given = failure_of(exc, messages=HISTORY, usage=USAGE, retries=2, other_subagents=others)
    attach_checkpoint(exc, Checkpoint(messages=tuple(HISTORY), usage=USAGE, retries=2))
    carried = failure_of(exc, other_subagents=others)
    assert (given, carried) == (expected, expected)
    assert SECRET[8:] not in repr(given)


@pytest.mark.parametrize("usage", [USAGE, RunUsage()], ids=["some", "none"])
def test_what_was_used_is_the_same_after_it_was_stored(usage: RunUsage):
    assert run_usage(task_usage(usage)) == usage
    assert run_usage(None) == RunUsage()


def test_what_is_given_outweighs_what_the_exception_carries():
    exc = ValueError("odd")
    attach_checkpoint(exc, Checkpoint(messages=tuple(HISTORY), usage=USAGE, retries=2))
    assert failure_of(exc, messages=[], usage=RunUsage(), retries=0) == failure_of(ValueError("odd"))


def test_a_failure_before_the_first_turn_has_nothing_to_show():
    assert failure_of(ValueError("odd")) == TaskFailure(
        failure_type=FailureType.PERMANENT,
        is_retryable=False,
        message="The subagent or one of its tools failed: ValueError: odd.",
        attempted="The first model request; no turn was finished.",
        alternatives=(FUTILE,),
        usage=TaskUsage(),
    )


@pytest.mark.parametrize(
    ("messages", "attempted"),
    [
        ([ModelRequest(parts=[UserPromptPart("Go.")])], "The first model request; no turn was finished."),
        (
            [ModelResponse(parts=[TextPart("Hm")], state="interrupted")],
            "The first model request; no turn was finished.",
        ),
        ([ModelResponse(parts=[TextPart("42")])], "1 turn. Last: the model's answer."),
        (
            [ModelResponse(parts=[TextPart("42")]), ModelRequest(parts=[UserPromptPart("Sure?")])],
            "1 turn. Last: asking the model.",
        ),
        (
            [ModelResponse(parts=[TextPart("42")]), ModelResponse(parts=[ToolCallPart("fetch")], state="interrupted")],
            "1 turn. Last: the model's answer.",
        ),
        (
            [ModelResponse(parts=[ToolCallPart("fetch"), ToolCallPart("fetch"), ToolCallPart("add")])] * 2,
            "2 turns, tools called: add x2, fetch x4. Last: calling fetch, fetch, add.",
        ),
        (
            [
                ModelResponse(parts=[ToolCallPart("fetch", {}, "a"), ToolCallPart("add", {}, "b")]),
                ModelRequest(parts=[ToolReturnPart("fetch", "found", "a")], state="interrupted"),
            ],
            "1 turn, tools called: add, fetch. Last: calling add.",
        ),
    ],
    ids=[
        *("nothing yet", "a piece of an answer", "an answer", "another question", "a piece of a call"),
        *("calls", "some calls have returned"),
    ],
)
def test_what_was_attempted_is_told_down_to_the_last_step(messages: list[ModelMessage], attempted: str):
    assert failure_of(ValueError("odd"), messages=messages).attempted == attempted
