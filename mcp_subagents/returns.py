"""What came of the calls of a task's last turn: what its model would have read with the next request."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import ToolReturn
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart

from mcp_subagents.records import Entry, EntryKind

CALLS = frozenset({EntryKind.TOOL_STARTED, EntryKind.TOOL_RESULT})

_IN_FLIGHT = "This call was interrupted before its result was recorded: it may or may not have taken effect."
_NOT_MADE = "This call was not made: the task ended before."

_RETURNED: TypeAdapter[ToolReturnPart] = TypeAdapter(ToolReturnPart)
_RICH: TypeAdapter[ToolReturn[Any]] = TypeAdapter(ToolReturn)


def since_the_last_turn(entries: Iterable[Entry]) -> dict[str, Entry]:
    """What is recorded last of each call that was started after the last turn, by its id."""
    found: dict[str, Entry] = {}
    for entry in entries:
        if entry.kind in CALLS:
            found[json.loads(entry.body)["id"]] = entry
        elif entry.kind is not EntryKind.EVENT:
            found.clear()
    return found


def open_calls(messages: Sequence[ModelMessage]) -> Sequence[ToolCallPart]:
    """The calls that `messages` end with, if nobody has answered them."""
    last = messages[-1] if messages else None
    return last.tool_calls if isinstance(last, ModelResponse) else []


def returned(call: ToolCallPart, recorded: Mapping[str, Entry], answers: Mapping[str, str]) -> ToolReturnPart:
    """What the model is told of `call`: what it returned, or how far it came."""
    if call.tool_call_id in answers:
        return ToolReturnPart(call.tool_name, answers[call.tool_call_id], call.tool_call_id)
    entry = recorded.get(call.tool_call_id)
    if entry is not None and entry.kind is EntryKind.TOOL_RESULT:
        return result_of(entry)
    told = _NOT_MADE if entry is None else _IN_FLIGHT
    return ToolReturnPart(call.tool_name, told, call.tool_call_id, outcome="interrupted")


def result_of(entry: Entry) -> ToolReturnPart:
    """A recorded result, as it is told to a model."""
    body: dict[str, Any] = json.loads(entry.body)
    name, key, value = body["tool"], body["id"], body["value"]
    if body["outcome"] != "returned":
        outcome = "retried" if body["outcome"] == "retry" else "failed"
        return ToolReturnPart(name, value, key, outcome=outcome)
    if "rich" in value:
        return ToolReturnPart(name, _RICH.validate_python(value["rich"]).return_value, key)
    return ToolReturnPart(name, _RETURNED.validate_python(value["plain"]).content, key)
