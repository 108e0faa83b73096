"""What the tasks of a file cost, day by day: kept up turn by turn, so that nobody has to add it up."""

import logging
from datetime import date
from decimal import Decimal

from mcp_subagents.branches import cost_between
from mcp_subagents.records import TaskRecord
from mcp_subagents.store.sqlite_database import Row
from mcp_subagents.store.sqlite_file import StoreFile
from mcp_subagents.store.sqlite_rows import Damaged, checksum
from mcp_subagents.store.sqlite_transaction import Transaction

logger = logging.getLogger(__name__)

_EPOCH = date(1970, 1, 1)
_BILLION = 1_000_000_000

_SPENT = "SELECT cost, sum FROM spending WHERE day = ?"
_WRITE = """
INSERT INTO spending (day, cost, sum) VALUES (?, ?, ?)
ON CONFLICT (day) DO UPDATE SET cost = excluded.cost, sum = excluded.sum
"""


def note_spending(transaction: Transaction, before: TaskRecord, after: TaskRecord) -> None:
    """Add what a change of a task has cost to its day."""
    cost = cost_between(before, after)
    if not cost or after.handle.last_activity_at is None:
        return
    day = (after.handle.last_activity_at.date() - _EPOCH).days
    try:
        total = _read(transaction.db.rows(_SPENT, (day,)), day) + round(cost * _BILLION)
    except Damaged as exc:
        logger.error("what a task has cost is not added: %s", exc)  # those who want to know the sum are told as well
        return
    transaction.db.run(_WRITE, (day, total, checksum(day, total)))


def spent(file: StoreFile, day: date) -> Decimal:
    """What was spent on that day. Raises: `StoreDamaged`."""
    number = (day - _EPOCH).days
    return Decimal(_read(file.rows(_SPENT, (number,)), number)) / _BILLION


def _read(rows: list[Row], day: int) -> int:
    if not rows:
        return 0
    [(cost, total)] = rows
    if checksum(day, cost) != total:
        raise Damaged(f"what was spent on {_EPOCH.fromordinal(_EPOCH.toordinal() + day)}")
    return cost
