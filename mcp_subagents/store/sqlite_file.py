"""A store's file: where it is, how it is opened, and everything that can be wrong with it."""

import os
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
from platformdirs import user_data_path

from mcp_subagents.errors import StoreDamaged, StoreUnavailable
from mcp_subagents.store.mounts import network_file_system
from mcp_subagents.store.sqlite_check import check
from mcp_subagents.store.sqlite_database import Database, Row
from mcp_subagents.store.sqlite_patience import Patience
from mcp_subagents.store.sqlite_schema import migrate, version_of
from mcp_subagents.store.sqlite_trouble import is_damage, store_error

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, which does not let a file be renamed while it is open
    fcntl = None

_SETTINGS = """
    PRAGMA synchronous = FULL;
    PRAGMA foreign_keys = ON;
    PRAGMA cell_size_check = ON;
    PRAGMA trusted_schema = OFF;
    PRAGMA journal_size_limit = 4194304;
    PRAGMA cache_spill = OFF;
"""
"""With nothing spilled, a transaction reaches the disk at its commit and not before: the event loop writes, and must
not wait for the disk."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreFile:
    """The two connections of a store: one for its writer, one to read with."""

    path: Path
    writer: Database
    reader: Database
    identity: tuple[int, int] | None
    """Which file was opened, whatever is at its path by now."""

    @property
    def is_there(self) -> bool:
        """Whether somebody who looks for the store finds the file that was opened."""
        return _identity(self.path) == self.identity

    def require_there(self) -> None:
        """Raises: `StoreUnavailable`, if what is written would be found by nobody."""
        if not self.is_there:
            raise StoreUnavailable(
                f"The store {self.path} was deleted or replaced while it was in use, so nothing more can be stored in "
                "it. Put it back if you can, and start again."
            )

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """What the store says, as of its last commit. Raises: `StoreError`."""
        try:
            return self.reader.rows(sql, values)
        except (apsw.Error, UnicodeDecodeError) as exc:
            raise store_error(exc, self.path) from exc

    def close(self) -> None:
        self.reader.close()
        self.writer.close()


def default_path() -> Path:
    """Where the store is unless told otherwise: in the user's data directory."""
    return user_data_path("mcp-subagents", appauthor=False) / "tasks.db"


def open_file(path: Path, *, patience: Patience | None = None, vfs: str | None = None) -> StoreFile:
    """Open the store at `path`; make it if there is none.

    Raises:
        StoreDamaged: it is not what was written. It was kept aside, and the next start begins an empty store.
        StoreTooNew: a later version wrote it. It was not touched.
        StoreUnavailable: it cannot be used here or now. It was not touched.
    """
    _prepare(path)
    found = _identity(path)
    patience = patience or Patience()
    give_up_at = time.monotonic() + patience.seconds
    while True:
        try:
            return _open(path, patience, vfs)
        except (apsw.Error, StoreDamaged, UnicodeDecodeError) as exc:
            if is_damage(exc) or isinstance(exc, StoreDamaged):
                raise _kept_aside(path, found, exc) from exc
            # Where processes set up a file at the same time, SQLite does not always wait for its lock by itself.
            if not isinstance(exc, apsw.BusyError) or time.monotonic() > give_up_at or patience.is_over:
                raise store_error(exc, path) from exc
            time.sleep(0.01)


def _open(path: Path, patience: Patience, vfs: str | None) -> StoreFile:
    with ExitStack() as undo:
        _probe(path, vfs)
        with _told_in_words(path):
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)
        writer = undo.enter_context(closing(_connection(path, patience, vfs)))
        _set_up(writer, path)
        check(writer, path)
        reader = undo.enter_context(closing(_connection(path, patience, vfs)))
        reader.run("PRAGMA query_only = ON")
        undo.pop_all()
    return StoreFile(path=path, writer=writer, reader=reader, identity=_identity(path))


def _prepare(path: Path) -> None:
    """See to it that there is a file, private to its user, on a disk that can hold a store."""
    if str(path) == ":memory:":
        raise StoreUnavailable("A store in memory would be gone with its process. Name a file.")
    with _told_in_words(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if kind := network_file_system(path.parent.resolve()):
            raise StoreUnavailable(
                f"The store {path} is on a network file system ({kind}), where SQLite's locks cannot be relied on. "
                "Name a file on a local disk."
            )
        if path.is_symlink() and not path.exists():
            raise StoreUnavailable(f"The store {path} is a link that leads nowhere. Name the file itself.")
        if path.is_dir():
            raise StoreUnavailable(f"The store {path} is a directory. Name a file.")
        if path.exists() and not path.is_file():
            raise StoreUnavailable(f"The store {path} is not a regular file. Name one, or one that is yet to be made.")
        if not path.exists():
            with suppress(FileExistsError):  # another process was faster
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


@contextmanager
def _told_in_words(path: Path) -> Generator[None]:
    """Raises: `StoreUnavailable`, where the operating system refuses."""
    try:
        yield
    except OSError as exc:
        raise StoreUnavailable(
            f"The store {path} cannot be opened for writing: {exc.strerror}. "
            "Give this user write access to the file and to its folder, or name another file."
        ) from exc


def _probe(path: Path, vfs: str | None) -> None:
    """Refuse a file of a later version, or of another program, before anything of it is touched.

    An immutable connection leaves everything as it is. Reading the file ourselves would not do: closing it would
    drop the locks of every other connection that this process has to it.
    """
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    uri = f"file:{quote(str(path.absolute()))}?immutable=1"
    # It takes no locks: what it finds while others write is no proof of damage.
    with suppress(apsw.Error, StoreDamaged), closing(Database(uri, flags=flags, vfs=vfs)) as db:
        version_of(db, path)


def _connection(path: Path, patience: Patience, vfs: str | None) -> Database:
    db = Database(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs, patience=patience)
    if db.connection.readonly("main"):
        db.close()
        raise apsw.ReadOnlyError
    db.connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    # The same plan for every value: otherwise SQLite prepares a join again each time it is given one.
    db.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    db.rows(_SETTINGS)  # all of them: `run` stops at the first that answers
    return db


def _set_up(db: Database, path: Path) -> None:
    """Make it what we need; nothing changes if it is so already."""
    db.run("PRAGMA auto_vacuum = INCREMENTAL")
    if db.value("PRAGMA journal_mode = WAL") != "wal":
        raise StoreUnavailable(f"The store {path} is on a file system without shared memory. Name a file elsewhere.")
    migrate(db, path)


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is at that path."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _kept_aside(path: Path, found: tuple[int, int] | None, trouble: BaseException) -> StoreDamaged:
    """Move a damaged file out of the way, whole, and say so."""
    what = f"The store {path} is damaged: {trouble}."
    if found is None or _identity(path) != found:
        return StoreDamaged(f"{what} Another process has moved it out of the way just now: start again.")
    if _in_use(path):
        return StoreDamaged(f"{what} Another process still uses it: end that one, then start again.")
    aside = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    try:
        for suffix in ("", "-wal", "-shm"):
            if (part := Path(f"{path}{suffix}")).exists():
                part.rename(f"{aside}{suffix}")
    except OSError as exc:
        return StoreDamaged(f"{what} It could not be moved out of the way ({exc.strerror}): move it, then start again.")
    return StoreDamaged(f"{what} It was kept as {aside}; the next start begins with an empty store.")


def _in_use(path: Path) -> bool:
    """Whether another process has the file open: SQLite then holds a lock on these bytes of it."""
    if fcntl is None:  # pragma: no cover - Windows
        return False
    with path.open("rb+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
        except OSError:
            return True
    return False
