"""What the tools take: their arguments, checked, and their mistakes in our words."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.errors import WrongArguments, did_you_mean
from mcp_subagents.texts import encodable
from mcp_subagents.types import TaskCharacteristics, TaskPriority

LONGEST_TEXT = 200_000
LONGEST_NAME = 200
MOST_TASKS = 1_000
_MOST_MISTAKES = 5
_LONGEST_SHOWN = 60


def _with_content(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


def _as_list(value: object) -> object:
    # Models write a list as JSON text at times, or leave the brackets out for a single id.
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return [value]


def _encodable(value: object) -> object:
    # Before pydantic looks at it: half a character is no text to it.
    return encodable(value) if isinstance(value, str) else value


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"must be a number, not {value}")
    return value


def _once_each(ids: list[str]) -> list[str]:
    return list(dict.fromkeys(ids))


SomeText = Annotated[str, BeforeValidator(_encodable), Field(max_length=LONGEST_TEXT), AfterValidator(_with_content)]
Name = Annotated[str, BeforeValidator(_encodable), Field(max_length=LONGEST_NAME)]
TaskId = Annotated[Name, Field(description="The id of a task.")]


class Arguments(BaseModel):
    """The arguments of one tool."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Given = TypeVar("Given", bound=Arguments)


class NoArguments(Arguments):
    pass


class TaskArguments(Arguments):
    description: Annotated[SomeText, Field(description="All the subagent needs to know, as to a stranger.")]
    subagent_type: Annotated[Name, Field(description="Who does it.")] = "general-purpose"
    mode: Annotated[
        Literal["sync", "async", "auto"],
        Field(description="Wait for the result, get the task id at once, or we choose."),
    ] = "sync"
    priority: Annotated[TaskPriority, Field(description="Which of the waiting tasks goes first.")] = TaskPriority.NORMAL
    complexity: Annotated[
        Literal["simple", "moderate", "complex"] | None, Field(description="For mode auto: how much work it is.")
    ] = None
    requires_user_context: Annotated[bool | None, Field(description="For auto: it needs the user all along.")] = None
    is_time_sensitive: Annotated[bool, Field(description="For auto: it is urgent.")] = False
    can_run_independently: Annotated[bool, Field(description="For auto: it needs nothing more from you.")] = True
    may_need_clarification: Annotated[bool, Field(description="For auto: it may have questions.")] = False
    continue_task_id: Annotated[
        Name, Field(description="Follow up on this finished task: the subagent remembers it.")
    ] = ""
    idempotency_key: Annotated[
        Name, Field(description="Yours, for safe repeats: a call with the same key returns the same task.")
    ] = ""

    def characteristics(self, config: SubAgentConfig) -> TaskCharacteristics:
        """What the task is like, by the caller's word or by what the subagent's tasks are like."""
        needs_user = self.requires_user_context
        return TaskCharacteristics(
            estimated_complexity=self.complexity or config.get("typical_complexity", "moderate"),
            requires_user_context=config.get("typically_needs_context", False) if needs_user is None else needs_user,
            is_time_sensitive=self.is_time_sensitive,
            can_run_independently=self.can_run_independently,
            may_need_clarification=self.may_need_clarification,
        )


class OneTask(Arguments):
    task_id: TaskId


class WaitArguments(Arguments):
    task_ids: Annotated[
        list[TaskId],
        BeforeValidator(_as_list),
        Field(min_length=1, max_length=MOST_TASKS, description="The tasks to wait for."),
        AfterValidator(_once_each),
    ]
    mode: Annotated[Literal["all", "any"], Field(description="Until all have ended, or any.")] = "all"
    timeout: Annotated[
        float | None,
        BeforeValidator(_no_bool),
        Field(ge=0, allow_inf_nan=False, description="Seconds; at the most what your app can wait."),
    ] = None


class AnswerArguments(Arguments):
    task_id: TaskId
    answer: Annotated[SomeText, Field(description="The answer.")]
    question_id: Annotated[Name, Field(description="Which question, when several are open.")] = ""


class MessageArguments(Arguments):
    task_id: TaskId
    message: Annotated[SomeText, Field(description="What it should know or do differently.")]


def parsed(kind: type[Given], given: Mapping[str, Any]) -> Given:
    """The arguments that were given. Raises: `WrongArguments`, naming everything that is wrong."""
    # Some hosts send null for what they leave out.
    present = {name: value for name, value in given.items() if value is not None or name not in kind.model_fields}
    try:
        return kind.model_validate(present)
    except ValidationError as exc:
        mistakes = [_in_words(each, kind) for each in exc.errors()]
        more = [f"and {len(mistakes) - _MOST_MISTAKES} more"] if len(mistakes) > _MOST_MISTAKES else []
        raise WrongArguments([*mistakes[:_MOST_MISTAKES], *more]) from exc


_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "greater_than_equal": "0 or more",
    "list_type": "a list of task ids",
}


def _in_words(error: ErrorDetails, kind: type[Arguments]) -> str:
    name = ".".join(str(part) for part in error["loc"])
    shown = _shown(error["input"])
    context = error.get("ctx", {})
    match error["type"]:
        case "missing":
            return f"`{name}` is missing"
        case "extra_forbidden":
            known = kind.model_fields
            return f"unknown argument {_shown(name)}: {did_you_mean(name, known) if known else 'this tool takes none'}"
        case "literal_error" | "enum":
            return f"`{name}` must be {context['expected']}, not {shown}"
        case "string_too_long" | "too_long":
            unit = "characters" if isinstance(error["input"], str) else "tasks"
            return f"`{name}` is too long: {context['max_length']:,} {unit} at the most"
        case "too_short":
            return f"`{name}` is empty"
        case "value_error":
            return f"`{name}` {context['error']}"
        case other:
            return f"`{name}` must be {_EXPECTED.get(other, 'something else')}, not {shown}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def schema_of(kind: type[Arguments], **more: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of some arguments, in few words; `more` is added to the argument of that name."""
    schema = kind.model_json_schema()
    definitions: dict[str, Any] = schema.get("$defs", {})
    properties = {
        name: {**_plain(given, definitions), **more.get(name, {})} for name, given in schema["properties"].items()
    }
    required = schema.get("required", [])
    return {"type": "object", "properties": properties, "additionalProperties": False} | (
        {"required": required} if required else {}
    )


def _plain(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A property without references, titles and lengths, and without the null that stands for leaving it out."""
    match node:
        case {"$ref": str() as ref}:
            node = {**definitions[ref.rsplit("/", 1)[-1]], **{key: node[key] for key in node if key != "$ref"}}
        case {"anyOf": [one, {"type": "null"}]}:
            node = {**one, **{key: node[key] for key in node if key not in ("anyOf", "default")}}
        case _:
            pass
    dropped = {"title", "maxLength", "maxItems", "minItems"}
    # Behind a validator of ours, pydantic calls a bound by the name it has in Python.
    plain = {"minimum" if key == "ge" else key: value for key, value in node.items() if key not in dropped}
    if isinstance(items := plain.get("items"), dict):
        plain["items"] = {"type": items["type"]}
    return plain
