"""What a tool server writes to its standard output, line by line: messages, and lines that are none."""

import json
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, cast

import mcp_types
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage
from pydantic import ValidationError

from mcp_subagents.texts import encodable

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes. A server that writes more without ending the line will hardly ever end it."""


class LineTooLong(Exception):
    """A line that no answer is long enough to need."""


class Lines:
    """Cuts what comes in into lines."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._begun = bytearray()

    def feed(self, chunk: bytes) -> Generator[bytes]:
        """The lines that `chunk` completes, without those that are empty. Raises: `LineTooLong`."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = bytes(self._begun + end).strip()
            self._begun.clear()
            if line:
                yield line
        self._begun += rest
        if len(self._begun) > self._longest:
            raise LineTooLong


@dataclass(frozen=True, slots=True)
class NoMessage:
    """A line that is no message: `text` is what is there."""

    text: str
    answer: JSONRPCMessage | None = None
    """What stands for it, if it was to be the answer to a request of ours: whoever waits for that must not wait on."""


def message_on(line: bytes) -> JSONRPCMessage | NoMessage:
    """The message on `line`. A byte that is no UTF-8, or half an emoji, spoils only its own place."""
    text = line.decode("utf-8", "replace")
    try:
        return mcp_types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValidationError:
        pass
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError):
        return NoMessage(text)
    whole = encodable(json.dumps(data, ensure_ascii=False))
    try:
        return mcp_types.jsonrpc_message_adapter.validate_json(whole, by_name=False)
    except ValidationError:
        return NoMessage(text, _instead_of(data))


def _instead_of(data: object) -> JSONRPCMessage | None:
    fields = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    asked = fields.get("id")
    if not isinstance(asked, str | int) or isinstance(asked, bool) or "method" in fields:
        return None
    why = ErrorData(code=INTERNAL_ERROR, message="its answer is not a JSON-RPC message")
    return JSONRPCError(jsonrpc="2.0", id=asked, error=why)
