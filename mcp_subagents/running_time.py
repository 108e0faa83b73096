"""How long a task has been running, and when that is too long."""

import math
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
from pydantic_ai import exceptions as pai

_WHOSE = ("", " of the task that delegated this one", " of a task further up")


def whose(level: int) -> str:
    """Whose a limit is, to be said after it: a task's own (0), its parent's (1), or that of one further up."""
    return _WHOSE[min(level, len(_WHOSE) - 1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeLimit:
    """A limit on running time that holds for a run."""

    most: float
    left: float
    """Seconds, from when the run begins."""
    level: int = 0
    """How far above the task it is set: 0 for its own."""

    def __str__(self) -> str:
        if self.level == 0:
            return f"The task used up its {self.most:g} seconds of running time."
        return f"The {self.most:g} seconds of running time{whose(self.level)} are used up."


class TimeUsedUp(pai.RunTimedOut):
    """A limit on running time was reached; the message says which, and whose."""


class RunningTime:
    """The running time of an attempt. It stands still while the attempt waits for an answer at hand."""

    def __init__(self, before: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.so_far = before
        """Seconds, over all attempts, as far as they are counted."""
        self._clock = clock
        self._counted_at = clock()
        self._scope: anyio.CancelScope | None = None

    def count(self) -> float:
        """Seconds since they were last counted."""
        now = self._clock()
        passed, self._counted_at = now - self._counted_at, now
        self.so_far += passed
        return passed

    @contextmanager
    def limit(self, limits: Sequence[TimeLimit]) -> Generator[None]:
        """Let the block take no longer than any of these allows. Raises: `TimeUsedUp`."""
        first = min(limits, key=lambda each: each.left, default=None)
        if first is None or math.isinf(first.left):
            yield
            return
        with anyio.move_on_after(max(first.left, 0.0)) as self._scope:
            yield
        if self._scope.cancelled_caught:
            raise TimeUsedUp(str(first))

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """What passes in the block is no running time."""
        began, scope = self._clock(), self._scope
        deadline = math.inf if scope is None else scope.deadline
        if scope is not None:
            scope.deadline = math.inf
        try:
            yield
        finally:
            passed = self._clock() - began
            self._counted_at += passed
            if scope is not None:
                scope.deadline = deadline + passed
