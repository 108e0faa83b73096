"""Whose cancel it was: ours, or that of a tool that cancelled itself."""

import asyncio
import math

import anyio


class SelfCancelled(Exception):
    """A tool or the model cancelled itself, or waited for something that was cancelled."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__("a tool, or the model, was cancelled from within")
        self.__cause__ = cause


def was_cancelled_from_outside() -> bool:
    """Whether a scope around us was cancelled. If not, the task goes on as if nothing had been."""
    if anyio.current_effective_deadline() == -math.inf:
        return True
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
    return False
