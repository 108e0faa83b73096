"""What there is to examine, gathered before any check begins."""

import logging
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mcp_subagents.config.environment import ServerConfig, examine, introduced
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.delegation import GENERAL_PURPOSE
from mcp_subagents.equipment.places import anchored
from mcp_subagents.equipment.sound_files import sound
from mcp_subagents.errors import ConfigError

"""Who there is where no file names anybody."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What somebody asked for."""

    config: str | None = None
    store: str | None = None
    agents: Sequence[str] = ()
    live: bool = False
    """Whether every model is asked, which costs a little."""
    patience: float = 20.0
    """Seconds that a program may take to answer for the first time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """A machine, a user, and a server as it would be started here."""

    options: Options
    env: Mapping[str, str]
    home: Path
    platform: str = sys.platform
    mountinfo: Path = Path("/proc/self/mountinfo")
    """Where Linux says what is mounted."""
    config: ServerConfig | None = None
    """What was configured; `None` if the configuration cannot be read."""
    mistakes: tuple[str, ...] = ()
    """All that is wrong with it, a line each."""
    remarks: tuple[str, ...] = ()
    """What its reader would have logged."""

    @property
    def subagents(self) -> Sequence[SubAgentConfig]:
        """Those that a server here would have, with paths that mean the same everywhere."""
        if self.config is None:
            return ()
        specs = [spec.to_config() for spec in self.config.subagents] or [GENERAL_PURPOSE]
        return [anchored(each, self.config.folder) for each in specs]


def gathered(
    options: Options,
    env: Mapping[str, str] = os.environ,
    *,
    home: Path | None = None,
    platform: str = sys.platform,
    mountinfo: Path = Path("/proc/self/mountinfo"),
) -> Circumstances:
    """What there is to examine. A broken configuration is no reason to fail: it is one of the findings."""
    config, mistakes = None, list[str]()
    with _overheard() as remarks:
        try:
            examined = examine(options.config, env, store=options.store, agents=options.agents)
            # One that refers to what is not there can be looked at all the same.
            config = None if examined.mistakes else introduced(examined)
            config = sound(examined, env)
        except ConfigError as wrong:
            mistakes += str(wrong).splitlines()
        except Exception as exc:
            # Whatever is wrong with the folders around us, the rest can still be looked at.
            mistakes.append(f"The configuration cannot be read: {type(exc).__name__}: {exc}")
    return Circumstances(
        options=options,
        env=env,
        home=home or Path.home(),
        platform=platform,
        mountinfo=mountinfo,
        config=config,
        mistakes=tuple(mistakes),
        remarks=tuple(remarks),
    )


class _Ear(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())


@contextmanager
def _overheard() -> Generator[list[str]]:
    """What is logged in the block as a warning, or worse; it is told as findings, so nobody else hears of it."""
    ear, logger = _Ear(), logging.getLogger("mcp_subagents")
    before = logger.propagate
    logger.addHandler(ear)
    logger.propagate = False
    try:
        yield ear.heard
    finally:
        logger.propagate = before
        logger.removeHandler(ear)
