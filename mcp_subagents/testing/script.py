"""What a `Gateway` is asked, and what it can be told to answer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from operator import index
from typing import Any, ClassVar, Literal, TypeAlias

WireName: TypeAlias = Literal["openai", "anthropic"]
ErrorKind: TypeAlias = Literal["insufficient_quota", "context_length_exceeded", "invalid_api_key"]
Cut: TypeAlias = Literal["reset", "close", "hang"]
End: TypeAlias = Literal["keep", "reset", "close", "hang"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Received:
    """One request, as it came over the wire."""

    wire: WireName
    path: str
    headers: Mapping[str, str]
    """Names are lower case."""
    body: dict[str, Any]
    stream: bool
    at: float
    """`time.monotonic()` when the whole request was in."""


@dataclass(frozen=True, slots=True)
class Text:
    """A normal answer. The text may be empty; `usage` is tokens in, tokens out."""

    text: str
    finish: Literal["stop", "length", "content_filter"] = "stop"
    usage: tuple[int, int] = (12, 7)
    calls: ClassVar[Sequence["ToolCall"]] = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call. Arguments given as a string are sent as they are, broken JSON included."""

    name: str
    args: Mapping[str, object] | str = field(default_factory=dict[str, object])
    id: str | None = None
    """A fresh one for each reply, unless it is given."""


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """An answer that calls tools, after some text if there is any."""

    calls: Sequence[ToolCall]
    text: str = ""
    usage: tuple[int, int] = (12, 7)
    finish: ClassVar[Literal["tool_calls"]] = "tool_calls"


Answer: TypeAlias = Text | ToolCalls

_SOME_ANSWER = Text("The quick brown fox jumps over the lazy dog.")


@dataclass(frozen=True, slots=True)
class Status:
    """An answer with this HTTP status. Without a body: the JSON error that provider sends with it."""

    code: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Mapping[str, object] | str | None = None
    html: bool = False
    """Send `body` as HTML; without a body, the error page of a proxy."""


@dataclass(frozen=True, slots=True)
class ProviderError:
    """An error that each provider reports in its own way: the wire decides the status and the words."""

    kind: ErrorKind


@dataclass(frozen=True, slots=True)
class Raw:
    """These bytes, whatever they are, in a well-formed HTTP response."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200


@dataclass(frozen=True, slots=True)
class Reset:
    """Reset the connection before any byte of an answer."""

    then: ClassVar[End] = "reset"


@dataclass(frozen=True, slots=True)
class CloseEarly:
    """Close the connection in an orderly way before any byte of an answer."""

    then: ClassVar[End] = "close"


@dataclass(frozen=True, slots=True)
class Hang:
    """Say nothing until the client leaves or the gateway closes."""

    then: ClassVar[End] = "hang"


@dataclass(frozen=True, slots=True)
class CutBody:
    """Announce the length of the whole body, and stop after a part of it.

    A streamed request gets its events the same way, as a body of announced length.
    """

    reply: Answer = _SOME_ANSWER
    after_bytes: int = 20
    how: Cut = "reset"


@dataclass(frozen=True, slots=True)
class CutStream:
    """A stream that stops after some events; a negative number counts from the end, as in a slice.

    Three events end inside the text, or inside the arguments of the first call, on both wires.
    `"close"` leaves out the terminal chunk of the HTTP body. `"clean"` sends it, so that only the
    missing finish reason tells. Not streamed, half of the JSON arrives: by `"clean"` as a complete
    HTTP body, by the others as `CutBody` does it.
    """

    reply: Answer = _SOME_ANSWER
    after_events: int = 3
    how: Cut | Literal["clean"] = "reset"


@dataclass(frozen=True, slots=True)
class StreamError:
    """An error event inside an open 200 stream. Not streamed, it is the status for that type of error."""

    error_type: str = "overloaded_error"
    after_events: int = 3
    reply: Answer = _SOME_ANSWER


@dataclass(frozen=True, slots=True)
class Drip:
    """Stream one character at a time, `interval` seconds apart. Not streamed, it all comes after that time."""

    text: str
    interval: float


Reply: TypeAlias = (
    Answer | Status | ProviderError | Raw | Reset | CloseEarly | Hang | CutBody | CutStream | StreamError | Drip
)
Script: TypeAlias = Iterable[Reply] | Callable[[Received], Reply]
"""One reply for each request in turn, or a function that chooses."""


def rate_limited(*, seconds: int | None = None, ms: int | None = None, until: datetime | None = None) -> Status:
    """A 429 that says how long to wait: in `Retry-After`, `retry-after-ms`, or `Retry-After` with an (aware) date.

    `Retry-After` knows whole seconds only; clients ignore any other number there.
    """
    headers: dict[str, str] = {}
    if seconds is not None:
        headers["retry-after"] = str(index(seconds))
    if ms is not None:
        headers["retry-after-ms"] = str(ms)
    if until is not None:
        headers["retry-after"] = format_datetime(until, usegmt=True)
    return Status(429, headers)
