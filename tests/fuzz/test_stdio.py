"""Whatever comes in over a pipe, the server lives, answers, and stays small."""

import json
import random
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import ByteSendStream
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.fuzz.canary import delegate
from tests.fuzz.corpus import EVERY_ID, LISTENING_IDS
from tests.fuzz.kinds import kind_of
from tests.fuzz.mutations import mutated
from tests.fuzz.siege import CANARY_EVERY, PATIENCE, SEED, Siege, besieged, how_many
from tests.fuzz.team import LONGEST_LINE
from tests.server.processes import INITIALIZED, cancelled, request

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="counts what Linux tells of a process"),
]

MESSAGES = how_many(4000)
TIDY_EVERY = 1000
NOTHING_MORE = b"".join(json.dumps(cancelled(each)).encode() + b"\n" for each in (*EVERY_ID, *LISTENING_IDS))
"""Cancels all that may be open. Without it the subscriptions, which have no end, add up to as many as are allowed."""


class Pipe:
    """The host's end: what it says, and who waits for which answer."""

    def __init__(self, siege: Siege) -> None:
        assert siege.process.stdin
        assert siege.process.stdout
        self._siege = siege
        self._to: ByteSendStream = siege.process.stdin
        self._from = BufferedByteReceiveStream(siege.process.stdout)
        self._awaited: dict[object, tuple[anyio.Event, list[dict[str, Any]]]] = {}

    async def say(self, line: bytes) -> None:
        with anyio.fail_after(PATIENCE):
            await self._to.send(line)

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """What the server answers to a message that is in order."""
        heard, answer = self._awaited[message["id"]] = anyio.Event(), list[dict[str, Any]]()
        began = time.monotonic()
        await self.say(b"\n" + json.dumps(message).encode() + b"\n")
        with anyio.fail_after(PATIENCE):
            await heard.wait()
        self._siege.canaries.append(time.monotonic() - began)
        assert "result" in answer[0], answer
        return answer[0]["result"]

    async def listen(self) -> None:
        """Hear all answers. Each line must be a message."""
        while True:
            try:
                line = await self._from.receive_until(b"\n", 2**25)
            except (anyio.EndOfStream, anyio.IncompleteRead):
                return
            self._siege.known.learn(line)
            message = json.loads(line)
            self._siege.answers[kind_of(message)] += 1
            identity = message.get("id")
            if "method" not in message and isinstance(identity, str) and identity in self._awaited:
                heard, answer = self._awaited.pop(identity)
                answer.append(message)
                heard.set()

    async def hang_up(self) -> None:
        await self._to.aclose()


async def test_a_server_on_a_pipe_outlives_whatever_comes_in(tmp_path: Path, pytestconfig: pytest.Config):
    rng = random.Random(SEED)
    with anyio.fail_after(60 + MESSAGES / 50):
        async with besieged("stdio", tmp_path, pytestconfig, MESSAGES) as siege, anyio.create_task_group() as group:
            pipe = Pipe(siege)
            group.start_soon(pipe.listen)
            await pipe.ask({**request(0, "initialize", **HOST), "id": "handshake"})
            await pipe.say(json.dumps(INITIALIZED).encode() + b"\n")
            for sent in range(MESSAGES):
                if sent % TIDY_EVERY == 0:
                    await pipe.say(NOTHING_MORE)
                if sent % CANARY_EVERY == 0:
                    modern = sent % (2 * CANARY_EVERY) == 0
                    siege.last_task = await delegate(pipe.ask, f"canary-{sent}", siege.known, modern=modern)
                    siege.look(sent)
                await pipe.say(siege.known.filled_in(some_line(rng)))
            siege.last_task = await delegate(pipe.ask, "the last", siege.known, modern=True)
            siege.judge("stdio")
            await pipe.hang_up()
            with anyio.fail_after(PATIENCE):
                assert await siege.process.wait() == 0


HOST: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "fuzz", "version": "1"},
}


def some_line(rng: random.Random) -> bytes:
    chance = rng.random()
    if chance < 0.0005:
        return b"x" * (LONGEST_LINE + 10) + b"\n"
    line = mutated(rng, modern=rng.random() < 0.5)
    # Now and then the break is missing, and two messages become one.
    return line if chance < 0.01 else line + b"\n"
