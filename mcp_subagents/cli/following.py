"""Stays with a task until it has ended: shows how it goes, puts its questions to the person, heeds Ctrl-C."""

import signal
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager

import anyio

from mcp_subagents.cli.prompting import ask_until_said
from mcp_subagents.cli.screens import Screen
from mcp_subagents.delegation import Standing
from mcp_subagents.engine import Engine
from mcp_subagents.errors import NotWaiting
from mcp_subagents.fleet.finding import SHORT, waiting_questions
from mcp_subagents.fleet.pages import clipped, progress
from mcp_subagents.fleet.rows import one_line
from mcp_subagents.types import TaskHandle, TaskStatus

_LOOK_EVERY = 0.5
_MOST_BELOW = 6
"""Lines for tasks below the one that is followed."""
_SOFTLY = "Stopping when this turn is over, with what it has found. Ctrl-C again stops it at once."


@contextmanager
def listening() -> Generator[AsyncIterator[int]]:
    """The signals that come in, one after the other, none of which ends the process by itself."""
    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    with anyio.open_signal_receiver(*numbers) as signals:
        yield signals


async def stay_with(
    engine: Engine,
    task_id: str,
    screen: Screen,
    signals: AsyncIterator[int],
    *,
    interactive: bool,
    leaves_questions: bool,
) -> int | None:
    """Stay until the task has ended, or its questions are left open; or until a signal says to leave: that one.

    `interactive` if there is a person to ask; if not, it is `leaves_questions` that says whether to wait for others.
    """
    left_by: int | None = None
    async with anyio.create_task_group() as group:

        async def heed_signals() -> None:
            nonlocal left_by
            left_by = await _obey(signals, engine, task_id, screen)
            group.cancel_scope.cancel()

        group.start_soon(heed_signals, name="signals")
        await _follow(engine, task_id, screen, interactive=interactive, leaves_questions=leaves_questions)
        group.cancel_scope.cancel()
    return left_by


async def _follow(engine: Engine, task_id: str, screen: Screen, *, interactive: bool, leaves_questions: bool) -> None:
    while True:
        task = await _until_news(engine, task_id, screen)
        screen.rest()
        if task.status.is_terminal:
            return
        if task.status is not TaskStatus.WAITING_FOR_ANSWER:
            continue  # somebody elsewhere was faster, and it goes on
        if interactive:
            if not await _put_to_person(engine, task, screen):
                return
        else:
            _say_how_to_answer(task, screen)
            if leaves_questions:
                return
            await engine.answered(task_id)


async def _until_news(engine: Engine, task_id: str, screen: Screen) -> TaskHandle:
    async with anyio.create_task_group() as group:
        group.start_soon(_show, engine, task_id, screen, name="progress")
        await engine.wait([task_id])
        group.cancel_scope.cancel()
    return await engine.check(task_id)


async def _show(engine: Engine, task_id: str, screen: Screen) -> None:
    """Say how it goes whenever the task or another has changed; and now and then, since not all it does is a change."""
    async with engine.watch() as changes, anyio.create_task_group() as group:
        bell = anyio.Event()

        async def ring() -> None:
            async for _ in changes:
                bell.set()

        group.start_soon(ring, name="changes")
        while not (standing := await engine.look(task_id)).handle.status.is_terminal:
            bell = anyio.Event()
            screen.show(await _lines(engine, standing))
            with anyio.move_on_after(_LOOK_EVERY):
                await bell.wait()
        group.cancel_scope.cancel()


async def _lines(engine: Engine, standing: Standing) -> list[str]:
    below = [_below(each) async for each in _open_below(engine, standing)]
    more = [f"  └ and {len(below) - _MOST_BELOW} more"] if len(below) > _MOST_BELOW else []
    return [progress(standing), *below[:_MOST_BELOW], *more]


async def _open_below(engine: Engine, standing: Standing) -> AsyncIterator[Standing]:
    for child in await engine.children(standing.handle.task_id):
        yield child
        async for each in _open_below(engine, child):
            yield each


def _below(standing: Standing) -> str:
    return f"{'  ' * standing.handle.depth}└ {one_line(standing.handle.subagent_name)}: {progress(standing)}"


async def _put_to_person(engine: Engine, task: TaskHandle, screen: Screen) -> bool:
    """Have the questions answered, here or by anybody elsewhere. False: the person leaves them open."""
    left = False
    async with anyio.create_task_group() as group:

        async def ask_each() -> None:
            nonlocal left
            while waiting := waiting_questions(await engine.check(task.task_id)):
                question = waiting[0]
                screen.note(f"? {clipped(question.text)}", style="bold magenta")
                said = await ask_until_said("> ")
                if said is None:
                    left = True
                    break
                try:
                    await engine.answer(task.task_id, said, question_id=question.question_id)
                except NotWaiting:
                    screen.note("Somebody else has answered that already.")
            group.cancel_scope.cancel()

        group.start_soon(ask_each, name="prompt")
        await engine.answered(task.task_id)
        group.cancel_scope.cancel()
    return not left


def _say_how_to_answer(task: TaskHandle, screen: Screen) -> None:
    waiting = waiting_questions(task)
    for number, question in enumerate(waiting, start=1):
        which = f" --question {number}" if len(waiting) > 1 else ""
        screen.note(f"It asks: {clipped(question.text)}", style="bold")
        screen.note(f'Answer it from another terminal: mcp-subagents tasks answer {task.task_id[:SHORT]}{which} "..."')


async def _obey(signals: AsyncIterator[int], engine: Engine, task_id: str, screen: Screen) -> int | None:
    """Cancel softly on the first Ctrl-C and hard on the next; return any other signal."""
    asked = 0
    async for number in signals:
        if number != signal.SIGINT:
            return number
        asked += 1
        if asked > 1:
            screen.note("Stopping it now.")
            await engine.hard_cancel(task_id)
        elif not (await engine.soft_cancel(task_id)).status.is_terminal:
            screen.note(_SOFTLY)
    return None
