"""What the deferred calls of a turn wait for: answers from the parent, or tasks below."""

from dataclasses import dataclass
from datetime import datetime

from pydantic_ai.tools import DeferredToolRequests

from mcp_subagents.asking import ASK_PARENT
from mcp_subagents.errors import ConfigError
from mcp_subagents.nesting import awaited_in
from mcp_subagents.trees import Awaited
from mcp_subagents.types import Question


@dataclass(frozen=True, kw_only=True, slots=True)
class Parking:
    """Why a task is parked."""

    questions: tuple[Question, ...]
    awaited: tuple[Awaited, ...]
    until: datetime | None
    """When the first of the calls that wait for tasks has waited long enough."""


def parking_of(requests: DeferredToolRequests) -> Parking:
    """Sort the calls that were deferred. Raises: `ConfigError` for those that nobody here can carry out."""
    questions = [
        Question(question_id=call.tool_call_id, text=str(call.args_as_dict().get("question", "")))
        for call in requests.calls
        if call.tool_name == ASK_PARENT.name
    ]
    waits = {call.tool_call_id: awaited_in(requests.metadata.get(call.tool_call_id) or {}) for call in requests.calls}
    known = [wait for wait in waits.values() if wait is not None]
    if len(questions) + len(known) != len(requests.calls) or requests.approvals:
        others = {call.tool_name for call in requests.calls if waits[call.tool_call_id] is None} - {ASK_PARENT.name}
        others |= {call.tool_name for call in requests.approvals}
        raise ConfigError(f"Nobody here can approve or carry out these tools: {', '.join(sorted(others))}.")
    return Parking(
        questions=tuple(questions),
        awaited=tuple(awaited for awaited, _ in known),
        until=min((until for _, until in known), default=None),
    )
