"""What a task may still use: by its own limits, and by what is left to those above it."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from pydantic_ai import UsageLimits
from pydantic_ai import exceptions as pai

from mcp_subagents.ancestry import Spent, ancestors, spent_by
from mcp_subagents.config.limits import EngineSettings, Limits
from mcp_subagents.errors import DailyCostReached, StopRequested
from mcp_subagents.records import TaskRecord
from mcp_subagents.running_time import RunningTime, TimeLimit, whose
from mcp_subagents.store import Store
from mcp_subagents.types import TaskUsage

_NEAR = 0.8
"""The part of a limit after which a task is told to wrap up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Meter:
    """How much of one limit is used."""

    limit: str
    what: str
    used: float
    most: float
    level: int = 0
    """How far above the task it is set: 0 for its own."""

    @property
    def is_own(self) -> bool:
        return self.level == 0

    @property
    def is_used_up(self) -> bool:
        return self.used >= self.most and (self.used > 0 or self.limit == "requests")

    @property
    def is_near(self) -> bool:
        # Where a fifth is less than one request, the last one is the time to wrap up.
        near = min(_NEAR * self.most, self.most - 1) if self.limit == "requests" else _NEAR * self.most
        return 0 < near <= self.used

    def __str__(self) -> str:
        used = f"{_amount(self.limit, self.used)} of {_amount(self.limit, self.most)} {self.what}"
        return used.rstrip() + whose(self.level)

    @property
    def left(self) -> str:
        return f"{self}: {_amount(self.limit, max(self.most - self.used, 0))} left"


def meters(limits: Limits, spent: Spent, *, asked: int = 0, level: int = 0, only_near: bool = False) -> list[Meter]:
    """How a task stands with its limits, or those set `level` above it, when `asked` more requests are under way.

    With `only_near`, those limits are left out of which there is nothing to say yet.
    """
    usage = spent.usage
    known: list[tuple[str, str, float | None, float]] = [
        ("requests", "model requests", limits.requests, usage.requests + asked),
        ("tool_calls", "tool calls", limits.tool_calls, usage.tool_calls),
        ("input_tokens", "input tokens", limits.input_tokens, usage.input_tokens),
        ("output_tokens", "output tokens", limits.output_tokens, usage.output_tokens),
        ("total_tokens", "tokens", limits.total_tokens, usage.total_tokens),
        ("cost_usd", "", limits.cost_usd, float(usage.cost_usd or 0)),
        ("seconds", "seconds of running time", limits.seconds, spent.seconds),
    ]
    return [
        Meter(limit=limit, what=what, used=used, most=most, level=level)
        for limit, what, most, used in known
        if most is not None and (not only_near or used >= min(_NEAR * most, most - 1))
    ]


def warning(near: Sequence[Meter]) -> str:
    """What a task is told that comes near its limits."""
    said = "; ".join(meter.left for meter in near)
    return (
        f"You are running out of budget: {said}. Wrap up: finish what matters most, and give your answer "
        "while you can. At the limit you are stopped, with what you have found until then."
    )


