"""Retry and resume: a run that outlives the faults of models, gateways and networks.

One mechanism serves them all: the next attempt goes on from the message history of the last one.
"""

import asyncio
import inspect
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import anyio
from pydantic_ai import Agent, AgentRun, AgentRunResult, ModelRequestNode, ModelSettings
from pydantic_ai import exceptions as pai
from pydantic_ai.agent import AgentModelSettings
from pydantic_ai.capabilities import AbstractCapability, ProcessEventStream
from pydantic_ai.messages import ModelMessage, UserPromptPart
from pydantic_ai.models import Model
from pydantic_ai.settings import merge_model_settings
from pydantic_ai.usage import RunUsage
from pydantic_graph import End

from mcp_subagents.answers import StreamEndedEarly, refuse_cut_stream, require_whole_answer
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.faults import classify
from mcp_subagents.history import Checkpoint, attach_checkpoint, count_parts, longer, resumable

RetryPredicate = Callable[[BaseException], bool]
OnRetryCallback = Callable[[int, BaseException, float], Awaitable[None] | None]
OnCheckpointCallback = Callable[[Checkpoint], Awaitable[None] | None]

LONGEST_WAIT = 3600.0
"""Seconds. A provider that asks for more is not having a hiccup: the failure is passed on, with its `retry_after`."""

_LOOK_AROUND = 0.05
"""Seconds between two looks at a cancel check during a backoff."""


@dataclass(frozen=True)
class RetryConfig:
    """How often a run is retried, and how long it waits before each retry."""

    max_retries: int = 3
    """Further attempts after the first failure; 0 for none."""
    initial_delay: float = 1.0
    """Seconds before the first retry."""
    max_delay: float = 30.0
    """The longest backoff. A provider that asks for more with Retry-After gets it."""
    backoff_multiplier: float = 2.0
    """How much longer each backoff is than the one before."""
    jitter: bool = True
    """Draw each wait from between zero and the backoff, so that many subagents do not come back at once."""
    retry_on: RetryPredicate | None = None
    """Decides which exceptions are transient, in place of `is_transient_error`."""

    @classmethod
    def from_config(cls, config: SubAgentConfig) -> "RetryConfig":
        """The policy of a subagent: what it sets, and the defaults for the rest."""
        given = {name: config[key] for key, name in _CONFIG_KEYS.items() if key in config}
        return cls(**given)

    def should_retry(self, exc: BaseException) -> bool:
        """Whether `exc` is transient under this policy."""
        return (self.retry_on or is_transient_error)(exc)

    def delay_after(
        self, exc: BaseException, attempt: int, rng: Callable[[float, float], float] = random.uniform
    ) -> float | None:
        """Seconds to wait before retry `attempt` (counted from 1) of what `exc` ended; `None` to give up."""
        if attempt > self.max_retries or isinstance(exc, pai.RunCancelled) or not self.should_retry(exc):
            return None
        delay = max(compute_backoff_delay(attempt, self, rng), classify(exc).retry_after or 0.0)
        return delay if delay <= max(LONGEST_WAIT, self.max_delay) else None


_CONFIG_KEYS: Mapping[Any, str] = {
    "max_retries": "max_retries",
    "retry_initial_delay": "initial_delay",
    "retry_max_delay": "max_delay",
    "retry_backoff_multiplier": "backoff_multiplier",
    "retry_jitter": "jitter",
    "retry_on": "retry_on",
}


def is_transient_error(exc: BaseException) -> bool:
    """Whether `exc` is a passing fault of a model, a gateway or a network, so that resuming may get past it."""
    return classify(exc).is_transient


