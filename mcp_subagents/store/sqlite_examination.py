"""A look at a store's file from outside: it holds up nobody who works on it, and changes nothing in it."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote

import apsw

from mcp_subagents.errors import StoreDamaged
from mcp_subagents.store.sqlite_check import check
from mcp_subagents.store.sqlite_database import Database
from mcp_subagents.store.sqlite_life import micros_of, steady_clock
from mcp_subagents.store.sqlite_rows import micros, moment
from mcp_subagents.store.sqlite_schema import migrations, version_of
from mcp_subagents.store.sqlite_trouble import is_damage, store_error
from mcp_subagents.types import TaskStatus

_STATUSES = "SELECT status, count(*) FROM task GROUP BY status"
_ALIVE = "SELECT id FROM process WHERE beat BETWEEN ? AND ? ORDER BY id"
_ASKING = """
SELECT id, subagent, due_at FROM task INDEXED BY task_waiting
WHERE status = 'waiting_for_answer' AND parent_id IS NULL AND EXISTS (
    SELECT 1 FROM json_each(task.state, '$.handle.questions') WHERE json_extract(value, '$[2]') IS NULL
)
ORDER BY seq
"""
"""The question of a task below another goes to that one, and a task that waits for those below it asks nothing."""
_DUE = """
SELECT id, subagent, declared FROM task WHERE status IN ('pending', 'retrying') AND due_at <= ? ORDER BY seq
"""
_LEFT = """
SELECT task.id, task.subagent, task.declared
FROM task INDEXED BY task_running LEFT JOIN process ON process.id = task.process
WHERE task.status = 'running' AND (process.id IS NULL OR NOT process.beat BETWEEN ? AND ?)
ORDER BY task.seq
"""
_SPENT = "SELECT cost FROM spending WHERE day = ?"
_DAMAGED = "The store is damaged: "
_BILLIONTH = Decimal("1e-9")
_EPOCH = date(1970, 1, 1)
_CLOCKS_APART = timedelta(seconds=1)
"""A sign of life that is given while we look is a little from the future."""


@dataclass(frozen=True, slots=True)
class Idle:
    """A task that nobody works on."""

    task_id: str
    subagent: str
    anywhere: bool = True
    """Whether any process can run it: its definition is stored with it."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A task that waits for an answer of its host, or of a person."""

    task_id: str
    subagent: str
    until: datetime
    """When it has waited long enough, and fails."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Examination:
    """What a store holds, and who works on it."""

    size: int
    """Bytes."""
    is_older: bool = False
    """An earlier version of mcp-subagents wrote it; it is brought up to date when it is next opened."""
    tasks: Mapping[TaskStatus, int]
    processes: tuple[int, ...] = ()
    """The ids of those that have given a sign of life just now; one that has nothing to do gives none."""
    asking: tuple[Asking, ...] = ()
    due: tuple[Idle, ...] = ()
    """Queued for longer than the grace, and still not started."""
    left: tuple[Idle, ...] = ()
    """Running, as far as is known, in a process that is gone."""
    spent_today: Decimal = Decimal(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """How to look at a store."""

    now: datetime
    dead_after: timedelta
    """Without a sign of life, after which a process counts as lost."""
    grace: timedelta = timedelta(minutes=1)
    """In which a queued task should have been started."""
    thorough: bool = True
    """Whether to see, too, if all of it is what was written, which takes a while."""


def sqlite_version() -> tuple[int, ...]:
    """The version of the SQLite library that stores are kept with."""
    return tuple(int(part) for part in apsw.sqlite_lib_version().split("."))


def examine(path: Path, look: Look) -> Examination:
    """Look at the store at `path`, which exists, whoever uses it meanwhile.

    Raises:
        StoreDamaged: it is not what was written.
        StoreTooNew: a later version wrote it.
        StoreUnavailable: it cannot be read just now.
        StoreError: it belongs to another program.
    """
    try:
        try:
            return _examined(path, look, alone=not _is_in_use(path))
        except (apsw.Error, StoreDamaged, UnicodeDecodeError):
            if not _is_in_use(path):
                raise
            # Somebody has begun to write while we read without locks: that is no proof of damage.
            return _examined(path, look, alone=False)
    except (apsw.Error, UnicodeDecodeError) as exc:
        if is_damage(exc):
            raise StoreDamaged(f"The store {path} is damaged: {exc}.") from exc
        raise store_error(exc, path) from exc
    except StoreDamaged as exc:
        raise StoreDamaged(f"The store {path} is damaged: {str(exc).removeprefix(_DAMAGED).rstrip('.')}.") from exc


def _is_in_use(path: Path) -> bool:
    """Whether somebody has it open, or has died with it open: there is a log beside it then."""
    return Path(f"{path}-wal").exists()


def _examined(path: Path, look: Look, *, alone: bool) -> Examination:
    # Alone, nothing is locked, and no file is made beside it; else SQLite reads beside those who write.
    uri = f"file:{quote(str(path.absolute()))}{'?immutable=1' if alone else ''}"
    with closing(Database(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)) as db:
        db.connection.set_busy_timeout(2000)
        db.run("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON")
        version, size = version_of(db, path), path.stat().st_size
        if version < len(migrations()):
            if look.thorough and (found := db.value("PRAGMA integrity_check(1)")) != "ok":
                raise StoreDamaged(str(found))
            return Examination(size=size, is_older=True, tasks={})
        if look.thorough:
            check(db, path)
        db.run("BEGIN")  # what is told is of one moment
        return _told(db, size, look)


def _told(db: Database, size: int, look: Look) -> Examination:
    today = (look.now.astimezone(UTC).date() - _EPOCH).days
    statuses = {TaskStatus(status): number for status, number in db.rows(_STATUSES)}
    asking = tuple(Asking(task_id, name, moment(until)) for task_id, name, until in db.rows(_ASKING))
    due = tuple(
        Idle(task_id, name, bool(declared))
        for task_id, name, declared in db.rows(_DUE, (micros(look.now - look.grace),))
    )
    beat = steady_clock()
    alive = beat - micros_of(look.dead_after), beat + micros_of(_CLOCKS_APART)
    left = tuple(Idle(task_id, name, bool(declared)) for task_id, name, declared in db.rows(_LEFT, alive))
    return Examination(
        size=size,
        tasks=statuses,
        processes=tuple(int(process.partition("-")[0]) for (process,) in db.rows(_ALIVE, alive)),
        asking=asking,
        due=due,
        left=left,
        spent_today=(db.value(_SPENT, (today,)) or 0) * _BILLIONTH,
    )
