"""What the demo model says to what."""

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.demo.conversation import Conversation, conversation_of
from mcp_subagents.demo.replies import PAUSE, STEPS, Ask, Refuse, Reply, Say, Step, reply_to
from mcp_subagents.prompts import first_prompt

BOTH = frozenset({"ask_parent", "take_step"})
STARTED = ("take_step", "Go on.")
ANSWERED = ("ask_parent", "In blue.")
QUESTION = Ask("You said that I should ask. So: is there anything I should know before I start?")
FALSE_START = Step("I made a start before it went wrong.")


def report(*more: str, task: str, turns: str = "1 turn") -> Say:
    lines = [
        "This is the demo model: a script that needs no key and costs nothing.",
        "",
        f"Task: {task}",
        "Plan: read the task, do what its words ask for, report.",
        f"Answer: done, in {turns}.",
    ]
    return Say("\n".join([*lines, *more]))


CASES: dict[str, tuple[Conversation, frozenset[str], Reply]] = {
    "an ordinary task is answered at once": (
        Conversation(task="Name a\n  colour."),
        BOTH,
        report(task="Name a colour."),
    ),
    "a long task is quoted in part": (
        Conversation(task="x" * 300),
        BOTH,
        report(task="x" * 199 + "…"),
    ),
    "one that says ask is asked about": (Conversation(task="Ask me."), BOTH, QUESTION),
    "a word that only contains ask is no such word": (
        Conversation(task="A basket."),
        BOTH,
        report(task="A basket."),
    ),
    "the answer is in the report": (
        Conversation(task="Ask me.", turns=1, returned=(ANSWERED,)),
        BOTH,
        report("Your answer: In blue.", task="Ask me.", turns="2 turns"),
    ),
    "who cannot ask does not": (Conversation(task="Ask me."), frozenset({"take_step"}), report(task="Ask me.")),
    "slowly takes steps": (
        Conversation(task="Go slowly."),
        BOTH,
        Step(f"Step 1 of {STEPS} is under way.", PAUSE),
    ),
    "long takes steps, too, one after the other": (
        Conversation(task="A LONG one", turns=2, returned=(STARTED, STARTED)),
        BOTH,
        Step(f"Step 3 of {STEPS} is under way.", PAUSE),
    ),
    "after the last step comes the report": (
        Conversation(task="Go slowly.", turns=STEPS, returned=(STARTED,) * STEPS),
        BOTH,
        report(task="Go slowly.", turns=f"{STEPS + 1} turns"),
    ),
    "without the tool there are no steps": (
        Conversation(task="Go slowly."),
        frozenset({"ask_parent"}),
        report(task="Go slowly."),
    ),
    "one that asks and goes slowly asks first": (Conversation(task="Ask, then go slowly."), BOTH, QUESTION),
    "messages are in the report": (
        Conversation(task="Go.", turns=1, told=("Hurry\nup.",)),
        BOTH,
        report("Your message: Hurry up.", task="Go.", turns="2 turns"),
    ),
    "fail makes a start, so that there are partial results": (Conversation(task="Fail."), BOTH, FALSE_START),
    "and then fails": (Conversation(task="Fail.", turns=1, returned=(STARTED,)), BOTH, Refuse(400)),
    "without the tool it fails at once": (Conversation(task="Fail."), frozenset(), Refuse(400)),
    "unavailable is a provider that may come back": (Conversation(task="Be unavailable."), BOTH, Refuse(503)),
}


@pytest.mark.parametrize(("asked", "tools", "reply"), CASES.values(), ids=CASES)
def test_the_demo_model_goes_by_the_words_of_the_task(asked: Conversation, tools: frozenset[str], reply: Reply):
    assert reply_to(asked, tools) == reply


def request(*parts: UserPromptPart | ToolReturnPart) -> ModelMessage:
    return ModelRequest(parts=list(parts))


def prompt(description: str, **config: bool) -> UserPromptPart:
    given: SubAgentConfig = {"name": "x", "description": "", "instructions": "", **config}  # pyright: ignore[reportAssignmentType]
    return UserPromptPart(first_prompt(given, description))


CALL = ModelResponse(parts=[TextPart("I look."), ToolCallPart("look", {}, tool_call_id="1")])
RETURN = ToolReturnPart("look", "A door.", tool_call_id="1")
TALKS: dict[str, tuple[list[ModelMessage], Conversation]] = {
    "a task as it is handed over": ([request(prompt("Go.\n\n## North"))], Conversation(task="Go.\n\n## North")),
    "of a subagent that may not ask": ([request(prompt("Go.", can_ask_questions=False))], Conversation(task="Go.")),
    "a prompt of somebody else": ([request(UserPromptPart("Hello."))], Conversation(task="Hello.")),
    "nothing": ([], Conversation(task="")),
    "a turn, what its tool returned, and a message": (
        [request(prompt("Go.")), CALL, request(RETURN, UserPromptPart("Hurry."))],
        Conversation(task="Go.", turns=1, returned=(("look", "A door."),), told=("Hurry.",)),
    ),
    "a follow-up begins anew": (
        [
            request(prompt("Go.")),
            CALL,
            request(RETURN),
            ModelResponse(parts=[TextPart("Done.")]),
            request(prompt("On.")),
        ],
        Conversation(task="On."),
    ),
}


@pytest.mark.parametrize(("messages", "conversation"), TALKS.values(), ids=TALKS)
def test_a_conversation_is_read_from_the_messages(messages: list[ModelMessage], conversation: Conversation):
    assert conversation_of(messages) == conversation
