"""The process of a tool server with all its children: started, watched, and ended whatever becomes of us."""

import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TextIO

import anyio
import anyio.abc
import anyio.lowlevel

INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""What a process gets of our environment, and nothing else: no provider's key."""
GRACE = 2.0
"""Seconds to leave after its standard input was closed, and again after SIGTERM."""
_LOOKING = 0.01
_PARTING = 0.5
"""Seconds for the system to clear away what was killed."""

_GUARD = """\
read -r _
sleep 2; kill -s TERM -- "-$1" 2>/dev/null || exit 0
sleep 2; kill -s KILL -- "-$1" 2>/dev/null
"""
"""Waits for the end of its standard input, which is our end; then does to the group what we would have done."""


@asynccontextmanager
async def running(
    command: Sequence[str], *, env: dict[str, str], cwd: str | None, stderr: TextIO
) -> AsyncGenerator[anyio.abc.Process]:
    """The process, for as long as the block lasts; after that neither it nor a child of it is left.

    Should we be killed meanwhile, they are ended all the same. What escapes is a process that has left the group by
    itself, as a daemon does. Raises: `OSError`, if it cannot be started.
    """
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    process = await anyio.open_process(
        command, env={**inherited, **env}, cwd=cwd, stderr=stderr, start_new_session=True
    )
    with _guarded(process.pid):
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)


async def death(process: anyio.abc.Process) -> int:
    """Wait until the process itself has died, whoever still holds its pipes: its exit code, -N after signal N."""
    # Not `process.wait()`, which waits for the pipes as well, and a child may have inherited them.
    with suppress(OSError, AttributeError):
        descriptor = os.pidfd_open(process.pid)
        try:
            await anyio.wait_readable(descriptor)
        finally:
            os.close(descriptor)
    while process.returncode is None:  # noqa: ASYNC110  # where nothing tells of it
        await anyio.sleep(_LOOKING)
    return process.returncode


async def _end(process: anyio.abc.Process) -> None:
    """Let it leave by itself; then ask the whole group to, and then make it."""
    assert process.stdin is not None
    assert process.stdout is not None
    async with anyio.create_task_group() as group:
        # One that is stuck in writing would not see that it may leave.
        group.start_soon(_drain, process.stdout)
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.aclose()
        with anyio.move_on_after(GRACE):
            await death(process)
        for how, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, _PARTING)):
            if not _signalled(process.pid, how):
                break
            with anyio.move_on_after(patience):
                while process.returncode is None or _signalled(process.pid, 0):  # noqa: ASYNC110  # nothing tells
                    await anyio.sleep(_LOOKING)
        group.cancel_scope.cancel()
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdout.aclose()
    # A survivor that holds a pipe would keep it open, and nothing public closes it.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()
    await anyio.lowlevel.checkpoint()


async def _drain(stdout: anyio.abc.ByteReceiveStream) -> None:
    with suppress(OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            await stdout.receive()


def _signalled(group: int, how: int) -> bool:
    """Whether there is anybody in the group, who then has got the signal."""
    try:
        os.killpg(group, how)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody is there, who is not ours any more
    return True


@contextmanager
def _guarded(group: int) -> Generator[None]:
    """Have the group ended if we die before the block has ended, even by SIGKILL."""
    try:
        guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "sh", str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin"},
            cwd="/",
            start_new_session=True,  # what is sent to our group is not for it
        )
    except OSError:
        guard = None  # no shell here; all that is lost is this guard
    try:
        yield
    finally:
        if guard is not None:
            guard.kill()
            guard.communicate()
