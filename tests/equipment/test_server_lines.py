"""What a tool server writes to its standard output."""

import pytest
from mcp_types import JSONRPCError, JSONRPCResponse

from mcp_subagents.equipment.server_lines import Lines, LineTooLong, NoMessage, message_on


def test_lines_are_cut_wherever_the_chunks_end_and_empty_ones_are_left_out():
    lines = Lines()
    assert [*lines.feed(b"on"), *lines.feed(b"e\n\r\n  \ntw"), *lines.feed(b"o\r\nthree")] == [b"one", b"two"]
    assert [*lines.feed(b"\n")] == [b"three"]


def test_a_line_without_an_end_does_not_fill_the_memory():
    lines = Lines(longest=10)
    assert [*lines.feed(b"0123456789")] == []
    with pytest.raises(LineTooLong):
        list(lines.feed(b"x"))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"fine"}}', "fine"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"caf\xe9"}}', "caf\N{REPLACEMENT CHARACTER}"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"half \\ud83d"}}', "half \N{REPLACEMENT CHARACTER}"),
    ],
    ids=["a message", "a byte that is no UTF-8", "half an emoji"],
)
def test_a_message_is_read_whatever_is_in_its_texts(line: bytes, text: str):
    assert message_on(line) == JSONRPCResponse(jsonrpc="2.0", id=1, result={"a": text})


@pytest.mark.parametrize(
    ("line", "answered"),
    [
        (b"Server started on port 8000", None),
        (b"[]", None),
        (b"42", None),
        (b"{}", None),
        (b'{"jsonrpc":"2.0","id":true,"result":5}', None),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', None),
        (b'{"jsonrpc":"2.0","id":7,"result":5}', 7),
        (b'{"jsonrpc":"2.0","id":"x","error":"no object"}', "x"),
    ],
    ids=[
        *("talk", "a list", "a number", "an empty object", "no id", "a broken request", "a broken result"),
        "a broken error",
    ],
)
def test_a_line_that_is_no_message_answers_a_request_only_if_it_was_to(line: bytes, answered: int | str | None):
    found = message_on(line)
    assert isinstance(found, NoMessage)
    assert found.text == line.decode()
    assert (found.answer.id if isinstance(found.answer, JSONRPCError) else None) == answered
