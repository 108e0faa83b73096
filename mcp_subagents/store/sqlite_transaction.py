"""One commit in the making, and what need not be read again for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from mcp_subagents.records import TaskRecord
from mcp_subagents.store.sqlite_database import Database, Row

T = TypeVar("T")

Told = list[tuple[int, TaskRecord]]
"""Records that were written, each with the number of its change."""

LAST_CHANGE = """
SELECT max((SELECT coalesce(max(changed), 0) FROM task), (SELECT value FROM counter WHERE name = 'changes'))
"""
_LAST_NUMBERS = f"""
SELECT (SELECT coalesce(max(seq), 0) FROM task), (SELECT coalesce(max(id), 0) FROM journal), ({LAST_CHANGE})
"""


@dataclass(slots=True)
class Known:
    """What need not be read again, for as long as nobody else writes to the file."""

    version: int | None = None
    """Of the file, as the last commit left it."""
    running: dict[str, tuple[Row, TaskRecord]] = field(default_factory=dict[str, tuple[Row, TaskRecord]])
    """Tasks at work that were written here, each with its row."""
    numbers: list[int] = field(default_factory=list[int])
    """The last ones that were given out."""


class Transaction:
    """One commit in the making, shared by several jobs."""

    def __init__(self, db: Database, known: Known) -> None:
        self.db = db
        self.running = known.running
        self.told: Told = []
        self.tidy = False
        """Whether to shorten the write-ahead log after the commit."""
        self._numbers = known.numbers

    def next_task(self) -> int:
        return self._next(0)

    def next_entry(self) -> int:
        return self._next(1)

    def next_change(self) -> int:
        """Over all processes, they follow each other without a gap, but for those that came to nothing."""
        return self._next(2)

    def _next(self, which: int) -> int:
        if not self._numbers:
            self._numbers.extend(self.db.rows(_LAST_NUMBERS)[0])
        self._numbers[which] += 1
        return self._numbers[which]


Write = Callable[[Transaction], T]
"""A function that writes, within a transaction, all or nothing. It may be called again if that came to nothing."""
