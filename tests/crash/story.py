"""What happens in each task: decided by its number alone, so that a witness without memory can tell it."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_subagents.testing import Reply, Status, Text, ToolCall, ToolCalls, rate_limited

TURNS = 4
CALLS = 3
"""Tool calls in every turn but the last."""

EFFECT, LOOKUP, ASK = "effect", "lookup", "ask_parent"


def name_of(number: int) -> str:
    return f"task-{number:04}"


def asked_for(messages: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """The number of the task that a request belongs to, and of the turn it asks for."""
    found = re.search(r"task-(\d{4})", json.dumps(messages))
    assert found is not None, "a request of an unknown task"
    return int(found[1]), sum(message["role"] == "assistant" for message in messages)


def tools_of(number: int, turn: int) -> Sequence[str]:
    """The tools that a task calls in a turn, all at once. Some turns ask one question, some two."""
    if turn == TURNS - 1:
        return ()
    if turn == 1 and number % 12 == 0:
        return (ASK, EFFECT, ASK)
    if turn == 1 and number % 4 == 0:
        return (ASK, EFFECT, LOOKUP)
    return (EFFECT, LOOKUP, EFFECT)


def call_id(number: int, turn: int, index: int) -> str:
    return f"{name_of(number)}.{turn}.{index}"


def calls_of(number: int) -> dict[str, str]:
    """Every call of a task by its id, with the tool it is for."""
    return {
        call_id(number, turn, index): tool for turn in range(TURNS) for index, tool in enumerate(tools_of(number, turn))
    }


def fault_of(number: int, turn: int) -> Status | None:
    """What the first request for a turn meets in place of an answer."""
    if number % 5 == 1 and turn == number % TURNS:
        return Status(503)
    if number % 10 == 2 and turn == number % TURNS:
        return rate_limited(ms=60)
    return None


def reply_to(messages: Sequence[Mapping[str, Any]], *, first: bool) -> Reply:
    """The reply to a request; `first` says that nobody has asked for this turn before."""
    number, turn = asked_for(messages)
    if first and (fault := fault_of(number, turn)) is not None:
        return fault
    if tools := tools_of(number, turn):
        return ToolCalls([_call(number, turn, index, tool) for index, tool in enumerate(tools)])
    told = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    return Text(json.dumps({"task": name_of(number), "told": told}))


def _call(number: int, turn: int, index: int, tool: str) -> ToolCall:
    me = call_id(number, turn, index)
    args: Mapping[str, object] = {"question": f"which, for {me}?"} if tool == ASK else {"item": me}
    return ToolCall(tool, args, id=me)


def outcome_of(tool: str, call: str) -> str:
    """What the model is told when a call went well."""
    return answer_to(f"which, for {call}?") if tool == ASK else f"{tool} {call} done"


def answer_to(question: str) -> str:
    return f"the answer to {question!r}"
