"""One attempt of one task: resume from the journal, go on turn by turn, and record how it ends."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NoReturn

import anyio
from pydantic_ai import Agent, AgentRun, CallToolsNode, ModelRequestNode
from pydantic_ai import exceptions as pai
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults
from pydantic_graph import End

from mcp_subagents import branches, moves
from mcp_subagents.agents import CompiledSubAgent, additions
from mcp_subagents.answers import StreamEndedEarly, refuse_cut_stream, require_whole_answer
from mcp_subagents.asking import questions_before
from mcp_subagents.budget import Budget, warning
from mcp_subagents.cancelling import SelfCancelled, was_cancelled_from_outside
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.delegation import Delegates
from mcp_subagents.errors import ChildrenOpen, LeaseLost, MailWaiting, StopRequested, StoreDamaged, StoreError
from mcp_subagents.failures import failure_of, run_usage, task_usage
from mcp_subagents.faults import classify
from mcp_subagents.grace import Grace
from mcp_subagents.history import answer_on_record, closed, resumable
from mcp_subagents.journal import ToolJournal
from mcp_subagents.model_addresses import answered_by
from mcp_subagents.nesting import Below
from mcp_subagents.outputs import as_text, explained
from mcp_subagents.parking import Parking, parking_of
from mcp_subagents.past import messages_of, still_open, with_findings_below
from mcp_subagents.prompts import first_prompt
from mcp_subagents.records import Entry, EntryKind, Lease, Mail, Move, TaskRecord
from mcp_subagents.retry import RetryConfig, compute_backoff_delay
from mcp_subagents.running_time import TimeUsedUp
from mcp_subagents.store import Capacity, Store
from mcp_subagents.types import TaskFailure, TaskStatus

_LONGEST_QUESTION = 10 * 365 * 24 * 3600.0
"""Seconds. For ever, as far as dates go."""


class Parked(Exception):
    """The task waits for answers; the attempt is over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What every attempt of an engine works with."""

    store: Store
    settings: EngineSettings
    grace: Grace
    now: Callable[[], datetime]
    stay_at_hand: Callable[[str], AbstractAsyncContextManager[Capacity]]
    """Waits a moment for the answers to a task's questions, while nobody else here takes the task on."""
    other_subagents: Callable[[str], Sequence[str]]
    delegates: Delegates
    """Where a subagent hands its own tasks."""
    under_way: Counter[str] = field(default_factory=Counter[str])
    """Model requests in this process that are not answered yet, for each task and those above it."""


