"""How a process is told to leave, and how it leaves in time."""

import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@asynccontextmanager
async def until_stopped(*, stdin: bool = False, hangup: bool = False) -> AsyncGenerator[None]:
    """End the block, as if its work were done, when the process is told to stop.

    That is by SIGINT or SIGTERM; with `stdin`, also by the end of its standard input, which is how a host that
    started it says goodbye. What comes in there is thrown away. With `hangup`, also by the end of its terminal.
    """
    numbers = (*STOP_SIGNALS, *([signal.SIGHUP] if hangup and hasattr(signal, "SIGHUP") else []))
    async with anyio.create_task_group() as group:

        async def heed_signals() -> None:
            with anyio.open_signal_receiver(*numbers) as signals:
                async for _ in signals:
                    group.cancel_scope.cancel()
                    return

        async def heed_stdin() -> None:
            while await anyio.to_thread.run_sync(os.read, sys.stdin.fileno(), 65536, abandon_on_cancel=True):
                pass
            group.cancel_scope.cancel()

        group.start_soon(heed_signals, name="stop signals")
        if stdin:
            group.start_soon(heed_stdin, name="end of stdin")
        yield
        group.cancel_scope.cancel()


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
