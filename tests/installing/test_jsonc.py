"""JSON with comments is read as what it says, and every mistake is told with its line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_subagents.config.mistakes import Mistake
from mcp_subagents.hosts.jsonc import Parsed, Value, parse

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def root(text: str) -> Value | None:
    parsed = parse(text)
    assert isinstance(parsed, Parsed), parsed
    return parsed.root


@pytest.mark.slow
@given(JSON, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_plain_json_is_read_as_python_reads_it(data: object, indent: int | str | None, ascii: bool) -> None:
    text = json.dumps(data, indent=indent, ensure_ascii=ascii)
    found = root(text)
    assert found is not None
    assert (found.data, found.start, found.end) == (json.loads(text), 0, len(text))


def test_a_value_knows_where_it_stands() -> None:
    text = ' { // one\n "a" : { "b" : [1, 2,], /* two */ } , }\n'
    found = root(text)
    assert found is not None
    [member] = found.named("a")
    assert text[member.value.start : member.value.end] == '{ "b" : [1, 2,], /* two */ }'
    assert text[member.start :].startswith('"a"')
    assert member.comma == text.rindex(",")
    assert found.data == {"a": {"b": [1, 2]}}


@pytest.mark.parametrize("text", ["", " \r\n", "// nothing\n", "\ufeff", "\ufeff/* x */"])
def test_a_text_may_hold_nothing(text: str) -> None:
    assert root(text) is None


WRONG = {
    '{\n "a": 1\n "b": 2}': (3, "'\"' where a comma or } was expected"),
    '{\n "a": [1\n}': (3, "'}' where a comma or ] was expected"),
    '{"a": tru}': (1, "'t' where a value was expected"),
    '{"a": 01}': (1, "'0' where a value was expected"),
    '{"a" 1}': (1, "'1' where a colon was expected"),
    "{\n\n a: 1}": (3, "'a' where a name in double quotes was expected"),
    "{'a': 1}": (1, '"\'" where a name in double quotes was expected'),
    '{"a": 1': (1, "the end of the file where a comma or } was expected"),
    '{"a': (1, "a text in double quotes does not end on its line"),
    '{"a": "x\ny"}': (1, "a text in double quotes does not end on its line"),
    '{"a": "\\x"}': (1, "a text that is not written as JSON wants it: invalid \\escape"),
    "{}\n{}": (2, "there is more after the end of the data"),
    "{,}": (1, "',' where a name in double quotes was expected"),
    "[1,,2]": (1, "',' where a value was expected"),
    "{ /* x }": (1, "'/' where a name in double quotes was expected"),
    '{\n"n": -' + "1" * 5000 + "}": (2, "a number of 5001 digits, which is too long"),
    "<<<<<<< HEAD\n{}": (1, "'<' where a value was expected"),
}


@pytest.mark.parametrize(("text", "told"), WRONG.items(), ids=[text[:30] for text in WRONG])
def test_a_mistake_is_told_with_its_line(text: str, told: tuple[int, str]) -> None:
    assert parse(text) == Mistake(what=f"not valid JSON: {told[1]}", line=told[0])


def test_nesting_without_end_is_a_mistake() -> None:
    assert parse("[" * 100_000) == Mistake(what="not valid JSON: it is nested too deeply")


@pytest.mark.parametrize(
    ("text", "extra"),
    [
        ('{\n"a": 1}', None),
        ('{\n"a": 1 // x\n}', Mistake(what="a comment", line=2)),
        ('{\n"a": [\n1,\n]}', Mistake(what="a comma after the last item", line=3)),
        ('{"a": "// no comment"}', None),
    ],
)
def test_it_is_told_what_plain_json_does_not_have(text: str, extra: Mistake | None) -> None:
    parsed = parse(text)
    assert isinstance(parsed, Parsed)
    assert parsed.extra == extra
