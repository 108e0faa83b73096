"""A run that outlives the faults of models, gateways and networks.

One mechanism serves them all: the next attempt goes on from the message history of the last one.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import anyio
from pydantic_ai import (
    Agent,
    AgentRun,
    AgentRunResult,
    CallToolsNode,
    ModelRequestNode,
    ModelSettings,
    UserPromptNode,
)
from pydantic_ai import exceptions as pai
from pydantic_ai.agent import AgentModelSettings
from pydantic_ai.capabilities import AbstractCapability, ProcessEventStream
from pydantic_ai.messages import ModelMessage, ModelResponse, UserPromptPart
from pydantic_ai.models import Model
from pydantic_ai.usage import RunUsage
from pydantic_graph import End

from mcp_subagents.answers import StreamEndedEarly, refuse_cut_stream, require_whole_answer, what_is_wrong
from mcp_subagents.errors import IncompleteAnswer
from mcp_subagents.faults import classify
from mcp_subagents.history import (
    Checkpoint,
    answer_on_record,
    attach_checkpoint,
    closed,
    furthest,
    holds_news,
    is_same,
    resumable,
    with_prompt,
    without_final_returns,
)
from mcp_subagents.retry import RetryConfig

OnRetryCallback = Callable[[int, BaseException, float], Awaitable[None] | None]
OnCheckpointCallback = Callable[[Checkpoint], Awaitable[None] | None]

_LOOK_AROUND = 0.05
"""Seconds between two looks at a cancel check during a backoff."""


async def run_with_retry(
    agent: Any,
    user_prompt: str | None,
    *,
    run_kwargs: dict[str, Any],
    retry: RetryConfig,
    on_retry: OnRetryCallback | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    event_stream_handler: Any | None = None,
    cancel_check: Callable[[], bool] | None = None,
    inject_messages: Callable[[], Awaitable[list[str]]] | None = None,
    on_checkpoint: OnCheckpointCallback | None = None,
) -> Any:
    """Run `agent`, resuming it after transient failures, and return the `AgentRunResult` of the attempt that succeeds.

    A retry goes on from the history of the attempt before: finished turns are not paid again, finished
    tools do not run again, and usage is counted over all attempts. The client libraries' own retries are
    off, so that retries live in one place, unless the `model_settings` in `run_kwargs` ask for them.

    Args:
        agent: A pydantic-ai `Agent`.
        user_prompt: The prompt; `None` to resume a `message_history` given in `run_kwargs`.
        run_kwargs: More arguments for `agent.iter`. A `timeout` holds for all attempts together.
        retry: The policy. With `max_retries=0` there is one attempt, and all the rest holds.
        on_retry: Called with `(attempt, exc, delay)` before each backoff.
        sleep: Waits for the backoff.
        event_stream_handler: Receives the events of every attempt, as with `agent.run`.
        cancel_check: Looked at before each step and during backoff; once true, the run stops there.
        inject_messages: Awaited before each model request; its texts join that request.
        on_checkpoint: Called with a `Checkpoint` whenever the history has changed.

    Raises:
        asyncio.CancelledError: `cancel_check` said so, or the task was cancelled.
        IncompleteAnswer: the answer is empty or was cut off.
        Exception: the last failure, when it is not transient or no retry is left; or what one of these
            callbacks raised, which is never retried.

    Whatever is raised, `checkpoint_of(exc)` is what the run had reached, ready to be resumed.
    """
    work = _Work.of(agent, user_prompt, run_kwargs, event_stream_handler)
    edge = _Edge(cancel_check=cancel_check, inject_messages=inject_messages, on_checkpoint=on_checkpoint)
    try:
        while True:
            try:
                return await work.attempt(edge)
            except Exception as exc:
                delay = None if edge.broke else work.delay_after(exc, retry)
                if delay is None:
                    raise
                # In the handler, so that whatever is raised here shows the failure that it followed.
                if on_retry is not None:
                    await _maybe_await(on_retry(work.retries + 1, exc, delay))
                if cancel_check is None and work.token is None:
                    await sleep(delay)
                else:
                    await _back_off(delay, sleep, lambda: edge.is_cancelled() or work.is_cancelled())
                edge.stop_if_asked()
            work.retries += 0 if work.is_cancelled() else 1
    except BaseException as exc:
        attach_checkpoint(exc, work.checkpoint())
        raise


@dataclass(kw_only=True)
class _Edge:
    """What the caller is asked and told at the edge of each step."""

    cancel_check: Callable[[], bool] | None
    inject_messages: Callable[[], Awaitable[list[str]]] | None
    on_checkpoint: OnCheckpointCallback | None
    told: Sequence[ModelMessage] = ()
    """The history that the caller knows of."""
    broke: bool = False
    """Whether one of the caller's functions has raised: no fault of the model, so nothing to retry."""

    def is_cancelled(self) -> bool:
        with self._callers_own():
            return self.cancel_check is not None and self.cancel_check()

    def stop_if_asked(self) -> None:
        if self.is_cancelled():
            raise asyncio.CancelledError("the run was asked to stop")

    async def steer(self, node: ModelRequestNode[Any, Any]) -> None:
        """Let the caller's texts join the request. They are part of it from here on, so a retry sends them again."""
        if self.inject_messages is None:
            return
        with self._callers_own():
            added = [UserPromptPart(content=text) for text in await self.inject_messages()]
        if added:
            node.request = replace(node.request, parts=[*node.request.parts, *added])

    async def reached(self, checkpoint: Checkpoint) -> None:
        if self.on_checkpoint is not None and not is_same(checkpoint.messages, self.told):
            with self._callers_own():
                await _maybe_await(self.on_checkpoint(checkpoint))
            self.told = checkpoint.messages

    @contextmanager
    def _callers_own(self) -> Generator[None]:
        try:
            yield
        except Exception:
            self.broke = True
            raise


