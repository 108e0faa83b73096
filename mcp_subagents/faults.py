"""What kind of trouble an exception is: a pure judgement, used to retry and to explain.

It goes by pydantic-ai's error classes first, since one status code means different things: a 429 is a rate
limit or an empty account. Gateways in between lose the class, so the words of the body are read as well.
"""

import asyncio
import re
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import cast

from pydantic import ValidationError
from pydantic_ai import exceptions as pai

from mcp_subagents.errors import IncompleteAnswer, SubagentsError
from mcp_subagents.redact import redact
from mcp_subagents.texts import first_line, plain
from mcp_subagents.types import FailureType

TRANSIENT_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""Statuses worth another try: hiccups of a gateway or a proxy, rate limits, overload."""

_LONGEST_TEXT = 300
_LONGEST_LOOK = 100_000
"""How much of a text is looked at for its first line; far more than is shown, so that no secret is cut in two."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One judged exception."""

    failure_type: FailureType
    message: str
    remedy: str
    """What would help, in a sentence."""
    is_transient: bool = False
    """Resuming the run after a while may get past it."""
    is_retryable: bool = False
    """The same task, delegated again, may succeed."""
    is_congestion: bool = False
    """The provider has too much to do: others should leave it alone as well."""
    retry_after: float | None = None


_TRANSIENT = Fault(
    failure_type=FailureType.TRANSIENT,
    message="",
    remedy="Delegate the same task again later.",
    is_transient=True,
    is_retryable=True,
)
_PERMANENT = Fault(
    failure_type=FailureType.PERMANENT,
    message="",
    remedy="Trying again will not help: go on without this result, or tell the user what failed.",
)
_INVALID = Fault(
    failure_type=FailureType.VALIDATION,
    message="",
    remedy="Put the task differently: simpler, and more specific.",
)
_TOO_LONG = Fault(
    failure_type=FailureType.TIMEOUT,
    message="",
    remedy="Ask for a smaller piece of the work, or allow more time.",
)
_UNREADABLE = replace(_TRANSIENT, message="The model provider sent an answer that could not be read.")
_REJECTED = replace(
    _INVALID,
    message="The model provider rejected the request to {model!r}",
    remedy="Change the task; unchanged, it will be rejected again.",
)
_CONTEXT = replace(
    _INVALID,
    message="The task has outgrown the context window of {model!r}",
    remedy="Split the task, or give less input; or use a model with a larger context window.",
)
_AUTH = replace(
    _PERMANENT,
    message="The model provider refused the credentials for {model!r}",
    remedy="Tell the user to check the provider's API key and its rights.",
)
_QUOTA = replace(
    _PERMANENT,
    message="The account with the model provider has no quota or credit left",
    remedy="Tell the user to top up the account with the model provider, or to raise its spending limit.",
)
_NOT_FOUND = replace(
    _PERMANENT,
    message="The model provider does not know the model {model!r}",
    remedy="Tell the user to correct the model's name or the provider's address.",
)

_LASTING_CLASSES: tuple[tuple[type[pai.ModelAPIError], Fault], ...] = (
    (pai.ModelQuotaExceededError, _QUOTA),
    (pai.ModelContextWindowExceededError, _CONTEXT),
    (pai.ModelAuthenticationError, _AUTH),
    (pai.ModelNotFoundError, _NOT_FOUND),
    (pai.ModelRequestRejectedError, _REJECTED),
)
_LASTING_WORDS: tuple[tuple[frozenset[str], Fault], ...] = (
    (
        frozenset(
            "insufficient_quota insufficient_credits insufficient_balance billing_error billing_hard_limit_reached "
            "billing_not_active budget_exceeded budgetexceedederror credit_balance_too_low payment_required "
            "quota_exceeded".split()
        ),
        _QUOTA,
    ),
    (frozenset({"context_length_exceeded", "contextwindowexceedederror", "request_too_large"}), _CONTEXT),
    (
        frozenset(
            "authentication_error authenticationerror auth_error invalid_api_key invalid_authentication "
            "permission_denied permission_error permissiondeniederror unauthenticated unauthorized".split()
        ),
        _AUTH,
    ),
    (frozenset({"model_not_found", "not_found_error", "notfounderror"}), _NOT_FOUND),
    (frozenset({"content_policy_violation", "contentpolicyviolationerror", "badrequesterror"}), _REJECTED),
)
_UNREADABLE_WORDS = ("Invalid response from", "Streamed response ended without content")
"""How pydantic-ai begins to say that an answer with status 200 is an error page, or empty, or cut off."""
_REJECTED_WORDS = frozenset({"invalid_request_error", "invalid_argument", "unprocessable_entity"})

_PASSING_MESSAGES: tuple[tuple[type[pai.ModelAPIError], str], ...] = (
    (pai.ModelRateLimitError, "The model provider's rate limit was reached"),
    (pai.ModelOverloadedError, "The model provider is overloaded"),
    (pai.ModelUnavailableError, "The model provider is unavailable"),
    (pai.ModelTimeoutError, "The model provider took too long to answer"),
    (pai.ModelConnectionError, "The connection to the model provider failed"),
    (pai.ModelRequestTimeout, "The model {model!r} did not answer in time"),
    (pai.ModelHTTPError, "The model provider answered with an error"),
    (pai.ModelAPIError, "The model provider sent an answer that could not be read"),
)


