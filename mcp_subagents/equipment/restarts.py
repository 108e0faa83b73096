"""How often a tool server is started: a rule."""

from collections.abc import Sequence

MOST_STARTS = 5
WITHIN = 300.0
"""Seconds. A server that dies faster than that is broken, and starting it again and again would help nobody."""


def wait_before_start(starts: Sequence[float], now: float) -> float:
    """How many seconds must pass before it may be started again, given when it was started before."""
    recent = [at for at in starts if now - at < WITHIN]
    return 0.0 if len(recent) < MOST_STARTS else recent[-MOST_STARTS] + WITHIN - now
