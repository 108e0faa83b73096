"""What a task may use, and what an engine may take on. All of it is bounded unless somebody says otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta

from mcp_subagents.errors import ConfigError, did_you_mean


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The budget of one task and of all tasks below it together. `None` lifts a limit."""

    requests: int | None = 100
    """Model requests."""
    tool_calls: int | None = 300
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = 2_000_000
    cost_usd: float | None = 5.0
    """Holds where the model's price is known; the other limits hold always."""
    seconds: float | None = 3600.0
    """Time spent running, not in the queue and not waiting for an answer."""
    depth: int = 2
    """How many levels of tasks may be below it."""
    descendants: int | None = 20
    """How many tasks may be delegated below it, on all levels together."""

    @classmethod
    def of(cls, given: Mapping[str, float | None] | None, base: "Limits | None" = None) -> "Limits":
        """`base` with what is `given` changed. Raises: `ConfigError` for an unknown name or a negative number."""
        if not given:
            return base or cls()
        known = {each.name for each in fields(cls)}
        for name, value in given.items():
            if name not in known:
                raise ConfigError(f"limits: unknown limit {name!r}, {did_you_mean(name, known)}")
            if why := _why_no_limit(name, value):
                raise ConfigError(f"limits: {name} {why}")
        return replace(base or cls(), **dict(given))  # pyright: ignore[reportArgumentType]  # names checked above


_FRACTIONS = frozenset({"cost_usd", "seconds"})
"""What is not counted one by one."""


def _why_no_limit(name: str, value: object) -> str:
    if value is None:
        return "" if name != "depth" else "must be a whole number, 0 or more; it cannot be lifted"
    wanted = "a number, 0 or more" if name in _FRACTIONS else "a whole number, 0 or more"
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return f"must be {wanted}, not {shown}"
    if not value >= 0 or (name not in _FRACTIONS and value != value // 1):
        return f"must be {wanted}, not {shown}"
    return ""


def _is_amount(value: object) -> bool:
    """`None` for no limit, or a number from zero on; neither a bool nor a NaN is one."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value >= 0)


DAILY_COST_USD = 50.0
"""Nobody should learn from a bill that delegating had no end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """How much an engine takes on, and how long it waits for things."""

    max_concurrency: int = 8
    """Tasks that run at a time, over all processes on one store."""
    max_open_tasks: int = 1000
    """Tasks of one owner that have not ended."""
    limits: Limits = field(default_factory=Limits)
    request_timeout: float = 300.0
    """Seconds for one model request, however it hangs."""
    question_timeout: float = 7 * 24 * 3600.0
    """Seconds that a question may stay open."""
    hot_wait: float = 1.0
    """Seconds that an attempt stays at hand after asking, in case the answer comes at once."""
    retention_days: float = 30.0
    """How long ended tasks stay readable."""
    dead_after: float = 3.0
    """Seconds without a sign of life after which a process counts as lost. A living one gives one each second."""

    daily_cost_usd: float | None = DAILY_COST_USD
    """What all tasks of a store may cost in a day, UTC, where prices are known; None lifts it."""
    trace_content: bool = False
    """Whether traces hold what was said, and not only how long it took and what it cost."""

    def __post_init__(self) -> None:
        for name in ("max_concurrency", "max_open_tasks"):
            require_count(name, getattr(self, name))
        for name in ("request_timeout", "question_timeout", "retention_days", "dead_after", "hot_wait"):
            value: object = getattr(self, name)
            least = "0 or more" if name in ("retention_days", "hot_wait") else "above 0"
            if value is None or not _is_amount(value) or (least == "above 0" and not value):
                raise ConfigError(f"{name} must be a number, {least}, not {value!r}")
        if not _is_amount(self.daily_cost_usd):
            raise ConfigError(f"daily_cost_usd must be 0 or more, not {self.daily_cost_usd!r}")
        if type(self.limits) is not Limits:
            raise ConfigError("limits must be a Limits(...); to change some of them: Limits.of({...})")

    @property
    def retention(self) -> timedelta:
        """How long ended tasks stay readable; a century, if it is to be longer, since dates end somewhere."""
        return timedelta(days=min(self.retention_days, 36_525))


def require_count(name: str, value: object) -> None:
    """Raises: `ConfigError` unless `value` is a whole number from 1 on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{name} must be a whole number from 1 on, not {value!r}")
