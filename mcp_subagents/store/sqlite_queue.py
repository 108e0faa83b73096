"""Which of the queued tasks start, and when the next one can.

The queue is walked in groups of tasks that are taken or left as a whole: those of one subagent, one provider, with or
without a definition. So thousands of tasks that cannot start now do not slow down those that can.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from heapq import merge

from mcp_subagents import moves
from mcp_subagents.errors import StoreDamaged
from mcp_subagents.records import TaskRecord
from mcp_subagents.store import Capacity
from mcp_subagents.store.sqlite_changes import update
from mcp_subagents.store.sqlite_database import Database, Row
from mcp_subagents.store.sqlite_recent import Recent
from mcp_subagents.store.sqlite_rows import CHANGED, ID, TASKS, checksum, is_sound, micros, moment, record_of
from mcp_subagents.store.sqlite_transaction import Transaction

logger = logging.getLogger(__name__)

_QUEUED = "status IN ('pending', 'retrying')"
ANYTHING = f"SELECT 1 FROM task INDEXED BY task_queue WHERE {_QUEUED} LIMIT 1"
"""Whether there is a queue at all."""

_RUNNING = "SELECT subagent, count(*) FROM task INDEXED BY task_running WHERE status = 'running' GROUP BY subagent"
_GROUP = f"FROM task INDEXED BY task_queue WHERE {_QUEUED}"
_FIRST = "ORDER BY subagent, provider, declared LIMIT 1"
_SAME = "subagent = last.subagent"
_GROUPS = f"""
WITH RECURSIVE last (subagent, provider, declared) AS (
    SELECT * FROM (SELECT subagent, provider, declared {_GROUP} {_FIRST})
    UNION ALL
    SELECT following.subagent, following.provider, following.declared
    FROM last JOIN task AS following ON following.seq = coalesce(
        (SELECT seq {_GROUP} AND {_SAME} AND provider = last.provider AND declared > last.declared {_FIRST}),
        (SELECT seq {_GROUP} AND {_SAME} AND provider > last.provider {_FIRST}),
        (SELECT seq {_GROUP} AND subagent > last.subagent {_FIRST})
    )
)
SELECT subagent, provider, declared FROM last
"""
"""From each group to the next. One comparison of all three columns would walk through the last group first."""

_MEMBERS = f"""
SELECT rank, seq FROM task INDEXED BY task_queue
WHERE {_QUEUED} AND subagent = ? AND provider = ? AND declared = ? AND (rank, seq) > (?, ?) AND due_at <= ?
ORDER BY rank, seq LIMIT ?
"""
_THIS_ONE = f"SELECT seq, subagent, provider, declared FROM task WHERE id = ? AND {_QUEUED} AND due_at <= ?"
_DUE = f"FROM task INDEXED BY task_due WHERE {_QUEUED}"
_DUES = f"""
WITH RECURSIVE last (provider) AS (
    SELECT min(provider) {_DUE}
    UNION ALL
    SELECT (SELECT min(provider) {_DUE} AND provider > last.provider) FROM last WHERE provider IS NOT NULL
)
SELECT provider,
       (SELECT min(due_at) {_DUE} AND provider = last.provider),
       (SELECT min(due_at) {_DUE} AND provider = last.provider AND due_at > ?)
