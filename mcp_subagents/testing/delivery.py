"""How a reply leaves: its bytes, the pauses between them, and what becomes of the connection."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import responses
from typing import Any, assert_never

from mcp_subagents.testing.script import (
    Answer,
    CloseEarly,
    Cut,
    CutBody,
    CutStream,
    Drip,
    End,
    Hang,
    ProviderError,
    Raw,
    Received,
    Reply,
    Reset,
    Status,
    StreamError,
    Text,
    ToolCalls,
)
from mcp_subagents.testing.wire import WIRES, Split, event, in_tokens, status_of

_LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Delivery:
    """What to write, chunk by chunk with a pause before each, and how to end."""

    chunks: Sequence[bytes] = ()
    then: End = "keep"
    pause: float = 0
    """In seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Response:
    """A well-formed response of announced length."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def head(self) -> bytes:
        return _head(
            self.status, {"content-length": str(len(self.body)), "content-type": self.content_type}, self.headers
        )

    def delivered(self, pause: float = 0) -> Delivery:
        return Delivery([self.head + self.body], pause=pause)

    def cut(self, after_bytes: int, how: Cut) -> Delivery:
        if not 0 <= after_bytes < len(self.body):
            raise ValueError(f"A body of {len(self.body)} bytes cannot be cut after {after_bytes}.")
        return Delivery([self.head + self.body[:after_bytes]], then=how)


def deliver(reply: Reply, received: Received) -> Delivery:
    """Write `reply` as the answer to `received`. Raises: `ValueError` for a cut outside of what there is to cut."""
    match reply:
        case Text() | ToolCalls():
            return _answer(reply, received)
        case Status():
            return _status(reply, received).delivered()
        case ProviderError():
            status, body = WIRES[received.wire].provider_error(reply.kind)
            return _json(body, status=status).delivered()
        case Raw():
            return _Response(body=reply.body, content_type=reply.content_type, status=reply.status).delivered()
        case Reset() | CloseEarly() | Hang():
            return Delivery(then=reply.then)
        case CutBody():
            return _in_one_piece(reply.reply, received).cut(reply.after_bytes, reply.how)
        case CutStream():
            return _cut_stream(reply, received)
        case StreamError():
            return _stream_error(reply, received)
        case Drip():
            return _drip(reply, received)
        case _:
            assert_never(reply)


def not_found(path: str) -> Delivery:
    words = f"The gateway serves /v1/chat/completions and /v1/messages, not {path}.".encode()
    return _Response(body=words, status=404, content_type="text/plain").delivered()


def _answer(answer: Answer, received: Received) -> Delivery:
    if received.stream:
        return Delivery([*_streamed(_events(answer, received)), _LAST_CHUNK])
    return _in_one_piece(answer, received).delivered()


def _status(reply: Status, received: Received) -> _Response:
    match reply.body:
        case None if reply.html:
            page = f"<html><body><h1>{reply.code} {responses.get(reply.code, 'Error')}</h1></body></html>"
            return _Response(body=page.encode(), status=reply.code, content_type="text/html", headers=reply.headers)
        case None:
            return _json(WIRES[received.wire].status_error(reply.code), reply.code, reply.headers)
        case str(text):
            content_type = "text/html" if reply.html else "text/plain"
            return _Response(body=text.encode(), status=reply.code, content_type=content_type, headers=reply.headers)
        case body:
            return _json(body, reply.code, reply.headers)


def _cut_stream(reply: CutStream, received: Received) -> Delivery:
    if received.stream:
        events = _streamed(_first(reply.after_events, _events(reply.reply, received)))
        return Delivery([*events, _LAST_CHUNK]) if reply.how == "clean" else Delivery(events, then=reply.how)
    whole = _in_one_piece(reply.reply, received)
    half = len(whole.body) // 2
    return _Response(body=whole.body[:half]).delivered() if reply.how == "clean" else whole.cut(half, reply.how)


def _stream_error(reply: StreamError, received: Received) -> Delivery:
    error = WIRES[received.wire].error(reply.error_type)
    if received.stream:
        events = _first(reply.after_events, _events(reply.reply, received))
        return Delivery([*_streamed([*events, event(error)]), _LAST_CHUNK])
    return _json(error, status_of(reply.error_type)).delivered()


def _drip(reply: Drip, received: Received) -> Delivery:
    answer = Text(reply.text)
    if received.stream:
        return Delivery([*_streamed(_events(answer, received, split=list)), _LAST_CHUNK], pause=reply.interval)
    return _in_one_piece(answer, received).delivered(pause=reply.interval * len(reply.text))


def _in_one_piece(answer: Answer, received: Received) -> _Response:
    if received.stream:
        return _Response(body=b"".join(_events(answer, received)), content_type="text/event-stream")
    return _json(WIRES[received.wire].message(answer, received.body))


def _events(answer: Answer, received: Received, split: Split = in_tokens) -> list[bytes]:
    return list(WIRES[received.wire].events(answer, received.body, split))


def _first(count: int, events: Sequence[bytes]) -> Sequence[bytes]:
    if abs(count) > len(events):
        raise ValueError(f"A stream of {len(events)} events cannot be cut after {count}.")
    return events[:count]


def _json(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> _Response:
    return _Response(body=json.dumps(body).encode(), status=status, headers=headers or {})


def _streamed(events: Iterable[bytes]) -> list[bytes]:
    """The head of a stream and each event as an HTTP chunk, without the chunk that ends the body."""
    head = _head(200, {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"})
    return [head, *(b"%x\r\n%b\r\n" % (len(data), data) for data in events)]


def _head(status: int, *headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {responses.get(status, '')}"]
    lines += [f"{name}: {value}" for some in headers for name, value in some.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