@dataclass(kw_only=True)
class _Work:
    """One run over all its attempts: what the next one starts from."""

    agent: Agent[Any, Any]
    prompt: str | None
    history: list[ModelMessage]
    deferred: Any
    usage: RunUsage
    kwargs: dict[str, Any]
    ends_at: float | None
    """When the time for all attempts is over, on the monotonic clock."""
    retries: int = 0
    queue: Sequence[Any] = ()
    """Messages that tools had enqueued and no request has carried yet."""
    failed_in_tools: bool = False
    token: Any = None

    @classmethod
    def of(cls, agent: Any, prompt: str | None, run_kwargs: dict[str, Any], handler: Any | None) -> "_Work":
        kwargs = dict(run_kwargs)
        timeout = kwargs.pop("timeout", None)
        own = kwargs.pop("event_stream_handler", None) or getattr(agent, "event_stream_handler", None)
        handler = handler or own
        conversation = kwargs.pop("conversation", None)
        if conversation is not None:
            kwargs.setdefault("message_history", conversation.messages)
            kwargs.setdefault("usage", deepcopy(conversation.usage))
            kwargs.setdefault("conversation_id", conversation.conversation_id)
        kwargs["model_settings"] = _without_client_retries(
            kwargs.get("model_settings"), kwargs.get("model") or getattr(agent, "model", None)
        )
        kwargs["capabilities"] = [
            *(kwargs.get("capabilities") or ()),
            ModelErrorsOfTools(),
            *([ProcessEventStream[Any](handler)] if handler is not None else ()),
        ]
        usage = kwargs.pop("usage", None)
        history = resumable(kwargs.pop("message_history", None) or ())
        deferred = kwargs.pop("deferred_tool_results", None)
        return cls(
            agent=agent,
            prompt=prompt,
            history=history if prompt is None or deferred is not None else closed(history),
            deferred=deferred,
            usage=RunUsage() if usage is None else usage,
            kwargs=kwargs,
            ends_at=None if timeout is None else time.monotonic() + timeout,
            token=kwargs.get("cancellation_token"),
        )

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(messages=tuple(self.history), usage=deepcopy(self.usage), retries=self.retries)

    def is_cancelled(self) -> bool:
        return self.token is not None and self.token.cancelled

    def delay_after(self, exc: Exception, retry: RetryConfig) -> float | None:
        if self.failed_in_tools and retry.retry_on is None:
            return None  # a tool's own trouble: resuming would not run it again, and it was not the model's
        delay = retry.delay_after(exc, self.retries + 1)
        if delay is not None and self.ends_at is not None and time.monotonic() + delay >= self.ends_at:
            return None  # the time is over before the backoff is: better the real failure than a timeout later
        return delay

    async def attempt(self, edge: _Edge) -> AgentRunResult[Any]:
        run: AgentRun[Any, Any] | None = None
        node: Any = None
        try:
            async with self.agent.iter(
                self.prompt,
                message_history=self.history or None,
                deferred_tool_results=self.deferred,
                usage=self.usage,
                timeout=None if self.ends_at is None else max(self.ends_at - time.monotonic(), 0.001),
                **self.kwargs,
            ) as run:
                for pending in self.queue:
                    run.enqueue(*pending.messages, priority=pending.priority)
                node = run.next_node
                while not isinstance(node, End) and run.result is None:
                    node = await _step(run, node, edge)
                    self._absorb(run, node)
                    if not self._may_end_incomplete():
                        await edge.reached(self.checkpoint())
            result = run.result
            assert result is not None, "a run that reached its end has a result"
            require_whole_answer(result)
            return result
        except BaseException as exc:
            self._absorb(run, node, exc)
            raise

    def _may_end_incomplete(self) -> bool:
        """Whether the last response, if it ends the run, will be refused: resumed, it would be refused again."""
        last = self.history[-1] if self.history else None
        return isinstance(last, ModelResponse) and what_is_wrong(last) is not None

    def _absorb(self, run: AgentRun[Any, Any] | None, node: Any, exc: BaseException | None = None) -> None:
        """Take over what the attempt has reached, so that the next one starts from there."""
        self.failed_in_tools = Agent.is_call_tools_node(node)
        self.kwargs.pop("run_id", None)  # an id that the history holds already would be refused
        if run is None or Agent.is_user_prompt_node(node):
            return  # nothing has begun: while a run prepares, it takes apart the history it was given
        self.queue = list(run.pending_messages)
        reached = _reached(run, node, exc)
        if holds_news(reached, self.history):
            self.prompt, self.deferred = None, None  # both are in the history now
        self.history = reached if isinstance(exc, IncompleteAnswer) else furthest(reached, self.history)


