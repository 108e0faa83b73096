"""Errors of models, of providers' clients and of other services: judged by one table, told in our words."""

from email.message import Message
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError

import anthropic
import httpx2
import openai
import pytest
from pydantic_ai import exceptions as pai

from mcp_subagents.evidence import evidence_of
from mcp_subagents.faults import classify
from mcp_subagents.types import FailureType
from mcp_subagents.verdicts import TRANSIENT_STATUS, Fault

HERE = __name__.partition(".")[0]
BODY = "the words of the provider"
PERMANENT, TRANSIENT, VALIDATION = FailureType.PERMANENT, FailureType.TRANSIENT, FailureType.VALIDATION


def response(status: int, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(status, headers=named, request=httpx2.Request("POST", "https://api.example.com"))


def raw_openai(kind: Any, status: int, **body: Any) -> Exception:
    return kind(BODY, response=response(status), body={"message": BODY, **body})


def raw_anthropic(kind: Any, status: int, error_type: str, **headers: str) -> Exception:
    body = {"type": "error", "error": {"type": error_type, "message": BODY}}
    return kind(BODY, response=response(status, **headers), body=body)


def of_model(status: int, body: object = None, category: Any = None, **headers: str) -> pai.ModelHTTPError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return pai.ModelHTTPError.for_category(category, status_code=status, model_name="m", body=body, headers=named)


class GoogleError(Exception):
    """As Google's client has it: the status is the `code`, and the `status` is a word."""

    def __init__(self, code: int, status: str, reason: str = "") -> None:
        super().__init__(BODY)
        self.code = code
        self.status = status
        self.details = {"error": {"code": code, "status": status, "details": [{"reason": reason}]}}


class Aiohttp(Exception):
    status = 503


class Requests(Exception):
    class response:
        status_code = HTTPStatus.NOT_FOUND


class APIError(Exception):
    """As the clients call an error that came inside a stream."""

    def __init__(self, body: object) -> None:
        super().__init__(BODY)
        self.body = body


def status_error() -> httpx2.HTTPStatusError:
    return httpx2.HTTPStatusError(BODY, request=response(401).request, response=response(401))


# What clients raise


@pytest.mark.parametrize(
    ("exc", "type", "message"),
    [
        (
            raw_openai(openai.RateLimitError, 429, type="insufficient_quota", code="insufficient_quota"),
            PERMANENT,
            "has no quota or credit left for it (HTTP 429, openai.RateLimitError)",
        ),
        (
            raw_openai(openai.RateLimitError, 429, type="requests", code="rate_limit_exceeded"),
            TRANSIENT,
            "has reached its rate limit (HTTP 429, openai.RateLimitError)",
        ),
        (
            raw_openai(openai.AuthenticationError, 401, type="invalid_request_error", code="invalid_api_key"),
            PERMANENT,
            "refused the credentials it was given (HTTP 401, openai.AuthenticationError)",
        ),
        (
            raw_openai(openai.BadRequestError, 400, type="invalid_request_error", code="context_length_exceeded"),
            VALIDATION,
            "was given too long an input (HTTP 400, openai.BadRequestError)",
        ),
        (
            raw_openai(openai.ConflictError, 409, type="invalid_request_error"),
            TRANSIENT,
            "answered with an error (HTTP 409, openai.ConflictError)",
        ),
        (
            openai.APIError(BODY, response(200).request, body={"type": "server_error", "message": BODY}),
            TRANSIENT,
            "answered with an error (openai.APIError)",
        ),
        (
            openai.APIError(BODY, response(200).request, body={"code": "insufficient_quota", "message": BODY}),
            PERMANENT,
            "has no quota or credit left for it (openai.APIError)",
        ),
        (
            raw_anthropic(anthropic.PermissionDeniedError, 403, "permission_error"),
            PERMANENT,
            "refused the credentials it was given (HTTP 403, anthropic.PermissionDeniedError)",
        ),
        (
            raw_anthropic(anthropic.InternalServerError, 529, "overloaded_error"),
            TRANSIENT,
            "is overloaded (HTTP 529, anthropic.InternalServerError)",
        ),
        (
            raw_anthropic(anthropic.APIStatusError, 200, "overloaded_error"),
            TRANSIENT,
            "is overloaded (anthropic.APIStatusError)",
        ),
        (
            raw_anthropic(anthropic.InternalServerError, 503, "api_error", x_should_retry="false"),
            PERMANENT,
            "is unavailable (HTTP 503, anthropic.InternalServerError)",
        ),
        (status_error(), PERMANENT, "refused the credentials it was given (HTTP 401, httpx2.HTTPStatusError)"),
        (
            HTTPError("https://example.com", 404, BODY, Message(), None),
            PERMANENT,
            "did not find what it was asked for (HTTP 404, urllib.HTTPError)",
        ),
        (
            GoogleError(400, "INVALID_ARGUMENT", "API_KEY_INVALID"),
            PERMANENT,
            f"refused the credentials it was given (HTTP 400, {HERE}.GoogleError)",
        ),
        (
            GoogleError(400, "INVALID_ARGUMENT"),
            VALIDATION,
            f"rejected a request (HTTP 400, {HERE}.GoogleError)",
        ),
        (Aiohttp(BODY), TRANSIENT, f"is unavailable (HTTP 503, {HERE}.Aiohttp)"),
        (Requests(BODY), PERMANENT, f"did not find what it was asked for (HTTP 404, {HERE}.Requests)"),
        (APIError("not JSON"), TRANSIENT, f"answered with an error ({HERE}.APIError)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_error_of_a_client_is_told_for_what_it_is_in_our_words(exc: Exception, type: FailureType, message: str):
    fault = classify(exc)
    assert (fault.failure_type, fault.message) == (type, f"A service that the subagent uses {message}.")
    # Nobody knows whose it was: asking the model again is no remedy.
    assert (fault.is_transient, fault.is_retryable, fault.is_congestion) == (False, type is TRANSIENT, False)


def test_a_client_is_obeyed_when_it_says_how_long_to_wait():
    limited = openai.RateLimitError(BODY, response=response(429, retry_after="30"), body=None)
    assert classify(limited) == Fault(
        failure_type=TRANSIENT,
        message="A service that the subagent uses has reached its rate limit (HTTP 429, openai.RateLimitError).",
        remedy="Delegate the same task again later.",
        is_retryable=True,
        retry_after=30.0,
    )
    headers = Message()
    headers["Retry-After"] = "7"
    assert classify(HTTPError("https://example.com", 503, BODY, headers, None)).retry_after == 7.0


def test_the_code_with_which_a_process_leaves_is_no_status():
    assert evidence_of(SystemExit(404)) is None


@pytest.mark.parametrize("code", [0, 200, 302, 600, -32600, True, "404"])
def test_a_number_that_is_no_error_status_is_none(code: object):
    class Odd(Exception):
        status_code = code

    assert evidence_of(Odd("odd")) is None


# What bodies say


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            [{"error": {"code": 400, "message": BODY, "status": "PERMISSION_DENIED"}}],
            "The model provider refused the credentials for 'm' (HTTP 418).",
        ),
        (
            [{"error": {"status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}}],
            "The model provider refused the credentials for 'm' (HTTP 418).",
        ),
        ({"errors": [{"code": "model_not_found"}]}, "The model provider does not know the model 'm' (HTTP 418)."),
        (
            {"error": {"error": {"error": {"type": "insufficient_credits"}}}},
            "The account with the model provider has no quota or credit left (HTTP 418).",
        ),
        (
            {"error": {"message": "litellm.BudgetExceededError: Budget has been exceeded"}},
            "The account with the model provider has no quota or credit left (HTTP 418).",
        ),
        ({"error": {"code": 402, "type": None}}, "The model provider answered with an error (HTTP 418)."),
        ([[[[[[{"code": "model_not_found"}]]]]]], "The model provider answered with an error (HTTP 418)."),
        ([None] * 20 + [{"code": "model_not_found"}], "The model provider answered with an error (HTTP 418)."),
        ("insufficient_quota", "The model provider answered with an error (HTTP 418)."),
    ],
    ids=[
        *("a list", "a reason in the details of a list", "a list of errors", "errors in errors", "a class of LiteLLM"),
        *("a number", "too deep", "too far down", "a text"),
    ],
)
def test_what_a_body_calls_the_error_is_found_wherever_it_is(body: object, message: str):
    assert classify(of_model(418, body)).message == message


def test_a_body_that_holds_itself_is_read_once():
    body: dict[str, Any] = {"type": "server_error"}
    body["error"] = body
    assert classify(of_model(418, body)).message == "The model provider answered with an error (HTTP 418)."


@pytest.mark.parametrize("status", [408, 409, 425, 429])
def test_what_openai_calls_an_invalid_request_may_be_a_conflict_or_a_rate_limit(status: int):
    body = {"error": {"type": "invalid_request_error"}}
    assert classify(of_model(status, body)).is_transient
    assert classify(of_model(status + 50, body)).failure_type == VALIDATION


@pytest.mark.parametrize("word", ["server_error", "overloaded_error", "rate_limit_error", "unavailable"])
def test_a_word_for_transient_trouble_does_not_outweigh_the_status(word: str):
    body = {"error": {"type": word}}
    assert classify(of_model(404, body)).message == "The model provider does not know the model 'm' (HTTP 404)."
    assert classify(APIError(body)).failure_type == TRANSIENT


# What is left: the status


@pytest.mark.parametrize(
    ("status", "type", "message"),
    [
        (400, VALIDATION, "The model provider rejected the request to 'm'"),
        (401, PERMANENT, "The model provider refused the credentials for 'm'"),
        (402, PERMANENT, "The account with the model provider has no quota or credit left"),
        (403, PERMANENT, "The model provider refused the credentials for 'm'"),
        (404, PERMANENT, "The model provider does not know the model 'm'"),
        (413, VALIDATION, "The task has outgrown the context window of 'm'"),
        (418, PERMANENT, "The model provider answered with an error"),
        (422, VALIDATION, "The model provider rejected the request to 'm'"),
        (429, TRANSIENT, "The model provider's rate limit was reached"),
        (501, PERMANENT, "The model provider answered with an error"),
        (503, TRANSIENT, "The model provider is unavailable"),
        (505, PERMANENT, "The model provider answered with an error"),
        (529, TRANSIENT, "The model provider is overloaded"),
    ],
)
def test_a_bare_status_says_what_it_usually_means(status: int, type: FailureType, message: str):
    fault = classify(of_model(status))
    assert (fault.failure_type, fault.message) == (type, f"{message} (HTTP {status}).")
    assert fault.is_congestion == (status in {429, 529})


@pytest.mark.parametrize("status", range(400, 600))
def test_only_the_listed_statuses_are_transient_by_themselves(status: int):
    assert classify(of_model(status)).is_transient == (status in TRANSIENT_STATUS)


@pytest.mark.parametrize("status", [501, 505, 599])
def test_a_server_error_is_transient_unless_the_server_will_never_know_how(status: int):
    assert classify(of_model(status, category=pai.ModelServerError)).is_transient == (status == 599)


@pytest.mark.parametrize(
    ("exc", "is_transient"),
    [
        (of_model(418, x_should_retry="true"), True),
        (of_model(418, x_should_retry="false"), False),
        (of_model(501, category=pai.ModelServerError, x_should_retry="true"), True),
        (of_model(503, x_should_retry="false"), False),
        (of_model(400, x_should_retry="true"), False),
        (of_model(429, category=pai.ModelQuotaExceededError, x_should_retry="true"), False),
    ],
    ids=[
        *("an odd status, try again", "an odd status, do not", "a server that says it will learn"),
        *("unavailable for good", "rejected, whatever it says", "no quota, whatever it says"),
    ],
)
def test_a_providers_word_about_another_try_is_taken(exc: Exception, is_transient: bool):
    fault = classify(exc)
    assert (fault.is_transient, fault.is_retryable) == (is_transient, is_transient)


def test_the_name_of_a_model_is_told_without_what_does_not_belong_there():
    exc = pai.ModelHTTPError(404, "gpt\x1b[1m\nsk-" + "a1" * 15)
    assert classify(exc).message == "The model provider does not know the model 'gpt' (HTTP 404)."
    exc = pai.ModelHTTPError(404, "{model} sk-" + "a1" * 15)
    assert classify(exc).message == "The model provider does not know the model '{model} [redacted]' (HTTP 404)."
