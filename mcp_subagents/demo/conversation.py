"""What a model was told and has said so far, as much of it as a script needs to know."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

_TASK = "## Your task\n\n"
"""How a task is handed over, see `prompts`; a follow-up begins in the same way."""
_CHARACTERS_OF_A_TOKEN = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """One task, from the side of its model."""

    task: str
    """The description, as the host wrote it."""
    turns: int = 0
    """Answers of the model so far."""
    returned: tuple[tuple[str, str], ...] = ()
    """The names of the tools that have returned, with what they returned, in order."""
    told: tuple[str, ...] = ()
    """What came in on the way: messages of the host, warnings of the server."""

    def returns_of(self, tool: str) -> tuple[str, ...]:
        """What the tool of that name has returned so far."""
        return tuple(content for name, content in self.returned if name == tool)


def conversation_of(messages: Sequence[ModelMessage]) -> Conversation:
    """The last task in `messages`, and what has been said about it."""
    prompts = [
        (index, part)
        for index, message in enumerate(messages)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]
    handed_over = [each for each in prompts if str(each[1].content).startswith(_TASK)] or prompts[:1]
    start, first = handed_over[-1] if handed_over else (0, None)
    parts = [part for message in messages[start:] for part in message.parts]
    return Conversation(
        task=_description(str(first.content)) if first else "",
        turns=sum(isinstance(message, ModelResponse) for message in messages[start:]),
        returned=tuple(
            (part.tool_name, part.model_response_str()) for part in parts if isinstance(part, ToolReturnPart)
        ),
        told=tuple(str(part.content) for part in parts if isinstance(part, UserPromptPart) and part is not first),
    )


def _description(prompt: str) -> str:
    if not prompt.startswith(_TASK):
        return prompt
    # What follows the description is one paragraph on questions, under a heading of its own.
    return prompt.removeprefix(_TASK).rpartition("\n\n## ")[0]


def tokens_in(*texts: str) -> int:
    """How many tokens that is, about."""
    return sum(len(text) for text in texts) // _CHARACTERS_OF_A_TOKEN + 1


def texts_of(messages: Sequence[ModelMessage]) -> Iterator[str]:
    """Everything that a model reads or writes."""
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, UserPromptPart | TextPart):
            yield str(part.content)
        elif isinstance(part, ToolReturnPart):
            yield part.model_response_str()
        elif isinstance(part, ToolCallPart):
            yield part.args_as_json_str()
