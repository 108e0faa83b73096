"""What a person sees while a task is at work: a live line on a terminal, plain lines elsewhere; on standard error."""

import logging
from collections.abc import Sequence
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from mcp_subagents.cli.console import console
from mcp_subagents.redact import redact
from mcp_subagents.texts import plain


class Screen(Protocol):
    """Where a person is told how it goes."""

    live: bool
    """Whether what is shown gives way to what is shown next."""

    def show(self, lines: Sequence[str]) -> None:
        """How it goes now."""
        ...

    def note(self, text: str, style: str = "") -> None:
        """Something that stays."""
        ...

    def rest(self) -> None:
        """Show nothing that moves, until there is something to show."""
        ...


class LiveScreen:
    """A spinner, and behind it how it goes."""

    live = True

    def __init__(self, screen: Console) -> None:
        self._screen = screen
        self._live: Live | None = None

    def show(self, lines: Sequence[str]) -> None:
        texts = [Text(plain(line), no_wrap=True, overflow="ellipsis") for line in lines]
        if self._live is None:
            self._spinner = Spinner("dots")
            self._live = Live(console=self._screen, refresh_per_second=8, transient=True)
            self._live.start()
        self._spinner.update(text=texts[0])
        self._live.update(Group(self._spinner, *texts[1:]))

    def note(self, text: str, style: str = "") -> None:
        self._screen.print(Text(plain(text), style=style))

    def rest(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


class PlainScreen:
    """A line for everything new."""

    live = False

    def __init__(self, screen: Console) -> None:
        self._screen = screen
        self._last: Sequence[str] = ()

    def show(self, lines: Sequence[str]) -> None:
        for line in lines:
            if line not in self._last:
                self.note(line)
        self._last = list(lines)

    def note(self, text: str, style: str = "") -> None:
        self._screen.print(Text(plain(text), style=style), soft_wrap=True)

    def rest(self) -> None:
        pass


def screen_here() -> Screen:
    """The screen that fits where standard error goes."""
    here = console(stderr=True)
    return LiveScreen(here) if here.is_terminal and not here.is_dumb_terminal else PlainScreen(here)


class ScreenLog(logging.Handler):
    """Notes what is logged, in a line each and without secrets, where it does not tear what is shown apart."""

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self._shown = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._shown.note(redact(f"mcp-subagents: {self.format(record)}"), style="dim")
