"""`tasks watch`: the fleet as it changes, as a live table, as lines, and as JSON."""

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

import anyio
from rich.console import Console
from rich.live import Live

from mcp_subagents.cli.console import console
from mcp_subagents.cli.printing import print_json
from mcp_subagents.cli.task_tables import document, picture
from mcp_subagents.delegation import ACTIVE, Standing
from mcp_subagents.fleet.choosing import EVERY, Fleet, arranged, chosen
from mcp_subagents.fleet.rows import row_of
from mcp_subagents.records import TaskRecord
from mcp_subagents.standing import standing_of
from mcp_subagents.store import Query, Store
from mcp_subagents.store.watching import Changes
from mcp_subagents.types import TaskStatus, utc_now

_ONCE_A_SECOND = 1.0


async def watch_tasks(store: Store, roots: Sequence[str], *, as_json: bool) -> None:
    """Show the fleet, or these tasks and those below them, as they change; until Ctrl-C, or until these have ended."""
    with anyio.open_signal_receiver(signal.SIGINT) as signals:
        async with anyio.create_task_group() as group:

            async def leave_when_told() -> None:
                async for _ in signals:
                    group.cancel_scope.cancel()

            group.start_soon(leave_when_told, name="Ctrl-C")
            screen = console()
            if as_json or not screen.is_terminal:
                await _tell_changes(store, roots, as_json=as_json)
            else:
                await _keep_picture(store, roots, screen)
            group.cancel_scope.cancel()


async def _keep_picture(store: Store, roots: Sequence[str], screen: Console) -> None:
    async with store.watch() as changes:
        with Live(console=screen, auto_refresh=False, vertical_overflow="ellipsis") as live:
            while True:
                ended = bool(roots) and not await _open(store, roots)
                fleet = await _watched(store, roots, max(3, screen.height // 2 - 2))
                live.update(await picture(store, fleet, screen, live=True), refresh=True)
                if ended:
                    return
                # Ages grow, and what a task is doing between two turns is not told as a change.
                with anyio.move_on_after(_ONCE_A_SECOND):
                    await changes.receive()
                    _drain(changes)


async def _tell_changes(store: Store, roots: Sequence[str], *, as_json: bool) -> None:
    """A line for each change; first for each task that is open, or that was asked for."""
    told: dict[str, str] = {}

    async def tell(record: TaskRecord) -> None:
        standing = await standing_of(store, record)
        line = _line(standing)
        if told.get(record.task_id) == line:
            return
        told[record.task_id] = line
        if as_json:
            print_json(document(standing, record), indent=None)
        else:
            print(f"{datetime.now():%H:%M:%S}  {line}", flush=True)  # noqa: DTZ005  # on the reader's own clock

    async with store.watch() as changes:
        family = set(roots)
        for record in [
            each for each, _ in arranged((await _watched(store, roots, sys.maxsize, EVERY & ACTIVE)).records)
        ]:
            family.add(record.task_id)
            await tell(record)
        while not roots or await _open(store, roots):
            record = await changes.receive()
            if not roots or record.task_id in family or record.handle.parent_id in family:
                family.add(record.task_id)
                await tell(record)
        # What has happened while the last change was told; with how those ended that were asked for as the last word.
        for record in reversed((await _watched(store, roots, sys.maxsize)).records):
            await tell(record)


async def _watched(store: Store, roots: Sequence[str], limit: int, statuses: frozenset[TaskStatus] = EVERY) -> Fleet:
    if not roots:
        return await chosen(store, statuses=statuses, limit=limit)
    found = [await store.read(task_id) for task_id in roots]
    for record in found:  # which grows by those below it
        found += await store.select(Query(parent_id=record.task_id))
    return Fleet(records=found)


async def _open(store: Store, roots: Sequence[str]) -> bool:
    return any([not (await store.read(task_id)).handle.status.is_terminal for task_id in roots])


def _drain(changes: Changes) -> None:
    """What has come in together is shown together."""
    with suppress(anyio.WouldBlock):
        while True:
            changes.receive_nowait()


def _line(standing: Standing) -> str:
    row = row_of(standing, utc_now())
    said = [row.doing or row.task, *([f"turn {row.turn}"] if row.turn != "-" else []), row.cost.replace("-", "")]
    return f"{row.task_id}  {row.status:<9}  {row.subagent}: {' · '.join(filter(None, said))}"
