"""How often a tool server is started, and how long that may take: rules."""

from collections.abc import Sequence

MOST_STARTS = 5
WITHIN = 300.0
"""Seconds. A server that dies faster than that is broken, and starting it again and again would help nobody."""

_PATIENCE = 60.0
"""Seconds until a server must have answered for the first time; `npx` may have to download it."""


def seconds_to_start(timeout: float) -> float:
    """How long a server may take to come up, all in all, given what one call of it may take."""
    return min(timeout, _PATIENCE)


def wait_before_start(starts: Sequence[float], now: float) -> float:
    """How many seconds must pass before it may be started again, given when it was started before."""
    recent = [at for at in starts if now - at < WITHIN]
    return 0.0 if len(recent) < MOST_STARTS else recent[-MOST_STARTS] + WITHIN - now