def compute_backoff_delay(
    attempt: int, cfg: RetryConfig, rng: Callable[[float, float], float] = random.uniform
) -> float:
    """Seconds before retry `attempt` (counted from 1): exponential, capped, and drawn at random with jitter."""
    try:
        base = cfg.initial_delay * float(cfg.backoff_multiplier) ** (attempt - 1)
    except OverflowError:
        base = cfg.max_delay if cfg.initial_delay else 0.0
    delay = min(base, cfg.max_delay)
    return rng(0.0, delay) if cfg.jitter else delay


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
    turned off, so that retries live in one place.

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
        on_checkpoint: Called with a `Checkpoint` whenever the history has grown.

    Raises:
        asyncio.CancelledError: `cancel_check` said so, or the task was cancelled.
        IncompleteAnswer: the answer is empty or was cut off.
        Exception: the last failure, when it is not transient or no retry is left.

    Whatever is raised, `checkpoint_of(exc)` is what the run had reached, ready to be resumed.
    """
    work = _Work.of(agent, user_prompt, run_kwargs, event_stream_handler)
    edge = _Edge(cancel_check=cancel_check, inject_messages=inject_messages, on_checkpoint=on_checkpoint)
    try:
        while True:
            try:
                return await work.attempt(edge)
            except Exception as exc:
                failure, delay = exc, work.delay_after(exc, retry)
                if delay is None:
                    raise
            work.retries += 1
            if on_retry is not None:
                await _maybe_await(on_retry(work.retries, failure, delay))
            await _back_off(delay, sleep, lambda: edge.is_cancelled() or work.is_cancelled())
    except BaseException as exc:
        attach_checkpoint(exc, work.checkpoint())
        raise


@dataclass(kw_only=True)
class _Edge:
    """What the caller is asked and told at the edge of each step."""

    cancel_check: Callable[[], bool] | None
    inject_messages: Callable[[], Awaitable[list[str]]] | None
    on_checkpoint: OnCheckpointCallback | None
    told: int = 0
    """How many parts of the history the caller knows of."""

    def is_cancelled(self) -> bool:
        return self.cancel_check is not None and self.cancel_check()

    async def steer(self, node: ModelRequestNode[Any, Any]) -> None:
        """Let the caller's texts join the request. They are part of it from here on, so a retry sends them again."""
        if self.inject_messages is not None and (texts := await self.inject_messages()):
            added = [UserPromptPart(content=text) for text in texts]
            node.request = replace(node.request, parts=[*node.request.parts, *added])

    async def reached(self, checkpoint: Checkpoint) -> None:
        parts = count_parts(checkpoint.messages)
        if self.on_checkpoint is not None and parts > self.told:
            self.told = parts
            await _maybe_await(self.on_checkpoint(checkpoint))


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
            _ModelErrorsOfTools(),
            *([ProcessEventStream[Any](handler)] if handler is not None else ()),
        ]
        kwargs.setdefault("infer_name", False)
        usage = kwargs.pop("usage", None)
        return cls(
            agent=agent,
            prompt=prompt,
            history=resumable(kwargs.pop("message_history", None) or ()),
            deferred=kwargs.pop("deferred_tool_results", None),
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
                    if edge.is_cancelled():
                        raise asyncio.CancelledError("the run was asked to stop")
                    if Agent.is_model_request_node(node):
                        await edge.steer(node)
                    node = await run.next(node)
                    if Agent.is_call_tools_node(node):
                        refuse_cut_stream(node.model_response)
                    self._absorb(run, node)
                    await edge.reached(self.checkpoint())
            result = run.result
            assert result is not None, "a run that reached its end has a result"
            require_whole_answer(result)
            return result
        except BaseException as exc:
            self._absorb(run, node, exc)
            raise

    def _absorb(self, run: AgentRun[Any, Any] | None, node: Any, exc: BaseException | None = None) -> None:
        """Take over what the attempt has reached, so that the next one starts from there."""
        self.failed_in_tools = Agent.is_call_tools_node(node) and not isinstance(exc, StreamEndedEarly)
        self.kwargs.pop("run_id", None)  # an id that the history holds already would be refused
        if run is None:
            return  # the attempt failed before it began
        self.queue = list(run.pending_messages)
        messages = list(run.all_messages())
        if isinstance(exc, StreamEndedEarly):
            messages.pop()
        reached = resumable(
            messages,
            pending=node.request if isinstance(node, ModelRequestNode) else None,
            whole_response=isinstance(exc, pai.UsageLimitExceeded),
        )
        if count_parts(reached) > count_parts(self.history):
            self.prompt, self.deferred = None, None  # both are in the history now
        self.history = longer(reached, self.history)


class _ModelErrorsOfTools(AbstractCapability[Any]):
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
        return lambda ctx: merge_model_settings(off, settings(ctx)) or off
    return merge_model_settings(off, settings)


async def _back_off(delay: float, sleep: Callable[[float], Awaitable[None]], is_cancelled: Callable[[], bool]) -> None:
    """Sleep, but not through a cancel: the next attempt notices it and stops before it does anything."""
    failure: Exception | None = None
    async with anyio.create_task_group() as group:

        async def look_around() -> None:
            while not is_cancelled():  # noqa: ASYNC110  # the check is the caller's function: it can only be asked
                await anyio.sleep(_LOOK_AROUND)
            group.cancel_scope.cancel()

        group.start_soon(look_around)
        try:
            await sleep(delay)
        except Exception as exc:
            failure = exc
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _maybe_await(value: Awaitable[None] | None) -> None:
    if inspect.isawaitable(value):
        await value
