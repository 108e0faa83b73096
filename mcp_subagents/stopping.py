"""How a process is told to leave, and how it leaves in time."""

import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

logger = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


IN_TIME = 4.5
"""Seconds. Whoever told the process to leave waits for five at the most."""


@asynccontextmanager
async def until_stopped(
    *, stdin: bool = False, hangup: bool = False, within: float | None = None
) -> AsyncGenerator[Callable[[], None]]:
    """End the block, as if its work were done, when the process is told to stop.

    That is by SIGINT or SIGTERM; with `stdin`, also by the end of its standard input, which is how a host that
    started it says goodbye. What comes in there is thrown away. With `hangup`, also by the end of its terminal.

    With `within`, the block may take so many seconds to end, then the process leaves without it: a tool may not let
    itself be cancelled. A block that ends because it was told otherwise says so by the function that it is given.
    """
    numbers = (*STOP_SIGNALS, *([signal.SIGHUP] if hangup and hasattr(signal, "SIGHUP") else []))
    timer = threading.Timer(within or 0.0, _leave_at_once)
    timer.daemon = True

    def told() -> None:
        if within is not None and timer.ident is None:
            timer.start()

    async with anyio.create_task_group() as group:

        async def heed_signals() -> None:
            with anyio.open_signal_receiver(*numbers) as signals:
                async for _ in signals:
                    told()
                    group.cancel_scope.cancel()
                    return

        async def heed_stdin() -> None:
            while await anyio.to_thread.run_sync(os.read, sys.stdin.fileno(), 65536, abandon_on_cancel=True):
                pass
            told()
            group.cancel_scope.cancel()

        group.start_soon(heed_signals, name="stop signals")
        if stdin:
            group.start_soon(heed_stdin, name="end of stdin")
        try:
            yield told
        finally:
            timer.cancel()
        group.cancel_scope.cancel()


def _leave_at_once() -> None:
    # All that was acknowledged is on disk, and others take over what runs here.
    logger.error("left without something that does not let itself be stopped; as a rule, that is a tool")
    os._exit(0)


def leave(code: int) -> None:
    """Exit with `code`, without waiting for threads that a cancelled tool has left behind.

    Call it last, when everything is stored. A tool that runs in a thread cannot be stopped from outside, and
    the interpreter would wait for it, while the host waits for us.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    left_behind = [each for each in threading.enumerate() if each is not threading.main_thread() and not each.daemon]
    if left_behind:
        os._exit(code)
    sys.exit(code)