def classify(exc: BaseException) -> Fault:
    """Judge `exc`, and never raise. Whatever it is, the message holds no secret, no traceback and no provider body."""
    try:
        return _judge(exc)
    except Exception:
        # Somebody's exception class that cannot be asked anything: its properties raise.
        return replace(_PERMANENT, message=f"The subagent or one of its tools failed: {plain(type(exc).__name__)}.")


@singledispatch
def _judge(exc: BaseException) -> Fault:
    # Only what nobody below knows comes here: an exception of a tool, of a provider's client, or of anything else.
    if _stumbled_over_an_answer(exc):
        return _UNREADABLE
    names = {kind.__name__ for kind in type(exc).__mro__}
    if names & {"TransportError", "APIConnectionError"} or _status_of(exc) in TRANSIENT_STATUS:
        return _broken_connection(exc)
    return replace(_PERMANENT, message=f"The subagent or one of its tools failed: {_named(exc)}.")


@_judge.register
def _model_error(exc: pai.ModelAPIError) -> Fault:
    fault = _lasting_by_class(exc) or _lasting_by_words(exc) or _passing(exc)
    details = ", ".join(_details(exc))
    message = fault.message.format(model=exc.model_name) + (f" ({details})." if details else ".")
    return replace(fault, message=message, retry_after=exc.retry_after)


def _lasting_by_class(exc: pai.ModelAPIError) -> Fault | None:
    return next((fault for kind, fault in _LASTING_CLASSES if isinstance(exc, kind)), None)


def _lasting_by_words(exc: pai.ModelAPIError) -> Fault | None:
    """By what the body calls the error, for gateways that pass it on under another status."""
    words = set(_words(exc))
    for vocabulary, fault in _LASTING_WORDS:
        if words & vocabulary:
            return fault
    status = exc.status_code if isinstance(exc, pai.ModelHTTPError) else None
    if status == 413:
        return _CONTEXT
    # OpenAI also says `invalid_request_error` for a conflict or a rate limit, which pass.
    return _REJECTED if words & _REJECTED_WORDS and status not in {408, 409, 425, 429} else None


def _passing(exc: pai.ModelAPIError) -> Fault:
    message = next(message for kind, message in _PASSING_MESSAGES if isinstance(exc, kind))
    if isinstance(exc, pai.ModelRequestTimeout):
        return replace(_TOO_LONG, message=message, is_transient=True, is_retryable=True)
    if isinstance(exc, pai.ModelHTTPError) and not _may_pass(exc):
        return replace(_PERMANENT, message=message)
    crowded = isinstance(exc, (pai.ModelRateLimitError, pai.ModelOverloadedError))
    crowded = crowded or (isinstance(exc, pai.ModelHTTPError) and exc.status_code in {429, 529})
    return replace(_TRANSIENT, message=message, is_congestion=crowded)


def _may_pass(exc: pai.ModelHTTPError) -> bool:
    hint = exc.provider_retry_hint
    known = isinstance(exc, (pai.ModelRateLimitError, pai.ModelUnavailableError, pai.ModelServerError))
    worth_it = exc.status_code in TRANSIENT_STATUS or (known and exc.status_code not in {501, 505})
    return hint is not False and (worth_it or hint is True)


def _details(exc: pai.ModelAPIError) -> Iterator[str]:
    if isinstance(exc, pai.ModelHTTPError):
        yield f"HTTP {exc.status_code}"
    elif isinstance(exc, pai.ModelConnectionError) and exc.phase:
        yield _PHASES[exc.phase]
    elif isinstance(exc, pai.ModelRequestTimeout):
        yield f"{exc.setting} {exc.timeout:g} s"
    for word in (exc.provider_error_code, exc.provider_error_type):
        # Machine words only: anything longer may be a piece of the body.
        if word and re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,48}", word) and redact(word) == word:
            yield word
            return


_PHASES: Mapping[str, str] = {
    "pool": "while waiting for a free connection",
    "connect": "while connecting",
    "write": "while sending the request",
    "read": "while reading the response",
}


def _words(exc: pai.ModelAPIError) -> Iterator[str]:
    """The machine words for the error, from wherever a provider or a gateway puts them."""
    found: list[object] = [exc.provider_error_code, exc.provider_error_type]
    for level in _error_objects(exc.body):
        found += [level.get("code"), level.get("type"), level.get("status")]
        if isinstance(message := level.get("message"), str) and (named := re.match(r"litellm\.(\w+)", message)):
            found.append(named[1])
    return (word.lower() for word in found if isinstance(word, str))


def _error_objects(body: object) -> Iterator[Mapping[str, object]]:
    while isinstance(body, Mapping):
        level = cast("Mapping[str, object]", body)
        yield level
        body = level.get("error")


