"""The independent witness: a model provider in a process of its own, that writes down who asked it for what."""

import json
import os
import time
from collections import Counter

import anyio

from mcp_subagents.testing import Gateway, Hang, Received, Reply, Status
from tests.crash.story import asked_for, reply_to


async def serve(*, testimony: str, address: str, hang: bool = False) -> None:
    """Answer by the story. With `hang`, whoever asks first for a task's first turn gets no answer at all."""
    asked: Counter[tuple[int, int]] = Counter()
    log = os.open(testimony, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def choose(received: Received) -> Reply:
        at = time.time()
        messages = received.body["messages"]
        number, turn = asked_for(messages)
        first = not asked[number, turn]
        asked[number, turn] += 1
        reply = Hang() if hang and first and turn == 0 else reply_to(messages, first=first)
        status = reply.code if isinstance(reply, Status) else 0 if isinstance(reply, Hang) else 200
        worker = received.headers["x-worker"]
        line = json.dumps({"at": at, "task": number, "turn": turn, "worker": worker, "status": status})
        os.write(log, line.encode() + b"\n")
        return reply

    async with Gateway(choose) as gateway:
        await anyio.Path(address).write_text(gateway.url, encoding="utf-8")
        await anyio.sleep_forever()
