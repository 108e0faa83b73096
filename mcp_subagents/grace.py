"""What must still be written is not cut short by a cancel; but who has to leave, leaves."""

import math
from collections.abc import Generator
from contextlib import contextmanager

import anyio

_SECONDS = 2.5
"""Whoever told the process to leave waits for five at the most, and the store wants some of them to be closed."""


class Grace:
    """One period of grace for everything that an engine still has to write when it leaves."""

    def __init__(self) -> None:
        self._ends_at = math.inf
        self._shields: set[anyio.CancelScope] = set()

    def begin(self) -> None:
        """The engine leaves: from now on, shields hold only for a moment."""
        self._ends_at = min(self._ends_at, anyio.current_time() + _SECONDS)
        for shield in self._shields:
            shield.deadline = self._ends_at

    @contextmanager
    def shield(self) -> Generator[None]:
        """Keep a cancel from the block, which is left in the middle when the grace has ended."""
        with anyio.CancelScope(shield=True, deadline=self._ends_at) as shield:
            self._shields.add(shield)
            try:
                yield
            finally:
                self._shields.discard(shield)
