"""From bytes to JSON-RPC messages: lines of bounded length, and a clear refusal for every one that is no message."""

import json
import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import mcp_types
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, RequestId
from pydantic import ValidationError
from pydantic_core import from_json

_START = 2_000
_ID = re.compile(
    rb"""\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,200}"\s*,\s*){0,2}"id"\s*:\s*("[^"\\]{0,200}"|-?[0-9]{1,18})\s*[,}]"""
)

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some shells put it before the first thing they pipe."""


@dataclass(frozen=True, slots=True)
class Refused:
    """What came in is no message; `answer` says why."""

    answer: JSONRPCError


class Lines:
    """Cuts a stream of bytes into lines, and keeps no more than `longest` bytes of any."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._begun = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> Generator[bytes | Refused]:
        """The lines that `chunk` completes. A line that gets too long is refused at once, and its rest left out."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield from self._take(end)
            yield from self._complete()
        yield from self._take(rest)

    def finish(self) -> Generator[bytes]:
        """The last line, if the stream ended without a line break."""
        yield from self._complete()

    def _take(self, part: bytes) -> Generator[Refused]:
        if self._skipping:
            return
        if len(self._begun) + len(part) <= self._longest:
            self._begun += part
            return
        asked = _id_at_the_start(bytes(self._begun[:_START]) + part[:_START])
        self._skipping = True
        self._begun = bytearray()
        why = f"The message is longer than {self._longest} bytes, which is the most allowed."
        yield refuse(INVALID_REQUEST, why, asked)

    def _complete(self) -> Generator[bytes]:
        line, skipped = bytes(self._begun), self._skipping
        self._begun, self._skipping = bytearray(), False
        if not skipped and line.strip():
            yield line


def parse(line: bytes) -> JSONRPCMessage | Refused:
    """The message on `line`, or why it is none."""
    try:
        data = _read_json(line.removeprefix(BYTE_ORDER_MARK))
    except (ValueError, RecursionError) as wrong:
        return refuse(PARSE_ERROR, f"The line is not JSON: {wrong}.")
    if isinstance(data, list):
        return refuse(INVALID_REQUEST, "Batches are not part of MCP; send one message a line.")
    if not isinstance(data, dict):
        return refuse(INVALID_REQUEST, "A JSON-RPC message is an object.")
    fields = cast("dict[str, Any]", data)
    try:
        message = mcp_types.jsonrpc_message_adapter.validate_python(fields, by_name=False)
    except ValidationError:
        message = None
    # The SDK takes a request whose id is null, true or 1.5 for a notification, and would never answer it.
    if message is None or ("id" in fields and isinstance(message, mcp_types.JSONRPCNotification)):
        return refuse(INVALID_REQUEST, _what_is_wrong(fields), _readable_id(fields))
    return message


def _id_at_the_start(line: bytes) -> RequestId | None:
    """The id of a request too long to be read, if it comes before what makes it long; its client waits for that."""
    found = _ID.match(line)
    return None if found is None else cast("RequestId", from_json(found[1]))


def refuse(code: int, why: str, request_id: RequestId | None = None) -> Refused:
    """An error that answers `request_id`, or nothing in particular."""
    return Refused(JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=why)))


def _read_json(line: bytes) -> object:
    # Bytes that are no UTF-8 become U+FFFD, as in the SDK: one bad byte in a text is no reason to refuse all of it.
    text = line.decode("utf-8", "replace")
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        if "\\u" not in text:
            raise
    # Hosts in JavaScript cut texts in the middle of an emoji; its half is valid JSON, though no valid text.
    halves = json.dumps(json.loads(text, parse_constant=_no_number), ensure_ascii=False)
    return from_json(halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _readable_id(fields: dict[str, Any]) -> RequestId | None:
    """The id to answer to. That of a broken answer is one of ours, and must not come back as if it were theirs."""
    found = fields.get("id")
    usable = isinstance(found, str) or (isinstance(found, int) and not isinstance(found, bool))
    return found if usable and not {"result", "error"} & fields.keys() else None


def _what_is_wrong(fields: dict[str, Any]) -> str:
    if fields.get("jsonrpc") != "2.0":
        return 'Not a JSON-RPC message: "jsonrpc" must be "2.0".'
    if "id" in fields and _readable_id({"id": fields["id"]}) is None:
        return 'Not a JSON-RPC message: "id" must be a text or a whole number.'
    if "method" in fields and not isinstance(fields["method"], str):
        return 'Not a JSON-RPC message: "method" must be a text.'
    if "method" in fields:
        return 'Not a JSON-RPC message: "params" must be an object.'
    return 'Not a JSON-RPC message: it has neither a "method" nor a proper "result" or "error".'
