"""Every error a caller can meet, sorted by who can fix it.

SubagentsError
├── ConfigError            the operator: a definition or a setting is wrong
├── StoreError             the operator: the store cannot be used as it is
│   ├── StoreDamaged       a file or a record is not what was written
│   ├── StoreTooNew        a later version of mcp-subagents wrote it
│   └── StoreUnavailable   full, locked, read-only, or on a file system that cannot hold it
├── ToolServerDown         the operator: an MCP server that a subagent uses cannot be started
├── EngineStopped          the caller: open another engine on the store
├── WrongArguments         the calling model: a tool does not take that
├── UnknownSubagent        the calling model: pick another name
├── UnknownTask            the calling model: this id was never issued, or its retention has ended
├── NoTaskLike             who is at the terminal: no id begins like that
├── SeveralTasksLike       who is at the terminal: give more of the id
├── NoSuchQuestion         who is at the terminal: answer one of those that are open
├── NotWaiting             the calling model: there is no such open question
├── TaskEnded              the calling model: the task cannot hear it any more
├── NotEnded               the calling model: wait for it, or send it a message
├── FollowedUp             the calling model: wait for the other follow-up, and go on from that one
├── KeyTaken               the calling model: use a key of its own for each task
├── TooManyTasks           the calling model: wait for some to end
├── DepthExceeded          the calling model: do it yourself
├── DescendantsExceeded    the calling model: do it yourself
├── DailyCostReached       the operator: allow more, or wait until tomorrow
├── IncompleteAnswer       the calling model or the operator: the answer is empty or was cut off
├── UnfitAnswer            the calling model or the operator: the result does not fit its schema
├── IllegalTransition      us: a bug
├── StopRequested          nobody: the task was told to stop, and does
├── MailWaiting            nobody: the task has something left to read before it ends
├── ChildrenOpen           nobody: the task has to be told of its open children before it ends
└── LeaseLost              nobody: a later attempt owns the task; stop quietly
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from mcp_subagents.records import Mail
    from mcp_subagents.types import TaskHandle


class SubagentsError(Exception):
    """The base of every error of ours."""

    def __reduce__(self) -> tuple[object, ...]:
        # Made again without `__init__`, which takes other arguments than the message that is in `args`.
        return _made_again, (type(self), self.args), vars(self)


def _made_again(kind: type[SubagentsError], args: tuple[object, ...]) -> SubagentsError:
    return kind.__new__(kind, *args)


class ConfigError(SubagentsError):
    """A definition or a setting is wrong; the message says which and what would be right."""


class StoreError(SubagentsError):
    """The store cannot be used as it is; nothing in it was changed."""


class StoreDamaged(StoreError):
    """What was read is not what was written."""


class StoreTooNew(StoreError):
    """A later version of mcp-subagents wrote the store."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or written just now; what was asked for has not happened."""


class ToolServerDown(SubagentsError):
    """An MCP server that a subagent uses cannot be started, or does not stay alive."""

    def __init__(self, name: str, trouble: str) -> None:
        self.name = name
        self.trouble = trouble
        super().__init__(f"The tool server {name!r} {trouble}.")


class EngineStopped(SubagentsError):
    """The engine has been stopped; its tasks are in the store, for the next one."""

    def __init__(self) -> None:
        super().__init__("The engine has been stopped. Its tasks are safe: open another engine on the same store.")


class WrongArguments(SubagentsError):
    """The arguments of a call are not what the tool takes."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        super().__init__(f"Wrong arguments: {'; '.join(mistakes)}. Nothing was done.")


class UnknownSubagent(SubagentsError):
    """No subagent of that name is configured."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        configured = ", ".join(sorted(known)) or "none"
        super().__init__(f"No subagent is named {name!r}. Configured: {configured}.")


class UnknownTask(SubagentsError):
    """There is no such task, or none that the caller may see."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(f"There is no task {task_id!r}. `list_active_tasks` lists those that have not ended.")


class NoTaskLike(SubagentsError):
    """No task has an id that begins like that."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        super().__init__(
            f"There is no task whose id begins with {prefix!r}. `mcp-subagents tasks list --all` lists them all."
        )


class SeveralTasksLike(SubagentsError):
    """More than one task has an id that begins like that."""

    def __init__(self, prefix: str, task_ids: Sequence[str], more: bool) -> None:
        self.prefix = prefix
        named = ", ".join([*task_ids, *(["and more"] if more else [])])
        super().__init__(f"The ids of several tasks begin with {prefix!r}: {named}. Give more of the one you mean.")


class NoSuchQuestion(SubagentsError):
    """The task has no such open question, or several and none was named."""

    def __init__(self, task_id: str, status: str, question: str, waiting: Sequence[str]) -> None:
        self.task_id = task_id
        if not waiting:
            told = f"Task {task_id!r} asks nothing: it is {status}."
        else:
            wrong = f"has no open question {question!r}" if question else "has several questions open"
            choices = "; ".join(f"{number}: {text}" for number, text in enumerate(waiting, start=1))
            told = f"Task {task_id!r} {wrong}. Name one with --question and its number: {choices}"
        super().__init__(told)