async def _step(run: AgentRun[Any, Any], node: Any, edge: _Edge) -> Any:
    """Run `node`, and return the next one."""
    edge.stop_if_asked()
    if Agent.is_user_prompt_node(node):
        return await _begin(run, node)
    if not Agent.is_model_request_node(node):
        return await run.next(node)
    await edge.steer(node)
    following = await run.next(node)
    if Agent.is_call_tools_node(following):
        refuse_cut_stream(following.model_response)
    return following


async def _begin(run: AgentRun[Any, Any], node: UserPromptNode[Any, Any]) -> Any:
    """Run the first node, and return the next one: for a run that has its answer, the one that gives it again.

    So does pydantic-ai, unless there are instructions: then it would ask the model once more.
    """
    goes_on = node.user_prompt is not None or node.deferred_tool_results is not None
    has_answer = not goes_on and answer_on_record(run.all_messages()) is not None
    following = await run.next(node)
    answer = answer_on_record(run.all_messages()) if has_answer else None
    return following if answer is None else CallToolsNode[Any, Any](answer)


def _reached(run: AgentRun[Any, Any], node: Any, exc: BaseException | None) -> list[ModelMessage]:
    """The history of `run`, which stands before `node` or failed in it, in a form that can be resumed."""
    messages = list(run.all_messages())
    if isinstance(exc, StreamEndedEarly | IncompleteAnswer):
        messages.pop()  # the piece of an answer: the next attempt asks for all of it
    elif isinstance(node, End):
        tools = run.ctx.deps.tool_manager.tools or {}
        messages = without_final_returns(messages, {name for name in tools if tools[name].tool_def.kind == "output"})
    elif exc is not None and Agent.is_call_tools_node(node) and node.user_prompt is not None:
        messages = with_prompt(messages, node.user_prompt)
    return resumable(
        messages,
        pending=node.request if isinstance(node, ModelRequestNode) else None,
        whole_response=isinstance(exc, pai.UsageLimitExceeded),
    )


class ModelErrorsOfTools(AbstractCapability[Any]):
    """Tells the model about model errors inside its tools, as of a nested agent.

    Left alone they look like errors of our own model: the run would be resumed for them, and the tool, cut
    off without a result, would not.
    """

    async def on_tool_execute_error(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, error: Exception) -> Any:
        if isinstance(error, (pai.ModelAPIError, pai.FallbackExceptionGroup)):
            raise pai.ToolFailed(f"The tool's own model failed. {classify(error).message}") from error
        raise error


def _without_client_retries(settings: AgentModelSettings[Any] | None, model: object) -> AgentModelSettings[Any] | None:
    """`settings` with the client library's retries off, unless they say otherwise or the model has none."""
    if isinstance(model, Model) and "max_retries" in model.unsupported_settings:
        return settings
    off = ModelSettings(max_retries=0)
    if callable(settings):
        return lambda ctx: off | settings(ctx)
    return off | (settings or {})


async def _back_off(delay: float, sleep: Callable[[float], Awaitable[None]], is_cancelled: Callable[[], bool]) -> None:
    """Sleep, but not through a cancel. What `sleep` or `is_cancelled` raises leaves as it is."""
    failures: list[BaseException] = []
    async with anyio.create_task_group() as group:

        async def look_around() -> None:
            while not is_cancelled():  # noqa: ASYNC110  # the check is the caller's function: it can only be asked
                await anyio.sleep(_LOOK_AROUND)

        async def end_with(one: Callable[[], Awaitable[None]]) -> None:
            try:
                await one()
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as exc:
                failures.append(exc)  # raised again outside, or the task group would wrap it
            group.cancel_scope.cancel()

        group.start_soon(end_with, look_around)
        await end_with(lambda: sleep(delay))
    if failures:
        raise failures[0]


async def _maybe_await(value: Awaitable[None] | None) -> None:
    if inspect.isawaitable(value):
        await value
