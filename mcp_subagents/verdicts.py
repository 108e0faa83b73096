"""What kind of trouble the evidence shows: one table of rules, for models and for other services alike."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from pydantic_ai import exceptions as pai

from mcp_subagents.evidence import Evidence
from mcp_subagents.texts import brief
from mcp_subagents.types import FailureType

TRANSIENT_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""Statuses worth another try: hiccups of a gateway or a proxy, rate limits, overload."""

_NEVER_IMPLEMENTED = frozenset({501, 505})
"""Errors of a server that no wait will mend."""


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


TRANSIENT = Fault(
    failure_type=FailureType.TRANSIENT,
    message="",
    remedy="Delegate the same task again later.",
    is_transient=True,
    is_retryable=True,
)
PERMANENT = Fault(
    failure_type=FailureType.PERMANENT,
    message="",
    remedy="Trying again will not help: go on without this result, or tell the user what failed.",
)
INVALID = Fault(
    failure_type=FailureType.VALIDATION,
    message="",
    remedy="Put the task differently: simpler, and more specific.",
)
TOO_LONG = Fault(
    failure_type=FailureType.TIMEOUT,
    message="",
    remedy="Ask for a smaller piece of the work, or allow more time.",
)
UNREADABLE = replace(TRANSIENT, message="The model provider sent an answer that could not be read")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """Evidence that means one kind of trouble."""

    of_model: Fault
    of_service: str = "answered with an error"
    """What is said when it was no model of the run's own."""
    service_remedy: str = ""
    """What would help then, if it is not the same."""
    classes: tuple[type[pai.ModelAPIError], ...] = ()
    words: frozenset[str] = frozenset()
    except_at: Collection[int] = ()
    """Statuses that know better than the words."""
    statuses: frozenset[int] = frozenset()

    def is_named_by(self, evidence: Evidence) -> bool:
        is_said = evidence.status not in self.except_at and not self.words.isdisjoint(evidence.words)
        return is_said or issubclass(evidence.kind, self.classes)

    def fault(self, *, of_model: bool) -> Fault:
        if of_model:
            return self.of_model
        return replace(
            self.of_model,
            message=f"A service that the subagent uses {self.of_service}",
            remedy=self.service_remedy or self.of_model.remedy,
            is_transient=False,  # asking the model again is no remedy
            is_congestion=False,
        )


