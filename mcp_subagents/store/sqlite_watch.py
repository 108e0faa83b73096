"""Follows what changes in a file: what this process does at once, what others do within a tenth of a second."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcp_subagents.errors import StoreDamaged, StoreError
from mcp_subagents.store.sqlite_file import StoreFile
from mcp_subagents.store.sqlite_rows import CHANGED, record_of, tasks
from mcp_subagents.store.sqlite_transaction import LAST_CHANGE, Told
from mcp_subagents.store.watching import Changes, Watchers

logger = logging.getLogger(__name__)

_LOOK_EVERY = 0.1
_UNKNOWN = -1
_MOST_AT_ONCE = 500
_CHANGES = f"{tasks('task_changed')} WHERE task.changed > ? ORDER BY task.changed LIMIT {_MOST_AT_ONCE}"


class Follower:
    """Tells those who watch of every change, in the order of the commits, over all processes.

    Of several changes that another process makes to one task in quick succession, only the last one is found.
    """

    def __init__(self, file: StoreFile) -> None:
        self.untold: deque[Told] = deque()
        """What this process has committed, or is about to, and has not been told yet: the oldest first."""
        self._file = file
        self._watchers = Watchers()
        self._watching = 0
        self._seen = 0
        self._version = _UNKNOWN
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def watch(self) -> AsyncGenerator[Changes]:
        """Every change from now on."""
        if self._watching:
            self._look()
        else:
            [(self._seen,)] = self._file.rows(LAST_CHANGE)
            self._look_later()
        self._watching += 1
        try:
            async with self._watchers.join() as stream:
                yield stream
        finally:
            self._watching -= 1
            if not self._watching and self._timer is not None:
                self._timer.cancel()

    def committed(self, told: Told) -> None:
        """This process has made a commit."""
        if not self._watching:
            return
        first, last = told[0][0], told[-1][0]
        # What others have done in the meantime comes first.
        complete = self._seen >= first - 1 or self._look(before=first)
        for change, record in told:
            if change > self._seen:
                self._watchers.tell(record)
        if complete:  # else tell it again, rather than leave something out
            self._seen = max(self._seen, last)

    def _look_now_and_later(self) -> None:
        self._look()
        self._look_later()

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look_now_and_later)

    def _look(self, before: int | None = None) -> bool:
        """See whether anybody has written, which costs next to nothing, and if so, tell what. False: cannot say."""
        try:
            [(version,)] = self._file.rows("PRAGMA data_version")
            more = version != self._version
            self._version = version
            while more:
                more = self._catch_up(before)
        except StoreError as exc:
            self._version = _UNKNOWN
            logger.warning("cannot look for changes: %s", exc)
            return False
        return True

    def _catch_up(self, before: int | None) -> bool:
        """Tell what others have written, up to a change that is about to be told. True: there may be more."""
        rows = self._file.rows(_CHANGES, (self._seen,))
        if before is None and self.untold:  # to be asked after the rows were read: it was filled before the commit
            before = self.untold[0][0][0]
        for row in rows:
            if before is not None and row[CHANGED] >= before:
                self._version = _UNKNOWN  # what comes after that one has to be looked for again
                return False
            self._seen = row[CHANGED]
            try:
                self._watchers.tell(record_of(row))
            except StoreDamaged:
                logger.exception("a change cannot be told")
        return len(rows) == _MOST_AT_ONCE
