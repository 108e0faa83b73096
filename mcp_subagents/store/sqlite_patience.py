"""How long to wait for a lock that another process holds."""

import math
import time
from datetime import timedelta

BUSY_TIMEOUT = timedelta(seconds=10)
"""How long to wait for another process to finish its write."""

_PAUSES = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.025, 0.025, 0.05, 0.05, 0.1)
"""Seconds before each new try, as SQLite has them; the last one goes for all that follow."""


class Patience:
    """Waits for a lock as SQLite's busy timeout does, but for one thing: it can be told that there is an end to it.

    Connections in several threads can share it.
    """

    def __init__(self, timeout: timedelta = BUSY_TIMEOUT) -> None:
        self.seconds = timeout.total_seconds()
        self._ends_at = math.inf

    def end(self, within: timedelta) -> None:
        """From then on, give up at once whatever is locked."""
        self._ends_at = time.monotonic() + within.total_seconds()

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_at

    def __call__(self, tries: int) -> bool:
        """Whether to try once more, after a pause. This is what SQLite calls when it finds a lock."""
        waited = sum(_PAUSES[:tries]) + max(0, tries - len(_PAUSES)) * _PAUSES[-1]
        left = min(self.seconds - waited, self._ends_at - time.monotonic())
        if left <= 0:
            return False
        time.sleep(min(left, _PAUSES[min(tries, len(_PAUSES) - 1)]))
        return True
