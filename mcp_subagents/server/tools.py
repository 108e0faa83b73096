"""The eight tools. Each is: arguments in, one thing asked of the engine, one view out."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal

from mcp_types import InputRequiredResult

from mcp_subagents.arguments import (
    AnswerArguments,
    MessageArguments,
    NoArguments,
    OneTask,
    TaskArguments,
    WaitArguments,
)
from mcp_subagents.config.roster import meant
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.delegation import Standing, Submission
from mcp_subagents.errors import UnknownSubagent
from mcp_subagents.modes import decide_execution_mode
from mcp_subagents.server.calls import Call
from mcp_subagents.server.cancels import Cancels, uninterrupted
from mcp_subagents.server.delivery import Deadline, follow, wait
from mcp_subagents.server.mail import see
from mcp_subagents.types import TaskHandle, TaskStatus
from mcp_subagents.views import ListView, TaskView, WaitView, view_of, views_of

MOST_LISTED = 100
"""Tasks in one list; a model that has more open needs no longer list."""

Answer = TaskView | WaitView | ListView | InputRequiredResult


class Tools:
    """What the tools do, for the subagents of a server."""

    def __init__(self, subagents: Mapping[str, SubAgentConfig], cancels: Cancels) -> None:
        self._subagents = subagents
        self._cancels = cancels

    async def task(self, call: Call, given: TaskArguments) -> Answer:
        with self._cancels.heard(call.context.request_context) as sync:
            # A host that comes back with its user's answers comes back to the task that asked.
            sync.task_id = call.context.request_state
            if sync.task_id is None:
                given = await self.resolved(call, given)
                mode = self.mode(call, given)
                # Not to be interrupted: a cancel that comes meanwhile must find the task it is about.
                with uninterrupted():
                    task = await self.submit(call, given, mode)
                    if mode == "sync":
                        await self._cancels.found(sync, task.task_id)
                if mode == "async":
                    return await seen(call, await call.engine.look(task.task_id, owner=call.owner))
                return await _followed(call, task.task_id)
            return await _followed(call, sync.task_id)

    async def submit(self, call: Call, given: TaskArguments, mode: Literal["sync", "async"]) -> TaskHandle:
        """Take a task on."""
        wanted = Submission(
            description=given.description,
            subagent=given.subagent_type,
            mode=mode,
            priority=given.priority,
            idempotency_key=given.idempotency_key,
            continues=given.continue_task_id,
        )
        return await call.engine.submit(wanted, owner=call.owner)

    async def resolved(self, call: Call, given: TaskArguments) -> TaskArguments:
        """A follow-up that names nobody goes to the subagent that remembers the task; a repetition is as it was."""
        known = await call.engine.find(given.idempotency_key, owner=call.owner)
        if known is not None and given.mode == "auto":
            given = given.model_copy(update={"mode": known.mode})
        if "subagent_type" in given.model_fields_set:
            with suppress(UnknownSubagent):  # a repetition may name one that is gone
                given = given.model_copy(update={"subagent_type": meant(given.subagent_type, self._subagents)})
        if not given.continue_task_id or "subagent_type" in given.model_fields_set:
            return given
        past = known or await call.engine.check(given.continue_task_id, owner=call.owner)
        return given.model_copy(update={"subagent_type": past.subagent_name})

    def mode(self, call: Call, given: TaskArguments) -> Literal["sync", "async"]:
        """Whether the host waits for the task. Raises: `UnknownSubagent`, if that depends on the subagent."""
        if given.mode != "auto":
            return given.mode
        config = self._subagents.get(given.subagent_type)
        if config is None:
            raise UnknownSubagent(given.subagent_type, self._subagents)
        # A host that moves long calls to the background tells its model the result; an id would only make it poll.
        return "sync" if call.host.notifies else decide_execution_mode(given.characteristics(config), config)

    async def check_task(self, call: Call, given: OneTask) -> Answer:
        return await seen(call, await call.engine.look(given.task_id, owner=call.owner))

    async def wait_tasks(self, call: Call, given: WaitArguments) -> Answer:
        seconds = call.patience if given.timeout is None else min(given.timeout, call.patience)
        waited = await wait(call, given.task_ids, mode=given.mode, deadline=Deadline(seconds))
        return await waited_for(call, given, waited.tasks, timed_out=waited.timed_out)

    async def answer_subagent(self, call: Call, given: AnswerArguments) -> Answer:
        if call.context.request_state is None:
            task = await call.engine.answer(
                given.task_id, given.answer, question_id=given.question_id, owner=call.owner
            )
            if task.mode == "async" or task.status is TaskStatus.WAITING_FOR_ANSWER:
                return await seen(call, await call.engine.look(given.task_id, owner=call.owner))
        with self._cancels.heard(call.context.request_context) as sync:
            sync.task_id = given.task_id
            return await _followed(call, given.task_id)

    async def send_message_to_subagent(self, call: Call, given: MessageArguments) -> Answer:
        await call.engine.send(given.task_id, given.message, owner=call.owner)
        view = await seen(call, await call.engine.look(given.task_id, owner=call.owner))
        if view.status.is_terminal:
            return view
        return view.model_copy(update={"next": f"It reads your message with its next turn. {view.next}"})

    async def list_active_tasks(self, call: Call, given: NoArguments) -> Answer:
        standings = await call.engine.active(owner=call.owner)
        # Those that ask are never left out: they wait for the reader.
        first = sorted(standings, key=lambda each: each.handle.status is not TaskStatus.WAITING_FOR_ANSWER)
        shown = first[:MOST_LISTED] if len(standings) > MOST_LISTED else standings
        # To be listed is not to be read: the mail says who asks until somebody looks at the task itself.
        return ListView(tasks=views_of(shown), omitted=len(standings) - len(shown))

    async def soft_cancel_task(self, call: Call, given: OneTask) -> Answer:
        await call.engine.soft_cancel(given.task_id, owner=call.owner)
        return await seen(call, await call.engine.look(given.task_id, owner=call.owner))

    async def hard_cancel_task(self, call: Call, given: OneTask) -> Answer:
        await call.engine.hard_cancel(given.task_id, owner=call.owner)
        return await seen(call, await call.engine.look(given.task_id, owner=call.owner))


async def _followed(call: Call, task_id: str) -> Answer:
    outcome = await follow(call, task_id)
    if isinstance(outcome, InputRequiredResult):
        return outcome
    return await seen(call, await call.engine.look(task_id, owner=call.owner))


async def waited_for(
    call: Call, given: WaitArguments, tasks: Sequence[TaskHandle], *, timed_out: bool, unasked: bool = False
) -> WaitView:
    """How the tasks stand that were waited for, which their owner has now seen, unless nobody asked."""
    standings = [await call.engine.look(task.task_id, owner=call.owner) for task in tasks]
    for each in () if unasked else standings:
        await see(call.engine, each.handle, owner=call.owner)
    return WaitView(
        mode=given.mode,
        finished=sum(each.handle.status.is_terminal for each in standings),
        total=len(standings),
        timed_out=timed_out,
        tasks=views_of(standings),
    )


async def seen(call: Call, standing: Standing) -> TaskView:
    """How a task stands, which its owner has now seen."""
    await see(call.engine, standing.handle, owner=call.owner)
    return view_of(standing)
