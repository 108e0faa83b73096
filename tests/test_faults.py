"""Exceptions as people read them: told for what they are, whatever they are."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError
from pydantic_ai import exceptions as pai
from pydantic_ai.exceptions import FallbackExceptionGroup, ModelConnectionError, ModelHTTPError, UserError
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from mcp_subagents import FailureType, SubAgentSpec, failure_of, is_transient_error
from mcp_subagents.errors import ConfigError
from mcp_subagents.faults import classify
from mcp_subagents.verdicts import Fault


class TransportError(Exception):
    """As the HTTP clients name theirs."""


class APIConnectionError(Exception):
    """As the providers' clients name theirs."""


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class MuteConnection(ConnectionError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Touchy(Exception):
    @property
    def status_code(self) -> int:
        raise RuntimeError("no status")


@pytest.mark.parametrize(
    "exc",
    [ConnectionError("lost"), ConnectionResetError("lost"), TransportError("lost"), APIConnectionError("lost")],
    ids=lambda exc: type(exc).__name__,
)
def test_a_connection_that_is_not_the_models_may_pass_but_is_no_reason_to_ask_the_model_again(exc: Exception):
    assert classify(exc) == Fault(
        failure_type=FailureType.TRANSIENT,
        message=f"A connection failed: {type(exc).__name__}: lost.",
        remedy="Delegate the same task again later.",
        is_retryable=True,
    )


# Several at once


BUSY = ModelHTTPError(503, "m")
REFUSED = ModelHTTPError(401, "m")
LOST = ModelConnectionError("m", "lost")
OURS = ConnectionError("lost")


def asking_for(seconds: float, status: int = 429) -> ModelHTTPError:
    return ModelHTTPError(status, "m", retry_after=seconds)


def chain(*failed: Exception) -> Fault:
    return classify(FallbackExceptionGroup("all failed", failed))


@pytest.mark.parametrize(
    ("failed", "type", "is_transient", "is_retryable"),
    [
        ([REFUSED], "permanent", False, False),
        ([REFUSED, BUSY], "transient", True, True),
        ([OURS], "transient", False, True),
        ([REFUSED, OURS], "transient", False, True),
        ([OURS, LOST], "transient", True, True),
        ([pai.ModelRequestTimeout("m", 5.0), REFUSED], "timeout", True, True),
    ],
    ids=[
        *("refused", "one of them is busy", "a connection that is not the model's", "refused, and no connection"),
        *("one of the connections is the model's", "one of them is too slow"),
    ],
)
def test_a_fallback_chain_is_transient_if_one_of_its_models_may_come_back(
    failed: list[Exception], type: str, is_transient: bool, is_retryable: bool
):
    fault = chain(*failed)
    assert (fault.failure_type, fault.is_transient, fault.is_retryable) == (type, is_transient, is_retryable)


@pytest.mark.parametrize(
    ("failed", "seconds"),
    [
        ([BUSY, BUSY], None),
        ([asking_for(30.0), BUSY], 30.0),
        ([BUSY, asking_for(30.0)], 30.0),
        ([asking_for(30.0), asking_for(5.0)], 30.0),
        ([asking_for(5.0), asking_for(30.0)], 30.0),
        ([asking_for(0.0), BUSY], 0.0),
        ([asking_for(5.0), asking_for(3600.0, status=401)], 5.0),
        ([asking_for(3600.0, status=401)], 3600.0),
    ],
    ids=[
        *("none asks for time", "the first asks", "the second asks", "the first asks for more"),
        *("the second asks for more", "one asks for none", "one that will not come back asks", "only that one"),
    ],
)
def test_a_fallback_chain_is_left_alone_for_as_long_as_any_model_asks_that_may_come_back(
    failed: list[Exception], seconds: float | None
):
    assert chain(*failed).retry_after == seconds


def test_a_fallback_chain_is_crowded_if_a_model_is_that_may_come_back():
    assert chain(BUSY, asking_for(1.0)).is_congestion
    assert not chain(BUSY, REFUSED).is_congestion


def test_a_fallback_chain_is_told_model_by_model():
    assert chain(REFUSED, BUSY).message == (
        "Every model of the fallback chain failed: 1. The model provider refused the credentials for 'm' (HTTP 401). "
        "2. The model provider is unavailable (HTTP 503)."
    )


@pytest.mark.parametrize("exc", [BUSY, REFUSED, OURS, ValueError("odd"), asyncio.CancelledError()], ids=repr)
def test_a_group_of_one_is_that_one(exc: BaseException):
    assert classify(BaseExceptionGroup("one", [BaseExceptionGroup("deeper", [exc])])) == classify(exc)


@pytest.mark.parametrize(
    ("failed", "telling", "is_transient", "seconds"),
    [
        ([BUSY, LOST], BUSY, True, None),
        ([asking_for(5.0), asking_for(30.0)], asking_for(5.0), True, 30.0),
        ([BUSY, OURS], OURS, False, None),
        ([BUSY, OURS, REFUSED, ValueError("odd")], REFUSED, False, None),
        ([asyncio.CancelledError(), BUSY], BUSY, True, None),
        ([asyncio.CancelledError(), pai.RunCancelled("")], asyncio.CancelledError(), False, None),
    ],
    ids=[
        *("all transient", "all transient, some ask for time", "one is not the model's", "some are permanent"),
        *("one was cancelled for it", "all were cancelled"),
    ],
)
def test_the_worst_of_a_group_tells_most(
    failed: list[BaseException], telling: BaseException, is_transient: bool, seconds: float | None
):
    expected = classify(telling)
    message = f"{expected.message} ({len(failed) - 1} more failed with it.)"
    fault = classify(BaseExceptionGroup("some", [failed[0], BaseExceptionGroup("others", failed[1:])]))
    assert fault == replace(expected, message=message, is_transient=is_transient, retry_after=seconds)


def test_a_fallback_chain_in_a_group_is_one_failure():
    group = FallbackExceptionGroup("all failed", [REFUSED, BUSY])
    assert classify(ExceptionGroup("one", [group])) == classify(group)
    assert not is_transient_error(ExceptionGroup("two", [group, ValueError("odd")]))


# One by one


@pytest.mark.parametrize(
    ("exc", "message"),
    [
        (Mute(), "The subagent or one of its tools failed: Mute."),
        (MuteConnection(), "A connection failed: MuteConnection."),
        (Touchy("hands off"), "The subagent or one of its tools failed: Touchy."),
        (FallbackExceptionGroup("all", [Mute()]), "Every model of the fallback chain failed: 1. The subagent or one"),
    ],
    ids=["without words", "a connection without words", "with a property that raises", "in a chain of models"],
)
def test_an_exception_that_cannot_be_asked_is_told_by_its_name(exc: Exception, message: str):
    assert failure_of(exc).message.startswith(message)


@pytest.mark.parametrize(
    ("exc", "type", "is_retryable", "message"),
    [
        (pai.ConcurrencyLimitExceeded("full"), "limit", True, "Too many requests are waiting for the model."),
        (
            pai.IncompleteToolCall("cut"),
            "limit",
            False,
            "The answer was cut off at the model's output limit; raise `max_tokens`, or ask for less at a time.",
        ),
        (
            pai.ContentFilterError("no"),
            "validation",
            False,
            "The provider's content filter cut the answer off; rephrase the task.",
        ),
        (asyncio.CancelledError(), "cancelled", False, "The run was cancelled."),
        (pai.RunCancelled("stop"), "cancelled", False, "The run was cancelled."),
        (pai.RunTimedOut("late"), "timeout", False, "The run reached its time limit."),
        (TimeoutError("late"), "timeout", False, "Something took too long: TimeoutError: late."),
        (
            pai.ModelHTTPError(500, "m", {"error": {"message": "litellm.ContextWindowExceededError: too long"}}),
            "validation",
            False,
            "The task has outgrown the context window of 'm' (HTTP 500).",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_each_kind_of_trouble_is_told_for_what_it_is(exc: BaseException, type: str, is_retryable: bool, message: str):
    failure = failure_of(exc)
    assert (failure.failure_type, failure.is_retryable, failure.message) == (type, is_retryable, message)
    assert not is_transient_error(exc)


def some_problem(action: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        action()
    return failure_of(refused.value).message


class Order(BaseModel):
    lines: list[dict[str, int]]
    note: str = Field(default="", max_length=3)


def test_invalid_data_is_told_by_its_first_problem():
    assert some_problem(lambda: SubAgentSpec(name="")) == (
        "Some data was not valid: SubAgentSpec.name: Value error, a name is one line of printable text, without "
        "spaces around it."
    )
    assert some_problem(lambda: Order.model_validate({"lines": [{"a": 1}, {"b": "x"}], "note": "long"})) == (
        "Some data was not valid: Order.lines.1.b: Input should be a valid integer, unable to parse string as an "
        "integer (and 1 more)."
    )


def test_invalid_data_is_told_without_the_data():
    secret = "hunter2 hunter2"
    assert secret not in some_problem(lambda: Order.model_validate({"lines": secret}))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("\n\n\r a\rb\x00", "a"),
        ("\x1b[31mred\x1b[0m alert\x07", "red alert"),
        ("half \ud800 a character", "half � a character"),
        ("\x1b]8;;https://example.com\x07a link\x1b]8;;\x07", "a link"),
        ("abc\u202edef", "abcdef"),
        ("tab\tand  spaces.", "tab and spaces"),
        ("x" * 1000, "x" * 299 + "…"),
    ],
    ids=["lines", "colours", "a surrogate", "a link", "a change of direction", "white space", "too long"],
)
def test_a_message_is_one_plain_line(said: str, told: str):
    assert classify(ValueError(said)).message == f"The subagent or one of its tools failed: ValueError: {told}."
    assert classify(UserError(said)).message == f"The subagent is set up wrongly: {told}."


def test_a_secret_is_found_between_escapes():
    key = "sk-" + "a1" * 15
    assert key[3:] not in classify(ValueError(f"key \x1b[1msk\x1b[0m-{key[3:]}")).message


def test_our_own_errors_are_plain_too():
    assert classify(ConfigError("a \x1b[1mbad\x1b[0m\nsetting")).message == "a bad\nsetting"


def test_what_the_model_said_can_be_encoded_and_what_it_called_can_be_shown():
    turn = ModelResponse(parts=[TextPart("half \ud800 a character,\nand more"), ToolCallPart("see\x1b[1m", {})])
    failure = failure_of(ValueError("odd"), messages=[turn])
    assert failure.partial_results == "half � a character,\nand more"
    assert failure.attempted == "1 turn, tools called: see. Last: calling see."
