"""Every error a caller can meet, sorted by who can fix it.

SubagentsError
├── ConfigError            the operator: a definition or a setting is wrong
├── IncompleteAnswer       the calling model or the operator: the answer is empty or was cut off
└── IllegalTransition      us: a bug
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal


class SubagentsError(Exception):
    """The base of every error of ours."""


class ConfigError(SubagentsError):
    """A definition or a setting is wrong; the message says which and what would be right."""


class IncompleteAnswer(SubagentsError):
    """The run ended, but its answer is not whole. What there is of it is in `text`."""

    def __init__(self, why: Literal["empty", "length", "content_filter"], text: str) -> None:
        self.why = why
        self.text = text
        super().__init__(_INCOMPLETE[why])

    def __reduce__(self) -> tuple[type["IncompleteAnswer"], tuple[str, str]]:
        return type(self), (self.why, self.text)


_INCOMPLETE = {
    "empty": "The model ended its run with an empty answer.",
    "length": "The answer was cut off at the model's output limit; raise `max_tokens`, or ask for less at a time.",
    "content_filter": "The provider's content filter cut the answer off; rephrase the task.",
}


class IllegalTransition(SubagentsError):
    """A task was moved where its lifecycle does not lead."""

    def __init__(self, task_id: str, status: str, to: str, legal: Iterable[str]) -> None:
        self.task_id = task_id
        self.status = status
        self.to = to
        allowed = ", ".join(sorted(legal)) or "nothing: it is terminal"
        super().__init__(f"Task {task_id!r} cannot go from {status} to {to}. From {status} it can go to: {allowed}.")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The hint for a misspelt `word`: its nearest right spelling, or all of them."""
    candidates = sorted(known)
    near = get_close_matches(word.lower(), candidates, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(candidates)}"
