"""The fleet as a table, and as JSON."""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from mcp_subagents.cli.console import console
from mcp_subagents.cli.printing import print_json
from mcp_subagents.delegation import Standing
from mcp_subagents.fleet.choosing import EVERY, Fleet, arranged, chosen, standings
from mcp_subagents.fleet.finding import SHORT
from mcp_subagents.fleet.rows import Row, row_of, status_of
from mcp_subagents.records import TaskRecord
from mcp_subagents.store import Query, Store
from mcp_subagents.types import TaskStatus, utc_now
from mcp_subagents.views import view_of

NOTHING_YET = 'There are no tasks. Delegate one from your app, or with `mcp-subagents run "..."`.'
_WIDE = 110
"""Columns from which on there is room for one more column."""
_MANY = 500
"""Tasks."""
_NAMES = {"asks ?": "asking"}
_STYLES = {"running": "bold", "asks ?": "bold magenta", "completed": "green", "failed": "red"}


async def list_tasks(store: Store, *, statuses: frozenset[TaskStatus], limit: int, as_json: bool) -> None:
    """Print the fleet once."""
    fleet = await chosen(store, statuses=statuses, limit=limit)
    if as_json:
        found = await standings(store, fleet.records)
        shown = [document(each, record) for each, record in zip(found, fleet.records, strict=True)]
        print_json({"tasks": shown, "omitted": fleet.more_open + fleet.more_ended})
        return
    screen = console()
    if len(fleet.records) > _MANY:
        await _print_lines(store, fleet)
    elif fleet.records:
        screen.print(await picture(store, fleet, screen))
    elif statuses != EVERY and await store.count(Query()):
        screen.print(f"No task is {' or '.join(sorted(statuses))}.")
    else:
        screen.print(NOTHING_YET)


async def _print_lines(store: Store, fleet: Fleet) -> None:
    """The same for so many tasks that to lay out a table would take longer than to read them: a line each."""
    places, now = arranged(fleet.records), utc_now()
    found = await standings(store, [record for record, _ in places])
    for standing, (_, depth) in zip(found, places, strict=True):
        row = row_of(standing, now, depth=depth)
        print(f"{row.task_id:<8}  {row.status:<9}  {row.subagent:<16}  {row.age:>4}  {row.cost:>9}  {row.task}")
    print(footer(found, fleet, live=False))


def document(standing: Standing, record: TaskRecord) -> dict[str, Any]:
    """All of a task for a program: what hosts get of it, nothing shortened, and its place in the fleet."""
    view = view_of(standing, budget=sys.maxsize, longest_description=None).model_dump(mode="json")
    del view["result_omitted_chars"], view["next"]
    return {**view, "parent_id": record.handle.parent_id, "owner": record.handle.owner, "unread": record.unread}


async def picture(store: Store, fleet: Fleet, screen: Console, *, live: bool = False) -> RenderableType:
    """The fleet as it stands now."""
    places = arranged(fleet.records)
    found = await standings(store, [record for record, _ in places])
    now = utc_now()
    rows = [row_of(standing, now, depth=depth) for standing, (_, depth) in zip(found, places, strict=True)]
    parts: list[RenderableType] = [table(rows, screen.width)] if rows else [NOTHING_YET]
    return Group(*parts, Text(footer(found, fleet, live=live), style="dim"))


def table(rows: Sequence[Row], width: int) -> Table:
    """The rows as a table that fits."""
    wide = width >= _WIDE
    made = Table(box=None, pad_edge=False, expand=True, header_style="dim")
    for name in ("ID", "STATUS", "SUBAGENT"):
        made.add_column(name, no_wrap=True, max_width=24 if wide else 16)
    for name in ("TURN", "AGE", "COST"):
        made.add_column(name, no_wrap=True, justify="right")
    made.add_column("TASK", no_wrap=True, ratio=3)
    if wide:
        made.add_column("DOING", no_wrap=True, ratio=2)
    for row in rows:
        status = Text(row.status, style=_STYLES.get(row.status, ""))
        cells = [Text(row.task_id), status, *map(Text, (row.subagent, row.turn, row.age, row.cost))]
        doing = Text(row.doing, style="magenta" if row.status == "asks ?" else "dim")
        task = Text(row.task)
        if wide:
            made.add_row(*cells, task, doing)
        else:
            made.add_row(*cells, Text("\n").join([task, *([doing] if row.doing else [])]))
    return made


def footer(found: Sequence[Standing], fleet: Fleet, *, live: bool) -> str:
    """How many there are of each kind, what is not shown, and what can be done."""
    counts = Counter(status_of(each.handle) for each in found if not each.handle.status.is_terminal)
    said = [f"{number} {'asking' if status == 'asks ?' else status}" for status, number in counts.items()] or [
        "nothing is open"
    ]
    if fleet.more_open or fleet.more_ended:
        more = [
            f"{number} {kind}" for number, kind in ((fleet.more_open, "open"), (fleet.more_ended, "ended")) if number
        ]
        said.append(f"{' and '.join(more)} not shown" + ("" if live else " (--all)"))
    if live:
        said.append("Ctrl-C leaves")
    asking = next((each for each in found if each.handle.status is TaskStatus.WAITING_FOR_ANSWER), None)
    hint = "" if asking is None else f"\nanswer: mcp-subagents tasks answer {asking.handle.task_id[:SHORT]}"
    return " · ".join(said) + hint
