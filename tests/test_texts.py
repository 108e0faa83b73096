"""Texts of others, made fit to be shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_subagents.texts import counted, encodable, first_line, plain

ANY_TEXT = st.text(st.characters(categories=None) | st.sampled_from("\x1b[]0m;\x07\x9b\r\n\ud800"))


@given(ANY_TEXT)
def test_a_plain_text_can_be_shown_anywhere(text: str):
    shown = plain(text)
    assert shown.encode().decode() == shown
    assert not any(ord(character) < 32 and character not in "\n\t" for character in shown)
    assert "\x7f" not in shown
    assert plain(shown) == shown


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_an_ordinary_text_stays_as_it_is(text: str):
    assert (plain(text), encodable(text)) == (text, text)


@given(ANY_TEXT)
def test_a_first_line_is_one_line(text: str):
    assert len(first_line(text).splitlines()) <= 1


def test_an_encodable_text_keeps_its_colours():
    assert encodable("\x1b[31mred\x1b[0m \udfff\n") == "\x1b[31mred\x1b[0m �\n"


@pytest.mark.parametrize(
    ("number", "words", "told"),
    [
        (0, ("task",), "0 tasks"),
        (1, ("task",), "1 task"),
        (2, ("task",), "2 tasks"),
        (1, ("retry", "retries"), "1 retry"),
        (2, ("retry", "retries"), "2 retries"),
    ],
)
def test_things_are_counted_in_words(number: int, words: tuple[str, ...], told: str):
    assert counted(number, *words) == told