@_judge.register
def _fallback(exc: pai.FallbackExceptionGroup) -> Fault:
    """All models of a chain failed. It passes if one of them may come back; the first one to, decides when."""
    faults = [classify(each) for each in exc.exceptions]
    passing = [fault for fault in faults if fault.is_transient]
    summary = " ".join(f"{number}. {fault.message}" for number, fault in enumerate(faults, 1))
    message = f"Every model of the fallback chain failed: {summary}"
    if not passing:
        return replace(faults[0], message=message)
    waits = [fault.retry_after or 0.0 for fault in passing]
    return replace(passing[0], message=message, retry_after=min(waits) or None)


@_judge.register
def _limit(exc: pai.UsageLimitExceeded) -> Fault:
    # What follows is the library's hint to developers.
    text = exc.message.split(". Consider raising", 1)[0]
    return Fault(
        failure_type=FailureType.LIMIT,
        message=f"A usage limit was reached: {_short(text)}.",
        remedy="Ask for a smaller piece of the work, or have the limit raised.",
    )


@_judge.register
def _crowded(exc: pai.ConcurrencyLimitExceeded) -> Fault:
    return Fault(
        failure_type=FailureType.LIMIT,
        message="Too many requests are waiting for the model.",
        remedy="Delegate the same task again when others have ended.",
        is_retryable=True,
    )


@_judge.register
def _unexpected(exc: pai.UnexpectedModelBehavior) -> Fault:
    if exc.message.startswith(_UNREADABLE_WORDS):
        return _UNREADABLE
    return replace(_INVALID, message=f"The model gave no acceptable answer: {_short(exc.message)}.")


@_judge.register
def _incomplete(exc: IncompleteAnswer) -> Fault:
    if exc.why == "length":
        return Fault(
            failure_type=FailureType.LIMIT,
            message=str(exc),
            remedy="Ask for less at a time, or have `max_tokens` raised.",
        )
    return replace(_INVALID, message=str(exc), is_retryable=exc.why == "empty")


@_judge.register
def _cut_tool_call(exc: pai.IncompleteToolCall) -> Fault:
    return _incomplete(IncompleteAnswer("length", ""))


@_judge.register
def _filtered(exc: pai.ContentFilterError) -> Fault:
    return _incomplete(IncompleteAnswer("content_filter", ""))


@_judge.register(pai.RunCancelled)
@_judge.register(asyncio.CancelledError)
def _cancelled(exc: BaseException) -> Fault:
    return Fault(
        failure_type=FailureType.CANCELLED,
        message="The run was cancelled.",
        remedy="Delegate the task again if it is still wanted.",
    )


@_judge.register
def _timed_out(exc: pai.RunTimedOut) -> Fault:
    return replace(_TOO_LONG, message="The run reached its time limit.")


@_judge.register
def _took_too_long(exc: TimeoutError) -> Fault:
    return replace(_TOO_LONG, message=f"Something took too long: {_named(exc)}.")


@_judge.register(ConnectionError)
def _broken_connection(exc: BaseException) -> Fault:
    # pydantic-ai wraps the errors of its own connections. This one is of a tool, a handler, a function that makes
    # instructions: it may pass, but asking the model again is no remedy.
    return replace(_TRANSIENT, message=f"A connection failed: {_named(exc)}.", is_transient=False)


@_judge.register
def _ours(exc: SubagentsError) -> Fault:
    return replace(_PERMANENT, message=redact(plain(str(exc))))


@_judge.register
def _misuse(exc: pai.UserError) -> Fault:
    return replace(_PERMANENT, message=f"The subagent is set up wrongly: {_short(_said(exc))}.")


@_judge.register
def _invalid_data(exc: ValidationError) -> Fault:
    first, *others = exc.errors(include_url=False, include_context=False, include_input=False)
    where = ".".join(str(step) for step in (exc.title, *first["loc"]))
    problem = _short(f"{where}: {first['msg']}")
    more = f" (and {len(others)} more)" if others else ""
    return replace(_INVALID, message=f"Some data was not valid: {problem}{more}.")


def _named(exc: BaseException) -> str:
    name, said = plain(type(exc).__name__), _short(_said(exc))
    return f"{name}: {said}" if said else name


def _said(exc: BaseException) -> str:
    try:
        return str(exc)
    except Exception:
        return ""  # the name of its class has to do


def _stumbled_over_an_answer(exc: BaseException) -> bool:
    """Whether pydantic-ai's own code tripped: its adapters do, over some answers that lack what they expect."""
    frames = list(traceback.walk_tb(exc.__traceback__))
    innermost = frames[-1][0].f_globals.get("__name__", "") if frames else ""
    return isinstance(exc, (TypeError, LookupError, AttributeError)) and innermost.startswith("pydantic_ai.models.")


def _status_of(exc: BaseException) -> int | None:
    status = getattr(exc, "status_code", None) or getattr(getattr(exc, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _short(text: str) -> str:
    """The first line, without secrets, of a length one likes to read."""
    line = redact(first_line(text[:_LONGEST_LOOK])).rstrip(" .,;:")
    return line if len(line) <= _LONGEST_TEXT else f"{line[: _LONGEST_TEXT - 1]}…"
