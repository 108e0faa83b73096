"""What tools have returned: how it is recorded, and what a model is told of the calls of a task's last turn."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_ai import ToolReturn
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_core import PydanticSerializationError

from mcp_subagents.records import Entry, EntryKind
from mcp_subagents.texts import encodable

CALLS = frozenset({EntryKind.TOOL_STARTED, EntryKind.TOOL_RESULT})

_IN_FLIGHT = "This call was interrupted before its result was recorded: it may or may not have taken effect."
_NOT_MADE = "This call was not made: the task ended before."

_RETURNED: TypeAdapter[ToolReturnPart] = TypeAdapter(ToolReturnPart)
_RICH: TypeAdapter[ToolReturn[Any]] = TypeAdapter(ToolReturn)


def taken_down(result: Any) -> tuple[Any, Any]:
    """What a tool returned, and what is recorded of it.

    Half a character in its texts, which neither a store nor a model would take, becomes a mark.
    """
    if isinstance(result, str):
        result = encodable(result)
    try:
        return result, recorded(result)
    except PydanticSerializationError:
        result = _whole(result)
        return result, recorded(result)


def _whole(value: Any) -> Any:
    match value:
        case str():
            return encodable(value)
        case dict():
            return {_whole(key): _whole(each) for key, each in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [_whole(each) for each in cast("Iterable[Any]", value)]
        case _:
            return value


def recorded(result: Any) -> Any:
    """What a tool returned, as JSON. Rich objects come back as plain data, as the model sees them."""
    if type(result) is str:
        return {"text": result}
    if isinstance(result, ToolReturn):
        return {"rich": json.loads(_RICH.dump_json(cast("ToolReturn[Any]", result)))}
    part = ToolReturnPart(tool_name="", content=result, tool_call_id="")
    return {"plain": json.loads(_RETURNED.dump_json(part))}


def replayed(value: Any) -> Any:
    """What a tool returned, from what is `recorded` of it."""
    if "text" in value:
        return value["text"]
    if "rich" in value:
        return _RICH.validate_python(value["rich"])
    return _RETURNED.validate_python(value["plain"]).content


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
    result = replayed(value)
    return ToolReturnPart(name, result.return_value if isinstance(result, ToolReturn) else result, key)
