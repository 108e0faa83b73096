"""Every message a client can send, in both eras, with good and with odd arguments."""

import random
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.server.processes import ENVELOPE

Message = dict[str, Any]

ODD_TEXTS = (
    "",
    " ",
    "\x00",
    "\ud800",
    "a\ud83d",
    "é" * 50,
    "../../x",
    "subagents://",
    "wait.",
    "null",
    "[[[",
    "{}",
    "💣",
)
ODD_URIS = (
    "subagents://tasks/",
    "subagents://tasks//result",
    "subagents://tasks/%00",
    "subagents://tasks/..%2f..%2fx/result",
    "file:///x",
    "subagents://tasks/a/b/c",
    "http://[::1",
    "::",
)
WAITS = (
    # Native ids are made up by clients too: no JSON, an empty list, no time zone, a time past all clocks.
    "wait.",
    "wait.e30",
    "wait.W10",
    "wait.WyJhbGwiLDEsIjIwMjYtMDEtMDFUMDA6MDA6MDAiLCJUQVNLLTAwMDEiXQ",
    "wait.WyJhbGwiLDFlMzA4LCIyMDI2LTAxLTAxVDAwOjAwOjAwKzAwOjAwIiwieCJd",
    "wait." + "W1tb" * 2000,
)


class Known:
    """What the server has told of itself: its ids, put where a message names one. So the messages stay reproducible."""

    _TOLD = re.compile(rb'"(?:task_?[iI]d|question_?[iI]d)\\?": ?\\?"([\w.-]{8,400})')
    _NAMED = re.compile(rb"TASK-(\d{4})")

    def __init__(self) -> None:
        self._ids: deque[bytes] = deque(maxlen=64)
        self.named: set[str] = set()
        """The ids that were put into messages."""

    def learn(self, answer: bytes) -> None:
        self._ids.extend(self._TOLD.findall(answer[:4096]))

    def filled_in(self, message: bytes) -> bytes:
        return self._NAMED.sub(self._one, message) if self._ids else message

    def _one(self, found: re.Match[bytes]) -> bytes:
        chosen = self._ids[int(found[1]) % len(self._ids)]
        self.named.add(chosen.decode())
        return chosen


def some_task(rng: random.Random) -> str:
    return rng.choice(ODD_TEXTS + WAITS) if rng.random() < 0.15 else f"TASK-{rng.randrange(9999):04}"


def some_text(rng: random.Random) -> str:
    return rng.choice(ODD_TEXTS) if rng.random() < 0.3 else rng.choice(("Why?", "blue", "go on", "x" * 300))


def some_uri(rng: random.Random) -> str:
    task = f"subagents://tasks/{some_task(rng)}"
    return rng.choice((task, task + "/result", task + "/transcript", "subagents://agents", *ODD_URIS))


def delegation(rng: random.Random) -> Message:
    given: Message = {"description": some_text(rng), "mode": rng.choice(("sync", "async", "auto", "never"))}
    odd: Message = {
        "subagent_type": rng.choice(("general-purpose", "asker", "asker", "broken", "nobody")),
        "priority": rng.choice(("low", "critical", "urgent", 3)),
        "complexity": rng.choice(("simple", "complex", None, "odd")),
        "requires_user_context": rng.choice((True, "yes", 1, None)),
        "continue_task_id": some_task(rng),
        "idempotency_key": rng.choice(("", "again", "x" * 300)),
    }
    return given | {name: odd[name] for name in rng.sample(sorted(odd), rng.randrange(3))}


TOOLS: Mapping[str, Callable[[random.Random], Message]] = {
    "task": delegation,
    "check_task": lambda rng: {"task_id": some_task(rng)},
    "wait_tasks": lambda rng: {
        "task_ids": rng.choice(([some_task(rng) for _ in range(3)], some_task(rng), "[" * 5000, '["TASK-0001"]', [])),
        "mode": rng.choice(("all", "any")),
        "timeout": rng.choice((0, 0.01, 1, 1e9, -1, None, "1")),
    },
    "answer_subagent": lambda rng: {"task_id": some_task(rng), "answer": some_text(rng)},
    "send_message_to_subagent": lambda rng: {"task_id": some_task(rng), "message": some_text(rng)},
    "list_active_tasks": lambda rng: {},
    "soft_cancel_task": lambda rng: {"task_id": some_task(rng)},
    "hard_cancel_task": lambda rng: {"task_id": some_task(rng)},
}


def tool_call(rng: random.Random) -> Message:
    name = rng.choice(sorted(TOOLS))
    return {"name": name, "arguments": TOOLS[name](rng)}


def completion(rng: random.Random) -> Message:
    ref = rng.choice(
        (
            {"type": "ref/resource", "uri": "subagents://tasks/{task_id}"},
            {"type": "ref/prompt", "name": "delegate"},
            {"type": "ref/odd"},
        )
    )
    name = rng.choice(("task_id", "subagent_type", "odd"))
    return {"ref": ref, "argument": {"name": name, "value": rng.choice(("", "g", "\x00"))}}