class NotWaiting(SubagentsError):
    """The task has no open question that the answer could be meant for."""

    def __init__(self, handle: "TaskHandle", question_id: str) -> None:
        self.task_id = handle.task_id
        waiting = [each for each in handle.questions if each.answer is None]
        if not waiting:
            told = f"Task {handle.task_id!r} asks nothing: it is {handle.status}."
        else:
            choices = "; ".join(f"{each.question_id!r}: {each.text}" for each in waiting)
            asked = f"has no open question {question_id!r}" if question_id else "has several questions open"
            told = f"Task {handle.task_id!r} {asked}. Name one of these as question_id: {choices}"
        super().__init__(told)


class TaskEnded(SubagentsError):
    """The task has ended and takes no more messages."""

    def __init__(self, handle: "TaskHandle") -> None:
        self.task_id = handle.task_id
        super().__init__(f"Task {handle.task_id!r} is {handle.status}; it takes no more messages.")


class NotEnded(SubagentsError):
    """A task can be followed up only when it has ended."""

    def __init__(self, handle: "TaskHandle") -> None:
        self.task_id = handle.task_id
        super().__init__(
            f"Task {handle.task_id!r} is {handle.status} and cannot be followed up yet. "
            "Wait until it has ended, or tell it now with `send_message_to_subagent`."
        )


class FollowedUp(SubagentsError):
    """Another task goes on from the same one and has not ended: a history has one writer at a time."""

    def __init__(self, past_id: str, by: "TaskHandle") -> None:
        self.task_id = by.task_id
        super().__init__(
            f"Task {past_id!r} is being followed up already, by task {by.task_id!r}, which is {by.status}. "
            f"Wait until {by.task_id!r} has ended and follow that one up, since it knows all that {past_id!r} does; "
            "or tell it now with `send_message_to_subagent`."
        )


class KeyTaken(SubagentsError):
    """An idempotency key stands for one task, and this one stands for another."""

    def __init__(self, handle: "TaskHandle", key: str) -> None:
        self.task_id = handle.task_id
        super().__init__(
            f"The idempotency key {key!r} belongs to task {handle.task_id!r}, which is about something else. "
            "Use a key of its own for each task, and the same one only to repeat a call."
        )


class TooManyTasks(SubagentsError):
    """So many tasks are open that no more are taken."""

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} tasks are open, which is the most allowed. Wait for some to end, or cancel some.")


class DepthExceeded(SubagentsError):
    """A task may not delegate any further down."""

    def __init__(self, most: float) -> None:
        super().__init__(f"Tasks may be delegated {most:g} levels deep at the most. Do this part yourself.")


class DescendantsExceeded(SubagentsError):
    """So many tasks have been delegated below one task that no more are taken."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"{most:g} tasks have been delegated below one task of the host, which is the most allowed. "
            "Do this part yourself, or go on with what you have."
        )


class DailyCostReached(SubagentsError):
    """What may be spent in a day is spent."""

    def __init__(self, most: float) -> None:
        super().__init__(
            f"The tasks of this server have used up the ${most:.2f} that they may cost in a day (UTC). "
            "Wait until tomorrow, or have daily_cost_usd raised."
        )


class StopRequested(SubagentsError):
    """The task was told to stop, and must not go on or wait for anything."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(f"Task {task_id!r} was told to stop.")


class MailWaiting(SubagentsError):
    """The task was about to end, but was sent something that it has not read."""

    def __init__(self, mail: "Sequence[Mail]") -> None:
        self.mail = mail
        super().__init__(f"{len(mail)} unread messages")


class ChildrenOpen(SubagentsError):
    """The task was about to end, but tasks that it has delegated are still open."""

    def __init__(self, task_ids: "Iterable[str]") -> None:
        self.task_ids = tuple(task_ids)
        super().__init__(f"{len(self.task_ids)} open children")


class LeaseLost(SubagentsError):
    """Another attempt has the task, or it has ended: this one must not write any more."""

    def __init__(self, task_id: str, attempt: int) -> None:
        self.task_id = task_id
        super().__init__(f"Attempt {attempt} no longer holds task {task_id!r}.")


class IncompleteAnswer(SubagentsError):
    """The run ended, but its answer is not whole. What there is of it is in `text`."""

    def __init__(self, why: Literal["empty", "length", "content_filter"], text: str) -> None:
        self.why = why
        self.text = text
        super().__init__(_INCOMPLETE[why])


_INCOMPLETE = {
    "empty": "The model ended its run with an empty answer.",
    "length": "The answer was cut off at the model's output limit; raise `max_tokens`, or ask for less at a time.",
    "content_filter": "The provider's content filter cut the answer off; rephrase the task.",
}


class UnfitAnswer(SubagentsError):
    """The model could not give a result that fits the output schema. What it gave last is in `text`."""

    def __init__(self, problems: str, text: str) -> None:
        self.text = text
        super().__init__(f"The model gave no result that fits the output schema. The last one: {problems}.")


class IllegalTransition(SubagentsError):
    """A task was moved where its lifecycle does not lead."""

    def __init__(
        self, task_id: str, status: str, to: str, legal: Iterable[str], *, only_from: str | None = None
    ) -> None:
        self.task_id = task_id
        self.status = status
        self.to = to
        allowed = ", ".join(sorted(legal)) or "nothing: it is terminal"
        right = (
            f"From {status} it can go to: {allowed}." if only_from is None else f"This move starts from {only_from}."
        )
        super().__init__(f"Task {task_id!r} cannot go from {status} to {to}. {right}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The hint for a misspelt `word`: its nearest right spelling, or all of them."""
    candidates = sorted(known)
    near = get_close_matches(word.lower(), candidates, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(candidates)}"
