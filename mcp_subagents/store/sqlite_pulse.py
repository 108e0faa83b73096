"""Signs of life at an interval, for as long as there is anything to live for."""

import time
from datetime import timedelta

from mcp_subagents.store.sqlite_transaction import Transaction, Write


class Pulse:
    """When the next sign of life is due, if there is to be one."""

    def __init__(self) -> None:
        self._give: Write[bool] | None = None
        self._every = 0.0
        self._due_at = 0.0
        self._fades = False
        """Whether there was nothing to live for, as far as is not committed yet."""

    def keep(self, give: Write[bool], every: timedelta) -> None:
        """Call `give` at this interval until it returns False. To be called by a function that writes."""
        self._fades = False
        if self._give is None:
            self._every = every.total_seconds()
            self._due_at = time.monotonic() + self._every
            self._give = give

    def stop(self) -> None:
        self._give = None

    @property
    def seconds_left(self) -> float | None:
        """Until the next one is due; `None` if none is to come."""
        return None if self._give is None else max(0.0, self._due_at - time.monotonic())

    def is_due(self) -> bool:
        """Whether it is time for one, which then is for the caller to see to."""
        if self.seconds_left != 0.0:
            return False
        self._due_at = time.monotonic() + self._every
        return True

    def beat(self, transaction: Transaction) -> None:
        """Give a sign of life."""
        self._fades = self._give is not None and not self._give(transaction)

    def committed(self) -> None:
        if self._fades:
            self.stop()
        self._fades = False

    def undone(self) -> None:
        self._fades = False
