"""How commands for people print: in colour where there is a terminal that wants it, as plain text elsewhere."""

import sys

from rich.console import Console


class _Console(Console):
    """Says that its reader has left as any stream does, where rich would end the process with exit code 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """A console on standard output, or on standard error. It prints texts as they are: no markup, no guessing at words.

    `NO_COLOR`, `FORCE_COLOR`, `TERM=dumb` and `COLUMNS` are rich's own business.
    """
    stream = sys.stderr if stderr else sys.stdout
    return _Console(file=stream, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)
