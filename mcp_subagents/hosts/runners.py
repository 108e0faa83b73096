"""Programs that start other programs: which one they start, as far as their words tell."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PureWindowsPath

Words = tuple[str, ...]
"""A command and what it is given."""

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_TEXT = re.compile(r"-[a-z]*c")
"""The option of shells that a whole line follows, alone or with others."""
_APART = re.compile(r"&&|\|\||[;|&\n]")
_DEEPEST = 8
"""Runners in runners. Nobody means more."""


@dataclass(frozen=True, slots=True)
class _Runner:
    verbs: frozenset[str] = frozenset()
    """Words that it may need before the command."""
    valued: frozenset[str] = frozenset()
    """Options whose value is a word of its own."""


def _runner(verbs: str = "", valued: str = "") -> _Runner:
    return _Runner(frozenset(verbs.split()), frozenset(valued.split()))


_UV = _runner(
    "tool run",
    "--from --with -w --with-editable --with-requirements --python -p --directory --project --package --group --extra "
    "--env-file --index --default-index --index-url -i --extra-index-url --find-links -f --cache-dir --config-file "
    "--constraints -c --overrides --color --refresh-package --upgrade-package -P --resolution --prerelease --link-mode "
    "--exclude-newer --index-strategy --keyring-provider --allow-insecure-host --python-platform",
)
_CONTAINERS = _runner(
    "run container",
    "-e --env --env-file -v --volume --mount --name --network --net -p --publish -w --workdir -u --user --entrypoint "
    "--platform --pull --memory -m --cpus -h --hostname -l --label --add-host --restart --tmpfs --userns --context",
)
_PROJECTS = _runner("run", "-C --directory -P --project -p -e --environment --env -n --name --manifest-path")
_RUNNERS: Mapping[str, _Runner] = {
    **dict.fromkeys(("uv", "uvx"), _UV),
    "pipx": _runner("run", "--spec --python --pip-args --index-url -i --with"),
    **dict.fromkeys(("docker", "podman"), _CONTAINERS),
    **dict.fromkeys(("poetry", "pdm", "hatch", "pixi", "rye", "conda", "mamba", "micromamba"), _PROJECTS),
    "env": _runner("", "-u --unset -C --chdir"),
    "exec": _runner("", "-a"),
    "cmd": _runner("/c /C /d /D /s /S"),
}
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})


def program(command: str) -> str:
    """The name of a command without its folder, on any platform."""
    return PureWindowsPath(command).name.removesuffix(".exe")


def started(words: Words, depth: int = _DEEPEST) -> Iterator[Words]:
    """The command itself, and those that it is told to start, from the outside to the inside.

    A word that comes later is what a program is given, whatever it looks like.
    """
    yield words
    for inner in _told(words) if depth else ():
        yield from started(inner, depth - 1)


def _told(words: Words) -> Iterator[Words]:
    name, given = program(words[0]), words[1:]
    if name in _SHELLS:
        yield from _lines(given)
    elif name in _RUNNERS and (rest := _behind(given, _RUNNERS[name])):
        yield rest


def _behind(given: Sequence[str], runner: _Runner) -> Words:
    """What is left behind the options and verbs of a runner."""
    at, verbs = 0, set(runner.verbs)
    while at < len(given):
        word = given[at]
        if word in runner.valued:
            at += 2
        elif word in verbs:
            verbs.discard(word)
            at += 1
        elif word.startswith("-") or _ASSIGNMENT.fullmatch(word):
            at += 1
        else:
            break
    return tuple(given[at:])


def _lines(given: Sequence[str]) -> Iterator[Words]:
    """The commands in the line that a shell is given."""
    at = next((number for number, word in enumerate(given) if not word.startswith("-") or _TEXT.fullmatch(word)), None)
    if at is None or not _TEXT.fullmatch(given[at]):
        return
    for line in _APART.split(" ".join(given[at + 1 : at + 2])):
        try:
            rest = _behind(shlex.split(line), _Runner())
        except ValueError:  # a quote that does not end: it was split inside of a text
            continue
        if rest:
            yield rest
