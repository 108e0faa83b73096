"""Another process on the same file: `other.py FILE WHAT`. It says what it has done, a line each."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import anyio
from paperwork import NOW, ROOMY, add, entry, finish_turn, running, task

from mcp_subagents.store import Store
from mcp_subagents.store.sqlite import open_sqlite


def say(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def create(store: Store) -> None:
    await add(store, task("t1"))
    say("written")
    await anyio.sleep_forever()


async def work(store: Store) -> None:
    lease = await running(store, "t1")
    await store.change("t1", finish_turn("a turn"), lease=lease)
    await store.append(lease, [entry("a tool")])
    say("written")
    await anyio.sleep_forever()


async def claim(store: Store) -> None:
    while records := (await store.claim(replace(ROOMY, most=3), NOW)).records:
        for record in records:
            say(record.task_id)


async def leave(store: Store) -> None:
    say("open")


WHAT: Mapping[str, Callable[[Store], Awaitable[None]]] = {
    "create": create,
    "work": work,
    "claim": claim,
    "leave": leave,
}


async def main(path: str, what: str) -> None:
    async with open_sqlite(Path(path)) as store:
        await WHAT[what](store)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
