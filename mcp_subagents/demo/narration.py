"""How the story is told: line by line as it happens, at the pace of a reader, in any terminal or into a pipe."""

import textwrap
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import anyio
from rich.console import Console
from rich.text import Text

from mcp_subagents.demo.promises import Proof

_BREATH, _CHARACTER = 0.15, 0.005
"""Seconds that a reader takes: for a line, and for each character in it."""
_WIDEST, _NARROWEST = 100, 20
"""Longer lines are hard to read, however wide the terminal; shorter ones cannot be helped."""
_LABEL = 8
# Colours of the terminal's own palette that can be read on black and on white.
_STYLES = {"host": "cyan", "subagent": "magenta", "gateway": "blue", "server": "green", "kill -9": "bold red"}


@dataclass(frozen=True, slots=True)
class Marks:
    """The signs that are not letters."""

    kept: str = "✓"
    broken: str = "✗"
    dash: str = "·"
    arrow: str = "→"


PLAIN = Marks(kept="+", broken="x", dash="-", arrow="->")
"""For streams that cannot write the others."""


def marks_for(encoding: str) -> Marks:
    """The signs that `encoding` can write."""
    marks = Marks()
    try:
        "".join((marks.kept, marks.broken, marks.dash, marks.arrow)).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return marks


def columns(names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """A table without lines. The first two columns are texts, the others numbers; the first is cut if need be."""
    lines = [names, *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(names))]
    widths[0] = max(min(widths[0], width - sum(widths[1:]) - 2 * len(widths[1:])), 1)
    return ["  ".join(_cells(line, widths)).rstrip() for line in lines]


def _cells(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    sized = [(text[:width], width) for text, width in zip(line, widths, strict=True)]
    return [f"{text:<{width}}" if index < 2 else f"{text:>{width}}" for index, (text, width) in enumerate(sized)]


class Narrator:
    """Prints to a console, and lets the reader keep up: what comes next waits until the last line has been read.

    What has to be waited for anyway is not waited for twice.
    """

    def __init__(
        self,
        console: Console,
        *,
        pace: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._console = console
        self._pace = pace
        self._clock = clock
        self._sleep = sleep
        self._read_at = clock()
        self._scenes = 0
        self.marks = marks_for(console.encoding)

    async def text(self, text: str) -> None:
        """A paragraph."""
        await self._print(Text(), text)

    async def note(self, text: str) -> None:
        """A paragraph that belongs to what is above it."""
        await self._print(Text("  "), text)

    async def title(self, text: str) -> None:
        await self._await_reader(text)
        self._console.print(Text(text, style="bold"))

    async def heading(self, text: str) -> None:
        """What follows is about something else."""
        await self._await_reader("")
        self._console.print()
        await self.title(text)

    async def scene(self, title: str) -> None:
        self._scenes += 1
        await self.heading(f"{self._scenes} {self.marks.dash} {title}")

    async def say(self, who: str, text: str) -> None:
        """Somebody does or says something."""
        await self._print(Text.assemble("  ", (f"{who:<{_LABEL}}", _STYLES[who]), "  "), text)

    async def proofs(self, proofs: Sequence[Proof]) -> None:
        """What was promised, and how one knows that it was kept."""
        widest = max(len(proof.promise) for proof in proofs)
        for proof in proofs:
            label = ("  ", (self.marks.kept, "bold green"), " ", (f"{proof.promise:<{widest}}", "bold"), "  ")
            await self._print(Text.assemble(*label), proof.evidence)

    async def commands(self, commands: Sequence[tuple[str, str]]) -> None:
        """What can be done, and what it does."""
        widest = max(len(command) for command, _ in commands)
        for command, purpose in commands:
            await self._print(Text.assemble("  ", (f"{command:<{widest}}", "bold"), "  "), purpose)

    async def table(self, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        head, *lines = columns(names, rows, self._width - 2)
        await self._await_reader(" ".join(lines[:3]))
        self._console.print(Text(f"  {head}", style="bold"))
        for line in lines:
            self._console.print(Text(f"  {line}"))

    async def broken(self, promised: str, found: str) -> None:
        """A promise was not kept."""
        self._console.print()
        await self._print(
            Text.assemble("  ", (f"{self.marks.broken} broken", "bold red"), "  "), f"Promised: {promised}."
        )
        await self._print(Text(" " * 12), f"Found: {found}.")

    @property
    def _width(self) -> int:
        return min(self._console.width, _WIDEST)

    async def _print(self, label: Text, text: str) -> None:
        """`text` beside its label, in a column of its own."""
        await self._await_reader(text)
        # Others may say what this stream cannot write: the log of a server, a path.
        text = text.encode(self._console.encoding, "replace").decode(self._console.encoding)
        indent = len(label.plain)
        width = max(self._width - indent, _NARROWEST)
        lines = textwrap.wrap(text, width, break_on_hyphens=False) or [""]
        for line in lines:
            self._console.print(Text.assemble(label, line), soft_wrap=True)
            label = Text(" " * indent)

    async def _await_reader(self, text: str) -> None:
        """Wait until the last line has been read; `text` is the next one."""
        if (left := self._read_at - self._clock()) > 0:
            await self._sleep(left)
        self._read_at = self._clock() + self._pace * (_BREATH + _CHARACTER * len(text))
