"""Text of others that can be shown anywhere: in a terminal, a log, a JSON document, a database."""

import re

from mcp_subagents.redact import redact

_LONGEST = 300
_LONGEST_LOOK = 100_000
"""How much of a text is looked at for its first line; far more than is shown, so that no secret is cut in two."""
_ESCAPES = re.compile(
    r"""(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]       # colours, moves of the cursor
      | \x1b\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)        # titles, links
      | \x1b[ -/]{0,8}[0-~]
    """,
    re.VERBOSE,
)
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of the text around them."""
_HALVES = re.compile("[\ud800-\udfff]")
"""Surrogates: halves of characters."""


def plain(text: str) -> str:
    """`text` without terminal escapes and control characters; its lines end in a line feed."""
    text = _LINE_ENDS.sub("\n", _ESCAPES.sub("", text))
    return encodable(_UNSEEN.sub("", text))


def encodable(text: str) -> str:
    """`text` with a mark for each half of a character, which no encoding takes."""
    return _HALVES.sub("\N{REPLACEMENT CHARACTER}", text)


def first_line(text: str) -> str:
    """The first line of `text` that says something, with single spaces."""
    lines = (" ".join(line.split()) for line in plain(text).split("\n"))
    return next((line for line in lines if line), "")


def counted(number: int, one: str, many: str | None = None) -> str:
    """So many of them: `1 task`, `2 tasks`; `many` where an s at its end does not do."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def brief(text: str) -> str:
    """The first line of `text`, without secrets and of a length one likes to read."""
    line = redact(first_line(text[:_LONGEST_LOOK])).rstrip(" .,;:")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
