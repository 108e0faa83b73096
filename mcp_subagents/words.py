"""What the model reads: a view in a few plain lines, complete without the structured form beside it."""

import json
import re
from datetime import datetime
from typing import Any

from mcp_subagents.delegation import News, Unread
from mcp_subagents.shortening import clipped, left_out
from mcp_subagents.texts import counted
from mcp_subagents.types import TaskStatus
from mcp_subagents.views import FailureView, ListView, TaskView, WaitView

_LONGEST_LISTED = 120


def task_in_words(view: TaskView, now: datetime) -> str:
    """One task, with all it has to say."""
    lines = [f"Task {view.task_id} ({view.subagent}): {_status(view, now)}.", facts(view), *_remarks(view)]
    for question in view.questions:
        lines += ["", f"It asks (question_id {question.question_id}): {question.question}"]
    if view.result is not None:
        lines += ["", _result(view.result) or left_out(view.result_omitted_chars).strip()]
    if view.failure is not None:
        lines += ["", *_failure(view.failure, view.result_omitted_chars)]
    return "\n".join([*lines, "", f"Next: {view.next}"])


def wait_in_words(view: WaitView, now: datetime) -> str:
    """Every task that was waited for."""
    others = "it goes" if view.total - view.finished == 1 else "the others go"
    why = f"; time is up, {others} on" if view.timed_out else ""
    head = f"{view.finished} of {view.total} {'task has' if view.total == 1 else 'tasks have'} ended{why}."
    return "\n\n---\n\n".join([head, *(task_in_words(task, now) for task in view.tasks)])


def list_in_words(view: ListView, now: datetime) -> str:
    """One line for each task."""
    if not view.tasks:
        return "No task is open."
    lines = [
        f"- {task.task_id} ({task.subagent}): {_status(task, now)} · {facts(task)} · "
        f"{clipped(' '.join(task.description.split()), _LONGEST_LISTED)}"
        for task in view.tasks
    ]
    for task in view.tasks:
        lines += [f"  {task.task_id} asks ({each.question_id}): {each.question}" for each in task.questions]
    if view.omitted:
        lines.append(f"… and {view.omitted} more.")
    return "\n".join([f"{len(view.tasks) + view.omitted} open:", *lines])


def mail_in_words(unread: Unread) -> str:
    """One line on what nobody has looked at yet; nothing if there is none."""
    asks = "asks" if unread.asking.count == 1 else "ask"
    said = [
        f"{news.count} {word}{_named(news)}"
        for news, word in ((unread.ended, "finished"), (unread.asking, f"{asks} you"))
        if news.count
    ]
    return f"Unread: {', '.join(said)}. See check_task." if said else ""


def progress_in_words(view: TaskView) -> str:
    """How it goes, in one line."""
    if view.queue_position is not None and not view.activity.turns:
        return f"{view.activity.doing} · number {view.queue_position} in the queue"
    # A turn counts as soon as the model has answered, and goes on while the tools it called are running.
    calls_tools = view.activity.doing.startswith("calling ")
    turn = view.activity.turns + (view.status is TaskStatus.RUNNING and not calls_tools)
    return " · ".join([f"turn {turn}", view.activity.doing, *_spent(view)])


def facts(view: TaskView) -> str:
    """What it took: turns, tools, tokens, money, time."""
    said = [counted(view.activity.turns, "turn")]
    if view.usage.tool_calls:
        said.append(counted(view.usage.tool_calls, "tool call"))
    said += _spent(view)
    if view.started_at is not None and view.completed_at is not None:
        said.append(_duration((view.completed_at - view.started_at).total_seconds()))
    if view.retry_count:
        said.append(counted(view.retry_count, "retry", "retries"))
    return " · ".join(said)


def _remarks(view: TaskView) -> list[str]:
    """What differs from what one would expect: another model answered, or nobody knows what it costs."""
    said: list[str] = []
    if view.model and (others := [used for used in view.models_used if not is_same_model(view.model, used)]):
        said.append(f"Asked for {view.model}; answered by {', '.join(others)}.")
    if view.usage.requests and view.usage.cost_usd is None:
        said.append("The price of its model is not known: its limits on tokens and requests hold, not the one on cost.")
    if view.usage.is_cost_partial:
        said.append("Some of it was done by models whose price is not known; what they cost is not counted.")
    return said


def is_same_model(asked: str, used: str) -> bool:
    """Whether `used` is the model that was asked for, maybe in its version of some day."""
    asked, used = _undated(asked), _undated(used)
    return asked == used or asked.endswith(f":{used}") or used.endswith(f":{asked}")


def _undated(model: str) -> str:
    provider, colon, name = model.lower().rpartition(":")
    name = re.sub(r"[-@]\d{4}-?\d{2}-?\d{2}$", "", name)
    return f"{provider.removesuffix('-chat').removesuffix('-responses')}{colon}{name}"


def _result(result: str | dict[str, Any]) -> str:
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def _status(view: TaskView, now: datetime) -> str:
    match view.status:
        case TaskStatus.PENDING if view.queue_position:
            return f"queued, number {view.queue_position}"
        case TaskStatus.PENDING if view.activity.doing:
            return f"pending, {view.activity.doing}"
        case TaskStatus.RUNNING:
            # Slow is not stuck: a model that cannot tell gives up on a task, or delegates it twice.
            heard_of = view.activity.last_activity_at or view.started_at or view.created_at
            ago = max(0.0, (now - heard_of).total_seconds())
            return f"running, {view.activity.doing}, last activity {_duration(ago)} ago"
        case TaskStatus.WAITING_FOR_ANSWER:
            return "waiting for your answer"
        case TaskStatus.RETRYING:
            return f"retrying after a fault ({view.retry_count} so far)"
        case TaskStatus.FAILED if view.failure is not None:
            return f"failed ({view.failure.failure_type})"
        case other:
            return str(other)


def _failure(failure: FailureView, omitted: int) -> list[str]:
    lines = [failure.message]
    if failure.attempted:
        lines.append(f"Tried: {failure.attempted}")
    if failure.retry_after is not None:
        lines.append(f"The provider asks to be left alone for {_duration(failure.retry_after)}.")
    lines += [f"You could: {each}" for each in failure.alternatives]
    if found := failure.partial_results or (left_out(omitted).strip() if omitted else ""):
        lines += ["", "What it had found until then:", found]
    return lines


def _spent(view: TaskView) -> list[str]:
    tokens = view.usage.input_tokens + view.usage.output_tokens
    said = [f"{_short(tokens)} tokens"] if tokens else []
    return said + ([f"${view.usage.cost_usd:.4f}"] if view.usage.cost_usd else [])


def _short(number: int) -> str:
    return str(number) if number < 1_000 else f"{number / 1_000:.1f}k" if number < 1_000_000 else f"{number / 1e6:.1f}M"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def _named(news: News) -> str:
    more = news.count - len(news.first)
    return f" ({', '.join([*news.first, *([f'and {more} more'] if more else [])])})"
