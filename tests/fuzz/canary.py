"""A client that does everything right, among all the others."""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from tests.fuzz.corpus import Known
from tests.fuzz.siege import PATIENCE
from tests.server.processes import call

Ask = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


async def delegate(ask: Ask, name: str, known: Known, *, modern: bool) -> str:
    """Delegate a task and see its result, in time. The task's id.

    The others may find the task in a list and cancel it, which is their right; then it is delegated again. A task whose
    id none of them has ever named is nobody's to cancel.
    """
    again = 0
    with anyio.fail_after(PATIENCE):
        task = await _delegated(ask, name, modern=modern)
        while task["status"] == "cancelled" and task["task_id"] in known.named:
            again += 1
            task = await _delegated(ask, f"{name}, again {again}", modern=modern)
        assert task["result"] == "42", task
        return task["task_id"]


async def _delegated(ask: Ask, name: str, *, modern: bool) -> dict[str, Any]:
    """How a task has ended."""
    done = await ask({**call(0, "task", modern=modern, description="Why?"), "id": name})
    task: dict[str, Any] = done["structuredContent"]
    for more in itertools.count():
        if task["status"] not in ("pending", "running"):
            break
        waiting = call(0, "wait_tasks", modern=modern, task_ids=[task["task_id"]])
        waited = await ask({**waiting, "id": f"{name}/{more}"})
        task = waited["structuredContent"]["tasks"][0]
    return task
