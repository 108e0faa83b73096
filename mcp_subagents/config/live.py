"""Subagents that follow their files: what changes there holds for the next task."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from mcp_subagents.config.environment import ServerConfig
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.config.watching import Stamps, Watched

logger = logging.getLogger(__name__)

LOOK_AGAIN = 1.0
"""Seconds in which files are looked at once at the most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """The subagents of a server as their files have them."""

    config: ServerConfig
    subagents: Mapping[str, SubAgentConfig]
    """By their names, each with all that it needs."""
    started: ServerConfig
    """The configuration that the server was started with."""
    watched: Watched
    """All files on which it depends how `config` reads, or would if the latest change were in order."""
    stamps: Stamps
    said: Mapping[Path, SubAgentSpec]
    """What each agent file said when it was last in order."""
    told: tuple[tuple[int, str], ...] = ()
    """What there is to log, each with its level."""


class LiveRoster(Mapping[str, SubAgentConfig]):
    """The subagents by their names. To look is all it does by itself: `refresh` follows the files.

    `again` loads anew what was loaded before; it gives the same object if nothing has changed.
    """

    def __init__(
        self, loaded: Loaded, again: Callable[[Loaded], Loaded], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._loaded = loaded
        self._again = again
        self._clock = clock
        self._looked_at = clock()
        self._looking = anyio.Lock()
        self._thread = anyio.CapacityLimiter(1)  # of our own: tools may use up the threads that all share
        self.on_change: list[Callable[[], None]] = []
        """Called after the subagents have changed, before anybody can look at them."""

    def __getitem__(self, name: str) -> SubAgentConfig:
        return self._loaded.subagents[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded.subagents)

    def __len__(self) -> int:
        return len(self._loaded.subagents)

    async def refresh(self, *, at_once: bool = False) -> None:
        """Follow the files, if they have changed; unless `at_once`, they are not looked at every time.

        What is broken keeps the definitions that were there, and is told once.
        """
        if not at_once and self._clock() - self._looked_at < LOOK_AGAIN:
            return
        async with self._looking:
            self._looked_at = self._clock()
            before = self._loaded
            loaded = await anyio.to_thread.run_sync(partial(self._again, before), limiter=self._thread)
            # Nothing waits from here on: nobody sees half a change, and nobody who is cancelled takes it along.
            if loaded is before:
                return
            self._loaded = loaded
            for level, line in loaded.told:
                logger.log(level, "%s", line)
            if loaded.subagents != before.subagents:
                for renew in self.on_change:
                    renew()
