"""How much of a text is shown, so that no answer floods the context of the model that reads it."""

from collections.abc import Sequence

BUDGET = 20_000
"""Characters of results in one answer."""
_LEAST = 100
"""What a text is worth showing in part."""


def shortened(text: str, budget: int) -> tuple[str, int]:
    """`text` in at most `budget` characters, without its middle if need be, and how many of its own are left out."""
    if len(text) <= budget:
        return text, 0
    room = budget - len(left_out(len(text)))
    if room < _LEAST:
        return "", len(text)
    tail = room // 4
    omitted = len(text) - room
    return f"{text[: room - tail]}{left_out(omitted)}{text[len(text) - tail :]}", omitted


def left_out(omitted: int) -> str:
    """The mark in the place of what is left out."""
    return f"\n\n[… {omitted:,} characters left out …]\n\n"


def clipped(text: str, longest: int) -> str:
    """The beginning of `text`."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def shares(wanted: Sequence[int], budget: int = BUDGET) -> list[int]:
    """What each of several texts may take: short ones all they want, the others the same part of what is left."""
    given = [0] * len(wanted)
    left, waiting = budget, len(wanted)
    for index in sorted(range(len(wanted)), key=lambda each: wanted[each]):
        given[index] = min(wanted[index], left // waiting)
        left -= given[index]
        waiting -= 1
    return given
