"""The tools with which a subagent delegates itself: those of a host, over its own children only.

A call that has to wait gives its slot back: it is deferred, the attempt ends, and the store makes the task due when
what it waits for has come about. Resumed, the call is made again, finds the task that it has started, and returns.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

import anyio
from pydantic_ai import CallDeferred, FunctionToolset, RunContext, Tool, ToolFailed

from mcp_subagents import prompts
from mcp_subagents.arguments import (
    AnswerArguments,
    Arguments,
    MessageArguments,
    NoArguments,
    OneTask,
    TaskArguments,
    WaitArguments,
    parsed,
    schema_of,
)
from mcp_subagents.config.roster import meant
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.delegation import Delegates, Standing, Submission
from mcp_subagents.errors import (
    EngineStopped,
    LeaseLost,
    StopRequested,
    StoreError,
    SubagentsError,
)
from mcp_subagents.journal import ToolJournal, journal_at_work
from mcp_subagents.modes import decide_execution_mode
from mcp_subagents.trees import Awaited
from mcp_subagents.types import TaskHandle, TaskStatus, utc_now
from mcp_subagents.views import ListView, TaskView, WaitView, view_of
from mcp_subagents.words import list_in_words, task_in_words, wait_in_words

BUDGET = 60_000
"""Characters of results in one answer: more than a host gets, since a subagent has no other way to read the rest."""
LAST_TURN = 30.0
"""Seconds that a task is given to stop, while somebody waits for it in a slot of its own."""
_LONGEST_WAIT = 10 * 365 * 24 * 3600.0
"""Seconds. For ever, as far as dates go."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Below:
    """What a running task knows of those it can delegate to, and of the tasks it has delegated."""

    engine: Delegates
    handle: TaskHandle
    subagents: Mapping[str, SubAgentConfig]
    asked_in: int | None = None
    """The turn in which it was woken since a child asks: then no call of that turn waits any longer."""

    async def mine(self, task_id: str) -> Standing:
        """Raises: `UnknownTask`, for every task but its own children and those of the task that it follows up."""
        return await self.engine.child(task_id, of=self.handle.task_id, owner=self.handle.owner)


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call of a tool."""

    below: Below
    journal: ToolJournal
    call_id: str

    @property
    def engine(self) -> Delegates:
        return self.below.engine

    @property
    def owner(self) -> str:
        return self.below.handle.owner

    def key(self, given: TaskArguments) -> str:
        """The same whenever this very call is made again, so that it never starts a second task.

        A key that the model gives is one among those of its own task.
        """
        if given.idempotency_key:
            return f"{self.below.handle.task_id}:{given.idempotency_key}"
        return f"{self.below.handle.task_id}/{self.journal.turn}/{self.call_id}"

    async def begun(self, given: TaskArguments) -> TaskHandle | None:
        """The task that this very call has started before it was parked or interrupted, or that its key stands for."""
        if (parked := self.journal.awaited.get(self.call_id)) is not None:
            return (await self.below.mine(parked.task_ids[0])).handle
        known = await self.engine.find(self.key(given), owner=self.owner)
        return known if known is not None and known.description == given.description else None

    async def waited(self, awaited: Awaited, timeout: float | None) -> tuple[list[Standing], bool]:
        """How the tasks stand, once the call need not wait for them any more; and whether time is up.

        Raises: `CallDeferred`, as long as it has to wait.
        """
        seconds = _LONGEST_WAIT if timeout is None else min(timeout, _LONGEST_WAIT)
        standings = [await self.below.mine(task_id) for task_id in awaited.task_ids]
        if stopping := self._open(standings, own=False):
            # They were told to stop when the task ended that this one follows up, and are in their last turn.
            await self.engine.wait(stopping, timeout=min(seconds, LAST_TURN), owner=self.owner)
            standings = [await self.below.mine(task_id) for task_id in awaited.task_ids]
        asks = any(each.handle.status is TaskStatus.WAITING_FOR_ANSWER for each in standings)
        if awaited.is_enough(self._open(standings, own=True)) or asks:
            return standings, bool(self._open(standings, own=False))
        until = self.journal.started[self.journal.turn, self.call_id] + timedelta(seconds=seconds)
        if until <= self.journal.now() or self.below.asked_in == self.journal.turn:
            return standings, True
        raise CallDeferred(metadata={"awaited": replace(awaited, call_id=self.call_id), "until": until})

    def _open(self, standings: Sequence[Standing], *, own: bool) -> list[str]:
        """Which of these have not ended, of its own children or of others."""
        tasks = [each.handle for each in standings if not each.handle.status.is_terminal]
        return [each.task_id for each in tasks if (each.parent_id == self.below.handle.task_id) is own]

    async def shown(self, task_id: str) -> str:
        """How a task of its own stands, in words. Raises: `UnknownTask`."""
        return task_in_words(_view(await self.below.mine(task_id)), utc_now())


def awaited_in(metadata: Mapping[str, Any]) -> tuple[Awaited, datetime] | None:
    """What a deferred call waits for, and until when; `None` if it is none of ours."""
    awaited, until = metadata.get("awaited"), metadata.get("until")
    return (awaited, until) if isinstance(awaited, Awaited) and isinstance(until, datetime) else None


async def _task(call: Call, given: TaskArguments) -> str:
    task = await call.begun(given) or await _submitted(call, given)
    if task.mode == "async":
        return await call.shown(task.task_id)
    [standing], _ = await call.waited(Awaited(task_ids=(task.task_id,)), None)
    return task_in_words(_view(standing), utc_now())


async def _submitted(call: Call, given: TaskArguments) -> TaskHandle:
    below = call.below
    name = given.subagent_type
    if "subagent_type" not in given.model_fields_set and len(below.subagents) == 1:
        [name] = below.subagents
    if given.continue_task_id:
        past = (await below.mine(given.continue_task_id)).handle
        name = name if "subagent_type" in given.model_fields_set else past.subagent_name
    name = meant(name, below.subagents)
    wanted = Submission(
        description=given.description,
        subagent=name,
        mode=_mode(given, below.subagents[name]),
        priority=given.priority,
        parent_id=below.handle.task_id,
        idempotency_key=call.key(given),
        continues=given.continue_task_id,
    )
    return await call.engine.submit(wanted, owner=call.owner)


async def _check(call: Call, given: OneTask) -> str:
    return await call.shown(given.task_id)


async def _wait(call: Call, given: WaitArguments) -> str:
    awaited = Awaited(task_ids=tuple(dict.fromkeys(given.task_ids)), mode=given.mode)
    standings, timed_out = await call.waited(awaited, given.timeout)
    view = WaitView(
        mode=given.mode,
        finished=sum(each.handle.status.is_terminal for each in standings),
        total=len(standings),
        timed_out=timed_out,
        tasks=[_view(each) for each in standings],
    )
    return wait_in_words(view, utc_now())


async def _answer(call: Call, given: AnswerArguments) -> str:
    await call.below.mine(given.task_id)
    await call.engine.answer(given.task_id, given.answer, question_id=given.question_id, owner=call.owner)
    return await call.shown(given.task_id)


async def _send(call: Call, given: MessageArguments) -> str:
    await call.below.mine(given.task_id)
    await call.engine.send(given.task_id, given.message, owner=call.owner)
    return await call.shown(given.task_id)


async def _list(call: Call, given: NoArguments) -> str:
    children = await call.engine.children(call.below.handle.task_id, owner=call.owner)
    return list_in_words(ListView(tasks=[_view(each) for each in children]), utc_now())


async def _soft_cancel(call: Call, given: OneTask) -> str:
    await call.below.mine(given.task_id)
    await call.engine.soft_cancel(given.task_id, owner=call.owner)
    return await call.shown(given.task_id)


async def _hard_cancel(call: Call, given: OneTask) -> str:
    await call.below.mine(given.task_id)
    await call.engine.hard_cancel(given.task_id, owner=call.owner)
    return await call.shown(given.task_id)


def _view(standing: Standing) -> TaskView:
    view = view_of(standing, budget=BUDGET)
    if not view.result_omitted_chars:
        return view
    told = "Its middle is left out: ask for less at a time, following up with `continue_task_id`."
    return view.model_copy(update={"next": told})


def _mode(given: TaskArguments, config: SubAgentConfig) -> Literal["sync", "async"]:
    return given.mode if given.mode != "auto" else decide_execution_mode(given.characteristics(config), config)


Act = Callable[[Call, Any], Awaitable[str]]

_READS = {"read_only": True}
_AGAIN = {"idempotent": True}
"""Made again after a crash: `task` finds the task that it has started, by the id of its call."""

_FACES: Mapping[str, tuple[Act, type[Arguments], str, Mapping[str, Any]]] = {
    "task": (_task, TaskArguments, prompts.TASK_TOOL_DESCRIPTION, _AGAIN),
    "check_task": (_check, OneTask, prompts.CHECK_TASK_DESCRIPTION, _READS),
    "wait_tasks": (_wait, WaitArguments, prompts.WAIT_TASKS_DESCRIPTION, _READS),
    "answer_subagent": (_answer, AnswerArguments, prompts.ANSWER_SUBAGENT_DESCRIPTION, {}),
    "send_message_to_subagent": (_send, MessageArguments, prompts.SEND_MESSAGE_DESCRIPTION, {}),
    "list_active_tasks": (_list, NoArguments, prompts.LIST_ACTIVE_TASKS_DESCRIPTION, _READS),
    "soft_cancel_task": (_soft_cancel, OneTask, prompts.SOFT_CANCEL_TASK_DESCRIPTION, _AGAIN),
    "hard_cancel_task": (_hard_cancel, OneTask, prompts.HARD_CANCEL_TASK_DESCRIPTION, _AGAIN),
}


def delegation_tools(subagents: Sequence[str], known: Mapping[str, SubAgentConfig]) -> list[Tool[Any]]:
    """The tools of a subagent that may delegate to these; none if there are none."""
    if not subagents:
        return []
    purposes = [f"{name}: {' '.join(known.get(name, {}).get('description', '').split())}" for name in subagents]
    choice: dict[str, Any] = {"enum": list(subagents), "description": "\n".join(["Who does it.", *purposes])}
    return [_tool(name, choice if name == "task" else {}) for name in _FACES]


def delegation_toolset(subagents: Sequence[str], known: Mapping[str, SubAgentConfig]) -> FunctionToolset[Any]:
    """The same for agents that others have built."""
    return FunctionToolset[Any](delegation_tools(subagents, known))


def _tool(name: str, choice: Mapping[str, Any]) -> Tool[Any]:
    act, takes, description, metadata = _FACES[name]

    async def run(ctx: RunContext[Any], **arguments: Any) -> str:
        journal = journal_at_work()
        if journal is None or not isinstance(journal.below, Below) or ctx.tool_call_id is None:
            raise ToolFailed("Nobody is here to delegate to. Do it yourself.")
        try:
            call = Call(below=journal.below, journal=journal, call_id=ctx.tool_call_id)
            return await act(call, parsed(takes, arguments))
        except EngineStopped:
            await anyio.sleep_forever()  # we are about to be cancelled, and go on elsewhere
            raise
        except (StoreError, LeaseLost, StopRequested):
            raise
        except SubagentsError as exc:
            raise ToolFailed(str(exc)) from exc

    schema = schema_of(takes, **({"subagent_type": choice} if choice else {}))
    if choice and schema["properties"]["subagent_type"]["default"] not in choice["enum"]:
        del schema["properties"]["subagent_type"]["default"]
    tool = Tool[Any].from_schema(run, name, description, schema, takes_ctx=True)
    tool.metadata = dict(metadata)
    return tool
