"""What kind of trouble an exception is: a pure judgement, used to retry and to explain.

Errors of models and of other services are judged by the table in `verdicts`; what is here is everything else.
"""

import asyncio
import re
import traceback
from collections.abc import Iterator
from dataclasses import replace
from functools import singledispatch
from typing import cast

from pydantic import ValidationError
from pydantic_ai import exceptions as pai

from mcp_subagents.errors import IncompleteAnswer, SubagentsError, UnfitAnswer
from mcp_subagents.evidence import evidence_of, is_transport_error
from mcp_subagents.redact import redact
from mcp_subagents.texts import brief, plain
from mcp_subagents.types import FailureType
from mcp_subagents.verdicts import INVALID, PERMANENT, TOO_LONG, TRANSIENT, UNREADABLE, Fault, judge

_UNREADABLE = replace(UNREADABLE, message=f"{UNREADABLE.message}.")
_UNREADABLE_WORDS = ("Invalid response from", "Streamed response ended without content")
"""How pydantic-ai begins to say that an answer with status 200 is an error page, or empty, or cut off."""


def classify(exc: BaseException) -> Fault:
    """Judge `exc`, and never raise. Whatever it is, the message holds no secret, no traceback and no provider body."""
    try:
        return _judge(exc)
    except Exception:
        # Somebody's exception class that cannot be asked anything: its properties raise.
        return replace(PERMANENT, message=f"The subagent or one of its tools failed: {plain(type(exc).__name__)}.")


@singledispatch
def _judge(exc: BaseException) -> Fault:
    # Only what nobody below knows comes here: an exception of a model, a tool, a client, or of anything else.
    if (evidence := evidence_of(exc)) is not None:
        return judge(evidence)
    if _stumbled_over_an_answer(exc):
        return _UNREADABLE
    if is_transport_error(exc):
        return _broken_connection(exc)
    return replace(PERMANENT, message=f"The subagent or one of its tools failed: {_named(exc)}.")


@_judge.register
def _fallback(exc: pai.FallbackExceptionGroup) -> Fault:
    """All models of a chain failed: it is transient if one of them may come back.

    The next attempt asks them all again, from the first on. So it waits for each that may come back and said
    when: asked too early, that one would be knocked at in vain, and might bar us for longer.
    """
    faults = [classify(each) for each in exc.exceptions]
    transient = [fault for fault in faults if fault.is_transient]
    telling = transient or [fault for fault in faults if fault.is_retryable] or faults
    summary = " ".join(f"{number}. {fault.message}" for number, fault in enumerate(faults, 1))
    return replace(
        telling[0],
        message=f"Every model of the fallback chain failed: {summary}",
        is_congestion=any(fault.is_congestion for fault in transient),
        retry_after=_longest_wait(telling),
    )


@_judge.register(BaseExceptionGroup)
def _group(exc: "BaseExceptionGroup[BaseException]") -> Fault:
    """Several things failed at once. The worst tells most: a retry helps only if all are transient."""
    faults = [classify(leaf) for leaf in _leaves(exc)]
    if len(faults) == 1:
        return faults[0]
    # What was cancelled was so because something else had failed.
    causes = [fault for fault in faults if fault.failure_type is not FailureType.CANCELLED] or faults
    worst = min(causes, key=lambda fault: (fault.is_transient, fault.is_retryable))
    message = f"{worst.message} ({len(faults) - 1} more failed with it.)"
    return replace(worst, message=message, retry_after=_longest_wait(causes))


def _leaves(group: "BaseExceptionGroup[BaseException]") -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup) and not isinstance(each, pai.FallbackExceptionGroup):
            yield from _leaves(cast("BaseExceptionGroup[BaseException]", each))
        else:
            yield each


def _longest_wait(faults: list[Fault]) -> float | None:
    return max((fault.retry_after for fault in faults if fault.retry_after is not None), default=None)


_LIMITED = {
    "request": "model requests",
    "tool_calls": "tool calls",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "total_tokens": "tokens",
}
_LIMIT = re.compile(
    rf"(?:The next (?:request|tool call\(s\)) would exceed|Exceeded) the ({'|'.join(_LIMITED)})_limit of ([\d.]+)"
)
"""How pydantic-ai says it, to developers."""


@_judge.register
def _limit(exc: pai.UsageLimitExceeded) -> Fault:
    # What follows is the library's hint to developers.
    text = exc.message.split(". Consider raising", 1)[0].rstrip(".")
    if found := _LIMIT.match(text):
        text = f"at most {float(found[2]):,g} {_LIMITED[found[1]]}"
    return Fault(
        failure_type=FailureType.LIMIT,
        message=f"A usage limit was reached: {brief(text)}.",
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
    return replace(INVALID, message=f"The model gave no acceptable answer: {brief(exc.message)}.")


@_judge.register
def _incomplete(exc: IncompleteAnswer) -> Fault:
    if exc.why == "length":
        return Fault(
            failure_type=FailureType.LIMIT,
            message=str(exc),
            remedy="Ask for less at a time, or have `max_tokens` raised.",
        )
    return replace(INVALID, message=str(exc), is_retryable=exc.why == "empty")


@_judge.register
def _unfit(exc: UnfitAnswer) -> Fault:
    return replace(INVALID, message=f"{brief(str(exc))}.")


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
    return replace(TOO_LONG, message="The run reached its time limit.")


@_judge.register
def _took_too_long(exc: TimeoutError) -> Fault:
    return replace(TOO_LONG, message=f"Something took too long: {_named(exc)}.")


@_judge.register(ConnectionError)
def _broken_connection(exc: BaseException) -> Fault:
    # pydantic-ai wraps the errors of its own connections. This one is of a tool, a handler, a function that makes
    # instructions: it may be over soon, but asking the model again is no remedy.
    return replace(TRANSIENT, message=f"A connection failed: {_named(exc)}.", is_transient=False)


@_judge.register
def _ours(exc: SubagentsError) -> Fault:
    return replace(PERMANENT, message=redact(plain(str(exc))))


@_judge.register
def _misuse(exc: pai.UserError) -> Fault:
    return replace(PERMANENT, message=f"The subagent is set up wrongly: {brief(_said(exc))}.")


@_judge.register
def _invalid_data(exc: ValidationError) -> Fault:
    first, *others = exc.errors(include_url=False, include_context=False, include_input=False)
    where = ".".join(str(step) for step in (exc.title, *first["loc"]))
    problem = brief(f"{where}: {first['msg']}")
    more = f" (and {len(others)} more)" if others else ""
    return replace(INVALID, message=f"Some data was not valid: {problem}{more}.")


def _named(exc: BaseException) -> str:
    name, said = plain(type(exc).__name__), brief(_said(exc))
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
