"""From an exception to a `TaskFailure`: what went wrong, what was done, and what to do now. Pure."""

from collections.abc import Sequence

from pydantic_ai.messages import ModelMessage
from pydantic_ai.usage import RunUsage

from mcp_subagents.errors import IncompleteAnswer, UnfitAnswer
from mcp_subagents.faults import classify
from mcp_subagents.history import Checkpoint, checkpoint_of, summary_of_steps, text_of_turns
from mcp_subagents.redact import redact
from mcp_subagents.texts import encodable, plain
from mcp_subagents.types import TaskFailure, TaskUsage
from mcp_subagents.verdicts import Fault

__all__ = ["failure_of", "run_usage", "task_usage"]


def failure_of(
    exc: BaseException,
    *,
    messages: Sequence[ModelMessage] | None = None,
    usage: RunUsage | None = None,
    retries: int | None = None,
    other_subagents: Sequence[str] = (),
) -> TaskFailure:
    """Explain `exc` to the parent of the task that it ended.

    What was done is read from the checkpoint that `run_with_retry` left on `exc`, unless it is given here.
    """
    reached = checkpoint_of(exc) or Checkpoint(messages=(), usage=RunUsage())
    history = reached.messages if messages is None else messages
    fault = classify(exc)
    return TaskFailure(
        failure_type=fault.failure_type,
        is_retryable=fault.is_retryable,
        message=fault.message,
        attempted=redact(plain(summary_of_steps(history))),
        partial_results=redact(encodable(_text_so_far(exc, history))),
        alternatives=_alternatives(fault, other_subagents),
        retries=reached.retries if retries is None else retries,
        retry_after=fault.retry_after,
        usage=task_usage(reached.usage if usage is None else usage),
    )


def task_usage(usage: RunUsage) -> TaskUsage:
    """pydantic-ai's count of a run, as a value that stays as it is."""
    return TaskUsage(
        requests=usage.requests,
        tool_calls=usage.tool_calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost,
    )


def _text_so_far(exc: BaseException, history: Sequence[ModelMessage]) -> str:
    text = text_of_turns(history)
    piece = exc.text.strip() if isinstance(exc, IncompleteAnswer | UnfitAnswer) else ""
    # The history of a failed run ends before the incomplete answer; one that is given may hold it.
    return text if text.endswith(piece) else f"{text}\n\n{piece}".strip()


def _alternatives(fault: Fault, other_subagents: Sequence[str]) -> tuple[str, ...]:
    ways = [fault.remedy]
    if fault.retry_after:
        ways.append(f"Wait {fault.retry_after:g} seconds or more before that: the provider asked for it.")
    if other_subagents:
        ways.append(f"Give it to another subagent: {', '.join(other_subagents)}.")
    return tuple(ways)


def run_usage(usage: TaskUsage | None) -> RunUsage:
    if usage is None:
        return RunUsage()
    return RunUsage(
        requests=usage.requests,
        tool_calls=usage.tool_calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=usage.cost_usd,
    )
