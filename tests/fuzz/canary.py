"""A client that does everything right, among all the others."""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from tests.fuzz.siege import PATIENCE
from tests.server.processes import call

Ask = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


async def delegate(ask: Ask, name: str, *, modern: bool) -> str:
    """Delegate a task and see its result, in time. The task's id."""
    with anyio.fail_after(PATIENCE):
        done = await ask({**call(0, "task", modern=modern, description="Why?"), "id": name})
        task: dict[str, Any] = done["structuredContent"]
        for more in itertools.count(1):
            if task["status"] not in ("pending", "running"):
                break
            waiting = call(0, "wait_tasks", modern=modern, task_ids=[task["task_id"]])
            waited = await ask({**waiting, "id": f"{name}, {more}"})
            task = waited["structuredContent"]["tasks"][0]
    assert task["result"] == "42", task
    return task["task_id"]
