"""When a failed run is tried again, and how long after that: policy, judgement, backoff. Pure."""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai import exceptions as pai

from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.errors import ConfigError
from mcp_subagents.faults import classify

RetryPredicate = Callable[[BaseException], bool]

LONGEST_WAIT = 3600.0
"""Seconds. A provider that asks for more is not having a hiccup: the failure is passed on, with its `retry_after`."""


@dataclass(frozen=True)
class RetryConfig:
    """How often a run is retried, and how long it waits before each retry.

    Raises:
        ConfigError: a value that no retry could go by.
    """

    max_retries: int = 3
    """Further attempts after the first failure; 0 (or less) for none."""
    initial_delay: float = 1.0
    """Seconds before the first retry."""
    max_delay: float = 30.0
    """The longest backoff. A provider that asks for more with Retry-After gets it."""
    backoff_multiplier: float = 2.0
    """How much longer each backoff is than the one before."""
    jitter: bool = True
    """Draw each wait from between zero and the backoff, so that many subagents do not come back at once."""
    retry_on: RetryPredicate | None = None
    """Decides which exceptions are transient, in place of `is_transient_error`."""

    def __post_init__(self) -> None:
        if not _is_whole(self.max_retries):
            raise ConfigError(f"max_retries must be a whole number, 0 for no retries, not {self.max_retries!r}.")
        for name in ("initial_delay", "max_delay"):
            if not (_is_finite(value := getattr(self, name)) and value >= 0):
                raise ConfigError(f"{name} must be a finite number of seconds, 0 or more, not {value!r}.")
        if not (_is_finite(self.backoff_multiplier) and self.backoff_multiplier > 0):
            raise ConfigError(
                f"backoff_multiplier must be a finite number above 0, such as 2.0, not {self.backoff_multiplier!r}."
            )
        if not (self.retry_on is None or callable(self.retry_on)):
            raise ConfigError(
                f"retry_on must be a function from an exception to a bool, or None, not {self.retry_on!r}."
            )

    @classmethod
    def from_config(cls, config: SubAgentConfig | SubAgentSpec) -> "RetryConfig":
        """The policy of a subagent: what it sets, and the defaults for the rest. Raises: `ConfigError`."""
        values = cast("Mapping[str, Any]", config.to_config() if isinstance(config, SubAgentSpec) else config)
        given = {name: values[key] for key, name in _CONFIG_KEYS.items() if values.get(key) is not None}
        return cls(**given)

    def should_retry(self, exc: BaseException) -> bool:
        """Whether `exc` is transient under this policy."""
        return (self.retry_on or is_transient_error)(exc)

    def delay_after(
        self, exc: BaseException, attempt: int, rng: Callable[[float, float], float] = random.uniform
    ) -> float | None:
        """Seconds to wait before retry `attempt` (counted from 1) of what `exc` ended; `None` to give up."""
        if attempt > self.max_retries or isinstance(exc, pai.RunCancelled) or not self.should_retry(exc):
            return None
        delay = max(compute_backoff_delay(attempt, self, rng), classify(exc).retry_after or 0.0)
        return delay if delay <= max(LONGEST_WAIT, self.max_delay) else None


_CONFIG_KEYS: Mapping[str, str] = {
    "max_retries": "max_retries",
    "retry_initial_delay": "initial_delay",
    "retry_max_delay": "max_delay",
    "retry_backoff_multiplier": "backoff_multiplier",
    "retry_jitter": "jitter",
    "retry_on": "retry_on",
}


def is_transient_error(exc: BaseException) -> bool:
    """Whether `exc` is a transient fault of a model, its gateway or the network there: resuming may get past it.

    A broken connection of anything else (a tool, a handler) is none, although it may be over soon as well.
    """
    return classify(exc).is_transient


def compute_backoff_delay(
    attempt: int, cfg: RetryConfig, rng: Callable[[float, float], float] = random.uniform
) -> float:
    """Seconds before retry `attempt` (counted from 1): exponential, capped, and drawn at random with jitter."""
    try:
        base = cfg.initial_delay * float(cfg.backoff_multiplier) ** (attempt - 1)
    except OverflowError:
        base = cfg.max_delay if cfg.initial_delay else 0.0
    delay = min(base, cfg.max_delay)
    return rng(0.0, delay) if cfg.jitter else delay


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