FROM last WHERE provider IS NOT NULL
"""
"""For each provider: when the first of its tasks is due, and when the first that is not due yet."""

_CHUNK = 32

POSITION = f"""
SELECT count(*) FROM task INDEXED BY task_queue JOIN (SELECT rank, seq FROM task WHERE id = ? AND {_QUEUED}) AS mine
WHERE {_QUEUED} AND (task.rank, task.seq) <= (mine.rank, mine.seq)
"""
"""How many tasks go before a queued one, and itself."""

COOL_DOWN = """
INSERT INTO cooldown (provider, until, sum) VALUES (?, ?, ?)
ON CONFLICT (provider) DO UPDATE SET until = excluded.until, sum = excluded.sum WHERE excluded.until > until
"""


def cool_down(db: Database, provider: str, until: int) -> None:
    db.run(COOL_DOWN, (provider, until, checksum(provider, until)))


def cooling(db: Database, now: int) -> Mapping[str, int]:
    """Which providers are to be left alone, and until when."""
    found: dict[str, int] = {}
    for provider, until, total in db.rows("SELECT provider, until, sum FROM cooldown"):
        if checksum(provider, until) != total:
            # It is a kindness to the provider; it must not keep every task from starting.
            logger.error("the cooldown of provider %r is damaged, and is left out of account", provider)
        elif until > now:
            found[provider] = until
    return found


@dataclass(kw_only=True, slots=True)
class Starts:
    """The tasks that one claim starts."""

    transaction: Transaction
    capacity: Capacity
    now: datetime
    process: str
    cooling: Mapping[str, int]
    recent: Recent
    running: Counter[str] = field(init=False)
    room: int = field(init=False)
    records: list[TaskRecord] = field(default_factory=list[TaskRecord])

    def __post_init__(self) -> None:
        self.running = Counter(dict(self.transaction.db.rows(_RUNNING)))
        self.room = min(self.capacity.most, self.capacity.in_all - self.running.total())

    def start_all(self) -> None:
        if self.room <= 0:
            return
        waiting = [self._members(group) for group in self.transaction.db.rows(_GROUPS) if self._can_take(group)]
        for _, seq, subagent in merge(*waiting):
            if self._has_room(subagent):
                self._start(seq, but_not=self.capacity.but_not)
            if self.room <= 0:
                return

    def start_one(self, task_id: str) -> None:
        for seq, *group in self.transaction.db.rows(_THIS_ONE, (task_id, micros(self.now))):
            if self.room > 0 and self._can_take(tuple(group)):
                self._start(seq)

    def _can_take(self, group: Row) -> bool:
        subagent, provider, declared = group
        known = declared or subagent in self.capacity.subagents
        return bool(known) and provider not in self.cooling and self._has_room(subagent)

    def _has_room(self, subagent: str) -> bool:
        most = self.capacity.per_subagent.get(subagent, self.capacity.in_all)
        return self.running[subagent] < most

    def _members(self, group: Row) -> Iterator[tuple[int, int, str]]:
        """The due tasks of a group in their order, fetched as they are needed."""
        last: Row = (-1, -1)
        now, chunk = micros(self.now), min(self.room, _CHUNK)
        while self._has_room(group[0]):
            rows = self.transaction.db.rows(_MEMBERS, (*group, *last, now, chunk))
            for rank, seq in rows:
                yield rank, seq, group[0]
            if len(rows) < chunk:
                return
            last = rows[-1]

    def _start(self, seq: int, but_not: frozenset[str] = frozenset()) -> None:
        [row] = self.transaction.db.rows(f"{TASKS} WHERE task.seq = ?", (seq,))
        try:
            known = self.recent.recall(row[ID], row[CHANGED]) if is_sound(row) else None
            record = known or record_of(row)
        except StoreDamaged:
            # It must not keep every other task from starting. Whoever reads it is told.
            logger.exception("a queued task cannot be started")
            return
        if record.task_id in but_not:
            return
        change = moves.start(self.process, self.now)(record)
        self.records.append(update(self.transaction, row, change.record))
        self.running[record.handle.subagent_name] += 1
        self.room -= 1


def next_due(db: Database, now: int, cooling: Mapping[str, int]) -> datetime | None:
    """When the next queued task falls due that is not due yet."""
    waits: list[int] = []
    for provider, first, later in db.rows(_DUES, (now,)):
        if provider in cooling:
            waits.append(max(first, cooling[provider]))
        elif later is not None:
            waits.append(later)
    return moment(min(waits)) if waits else None
