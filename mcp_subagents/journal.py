"""Tool calls that happen once: recorded before they start and when they return, and never run again after that."""

import json
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import anyio
from pydantic_ai import ModelRetry, RunContext, ToolFailed
from pydantic_ai import exceptions as pai
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolDefinition

from mcp_subagents.records import Entry, EntryKind, compact_json
from mcp_subagents.resume import ModelErrorsOfTools
from mcp_subagents.returns import replayed, taken_down
from mcp_subagents.trees import Awaited

INTERRUPTED = (
    "This call was interrupted before its result was recorded: it may or may not have taken effect. "
    "Check that before you call it again."
)

Outcome = Literal["returned", "retry", "failed"]


@dataclass(kw_only=True)
class ToolJournal:
    """Stands between the tool calls of one attempt and the tools.

    A call that has returned before, in this turn of this task, gets the same outcome without running. One
    that was started and never returned is run again only if its tool says that this does no harm.
    """

    append: Callable[[Sequence[Entry]], Awaitable[None]]
    park: Callable[[DeferredToolRequests], Awaitable[DeferredToolResults | None]]
    """Puts questions to the parent: their answers, or else it raises."""
    may_ask: Callable[[str | None], bool]
    """Whether the call of this id may put a question to the parent."""
    now: Callable[[], datetime]
    attempt: int
    turn: int = 0
    """Which turn's calls are being made. Ids of calls are unique within a turn at the best."""
    answers: dict[str, str] = field(default_factory=dict[str, str])
    """What was answered to the questions of this turn, by the id of the call that asked."""
    awaited: Mapping[str, Awaited] = field(default_factory=dict[str, Awaited])
    """What the calls of this turn were parked for, by their ids."""
    finished: dict[tuple[int, str], Entry] = field(default_factory=dict[tuple[int, str], Entry])
    started: dict[tuple[int, str], datetime] = field(default_factory=dict[tuple[int, str], datetime])
    """When each call was first started."""
    interrupted: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    """Calls that were started by an earlier attempt, and have not returned."""
    below: Any = None
    """What the tools of `nesting` need to know of the task, for a subagent that may delegate."""

    @contextmanager
    def at_work(self) -> Generator[None]:
        """For as long as the block lasts, the tools called in it are ours to look after."""
        token = _at_work.set(self)
        try:
            yield
        finally:
            _at_work.reset(token)

    def recall(self, entries: Sequence[Entry]) -> None:
        """Learn from the journal what has been done."""
        for entry in entries:
            if entry.kind not in {EntryKind.TOOL_STARTED, EntryKind.TOOL_RESULT}:
                continue
            body = json.loads(entry.body)
            key = (body["turn"], body["id"])
            self.started.setdefault(key, entry.at)
            if entry.kind is EntryKind.TOOL_RESULT:
                self.finished[key] = entry
            else:
                self.finished.pop(key, None)  # it was called again, and that is what counts
        self.interrupted = self.started.keys() - self.finished.keys()

    async def execute(
        self, ctx: RunContext[Any], call: ToolCallPart, tool_def: ToolDefinition, args: Any, handler: Any
    ) -> Any:
        """The outcome of `call`: what is recorded of it, or else what the tool makes of it now."""
        key = (self.turn, call.tool_call_id)
        if call.tool_call_id in self.answers:
            return self.answers[call.tool_call_id]
        if (done := self.finished.get(key)) is not None:
            ctx.usage.tool_calls += 1  # counted when it ran, but that count was lost with the attempt
            return _replay(done)
        if not _acts(ctx, tool_def):
            return await handler(args)
        if key in self.interrupted and not _may_run_again(tool_def):
            ctx.usage.tool_calls += 1
            await self._record(EntryKind.TOOL_RESULT, call, outcome="failed", value=INTERRUPTED)
            raise ToolFailed(INTERRUPTED)
        self.started.setdefault(key, self.now())
        await self._record(EntryKind.TOOL_STARTED, call)
        return await self._run(ctx, call, args, handler)

    async def _run(self, ctx: RunContext[Any], call: ToolCallPart, args: Any, handler: Any) -> Any:
        try:
            result = await handler(args)
        except (pai.ToolRetryError, ModelRetry) as exc:
            ctx.usage.tool_calls += 1  # pydantic-ai counts those that succeed; a limit is for all that are made
            await self._record(EntryKind.TOOL_RESULT, call, outcome="retry", value=str(exc))
            raise
        except (pai.ToolFailedError, ToolFailed) as exc:
            ctx.usage.tool_calls += 1
            await self._record(EntryKind.TOOL_RESULT, call, outcome="failed", value=str(exc))
            raise
        except (anyio.get_cancelled_exc_class(), KeyboardInterrupt, Exception):
            raise
        except BaseException as exc:
            # A tool may end itself, by an exit or a panic, but not the process that runs it.
            raise RuntimeError(f"the tool {call.tool_name!r} raised {type(exc).__name__}") from exc
        result, value = taken_down(result)
        await self._record(EntryKind.TOOL_RESULT, call, outcome="returned", value=value)
        return result

    async def _record(
        self, kind: EntryKind, call: ToolCallPart, *, outcome: Outcome | None = None, value: Any = None
    ) -> None:
        body: dict[str, Any] = {"turn": self.turn, "id": call.tool_call_id, "tool": call.tool_name}
        if outcome is not None:
            body |= {"outcome": outcome, "value": value}
        await self.append([Entry(kind=kind, body=compact_json(body), at=self.now(), attempt=self.attempt)])


_at_work: ContextVar[ToolJournal | None] = ContextVar("tool_journal", default=None)


def journal_at_work() -> ToolJournal | None:
    """The journal of the attempt that is running, if one is."""
    return _at_work.get()


class JournalledTools(ModelErrorsOfTools):
    """Makes an agent's tool calls pass through the journal of whichever attempt runs it.

    It has no state of its own, so that an agent can be built with it once and run many times.
    """

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, handler: Any
    ) -> Any:
        journal = journal_at_work()
        if journal is None:
            return await handler(args)
        return await journal.execute(ctx, call, tool_def, args, handler)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        journal = journal_at_work()
        return None if journal is None else await journal.park(requests)


def _replay(entry: Entry) -> Any:
    body = json.loads(entry.body)
    outcome, value = body["outcome"], body["value"]
    if outcome == "retry":
        raise ModelRetry(value)
    if outcome == "failed":
        raise ToolFailed(value)
    return replayed(value)


def _acts(ctx: RunContext[Any], tool_def: ToolDefinition) -> bool:
    """Whether a call is more than a request to somebody else: for an answer, an approval, or the final output."""
    if tool_def.kind == "unapproved":
        return ctx.tool_call_approved
    return tool_def.kind == "function" and not (tool_def.metadata or {}).get("asks_parent")


def _may_run_again(tool_def: ToolDefinition) -> bool:
    """Whether the tool says that running it twice does no harm: by our own word, or MCP's."""
    metadata: dict[str, Any] = tool_def.metadata or {}
    annotations: dict[str, Any] = metadata.get("annotations") or {}
    return bool(
        metadata.get("read_only")
        or metadata.get("idempotent")
        or annotations.get("readOnlyHint")
        or annotations.get("idempotentHint")
    )
