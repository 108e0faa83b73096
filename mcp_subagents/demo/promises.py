"""What the story promises, and what it takes to believe it."""

from dataclasses import dataclass


class BrokenPromise(Exception):
    """Something was not as promised."""

    def __init__(self, promised: str, found: str) -> None:
        self.promised = promised
        self.found = found
        super().__init__(f"Promised: {promised}. Found: {found}.")


@dataclass(frozen=True, slots=True)
class Proof:
    """A promise that was kept, and the evidence."""

    promise: str
    evidence: str


def require(promised: str, found: object, expected: object) -> None:
    """`found` is what was `expected`, as `promised`. Raises: `BrokenPromise`."""
    if found != expected:
        raise BrokenPromise(promised, f"{found!r}, and not {expected!r}")