def _says(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SERVER_ERROR = Rule(
    of_model=replace(TRANSIENT, message="The model provider answered with an error"),
    classes=(pai.ModelServerError,),
    words=_says("api_error internal internal_error internal_server_error server_error timeout_error"),
    except_at=range(400, 600),
    statuses=TRANSIENT_STATUS - {429, 503, 529},
)
_REJECTED = Rule(
    of_model=replace(
        INVALID,
        message="The model provider rejected the request to {model}",
        remedy="Change the task; unchanged, it will be rejected again.",
    ),
    of_service="rejected a request",
    classes=(pai.ModelRequestRejectedError,),
    words=_says("content_policy_violation contentpolicyviolationerror badrequesterror"),
    statuses=frozenset({400, 422}),
)
RULES = (
    Rule(
        of_model=replace(
            PERMANENT,
            message="The account with the model provider has no quota or credit left",
            remedy="Tell the user to top up the account with the model provider, or to raise its spending limit.",
        ),
        of_service="has no quota or credit left for it",
        service_remedy="Tell the user to top up the account with that service, or to raise its spending limit.",
        classes=(pai.ModelQuotaExceededError,),
        words=_says(
            "insufficient_quota insufficient_credits insufficient_balance billing_error billing_hard_limit_reached "
            "billing_not_active budget_exceeded budgetexceedederror credit_balance_too_low payment_required "
            "quota_exceeded"
        ),
        statuses=frozenset({402}),
    ),
    Rule(
        of_model=replace(
            INVALID,
            message="The task has outgrown the context window of {model}",
            remedy="Split the task, or give less input; or use a model with a larger context window.",
        ),
        of_service="was given too long an input",
        service_remedy="Split the task, or give less input.",
        classes=(pai.ModelContextWindowExceededError,),
        words=_says("context_length_exceeded contextwindowexceedederror request_too_large"),
        statuses=frozenset({413}),
    ),
    Rule(
        of_model=replace(
            PERMANENT,
            message="The model provider refused the credentials for {model}",
            remedy="Tell the user to check the provider's API key and its rights.",
        ),
        of_service="refused the credentials it was given",
        service_remedy="Tell the user to check the API key for that service and its rights.",
        classes=(pai.ModelAuthenticationError,),
        words=_says(
            "api_key_invalid authentication_error authenticationerror auth_error invalid_api_key "
            "invalid_authentication permission_denied permission_error permissiondeniederror unauthenticated "
            "unauthorized"
        ),
        statuses=frozenset({401, 403}),
    ),
    Rule(
        of_model=replace(
            PERMANENT,
            message="The model provider does not know the model {model}",
            remedy="Tell the user to correct the model's name or the provider's address.",
        ),
        of_service="did not find what it was asked for",
        service_remedy=PERMANENT.remedy,
        classes=(pai.ModelNotFoundError,),
        words=_says("model_not_found not_found not_found_error notfounderror"),
        statuses=frozenset({404}),
    ),
    _REJECTED,
    # OpenAI also says the first of these for a conflict or a rate limit.
    replace(
        _REJECTED,
        words=_says("invalid_request_error invalid_argument unprocessable_entity"),
        except_at=(408, 409, 425, 429),
    ),
    Rule(
        of_model=replace(TRANSIENT, message="The model provider's rate limit was reached", is_congestion=True),
        of_service="has reached its rate limit",
        classes=(pai.ModelRateLimitError,),
        words=_says("rate_limit_error rate_limit_exceeded ratelimiterror resource_exhausted"),
        except_at=range(400, 600),
        statuses=frozenset({429}),
    ),
    Rule(
        of_model=replace(TRANSIENT, message="The model provider is overloaded", is_congestion=True),
        of_service="is overloaded",
        classes=(pai.ModelOverloadedError,),
        words=_says("overloaded overloaded_error"),
        except_at=range(400, 600),
        statuses=frozenset({529}),
    ),
    Rule(
        of_model=replace(TRANSIENT, message="The model provider is unavailable"),
        of_service="is unavailable",
        classes=(pai.ModelUnavailableError,),
        words=_says("service_unavailable service_unavailable_error unavailable"),
        except_at=range(400, 600),
        statuses=frozenset({503}),
    ),
    _SERVER_ERROR,
    Rule(
        of_model=replace(TRANSIENT, message="The model provider took too long to answer"),
        classes=(pai.ModelTimeoutError,),
    ),
    Rule(
        of_model=replace(TRANSIENT, message="The connection to the model provider failed"),
        classes=(pai.ModelConnectionError,),
    ),
    Rule(
        of_model=replace(
            TOO_LONG, message="The model {model} did not answer in time", is_transient=True, is_retryable=True
        ),
        classes=(pai.ModelRequestTimeout,),
    ),
)
"""The first that is named, by its class or by what it is called, counts; else the first that has the status.

A word for permanent trouble outweighs the status, since gateways pass errors on under another one: a 429 may be
an empty account. A word for transient trouble counts only where there is no status.
"""

_SILENT = Rule(of_model=UNREADABLE)
_ODD_STATUS = replace(_SERVER_ERROR, of_model=replace(PERMANENT, message=_SERVER_ERROR.of_model.message))


def judge(evidence: Evidence) -> Fault:
    """What `evidence` shows."""
    fault = _rule_for(evidence).fault(of_model=evidence.model is not None)
    if fault.is_retryable and _is_final(evidence):
        fault = replace(PERMANENT, message=fault.message)
    details = f" ({', '.join(evidence.details)})" if evidence.details else ""
    message = fault.message.format(model=repr(brief(evidence.model or "")))
    return replace(fault, message=f"{message}{details}.", retry_after=evidence.retry_after)


def _rule_for(evidence: Evidence) -> Rule:
    for rule in RULES:
        if rule.is_named_by(evidence):
            return rule
    for rule in RULES:
        if evidence.status in rule.statuses:
            return rule
    if evidence.status is None:
        return _SILENT
    return _SERVER_ERROR if evidence.retry_hint else _ODD_STATUS


def _is_final(evidence: Evidence) -> bool:
    """Whether there will be no other answer, however transient the trouble looks."""
    return evidence.retry_hint is False or (evidence.status in _NEVER_IMPLEMENTED and not evidence.retry_hint)
