"""Results of a given shape: what the model is asked for, and whether what it gives fits."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import validator_for  # pyright: ignore[reportUnknownVariableType]  # it has no types
from pydantic_ai import Agent, ModelRetry, StructuredDict
from pydantic_ai import exceptions as pai
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryFeedbackPart, ToolReturnPart, UserPromptPart
from pydantic_core import to_json

from mcp_subagents.config.schemas import unrolled
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.errors import UnfitAnswer

REPAIRS = 3
"""How often the model is told what does not fit, and asked again."""
_OUTPUT_TOOL = "final_result"
"""As pydantic-ai calls the tool that takes the result."""
_MOST_TOLD = 5
"""Problems that are told at a time."""
_LONGEST = 300
"""Characters of a problem."""


def output_for(config: SubAgentConfig) -> dict[str, Any]:
    """What an agent is told of the shape of its result, if it is to have one."""
    schema = config.get("output_schema")
    if schema is None:
        return {}
    given: dict[str, Any] = {"output_type": StructuredDict(unrolled(schema))}
    if "retries" not in config.get("agent_kwargs", {}):
        given["retries"] = {"output": REPAIRS}
    return given


def repairs_left(config: SubAgentConfig, history: Sequence[ModelMessage]) -> dict[str, Any]:
    """What a run that goes on from `history` is told: a resume does not begin to count anew."""
    if "output_schema" not in config or "retries" in config.get("agent_kwargs", {}):
        return {}
    refused = 0
    for part in (part for message in history for part in message.parts):
        if isinstance(part, UserPromptPart):
            refused = 0
        elif isinstance(part, RetryFeedbackPart) or (isinstance(part, ToolReturnPart) and _is_refusal(part)):
            refused += 1
    return {"retries": {"output": max(REPAIRS - refused, 0)}}


def _is_refusal(part: ToolReturnPart) -> bool:
    return part.outcome == "retried" and part.tool_name == _OUTPUT_TOOL


def require_fit(agent: Agent[Any, Any], config: SubAgentConfig) -> None:
    """Let `agent` end only with a result that fits the schema of `config`: pydantic-ai shows it, but does not check."""
    schema = config.get("output_schema")
    if schema is None:
        return

    @agent.output_validator
    async def fits(output: Any) -> Any:
        if problems := problems_with(output, schema):
            raise ModelRetry(f"The result does not fit its schema. {'; '.join(problems)}.")
        return output


def problems_with(output: object, schema: Mapping[str, Any]) -> list[str]:
    """Where `output` does not fit `schema`, the first few of them; empty if it fits."""
    try:
        json.dumps(output, allow_nan=False)
    except ValueError:
        return ["It holds a number that JSON does not have (NaN or Infinity)"]
    validator: Any = validator_for(schema, default=Draft202012Validator)(schema)
    found: Iterator[ValidationError] = validator.iter_errors(output)
    return [f"{each.json_path}: {_clipped(each.message)}" for each, _ in zip(found, range(_MOST_TOLD), strict=False)]


def _clipped(message: str) -> str:
    """A message quotes what it complains of, which may be long."""
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"


def explained(exc: BaseException, config: SubAgentConfig, history: Sequence[ModelMessage]) -> BaseException:
    """`exc`; or, if the model could not give a result that fits, that in our words and with what it gave."""
    schema = config.get("output_schema")
    gave_up = isinstance(exc, pai.UnexpectedModelBehavior) and "output retries" in exc.message
    if schema is None or not gave_up:
        return exc
    text = _answer(history)
    try:
        problems = problems_with(json.loads(text), schema)
    except ValueError:
        problems = ["it is no JSON"]
    return UnfitAnswer("; ".join(problems), text)


def _answer(history: Sequence[ModelMessage]) -> str:
    """What the model gave last: to the tool that takes the result, or as text."""
    last = next((each for each in reversed(history) if isinstance(each, ModelResponse)), None)
    if last is None:
        return ""
    if not last.tool_calls:
        return last.text or ""
    args = last.tool_calls[-1].args
    return args if isinstance(args, str) else to_json(args).decode()


def as_text(output: object) -> str:
    """A result as it is stored."""
    return output if isinstance(output, str) else to_json(output).decode()
