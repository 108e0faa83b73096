"""What the subagents of the story are asked and what they say. Their findings are what they have really read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from mcp_subagents.demo.conversation import Conversation
from mcp_subagents.demo.replies import ASK

READ = "read_file"
"""The tool of a workspace that they read with."""

FILES: Mapping[str, str] = {
    "complaints.md": "- Login is slow: 14 reports\n- PDF pages lose their numbers: 9 reports\n",
    "wishes.md": "- Export as CSV: 21 votes\n- Keyboard shortcuts: 17 votes\n",
    "fixes.md": "- PDF pages keep their numbers\n- In dark mode the clock can be read\n",
}
"""The workspace of the researcher."""

COMPLAINTS = "What do users complain about?"
WISHES = "What do users wish for?"
FIXES = "What did the last release fix?"
ANNOUNCE = "Announce release 2. Ask for whom."
REPORT = "Report on all of our notes."
COMPARE = "Compare wishes with complaints."
PLAN = "Plan release 3 from our notes."
AUDIT = "Check our notes line by line."

SUBAGENTS: Mapping[str, str] = {
    "researcher": "Reads the notes of a project and reports what is in them.",
    "writer": "Writes short announcements, and asks for whom.",
}


@dataclass(frozen=True, slots=True)
class Read:
    """Say something and read a file."""

    text: str
    file: str


@dataclass(frozen=True, slots=True)
class Question:
    """Ask the parent."""

    text: str


@dataclass(frozen=True, slots=True)
class Final:
    """The result. `{0}` is the first finding, `{answer}` and `{message}` are the words of the host."""

    text: str


Line: TypeAlias = Read | Question | Final

_COMPLAINTS = Read("I read the complaints.", "complaints.md")
_WISHES = Read("I read the wishes.", "wishes.md")
_FIXES = Read("I read the fixes.", "fixes.md")

LINES: Mapping[str, Sequence[Line]] = {
    COMPLAINTS: [_COMPLAINTS, Final("{0}.")],
    WISHES: [_WISHES, Final("{0}.")],
    FIXES: [_FIXES, Final("{0}.")],
    ANNOUNCE: [
        Question("Who will read it, users or developers?"),
        Final('Release 2 is out. (Written for: "{answer}")'),
    ],
    REPORT: [_COMPLAINTS, _WISHES, _FIXES, Final('{0}. (You said: "{message}")')],
    COMPARE: [_WISHES, _COMPLAINTS, Final("Wish: {0}. Complaint: {1}.")],
    PLAN: [_COMPLAINTS, _WISHES, _FIXES, Final("First: {0}. Then: {1}. Done already: {2}.")],
    AUDIT: [_COMPLAINTS, _WISHES, _FIXES, Final("All is well.")],
}
"""What is said in each turn of a task."""


def line_for(asked: Conversation) -> Line:
    """The next line. Who was told something on the way comes to the end. Raises: `KeyError` for an unknown task."""
    lines = LINES[asked.task]
    return lines[-1] if asked.told else lines[min(asked.turns, len(lines) - 1)]


def spoken(line: Line, asked: Conversation) -> ModelResponse:
    """`line` as the answer to `asked`."""
    call_id = f"turn-{asked.turns + 1}"
    match line:
        case Read():
            return ModelResponse(
                parts=[TextPart(line.text), ToolCallPart(READ, {"path": line.file}, tool_call_id=call_id)]
            )
        case Question():
            return ModelResponse(parts=[ToolCallPart(ASK, {"question": line.text}, tool_call_id=call_id)])
        case Final():
            answer, message = asked.returns_of(ASK)[-1:], asked.told[-1:]
            text = line.text.format(*findings(asked), answer="".join(answer), message="".join(message))
            return ModelResponse(parts=[TextPart(text)])


def findings(asked: Conversation) -> list[str]:
    """The first line of every file that was read."""
    return [text.partition("\n")[0].removeprefix("- ") for text in asked.returns_of(READ)]


def finding_in(file: str) -> str:
    """What a subagent finds who has really read `file`."""
    return FILES[file].partition("\n")[0].removeprefix("- ")
