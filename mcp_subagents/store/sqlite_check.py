"""Whether a file is what was written, as far as that can be told when it is opened."""

from pathlib import Path

from mcp_subagents.errors import StoreDamaged
from mcp_subagents.store.sqlite_database import Database
from mcp_subagents.store.sqlite_rows import COLUMNS, ID, Damaged, is_sound
from mcp_subagents.store.sqlite_schema import expected_schema, schema
from mcp_subagents.types import TRANSITIONS

CHECKED_UP_TO = 64 * 1024 * 1024
"""Bytes. The contents of a larger file are not checked when it is opened, which takes about 7 ms per MB.

The check finds what the checksums of records cannot: a record that an index does not lead to, or leads to by mistake.
Whatever is read from a larger file is still guarded by the checksum of its record, and by SQLite's own care.
"""

_COUNTERS = """
    SELECT name, value FROM counter WHERE name <> 'changes' AND value <> 0
    EXCEPT
    SELECT 'open/' || owner, count(*) FROM task WHERE status NOT IN ('completed', 'failed', 'cancelled') GROUP BY owner
"""
"""Counters that do not agree with what they count."""


def check(db: Database, path: Path) -> None:
    """Raises: `StoreDamaged`."""
    db.run("BEGIN")  # others may be writing: what is compared must be of one moment
    try:
        _check(db, path)
    finally:
        db.roll_back()


def _check(db: Database, path: Path) -> None:
    found = schema(db)
    if {name: found.get(name) for name in expected_schema()} != expected_schema():
        raise StoreDamaged("its tables are not those that were made")
    moves = {(old.value, new.value) for old, to in TRANSITIONS.items() for new in to}
    if set(db.rows("SELECT was, becomes FROM move")) != moves:
        raise StoreDamaged("its table of moves is not the one that was written")
    if path.stat().st_size <= CHECKED_UP_TO:
        _check_contents(db)


def _check_contents(db: Database) -> None:
    verdict = db.value("PRAGMA integrity_check(1)")
    if verdict != "ok":
        raise StoreDamaged(str(verdict))
    for row in db.each(f"SELECT {COLUMNS} FROM task"):
        if not is_sound(row):
            raise Damaged(f"task {row[ID]!r}")
    _check_partial_indexes(db)
    if wrong := db.rows(_COUNTERS):
        raise StoreDamaged(f"the counter {wrong[0][0]!r} is wrong")


def _check_partial_indexes(db: Database) -> None:
    """SQLite's own check does not see what is too much in an index on some of the rows."""
    indexes = {name: sql for name, sql in expected_schema().items() if not sql.startswith(("CREATE TA", "CREATE TR"))}
    partial = {name: sql.partition(" WHERE ")[2] for name, sql in indexes.items() if " WHERE " in sql}
    counts = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition in partial.values())
    [expected] = db.rows(f"SELECT {counts} FROM task NOT INDEXED")
    for (name, condition), number in zip(partial.items(), expected, strict=True):
        if db.value(f"SELECT count(*) FROM task INDEXED BY {name} WHERE {condition}") != number:
            raise StoreDamaged(f"the index {name} is wrong")