class Attempt:
    """One try at running a task, from what is stored of it."""

    def __init__(self, record: TaskRecord, subagent: CompiledSubAgent, around: Surroundings) -> None:
        self._record = record
        self._lease = record.lease
        self._subagent = subagent
        self._agent: Agent[Any, Any] = subagent.agent  # pyright: ignore[reportAttributeAccessIssue]
        self._around = around
        self._store = around.store
        self._budget = Budget(record, around.store, around.settings, around.under_way, around.now)
        self._budget.is_shared |= bool(subagent.config.get("subagents"))
        self._warned: frozenset[str] = frozenset()
        self._usage = run_usage(record.handle.usage)
        self._history: list[ModelMessage] = []
        self._failures = record.failures
        self._carried: frozenset[str] = frozenset()
        self._in_tools = False
        self._unwritten: Move | None = None
        """A turn that is recorded in the same commit as what comes next."""
        self._seen: TaskRecord | None = None
        """The task as it stood when the last tool call was recorded."""
        self._tools = ToolJournal(
            append=self._append,
            park=self._park,
            may_ask=self._may_ask,
            now=around.now,
            attempt=self._lease.attempt,
            turn=record.handle.turns,
            below=self._below(record),
        )

    @property
    def lease(self) -> Lease:
        """What it holds just now: after an answer that came at once, another one than in the beginning."""
        return self._lease

    async def run(self) -> None:
        """Work on the task until it ends, parks, is to be retried, or is no longer ours."""
        try:
            try:
                if (move := await self._work()) is not None:
                    await self._settle(move)
            except StopRequested:
                await self._settle(self._stop())
        except (LeaseLost, Parked):
            return  # whatever there was to write is written, by this attempt or by the one that took over
        except anyio.get_cancelled_exc_class():
            with self._around.grace.shield(), suppress(LeaseLost, StoreError):
                await self._settle(moves.release(self._around.now(), seconds=self._budget.time.count()))
            raise
        finally:
            self._budget.end_request()

    async def _settle(self, move: Move) -> TaskRecord:
        """Store what `move` makes of the task, together with the turn that is not recorded yet, if there is one."""
        if self._unwritten is not None:
            move = moves.both(self._unwritten, move)
        record = await self._store.change(self._lease.task_id, move, lease=self._lease)
        self._unwritten = None
        self._budget.end_request()
        return record

    async def _work(self) -> Move | None:
        """Run the agent, and say what becomes of the task, if that is not stored already."""
        try:
            await self._recall()
            if self._record.handle.cancel_requested is not None:
                return self._stop()
            return await self._run_to_the_end()
        except StoreDamaged as exc:
            return moves.fail(self._failure(exc), at=self._around.now(), seconds=self._budget.time.count())
        except (LeaseLost, Parked, StoreError):
            raise
        except StopRequested:
            return self._stop()
        except anyio.get_cancelled_exc_class() as exc:
            if not was_cancelled_from_outside():
                return moves.fail(
                    self._failure(SelfCancelled(exc)), at=self._around.now(), seconds=self._budget.time.count()
                )
            raise
        except Exception as exc:
            return await self._after(exc)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as exc:
            # The panic of a library, say: that is the end of this task, not of all the others.
            return await self._after(RuntimeError(f"{type(exc).__name__}: {exc}"))

    def _stop(self) -> Move:
        failure = replace(self._failure(pai.RunCancelled("")), message="The task was asked to stop, and did.")
        return moves.stop(failure, at=self._around.now(), seconds=self._budget.time.count())

    async def _recall(self) -> None:
        if self._lease.attempt == 1 and not self._record.continues:
            return  # nothing has been done yet
        wanted = frozenset(EntryKind) - {EntryKind.EVENT}
        entries = await self._store.journal(self._lease.task_id, wanted)
        self._history = messages_of(entries)
        self._tools.recall(entries)
        answers = {each.question_id: each.answer for each in self._record.handle.questions}
        self._tools.answers = {key: text for key, text in answers.items() if text is not None}
        if (tree := self._record.tree) is not None:
            self._tools.awaited = {each.call_id: each for each in tree.awaited}

    async def _run_to_the_end(self) -> None:
        first = first_prompt(self._subagent.config, self._record.handle.description)
        prompt: str | None = None if self._history else first
        while True:
            result = await self._run_agent(prompt)
            finished = moves.complete(
                result,
                usage=task_usage(self._usage),
                seconds=self._budget.time.count(),
                at=self._around.now(),
                is_structured="output_schema" in self._subagent.config,
            )
            try:
                with suppress(ChildrenOpen):
                    await self._settle(finished)
                    return
                await self._settle(branches.remind(await still_open(self._store, self._lease.task_id)))
                await self._settle(finished)
            except MailWaiting as waiting:
                prompt = self._read_out(waiting.mail)
                self._history = closed(self._history)

    async def _run_agent(self, prompt: str | None) -> str:
        added = additions(self._subagent, self._history, trace_content=self._around.settings.trace_content)
        time_limits = await self._budget.time_limits(self._record)
        with self._tools.at_work(), self._budget.time.limit(time_limits):
            async with self._agent.iter(
                prompt,
                message_history=self._history or None,
                usage=self._usage,
                usage_limits=self._budget.for_run,
                model_settings={"max_retries": 0, "request_timeout": self._around.settings.request_timeout},
                infer_name=False,
                **added,
            ) as run:
                await self._drive(run)
        assert run.result is not None, "a run that reached its end has a result"
        require_whole_answer(run.result)
        return as_text(run.result.output)

    async def _drive(self, run: AgentRun[Any, Any]) -> None:
        node: Any = run.next_node
        try:
            while not isinstance(node, End) and run.result is None:
                self._in_tools = Agent.is_call_tools_node(node)
                node = await self._step(run, node)
        except pai.UsageLimitExceeded:
            # A response that broke the limit has been paid for, and is part of what was achieved.
            messages = resumable(run.all_messages(), whole_response=True)
            if messages and isinstance(messages[-1], ModelResponse):
                await self._finish_turn(messages)
            raise

    async def _step(self, run: AgentRun[Any, Any], node: Any) -> Any:
        """Run `node`, record the response if there is one, and return the next node."""
        if Agent.is_user_prompt_node(node):
            return await self._begin(run, node)
        if not Agent.is_model_request_node(node):
            if self._budget.is_shared:
                await self._budget.before_tools(task_usage(self._usage))
            return await run.next(node)
        await self._before_request(node)
        following = await run.next(node)
        if following is node:
            raise pai.UnexpectedModelBehavior("The model ended its request without an answer or an error")
        if Agent.is_call_tools_node(following):
            refuse_cut_stream(following.model_response)
            await self._finish_turn(list(run.all_messages()))
        return following

    async def _begin(self, run: AgentRun[Any, Any], node: Any) -> Any:
        """Begin the run. An answer that is on record already is judged again, but not asked for again."""
        answer = answer_on_record(run.all_messages()) if node.user_prompt is None else None
        following = await run.next(node)
        return following if answer is None else CallToolsNode[Any, Any](answer)

    async def _before_request(self, node: ModelRequestNode[Any, Any]) -> None:
        """The turn boundary: obey a soft cancel, and take the mail along."""
        if self._unwritten is not None:
            self._seen = await self._settle(moves.nothing)
        record, self._seen = self._seen or await self._store.read(self._lease.task_id), None
        if record.lease != self._lease or record.handle.status is not TaskStatus.RUNNING:
            raise LeaseLost(self._lease.task_id, self._lease.attempt)
        if record.handle.cancel_requested is not None:
            raise StopRequested(self._lease.task_id)
        mail = [each for each in record.mail if each.mail_id not in self._carried]
        told = [self._read_out([each]) for each in mail]
        meters = await self._budget.look(record, task_usage(self._usage))
        if near := [each for each in meters if each.is_near and each.limit not in (*record.warned, *self._warned)]:
            self._warned |= {each.limit for each in near}
            told.append(warning(near))
        if told:
            added = [UserPromptPart(content=text) for text in told]
            node.request = replace(node.request, parts=[*node.request.parts, *added])
        self._budget.begin_request()

    def _read_out(self, mail: Sequence[Mail]) -> str:
        self._carried |= {each.mail_id for each in mail}
        return "\n\n".join(each.text for each in mail)

    async def _finish_turn(self, messages: list[ModelMessage]) -> None:
        known = len(self._history)
        kept = all(old is new for old, new in zip(self._history, messages, strict=False))
        new, kind = (messages[known:], EntryKind.TURN) if kept else (messages, EntryKind.HISTORY)
        if not new:
            return
        entry = Entry(
            kind=kind,
            body=ModelMessagesTypeAdapter.dump_json(new).decode(),
            at=self._around.now(),
            attempt=self._lease.attempt,
        )
        usage = task_usage(self._usage)
        number = self._tools.turn + 1
        self._unwritten = moves.finish_turn(
            entry,
            number=number,
            usage=usage,
            seconds=self._budget.time.count(),
            delivered=self._carried,
            model=answered_by(messages),
        )
        if self._warned:
            self._unwritten = moves.both(self._unwritten, branches.warn(self._warned))
        if not self._goes_on_at_once(messages[-1]):
            await self._settle(moves.nothing)
        self._history, self._carried, self._warned, self._failures = messages, frozenset(), frozenset(), 0
        self._tools.turn = number
        self._tools.answers, self._tools.awaited = {}, {}
        self._budget.check_cost(usage)

    def _goes_on_at_once(self, response: ModelMessage) -> bool:
        """Whether nothing comes between a response and our next record: the start of a tool, or the end."""
        return self._subagent.is_ours and (self._agent.output_type is str or _ends_the_task(response))

    async def _append(self, entries: Sequence[Entry]) -> None:
        self._seen = await self._settle(moves.record(entries))

    def _may_ask(self, call_id: str | None) -> bool:
        return questions_before(self._history, call_id) < self._subagent.config.get("max_questions", math.inf)

    def _below(self, record: TaskRecord) -> Below | None:
        """What the tools of a subagent that may delegate need to know."""
        known = self._subagent.delegates
        if known is None:
            return None
        asked_in = record.handle.turns if record.tree is not None and record.tree.asks else None
        return Below(engine=self._around.delegates, handle=record.handle, subagents=known, asked_in=asked_in)

    async def _park(self, requests: DeferredToolRequests) -> DeferredToolResults | None:
        """Store what the task waits for: answers, for which it stays at hand for a moment, or its children."""
        parked = parking_of(requests)
        if not parked.questions:
            await self._await_children(parked)
        now = self._around.now()
        wait = self._subagent.config.get("question_timeout", self._around.settings.question_timeout)
        until = now + timedelta(seconds=min(wait, _LONGEST_QUESTION))
        await self._settle(moves.ask(parked.questions, seconds=self._budget.time.count(), at=now, until=until))
        with self._budget.time.standing_still():
            if not await self._reclaimed():
                raise Parked
        if parked.awaited:
            await self._await_children(parked)
        answers = {each.question_id: each.answer for each in self._record.handle.questions}
        return requests.build_results(calls=answers)

    async def _await_children(self, parked: Parking) -> NoReturn:
        now = self._around.now()
        until = parked.until or now
        await self._settle(branches.park(parked.awaited, seconds=self._budget.time.count(), at=now, until=until))
        raise Parked

    async def _reclaimed(self) -> bool:
        """Whether the questions were answered while we stayed at hand, and the task is ours again."""
        async with self._around.stay_at_hand(self._lease.task_id) as capacity:
            # Shielded: a claim that nobody hears of would be a task that nobody runs.
            with self._around.grace.shield():
                claim = await self._store.claim(capacity, self._around.now(), task_id=self._lease.task_id)
                if not claim.records:
                    return False
                self._seen = self._record = claim.records[0]
                self._lease = self._record.lease
                self._tools.attempt = self._lease.attempt
                return True
        return False  # the engine leaves, and has to give back whatever comes of the claim

    async def _after(self, exc: Exception) -> Move:
        """What becomes of the task after `exc`: another attempt later, or its end."""
        config = self._subagent.config
        policy = RetryConfig.from_config(config)
        now = self._around.now()
        failure = self._failure(exc)
        if (fault := classify(exc)).is_congestion:
            # Whatever becomes of this task, the others should leave the provider alone for a while.
            wait = max(fault.retry_after or 0.0, compute_backoff_delay(self._failures + 1, policy))
            await self._store.cool_down(self._record.provider, now + timedelta(seconds=wait))
        tools_own = self._in_tools and policy.retry_on is None and not isinstance(exc, StreamEndedEarly)
        delay = None if tools_own else policy.delay_after(exc, self._failures + 1)
        if delay is None:
            failure = await with_findings_below(self._store, self._lease.task_id, failure)
            return moves.fail(failure, at=now, seconds=self._budget.time.count())
        return moves.retry_later(
            failure, due_at=now + timedelta(seconds=delay), seconds=self._budget.time.count(), at=now
        )

    def _failure(self, exc: BaseException) -> TaskFailure:
        name = self._subagent.name
        failure = failure_of(
            explained(exc, self._subagent.config, self._history),
            messages=self._history,
            usage=self._usage,
            retries=self._record.handle.retry_count,
            other_subagents=self._around.other_subagents(name),
        )
        return replace(failure, message=str(exc)) if isinstance(exc, TimeUsedUp) else failure


def _ends_the_task(message: ModelMessage) -> bool:
    """Whether this response is the answer, as far as can be told: no tools are called, and nothing is missing."""
    return isinstance(message, ModelResponse) and all(isinstance(part, TextPart) for part in message.parts)
