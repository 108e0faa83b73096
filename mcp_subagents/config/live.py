"""Subagents that follow their files: what changes there holds for the next task."""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from mcp_subagents.config.environment import ServerConfig, usual_places
from mcp_subagents.config.roster import by_name
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.errors import ConfigError

logger = logging.getLogger(__name__)

LOOK_AGAIN = 1.0
"""Seconds in which files are looked at once at the most."""

Stamps = Mapping[Path, tuple[int, int, int] | None]


class LiveRoster(Mapping[str, SubAgentConfig]):
    """The subagents by their names. To look is all it does by itself: `refresh` follows the files.

    `read` gives the configuration anew, or raises `ConfigError`; a configuration without subagents has `otherwise`.
    """

    def __init__(
        self,
        config: ServerConfig,
        read: Callable[[], ServerConfig],
        *,
        otherwise: SubAgentConfig,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._read = read
        self._otherwise = otherwise
        self._clock = clock
        self._stamps = stamps_of(config)
        self._looked_at = clock()
        self._looking = anyio.Lock()
        self._configs = self._named(config.subagents)
        self._sound = {file.path: file.spec for file in config.agent_files if file.spec is not None}
        """What each agent file said when it was last in order."""
        self.on_change: list[Callable[[], Awaitable[None]]] = []
        """Awaited after the subagents have changed."""

    def __getitem__(self, name: str) -> SubAgentConfig:
        return self._configs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._configs)

    def __len__(self) -> int:
        return len(self._configs)

    async def refresh(self, *, at_once: bool = False) -> None:
        """Follow the files, if they have changed; unless `at_once`, they are not looked at every time.

        What is broken keeps the definitions that were there, and is told once.
        """
        if not at_once and self._clock() - self._looked_at < LOOK_AGAIN:
            return
        async with self._looking:
            self._looked_at = self._clock()
            stamps = await anyio.to_thread.run_sync(stamps_of, self._config)
            if stamps == self._stamps:
                return
            changed = await anyio.to_thread.run_sync(partial(self._follow, stamps))
        for tell in self.on_change if changed else ():
            await tell()

    def _follow(self, stamps: Stamps) -> bool:
        # Those of before reading: what changes meanwhile is seen the next time.
        self._stamps = stamps
        try:
            config = self._read()
            configs = self._named(kept(config, self._sound))
        except ConfigError as wrong:
            for line in str(wrong).splitlines():
                logger.error("the configuration has changed and is not used: %s", line)
            return False
        for file in config.agent_files:
            if file.wrong:
                for line in file.told():
                    logger.warning("%s", line)
        new_places = {path: stamp for path, stamp in stamps_of(config).items() if path not in stamps}
        self._stamps = {**stamps, **new_places}
        changed = configs != self._configs
        self._config, self._configs = config, configs
        self._sound = {
            file.path: spec
            for file in config.agent_files
            if (spec := file.spec or (self._sound.get(file.path) if file.wrong else None)) is not None
        }
        return changed

    def _named(self, specs: Iterable[SubAgentSpec]) -> Mapping[str, SubAgentConfig]:
        return by_name([spec.to_config() for spec in specs] or [self._otherwise])


def kept(new: ServerConfig, had: Mapping[Path, SubAgentSpec]) -> list[SubAgentSpec]:
    """The subagents of `new`; an agent file that is broken now, and was not, keeps the one it `had`."""
    specs = list(new.subagents)
    names = {spec.name for spec in specs}
    for file in new.agent_files:
        before = had.get(file.path) if file.wrong else None
        if before is not None and before.name not in names:
            specs.append(before)
    return specs


def stamps_of(config: ServerConfig) -> Stamps:
    """What tells whether the files of a configuration have changed."""
    found: dict[Path, tuple[int, int, int] | None] = {}
    for path in [config.file] if config.file is not None else usual_places():
        found[path] = _stamp(path)
    for folder in config.agent_folders:
        found[folder.path] = _stamp(folder.path)
        for path, _ in folder.files():
            found[path] = _stamp(path)
    return found


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
