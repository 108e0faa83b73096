"""What the demo model makes of a task: a pure rule that goes by a few words in it."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from mcp_subagents.demo.conversation import Conversation
from mcp_subagents.shortening import clipped

ASK, STEP = "ask_parent", "take_step"
"""The tools it uses: the one with which every subagent asks, and one of its own."""
STEPS = 5
"""Of a task that is to take long."""
PAUSE = 1.0
"""Seconds that such a step takes."""
_LONGEST_QUOTE = 200


@dataclass(frozen=True, slots=True)
class Say:
    """Give this answer: the task is done."""

    text: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the parent."""

    question: str


@dataclass(frozen=True, slots=True)
class Step:
    """Say something and go on working: there is another turn."""

    text: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Refuse:
    """Fail like a provider that answers with this HTTP status."""

    status: int


Reply: TypeAlias = Say | Ask | Step | Refuse


def reply_to(asked: Conversation, tools: Collection[str]) -> Reply:
    """The next thing to say, with the `tools` at hand. The same conversation always gets the same reply."""
    words = frozenset(re.findall(r"[a-z]+", asked.task.lower()))
    steps = len(asked.returns_of(STEP))
    can_go_on = STEP in tools
    if "unavailable" in words:
        return Refuse(503)
    if "fail" in words:
        return Step("I made a start before it went wrong.") if can_go_on and not steps else Refuse(400)
    if "ask" in words and ASK in tools and not asked.returns_of(ASK):
        return Ask("You said that I should ask. So: is there anything I should know before I start?")
    if words & {"slowly", "long"} and can_go_on and steps < STEPS:
        return Step(f"Step {steps + 1} of {STEPS} is under way.", PAUSE)
    return Say(_answer(asked))


def _answer(asked: Conversation) -> str:
    lines = [
        "This is the demo model: a script that needs no key and costs nothing.",
        "",
        f"Task: {_quoted(asked.task)}",
        "Plan: read the task, do what its words ask for, report.",
        f"Answer: done, in {asked.turns + 1} {'turn' if not asked.turns else 'turns'}.",
    ]
    lines += [f"Your answer: {_quoted(each)}" for each in asked.returns_of(ASK)]
    lines += [f"Your message: {_quoted(each)}" for each in asked.told]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return clipped(" ".join(text.split()), _LONGEST_QUOTE)
