"""What a model was asked, counted by somebody who is not asked himself: the gateway."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["open", "answered", "refused", "cut off"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One request for one turn of one task."""

    task: str
    turn: int
    """Counted from 1, by the answers that are in the request already."""
    process: int
    """Which process asked."""
    told: tuple[str, ...] = ()
    """The messages of the host that the request carries."""
    outcome: Outcome = "open"


def count(ledger: Sequence[Asked], outcome: Outcome) -> int:
    """How many requests ended like that."""
    return sum(asked.outcome == outcome for asked in ledger)


def paid_twice(ledger: Sequence[Asked]) -> list[tuple[str, int]]:
    """The turns that were asked for again after they had been answered."""
    paid = Counter((asked.task, asked.turn) for asked in ledger if asked.outcome == "answered")
    return [turn for turn, times in paid.items() if times > 1]