class Budget:
    """What one attempt may use, looked at before each request."""

    def __init__(
        self,
        record: TaskRecord,
        store: Store,
        settings: EngineSettings,
        under_way: Counter[str],
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._settings = settings
        self._under_way = under_way
        self._now = now
        self.is_shared = record.handle.parent_id is not None
        """Whether others may use some of it: those above the task, or those below."""
        self._family: Sequence[str] = [record.task_id]
        self._reserved: Sequence[str] = ()
        self.time = RunningTime(record.active_seconds)
        self.limits = self._limits_of(record)
        self._most_cost = self.limits.cost_usd
        self.for_run = UsageLimits(
            request_limit=self.limits.requests,
            tool_calls_limit=self.limits.tool_calls,
            input_tokens_limit=self.limits.input_tokens,
            output_tokens_limit=self.limits.output_tokens,
            total_tokens_limit=self.limits.total_tokens,
        )
        """What pydantic-ai holds the run to. Tightened before each request by what is left to the whole tree."""

    async def look(self, record: TaskRecord, usage: TaskUsage) -> Sequence[Meter]:
        """How the task stands with every limit that holds for it, its own first; `usage` is its own so far.

        Raises:
            UsageLimitExceeded: one of them is used up.
            StopRequested: its parent has ended, and so does it.
        """
        every = await self._measure(record, usage)
        for meter in every:
            if meter.is_used_up and not self._left_to_the_run(meter, record):
                raise pai.UsageLimitExceeded(f"{meter} used")
        try:
            await check_the_day(self._store, self._settings, self._now())
        except DailyCostReached as exc:
            raise pai.UsageLimitExceeded(str(exc)) from None
        return every

    async def before_tools(self, usage: TaskUsage) -> None:
        """Hold the run to the tool calls that are left. Raises: `StopRequested`."""
        record = await self._store.read(self._family[0])
        # Calls that were parked are made again: those above count them already.
        await self._measure(record, usage, again=0 if record.tree is None else len(record.tree.awaited))

    async def _measure(self, record: TaskRecord, usage: TaskUsage, again: int = 0) -> Sequence[Meter]:
        own = Spent(usage=usage, seconds=self.time.so_far)
        if record.tree is not None:
            others = record.with_handle(replace(record.handle, usage=None), tree=replace(record.tree, awaited=()))
            below = await spent_by(self._store, others)
            own = Spent(usage=usage.plus(below.usage), seconds=below.seconds)
        alone = record.tree is None and record.handle.parent_id is None
        levels = [meters(self.limits, own, asked=self._under_way[record.task_id], only_near=alone)]
        if record.handle.parent_id is not None:
            above = await ancestors(self._store, record.handle)
            if any(each.handle.status.is_terminal for each in above):
                raise StopRequested(record.task_id)
            self._family = [record.task_id, *(each.task_id for each in above)]
            for level, each in enumerate(above, 1):
                spent = await spent_by(self._store, each)
                asked = self._under_way[each.task_id]
                levels.append(meters(self._limits_of(each), spent, asked=asked, level=level))
        every = [meter for level in levels for meter in level]
        if not alone:
            self._tighten(every, usage, again)
        return every

    def begin_request(self) -> None:
        """A request is under way: until its turn is stored, it counts as used for everybody in the tree."""
        self.end_request()
        self._reserved = self._family
        self._under_way.update(self._reserved)

    def end_request(self) -> None:
        """Its turn is stored, or it came to nothing."""
        reserved, self._reserved = self._reserved, ()
        for task_id in reserved:
            self._under_way[task_id] -= 1
            if not self._under_way[task_id]:
                del self._under_way[task_id]

    def check_cost(self, usage: TaskUsage) -> None:
        """Raises: `UsageLimitExceeded`, if a response was one too expensive."""
        most, cost = self._most_cost, usage.cost_usd
        if most is not None and cost is not None and cost > most:
            raise pai.UsageLimitExceeded(f"The cost of ${cost:.4f} exceeds the limit of {_amount('cost_usd', most)}")

    async def time_limits(self, record: TaskRecord) -> Sequence[TimeLimit]:
        """How long the run may take: by the task's own limit, which those below it share, and by those above it."""
        own = self.limits.seconds
        found = [] if own is None else [TimeLimit(most=own, left=own - self.time.so_far)]
        if record.tree is not None or record.handle.parent_id is not None:
            for level, each in enumerate((record, *await ancestors(self._store, record.handle))):
                if (most := self._limits_of(each).seconds) is not None:
                    left = most - (await spent_by(self._store, each)).seconds
                    found.append(TimeLimit(most=most, left=left, level=level))
        return found

    def _tighten(self, every: Sequence[Meter], own: TaskUsage, again: int) -> None:
        left: dict[str, float] = {}
        for meter in every:
            known = again if meter.limit == "tool_calls" and not meter.is_own else 0
            left[meter.limit] = min(meter.most - meter.used + known, left.get(meter.limit, math.inf))
        run = self.for_run
        run.request_limit = _allowed(own.requests, left.get("requests"))
        run.tool_calls_limit = _allowed(own.tool_calls, left.get("tool_calls"))
        run.input_tokens_limit = _allowed(own.input_tokens, left.get("input_tokens"))
        run.output_tokens_limit = _allowed(own.output_tokens, left.get("output_tokens"))
        run.total_tokens_limit = _allowed(own.total_tokens, left.get("total_tokens"))
        cost = left.get("cost_usd")
        self._most_cost = None if cost is None else float(own.cost_usd or 0) + max(cost, 0.0)

    def _left_to_the_run(self, meter: Meter, record: TaskRecord) -> bool:
        """Whether pydantic-ai stops the run itself: before a tool is called, and when its time is over."""
        return meter.limit == "tool_calls" or (meter.limit == "seconds" and meter.is_own and record.tree is None)

    def _limits_of(self, record: TaskRecord) -> Limits:
        return Limits.of(record.limits, self._settings.limits)


async def check_the_day(store: Store, settings: EngineSettings, now: datetime) -> None:
    """Raises: `DailyCostReached`, if what all tasks of the store may cost in a day is spent."""
    most = settings.daily_cost_usd
    if most is not None and await store.spent(now.date()) >= Decimal(str(most)):
        raise DailyCostReached(most)


def _allowed(used: int, left: float | None) -> int | None:
    return None if left is None or math.isinf(left) else used + max(int(left), 0)


def _amount(limit: str, value: float) -> str:
    if limit == "cost_usd":
        return f"${value:.4f}" if value < 1 else f"${value:.2f}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"
