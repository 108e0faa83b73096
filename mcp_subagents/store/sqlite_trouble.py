"""What SQLite and the operating system complain of, in words that say what to do."""

from collections.abc import Sequence
from pathlib import Path

import apsw

from mcp_subagents.errors import StoreDamaged, StoreError, StoreUnavailable

_DAMAGE = (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError)

_PASSING: Sequence[tuple[type[apsw.Error], str]] = (
    (apsw.FullError, "there is no room left on its disk. Make room; nothing that was acknowledged is lost."),
    (apsw.BusyError, "another program keeps it locked. Find out which, and end it or wait for it."),
    (apsw.LockedError, "another program keeps it locked. Find out which, and end it or wait for it."),
    (apsw.ReadOnlyError, "it cannot be written. Give this user write access to the file and to its folder."),
    (apsw.PermissionsError, "it cannot be written. Give this user write access to the file and to its folder."),
    (apsw.CantOpenError, "it cannot be opened. Give this user write access to the file and to its folder."),
    (apsw.NoMemError, "there is not enough memory. Try again when there is."),
    (apsw.IOError, "its disk reports an error. See to the disk; nothing that was acknowledged is lost."),
)


def is_damage(trouble: BaseException) -> bool:
    """Whether the file is not what was written, so that waiting does not help."""
    data = {apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_CORRUPTFS}
    return isinstance(trouble, _DAMAGE) or (
        isinstance(trouble, apsw.IOError) and getattr(trouble, "extendedresult", 0) in data
    )


def store_error(trouble: BaseException, path: Path) -> BaseException:
    """What to tell a caller about `trouble`. What is none of the store's trouble stays as it is."""
    told = _in_our_words(trouble, path)
    if told is None:
        return trouble
    told.__cause__ = trouble
    return told


def _in_our_words(trouble: BaseException, path: Path) -> StoreError | None:
    if is_damage(trouble):
        return StoreDamaged(
            f"The store {path} is damaged: {trouble}. When it is opened again it is checked, and kept aside."
        )
    if isinstance(trouble, UnicodeEncodeError):
        return StoreError(f"What was to be stored is not valid Unicode: {trouble}.")
    for kind, told in _PASSING:
        if isinstance(trouble, kind):
            return StoreUnavailable(f"The store {path} cannot be used just now: {told}")
    if isinstance(trouble, apsw.Error):
        return StoreError(f"The store {path} refused a statement: {trouble}. This is a bug; please report it.")
    return None
