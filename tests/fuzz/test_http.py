"""Whatever comes in over HTTP and SSE, the server lives, answers without a 5xx, and stays small."""

import json
import random
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.fuzz.canary import delegate
from tests.fuzz.kinds import kind_of
from tests.fuzz.requests import SESSION, STREAMS, Request, posted, some_request
from tests.fuzz.siege import CANARY_EVERY, PATIENCE, SEED, Siege, besieged, how_many
from tests.fuzz.web import Answer, Events, Web, events
from tests.server.processes import INITIALIZE, INITIALIZED, call

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="counts what Linux tells of a process"),
]

MESSAGES = how_many(1200)
CLIENTS = 32
MOST_SESSIONS = 20


class Host:
    """All the clients of one server, and the sessions they have."""

    def __init__(self, siege: Siege, web: Web) -> None:
        self._siege, self._web = siege, web
        self._talking, self._renewing = anyio.Lock(), anyio.Lock()
        self.session = self._own = b""
        """Sessions in the older era: one that is fired at, and one that is let alone."""
        self.streams: tuple[Events, ...] = ()
        self._sessions: deque[bytes] = deque()

    async def shake_hands(self) -> bytes:
        """Open a session."""
        opened = await self._in_order(INITIALIZE, modern=False)
        session = opened.headers[b"mcp-session-id"]
        await self._in_order(INITIALIZED, modern=False, session=session)
        return session

    async def _renew(self) -> None:
        """Have a session to be fired at again, since whoever knows its id may end it."""
        async with self._renewing:
            message = {"jsonrpc": "2.0", "id": "renew", "method": "ping"}
            if (await self._in_order(message, modern=False, session=self.session)).status == 404:
                self.session = await self.shake_hands()

    async def greet(self, *streams: Events) -> None:
        """Open the sessions, and each SSE connection in its era."""
        self.session, self._own, self.streams = await self.shake_hands(), await self.shake_hands(), streams
        for modern, first in ((False, INITIALIZE), (True, call(0, "list_active_tasks", modern=True))):
            await self._by_stream({**first, "id": "first"}, modern=modern)

    async def fire(self, request: Request, web: Web) -> None:
        """Send it, and see that what comes back is no 5xx, and ends."""
        sent = self._filled_in(request)
        try:
            answer = await web.send(sent, patience=PATIENCE)
        except TimeoutError:
            raise AssertionError(f"no answer to {sent.encoded()[:2000]!r}") from None
        self._count(answer, request)
        if answer.status == 404 and request.headers.get(b"Mcp-Session-Id") == SESSION:
            await self._renew()
        opened = answer.headers.get(b"mcp-session-id", self.session)
        if opened != self.session and opened not in self._sessions:
            self._sessions.append(opened)
        if len(self._sessions) > MOST_SESSIONS:
            await web.send(_goodbye(self._sessions.popleft()), patience=PATIENCE)

    async def canary(self, number: int) -> None:
        """See that tasks are done in one of the eras, over HTTP and over SSE."""
        modern = number % (2 * CANARY_EVERY) == 0

        async def ask(message: dict[str, Any]) -> dict[str, Any]:
            answer = await self._in_order(message, modern=modern, session=self._own)
            assert answer.status == 200, answer
            return answer.messages()[-1]["result"]

        async def ask_by_stream(message: dict[str, Any]) -> dict[str, Any]:
            return (await self._by_stream(message, modern=modern))["result"]

        began = time.monotonic()
        self._siege.last_task = await delegate(ask, f"canary-{number}", self._siege.known, modern=modern)
        await delegate(ask_by_stream, f"canary-{number}", self._siege.known, modern=modern)
        self._siege.canaries.append(time.monotonic() - began)

    async def _in_order(self, message: dict[str, Any], *, modern: bool, session: bytes = b"") -> Answer:
        async with self._talking:
            request = posted(json.dumps(message).encode(), modern=modern, session=session)
            return await self._web.send(request, patience=PATIENCE)

    async def _by_stream(self, message: dict[str, Any], *, modern: bool) -> dict[str, Any]:
        stream = self.streams[modern]
        heard, answer = stream.expect(message["id"])
        request = replace(posted(json.dumps(message).encode(), modern=modern), path=stream.endpoint)
        async with self._talking:
            assert (await self._web.send(request, patience=PATIENCE)).status == 202
        with anyio.fail_after(PATIENCE):
            await heard.wait()
        return answer[0]

    def _filled_in(self, request: Request) -> Request:
        body = self._siege.known.filled_in(request.body)
        headers = {name: self.session if value == SESSION else value for name, value in request.headers.items()}
        if not request.cut_short:
            headers[b"Content-Length"] = b"%d" % len(body)
        path = request.path
        for name, stream in zip(STREAMS, self.streams, strict=True):
            path = path.replace(b"/messages/?session_id=" + name, stream.endpoint)
        return replace(request, body=body, headers=headers, path=path)

    def _count(self, answer: Answer, request: Request) -> None:
        assert request.cut_short or 200 <= answer.status < 500, (answer.status, answer.body, request.encoded())
        self._siege.known.learn(answer.body)
        kinds = [kind_of(message) for message in answer.messages() if message.get("jsonrpc")]
        self._siege.answers[f"{answer.status} {kinds[-1] if kinds else ''}".rstrip()] += 1


def _goodbye(session: bytes) -> Request:
    request = posted(b"", modern=False, session=session)
    return replace(request, method=b"DELETE")


async def attack(host: Host, requests: Iterator[tuple[int, Request]], siege: Siege, port: int) -> None:
    async with Web(port) as web:
        for number, request in requests:
            if number % CANARY_EVERY == 0:
                await host.canary(number)
                siege.look(number)
            await host.fire(request, web)


async def bombard(siege: Siege, port: int) -> None:
    rng = random.Random(SEED)
    async with Web(port) as web, events(port) as handshaken, events(port) as modern:
        host = Host(siege, web)
        await host.greet(handshaken, modern)
        requests = ((number, some_request(rng)) for number in range(MESSAGES))
        async with anyio.create_task_group() as group:
            for _ in range(CLIENTS):
                group.start_soon(attack, host, requests, siege, port)
        await host.canary(MESSAGES)


async def test_a_server_on_a_port_outlives_whatever_comes_in(tmp_path: Path, pytestconfig: pytest.Config):
    with anyio.fail_after(60 + MESSAGES / 50):
        async with besieged("sse", tmp_path, pytestconfig, MESSAGES) as siege:
            await bombard(siege, int(siege.greeting.split("/mcp")[0].split(":")[-1]))
            siege.judge("HTTP and SSE")
            siege.process.terminate()
            with anyio.fail_after(PATIENCE):
                assert await siege.process.wait() == 0
