"""How a server of ours is started: by which command, and whether an entry of a host does so."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, cast

from mcp_subagents.config.providers import PROVIDERS
from mcp_subagents.errors import ConfigError
from mcp_subagents.hosts.runners import program, started

COMMAND, MODULE = "mcp-subagents", "mcp_subagents"
_OURS = re.compile(rf"{COMMAND}(?:\[[\w,.-]*\])?(?:(?:==|@|:).*)?", re.ASCII)
"""Our command, or our package as runners name it, or an image of it."""
_PYTHON = re.compile(r"py|(?:python|pypy)[\d.]*[tw]?")
_FLEETING = re.compile(r"(?:archive|environments|builds)-v\d+")
"""The folders in the cache of uv where it puts environments that it may delete."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """A command and what it is given."""

    command: str
    args: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether it starts mcp-subagents, in whichever way."""
        return any(_is_ours(words) for words in started((self.command, *self.args)))


def _is_ours(words: Sequence[str]) -> bool:
    name = program(words[0])
    return _OURS.fullmatch(name) is not None or (_PYTHON.fullmatch(name) is not None and _runs_us(words[1:]))


def _runs_us(args: Sequence[str]) -> bool:
    """Whether a Python with these arguments runs our module: what comes before that are options, some with a value."""
    at = 0
    while at < len(args) and args[at].startswith("-") and args[at] != "-m":
        at += 2 if args[at] in ("-X", "-W") else 1
    return tuple(args[at : at + 2]) == ("-m", MODULE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """The installation that is running now."""

    python: PurePath
    """The interpreter."""
    prefix: PurePath
    """The environment that it belongs to."""
    script: PurePath | None
    """The command beside it, if it is there."""
    uvx: str | None
    """Where uvx is."""
    packages: frozenset[str]
    """Packages of providers that are there."""

    @property
    def is_fleeting(self) -> bool:
        """Whether uv made it for one run, and may delete it."""
        return any(_FLEETING.fullmatch(part) for part in self.prefix.parts)

    def launch(self, args: Sequence[str] = ()) -> Launch:
        """How a host starts it, from wherever the host is. Raises: `ConfigError` if it will not be there."""
        if self.is_fleeting:
            if self.uvx is None:
                raise ConfigError(
                    "This mcp-subagents lives in a cache that may be emptied, and uvx is not on the PATH. "
                    "Install it to stay (uv tool install mcp-subagents, or pip install), and run install from there."
                )
            return Launch(command=self.uvx, args=("--from", f"{COMMAND}{self._extras()}", COMMAND, *args))
        if self.script is not None:
            return Launch(command=str(self.script), args=tuple(args))
        return Launch(command=str(self.python), args=("-m", MODULE, *args))

    def _extras(self) -> str:
        """The extras that bring the packages that are there: the first for each of them."""
        extras = {each.package: each.extra for each in reversed(PROVIDERS) if each.package in self.packages}
        return f"[{','.join(sorted(set(extras.values())))}]" if extras else ""


def this_installation(
    *,
    python: PurePath,
    prefix: PurePath,
    platform: str,
    exists: Callable[[PurePath], bool],
    which: Callable[[str], str | None],
    installed: Callable[[str], bool],
) -> Installation:
    """What is known of the installation around an interpreter, seen through the functions that look."""
    script = prefix / ("Scripts" if platform == "win32" else "bin") / f"{COMMAND}{'.exe' * (platform == 'win32')}"
    return Installation(
        python=python,
        prefix=prefix,
        script=script if exists(script) else None,
        uvx=which("uvx"),
        packages=frozenset(each.package for each in PROVIDERS if installed(each.package)),
    )


def launch_in(entry: object) -> Launch | None:
    """How the server of a host's entry is started; nothing if it is not started, but reached or ill-formed."""
    if not isinstance(entry, Mapping):
        return None
    given = cast("Mapping[str, Any]", entry)
    command, args = given.get("command"), given.get("args", [])
    words = _listed(command) or [command, *_listed(args)]
    if not isinstance(words[0], str):
        return None
    return Launch(command=words[0], args=tuple(str(each) for each in words[1:]))


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
