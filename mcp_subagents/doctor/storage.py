"""Where tasks are kept, and the tasks that need somebody."""

import os
import shutil
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import anyio.to_thread

from mcp_subagents.config.stores import SQLITE
from mcp_subagents.doctor.circumstances import Circumstances
from mcp_subagents.doctor.findings import Finding, fine, problem, warning
from mcp_subagents.errors import StoreDamaged, StoreError, StoreTooNew, StoreUnavailable
from mcp_subagents.store.mounts import network_file_system
from mcp_subagents.store.sqlite_examination import Examination, Idle, Look, examine
from mcp_subagents.store.sqlite_file import default_path

LEAST_ROOM, LITTLE_ROOM = 20 * 2**20, 500 * 2**20
"""Bytes: what a busy server writes in minutes, and in weeks."""
_ANOTHER_FILE = "Name a file elsewhere: --store sqlite:///FILE, MCP_SUBAGENTS_STORE, or `store` in subagents.yaml."
_SHOWN = 3
"""Tasks that are named one by one."""


def path_of(there: Circumstances) -> Path | None:
    """The file that a server here would keep its tasks in; `None` if that cannot be known."""
    if there.config is None:
        return None
    named = there.config.store
    return default_path() if named is None else Path(named.removeprefix(SQLITE)).absolute()


async def store(there: Circumstances) -> Iterable[Finding]:
    """Whether tasks can be kept: the disk, the folder, the file and what is in it."""
    path = path_of(there)
    if path is None:
        return ()
    return await anyio.to_thread.run_sync(_store, path, there, abandon_on_cancel=True)


def _store(path: Path, there: Circumstances) -> list[Finding]:
    if wrong := _unusable(path, there):
        return [wrong]
    found = [each] if (each := judged_room(shutil.disk_usage(_nearest(path)).free, path)) else []
    if not path.exists():
        return [*found, fine("store", f"{path} is not there yet; it is made with the first task.")]
    try:
        seen = _examined(path, there)
    except StoreError as why:
        return [*found, problem("store", str(why), _remedy(why, path))]
    return [*found, *_judged(seen, path, there)]


def _examined(path: Path, there: Circumstances, thorough: bool = True) -> Examination:
    assert there.config is not None, "only a configuration says where the store is"
    dead_after = timedelta(seconds=there.config.settings.dead_after)
    return examine(path, Look(now=datetime.now(UTC), dead_after=dead_after, thorough=thorough))


def _nearest(path: Path) -> Path:
    """The folder that the file is in, or the nearest that is there."""
    return next(each for each in path.parents if os.path.lexists(each))


def _unusable(path: Path, there: Circumstances) -> Finding | None:
    """Why nothing can be kept at `path`, without looking into it."""
    folder = _nearest(path)
    if not folder.is_dir():
        return problem("store", f"{path} cannot be made: {folder} is not a folder.", _ANOTHER_FILE)
    if kind := network_file_system(folder.resolve(), there.mountinfo):
        return problem(
            "store",
            f"{path} is on a network file system ({kind}), where SQLite's locks cannot be relied on.",
            _ANOTHER_FILE,
        )
    if path.exists() and not path.is_file():
        return problem("store", f"{path} is not a regular file.", _ANOTHER_FILE)
    if not os.access(folder, os.W_OK | os.X_OK):
        return problem(
            "store", f"{folder} cannot be written by this user.", f"chmod u+rwx '{folder}'  # or: {_ANOTHER_FILE}"
        )
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        return problem(
            "store", f"{path} cannot be written by this user.", f"chmod u+rw '{path}'  # or: {_ANOTHER_FILE}"
        )
    return None


def judged_room(free: int, path: Path) -> Finding | None:
    """What the free bytes on its disk mean for the store."""
    if free >= LITTLE_ROOM:
        return None
    told = f"The disk of {path} is nearly full: {free / 2**20:.0f} MB are left."
    if free < LEAST_ROOM:
        return problem("store", told, "Make room on that disk: nothing can be kept on a full one.")
    return warning("store", told, "Make room on that disk before it is full.")


