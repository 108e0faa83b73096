"""The numbered migrations, and what a file looks like when all of them have been applied."""

from functools import cache
from importlib.resources import files
from pathlib import Path

import apsw

from mcp_subagents.errors import StoreDamaged, StoreError, StoreTooNew
from mcp_subagents.store.sqlite_database import Database

APPLICATION_ID = 0x6D637361
"""Says in a file's header that it is ours: "mcsa"."""


_IDENTITY = """
SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
FROM pragma_user_version, pragma_application_id
"""
"""In one statement, and so of one moment: another process may be migrating the file just now."""


@cache
def migrations() -> tuple[str, ...]:
    """Every migration, in its order; a file's `user_version` says how many of them it has seen."""
    folder = files("mcp_subagents.store") / "migrations"
    found = sorted((each for each in folder.iterdir() if each.name.endswith(".sql")), key=lambda each: each.name)
    return tuple(each.read_text(encoding="utf-8") for each in found)


def migrate(db: Database, path: Path) -> None:
    """Bring a file up to date, in one transaction. Of several processes, one does it and the others wait.

    Raises:
        StoreTooNew: it was written by a later version.
        StoreError: it belongs to another program.
    """
    if version_of(db, path) == len(migrations()):
        return
    db.run("BEGIN IMMEDIATE")
    try:
        for migration in migrations()[version_of(db, path) :]:
            db.run(migration)
        db.run(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {len(migrations())}; COMMIT")
    except BaseException:
        db.roll_back()
        raise


def version_of(db: Database, path: Path) -> int:
    """How many migrations the file has seen. Raises: `StoreError`."""
    [(version, application, objects)] = db.rows(_IDENTITY)
    if application != APPLICATION_ID and (application or version or objects):
        raise StoreError(f"{path} is the database of another program. Name another file for the store.")
    if version < 0 or bool(version) != bool(objects):
        raise StoreDamaged("its version is not one that was ever written")
    if version > len(migrations()):
        raise too_new(path)
    return version


def too_new(path: Path) -> StoreTooNew:
    return StoreTooNew(
        f"{path} was written by a later version of mcp-subagents. Upgrade mcp-subagents, or name another file."
    )


def schema(db: Database) -> dict[str, str]:
    """What the file consists of, by name."""
    return {row[0]: row[1] for row in db.rows("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")}


@cache
def expected_schema() -> dict[str, str]:
    """What a file consists of once every migration has been applied."""
    db = Database(":memory:", flags=apsw.SQLITE_OPEN_READWRITE)
    for each in migrations():
        db.run(each)
    found = schema(db)
    db.close()
    return found
