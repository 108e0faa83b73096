"""What an error of a model provider, or of another service that speaks HTTP, says about itself. Read, not judged."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai import exceptions as pai

from mcp_subagents.redact import redact
from mcp_subagents.texts import plain

_DEEPEST = 6
"""How far into a body one looks: Google's is a list of objects with an error with a list of details."""
_WIDEST = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """All that a judgement goes by."""

    kind: type[BaseException]
    model: str | None = None
    """The name of the model that failed; `None` if it was another service, or somebody's own use of a client."""
    status: int | None = None
    words: frozenset[str] = frozenset()
    """What the provider or a gateway calls the error, in lower case."""
    retry_hint: bool | None = None
    """What the provider said about another try."""
    retry_after: float | None = None
    details: tuple[str, ...] = ()
    """Facts that are fit to be shown."""


def evidence_of(exc: BaseException) -> Evidence | None:
    """What `exc` says; `None` if it is no answer of a service, and no failure of a model."""
    if isinstance(exc, pai.ModelAPIError):
        return _of_model(exc)
    status = _status_of(exc)
    if status is None and ("APIError" not in _class_names(exc) or is_transport_error(exc)):
        return None
    return _of_client(exc, status)


def is_transport_error(exc: BaseException) -> bool:
    """Whether `exc` is what HTTP clients and providers' clients raise when a connection fails."""
    return not _class_names(exc).isdisjoint({"TransportError", "APIConnectionError"})


def _of_model(exc: pai.ModelAPIError) -> Evidence:
    http = exc if isinstance(exc, pai.ModelHTTPError) else None
    return Evidence(
        kind=type(exc),
        model=exc.model_name,
        status=http and http.status_code,
        words=_words([exc.provider_error_code, exc.provider_error_type], exc.body),
        retry_hint=http and http.provider_retry_hint,
        retry_after=exc.retry_after,
        details=tuple(_details(exc)),
    )


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


def _of_client(exc: BaseException, status: int | None) -> Evidence:
    """The same of an error that pydantic-ai has not made its own. Its text may be the provider's body: left alone."""
    response = getattr(exc, "response", None)
    headers: Any = getattr(exc, "headers", None) or getattr(response, "headers", None) or ()
    # pydantic-ai reads the headers of its own errors, so it is given one.
    asked = pai.ModelHTTPError(status or 0, "", headers={str(name): str(headers[name]) for name in headers})
    body = getattr(exc, "body", None) or getattr(exc, "details", None)
    name = f"{type(exc).__module__.partition('.')[0]}.{type(exc).__name__}"
    return Evidence(
        kind=type(exc),
        status=status,
        words=_words([getattr(exc, key, None) for key in ("code", "type", "status")], body),
        retry_hint=asked.provider_retry_hint,
        retry_after=asked.retry_after,
        details=(*([f"HTTP {status}"] if status else []), redact(plain(name))),
    )


def _status_of(exc: BaseException) -> int | None:
    """The HTTP status, from where the clients keep it. That of an error inside a stream says nothing: it is 200."""
    response = getattr(exc, "response", None)
    candidates = (
        *(getattr(exc, key, None) for key in ("status_code", "status", "code")),
        *(getattr(response, key, None) for key in ("status_code", "status")),
    )
    found = (each for each in candidates if isinstance(each, int) and 400 <= each <= 599)
    # The code of a `SystemExit` is a number too.
    return next(found, None) if isinstance(exc, Exception) else None


def _class_names(exc: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(exc).__mro__}


def _words(said: Sequence[object], body: object) -> frozenset[str]:
    """The machine words for the error, from wherever a provider or a gateway puts them."""
    found = list(said)
    for level in _error_objects(body, _DEEPEST):
        found += [level.get(key) for key in ("code", "type", "status", "reason")]
        if isinstance(message := level.get("message"), str) and (named := re.match(r"litellm\.(\w+)", message)):
            found.append(named[1])
    return frozenset(word.lower() for word in found if isinstance(word, str))


def _error_objects(body: object, depth: int) -> Iterator[Mapping[str, object]]:
    """The objects in a body that may name the error."""
    if not depth:
        return
    if isinstance(body, list):
        for each in cast("list[object]", body)[:_WIDEST]:
            yield from _error_objects(each, depth - 1)
    elif isinstance(body, Mapping):
        level = cast("Mapping[str, object]", body)
        yield level
        for key in ("error", "errors", "details"):
            yield from _error_objects(level.get(key), depth - 1)
