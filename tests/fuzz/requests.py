"""Whole HTTP requests: messages in both eras, with the headers they need, and what can go wrong with those."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.fuzz.mutations import mutated

SESSION = b"SESSION"
"""Stands for a session that is open, wherever it is named."""
STREAMS = (b"STREAM-HANDSHAKE", b"STREAM-MODERN")
"""Stand for the SSE connections of the two eras."""

Headers = dict[bytes, bytes]

ODD_HEADERS = (
    b"",
    b" ",
    b"x",
    b"0",
    b"-1",
    b"\xff\xfe",
    b"2026-07-28, 2025-11-25",
    b"a" * 3000,
    b"=?base64?_?=",
    b"*/*;q=x",
)
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A request, up to what only the client knows: its sessions."""

    method: bytes = b"POST"
    path: bytes = b"/mcp"
    headers: Headers = field(default_factory=dict[bytes, bytes])
    body: bytes = b""
    cut_short: bool = False
    """The client is gone before the end."""

    @property
    def is_stream(self) -> bool:
        """Whether the answer may be one that never ends."""
        return self.method == b"GET" or b"subscriptions/listen" in self.body

    def encoded(self) -> bytes:
        lines = [b"%s %s HTTP/1.1" % (self.method, self.path), *(b"%s: %s" % each for each in self.headers.items())]
        return b"\r\n".join([*lines, b"", b""]) + self.body


def posted(body: bytes, *, modern: bool, session: bytes = SESSION) -> Request:
    """A message in order, as a client would send it."""
    headers: Headers = {
        b"Host": b"127.0.0.1",
        b"Content-Type": b"application/json",
        b"Accept": b"application/json, text/event-stream",
        b"Content-Length": b"%d" % len(body),
    }
    if modern:
        headers |= {b"MCP-Protocol-Version": b"2026-07-28", **_names(body)}
    elif session:
        headers |= {b"MCP-Protocol-Version": b"2025-11-25", b"Mcp-Session-Id": session}
    return Request(headers=headers, body=body)


def _names(body: bytes) -> Headers:
    """What the newer era wants repeated in headers, as far as the body says it."""
    try:
        said = json.loads(body)
        method = said["method"]
        named = said["params"].get(NAMED_BY.get(method, ""))
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return {b"Mcp-Method": b"ping"}
    names: dict[bytes, Any] = {b"Mcp-Method": method, b"Mcp-Name": named}
    return {
        header: value.encode()
        for header, value in names.items()
        if isinstance(value, str) and value.isascii() and value.isprintable()
    }


def some_request(rng: random.Random) -> Request:
    """One that may be wrong in many ways, or in none."""
    modern = rng.random() < 0.5
    body = mutated(rng, modern=modern)
    request = posted(body, modern=modern)
    chance = rng.random()
    if chance < 0.12:
        request = replace(request, path=b"/messages/?session_id=" + STREAMS[modern])
    elif chance < 0.14 and b'"initialize"' in body:
        request = replace(request, headers={k: v for k, v in request.headers.items() if k != b"Mcp-Session-Id"})
    for _ in range(rng.choice((0, 0, 0, 0, 1, 2))):
        request = rng.choice(HEADER_MUTATIONS)(rng, request)
    return request


def drop_header(rng: random.Random, request: Request) -> Request:
    gone = rng.choice(sorted(request.headers))
    return replace(request, headers={k: v for k, v in request.headers.items() if k != gone or k == b"Content-Length"})


def change_header(rng: random.Random, request: Request) -> Request:
    name = rng.choice(sorted(request.headers.keys() - {b"Content-Length"}))
    others = (
        *ODD_HEADERS,
        *request.headers.values(),
        SESSION,
        b"2025-06-18",
        b"2030-01-01",
        b"text/plain",
        b"text/event-stream",
    )
    return replace(request, headers={**request.headers, name: rng.choice(others)})


def add_header(rng: random.Random, request: Request) -> Request:
    name = rng.choice(
        (
            *(b"mcp-method", b"mcp-name", b"mcp-protocol-version", b"mcp-session-id", b"Mcp-Param-Description"),
            *(b"Last-Event-ID", b"Origin", b"Content-Encoding", b"Expect", b"Authorization", b"Upgrade", b"Connection"),
        )
    )
    value = rng.choice((*ODD_HEADERS, SESSION, b"close", b"gzip", b"tools/call", b"http://evil.example"))
    return replace(request, headers={**request.headers, name: value})


def change_method(rng: random.Random, request: Request) -> Request:
    return replace(
        request, method=rng.choice((b"GET", b"GET", b"PUT", b"DELETE", b"PATCH", b"HEAD", b"OPTIONS", b"ODD"))
    )


def change_path(rng: random.Random, request: Request) -> Request:
    paths = (
        b"/",
        b"/mcp/",
        b"/sse",
        b"/messages/",
        b"/messages/?session_id=x",
        b"/healthz",
        b"/mcp?x=%00%ff",
        b"/" + b"x" * 3000,
    )
    return replace(request, path=rng.choice(paths))


def change_length(rng: random.Random, request: Request) -> Request:
    length = rng.choice((b"0", b"-1", b"x", b"5", b"99999999999", b"%d" % (len(request.body) + 1)))
    return replace(request, headers={**request.headers, b"Content-Length": length}, cut_short=True)


def cut_short(rng: random.Random, request: Request) -> Request:
    return replace(request, cut_short=True)


def answer_only(rng: random.Random, request: Request) -> Request:
    """A response to a request of the server, over a session."""
    body = b'{"jsonrpc":"2.0","id":%d,"result":{"action":"accept","content":{"answer":"red"}}}' % rng.randrange(9)
    return posted(body, modern=False)


HEADER_MUTATIONS: Sequence[Callable[[random.Random, Request], Request]] = (
    *(drop_header, drop_header, change_header, change_header, add_header, add_header),
    *(change_method, change_path, change_length, cut_short, answer_only),
)
