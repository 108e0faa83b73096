"""Durations, as people write and read them."""

import re
from datetime import timedelta

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_WRITTEN = re.compile(rf"(\d{{1,6}})([{''.join(_UNITS)}])")


def duration(text: str) -> timedelta:
    """How long `90s`, `15m`, `12h`, `30d` or `2w` is. Raises: `ValueError`, which says how it is written."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a duration such as 12h, 30d or 2w")
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])


def age(passed: timedelta) -> str:
    """How long that was, in its largest whole unit: `42s`, `3m`, `5h`, `12d`."""
    seconds = max(0, int(passed.total_seconds()))
    unit = next(unit for unit in ("d", "h", "m", "s") if seconds >= _UNITS[unit] or unit == "s")
    return f"{seconds // _UNITS[unit]}{unit}"