def listening(rng: random.Random) -> Message:
    wanted = {
        "resourceSubscriptions": [some_uri(rng) for _ in range(rng.randrange(4))],
        "toolsListChanged": rng.choice((True, False, 1)),
        "taskIds": [some_task(rng) for _ in range(rng.randrange(4))],
    }
    return {"notifications": {name: wanted[name] for name in rng.sample(sorted(wanted), rng.randrange(4))}}


def handshake(rng: random.Random) -> Message:
    return {
        "protocolVersion": rng.choice(("2025-11-25", "2024-11-05", "2026-07-28", "never", "")),
        "capabilities": rng.choice(({}, {"elicitation": {}}, {"sampling": {}, "roots": {"listChanged": True}})),
        "clientInfo": {"name": rng.choice(("fuzz", "claude-code", "")), "version": "1"},
    }


REQUESTS: Mapping[str, Callable[[random.Random], Message]] = {
    "initialize": handshake,
    "ping": lambda rng: {},
    "server/discover": lambda rng: {},
    "tools/list": lambda rng: {"cursor": rng.choice(("", "x"))} if rng.random() < 0.3 else {},
    "tools/call": tool_call,
    "resources/list": lambda rng: {},
    "resources/templates/list": lambda rng: {},
    "resources/read": lambda rng: {"uri": some_uri(rng)},
    "resources/subscribe": lambda rng: {"uri": some_uri(rng)},
    "resources/unsubscribe": lambda rng: {"uri": some_uri(rng)},
    "subscriptions/listen": listening,
    "prompts/list": lambda rng: {},
    "prompts/get": lambda rng: {"name": rng.choice(("delegate", "odd")), "arguments": {"goal": some_text(rng)}},
    "completion/complete": completion,
    "logging/setLevel": lambda rng: {"level": rng.choice(("debug", "error", "odd"))},
    "tasks/get": lambda rng: {"taskId": some_task(rng)},
    "tasks/update": lambda rng: {
        "taskId": some_task(rng),
        "inputResponses": {some_task(rng): {"action": "accept", "content": {"answer": some_text(rng)}}},
    },
    "tasks/cancel": lambda rng: {"taskId": some_task(rng)},
    "odd/method": lambda rng: {},
}
WEIGHTS = {"tools/call": 14, "initialize": 1, "subscriptions/listen": 1, "resources/read": 3, "tasks/get": 3}

ODD_IDS: Sequence[Any] = (None, 1.5, 1.0, True, {}, [], [1], {"a": 1}, "", "0", -1, 2**64, 10**40, "\ud800", "x" * 3000)

LISTENING_IDS = [f"l{number}" for number in range(20)]
"""Subscriptions have their own: one whose id is used again can no longer be cancelled, and they would add up."""
EVERY_ID: Sequence[int | str] = (*range(60), *(f"r{number}" for number in range(9)))

NOTIFICATIONS: Mapping[str, Callable[[random.Random], Message]] = {
    "notifications/cancelled": lambda rng: {
        "requestId": rng.choice([some_id(rng), some_id(rng), *ODD_IDS]),
        "reason": rng.choice(("no more", "timed out", 1)),
    },
    "notifications/initialized": lambda rng: {},
    "notifications/progress": lambda rng: {"progressToken": some_id(rng), "progress": rng.choice((1, -1, "1"))},
    "notifications/roots/list_changed": lambda rng: {},
    "notifications/tasks": lambda rng: {"taskId": some_task(rng)},
    "notifications/odd": lambda rng: {},
}

CAPABILITIES: tuple[Message, ...] = (
    {},
    {"elicitation": {}},
    {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    {"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
)


def some_id(rng: random.Random) -> int | str:
    """From a small choice, so that ids meet: cancels find their requests, and requests each other."""
    return rng.choice(EVERY_ID)


def envelope(rng: random.Random) -> Message:
    return {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": rng.choice(CAPABILITIES)}


def message(rng: random.Random, *, modern: bool) -> Message:
    """A message that is in order, though what it asks for may not be."""
    kind = rng.random()
    if kind < 0.05:
        outcome = {"result": rng.choice(({}, {"action": "accept", "content": {"answer": "red"}}, None, 5))}
        return {"jsonrpc": "2.0", "id": some_id(rng)} | (
            outcome if kind < 0.04 else {"error": {"code": 1, "message": ""}}
        )
    if kind < 0.15:
        method = rng.choice(sorted(NOTIFICATIONS))
        return {"jsonrpc": "2.0", "method": method, "params": NOTIFICATIONS[method](rng)}
    names = sorted(REQUESTS)
    method = rng.choices(names, [WEIGHTS.get(name, 1) for name in names])[0]
    params = REQUESTS[method](rng)
    meta = envelope(rng) if modern else {}
    if rng.random() < 0.2:
        meta = {**meta, "progressToken": some_id(rng)}
    return {
        "jsonrpc": "2.0",
        "id": rng.choice(LISTENING_IDS) if method == "subscriptions/listen" else some_id(rng),
        "method": method,
        "params": {**params, "_meta": meta} if meta else params,
    }
