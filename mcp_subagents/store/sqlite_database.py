"""A connection to a file, as the store uses it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apsw

Row = tuple[Any, ...]


class Database:
    """SQL in, rows out."""

    def __init__(
        self, name: str, *, flags: int, vfs: str | None = None, patience: Callable[[int], bool] | None = None
    ) -> None:
        connection: Any = apsw.Connection(name, flags=flags, vfs=vfs)
        connection.set_busy_handler(patience)
        self.connection = connection
        self._patience = patience
        self._execute = connection.execute

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._execute(sql, values).fetchall()

    def each(self, sql: str) -> Iterator[Row]:
        """The rows one by one, when they are too many to have at once."""
        yield from self._execute(sql)

    def value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The one value that is asked for; `None` if there is none."""
        rows = self._execute(sql, values).fetchall()
        return rows[0][0] if rows else None

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        self._execute(sql, values)

    def begin_now(self) -> bool:
        """Begin to write, unless somebody else is writing."""
        self.connection.set_busy_handler(None)
        try:
            self.run("BEGIN IMMEDIATE")
        except apsw.BusyError:
            return False
        finally:
            self.connection.set_busy_handler(self._patience)
        return True

    def roll_back(self) -> None:
        """Undo what was not committed, if anything."""
        if self.connection.in_transaction:
            self.run("ROLLBACK")

    @property
    def version(self) -> int:
        """Another one after every commit, whoever made it. That of others is seen when a transaction begins."""
        return self.connection.data_version()

    @property
    def written(self) -> int:
        """How many rows have been written so far."""
        return self.connection.total_changes()

    def close(self) -> None:
        self.connection.close()