def _remedy(why: StoreError, path: Path) -> str:
    match why:
        case StoreTooNew():
            return f"pip install --upgrade mcp-subagents  # or: {_ANOTHER_FILE}"
        case StoreDamaged():
            return (
                "End all apps that use it, and copy the file if you want to look into it. The next server that starts "
                "keeps it aside and begins an empty store."
            )
        case StoreUnavailable():
            return f"Look who uses it: fuser -v '{path}'"
        case _:
            return _ANOTHER_FILE


def _judged(seen: Examination, path: Path, there: Circumstances) -> Iterable[Finding]:
    assert there.config is not None, "only a configuration says where the store is"
    if seen.is_older:
        yield fine("store", f"{path} is sound; the next server that starts brings it up to date.")
        return
    number = sum(seen.tasks.values())
    others = _used_by(seen.processes, users_of(path))
    yield fine("store", f"{path} is sound: {_count(number, 'task')}, {seen.size / 2**20:.1f} MB{others}.")
    most = there.config.settings.daily_cost_usd
    if most is not None and seen.spent_today >= Decimal(str(most)):
        yield problem(
            "store",
            f"Today's tasks have cost ${seen.spent_today:.2f}, and `daily_cost_usd` allows ${most:.2f}.",
            "Raise `daily_cost_usd`, or wait until midnight UTC.",
        )


def users_of(path: Path, processes: Path = Path("/proc")) -> list[int]:
    """The ids of the other processes that have the file open, as far as Linux shows them to this user."""
    found: set[int] = set()
    for link in processes.glob("[0-9]*/fd/*"):
        try:
            is_it = link.samefile(path)
        except OSError:
            continue  # it has just ended, or is not ours to look at
        if is_it:
            found.add(int(link.parts[-3]))
    return sorted(found - {os.getpid()})


def _used_by(at_work: Sequence[int], users: Sequence[int]) -> str:
    """Who uses the store: those at work, and those that have it open with nothing to do."""
    idle = [each for each in users if each not in at_work]
    told = [(at_work, "at work"), (idle, "waiting for work")]
    return "".join(
        f", {_count(len(each), 'process', 'es')} {what} ({', '.join(map(str, each))})" for each, what in told if each
    )


async def tasks(there: Circumstances) -> Iterable[Finding]:
    """The tasks that wait for somebody: an answer, or a process that can run them."""
    path = path_of(there)
    if path is None or not path.is_file():
        return ()
    try:
        seen = await anyio.to_thread.run_sync(_examined, path, there, False, abandon_on_cancel=True)
    except StoreError:
        return ()  # told by the check of the store
    return [*_asking(seen), *_idle(seen)]


def _asking(seen: Examination) -> Iterable[Finding]:
    for each in seen.asking[:_SHOWN]:
        yield warning(
            "tasks",
            f"Task {each.task_id} ({each.subagent}) waits for an answer until {each.until:%Y-%m-%d %H:%M} UTC.",
            f"Answer it in your app, or here: mcp-subagents tasks answer {each.task_id}",
        )
    if (more := len(seen.asking) - _SHOWN) > 0:
        yield warning("tasks", f"{more} more wait for an answer.", "mcp-subagents tasks list")


def _idle(seen: Examination) -> Iterable[Finding]:
    idle = seen.left if seen.processes else (*seen.left, *seen.due)
    if anywhere := [each for each in idle if each.anywhere]:
        yield warning(
            "tasks",
            f"{_named(anywhere)} not being worked on: no server is running.",
            "Start one, by opening your app or here: mcp-subagents",
        )
    if bound := [each for each in idle if not each.anywhere]:
        names = ", ".join(sorted({each.subagent for each in bound}))
        yield problem(
            "tasks",
            f"{_named(bound)} stuck: only a program that has {names} in its Python code can run that.",
            f"Start that program, or cancel the task: mcp-subagents tasks cancel {bound[0].task_id}",
        )


def _named(idle: Sequence[Idle]) -> str:
    names = ", ".join(each.task_id for each in idle[:_SHOWN])
    more = f" and {len(idle) - _SHOWN} more" if len(idle) > _SHOWN else ""
    return f"Task {names} is" if len(idle) == 1 else f"Tasks {names}{more} are"


def _count(number: int, what: str, plural: str = "s") -> str:
    return f"{number} {what}{'' if number == 1 else plural}"
