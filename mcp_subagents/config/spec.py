"""A subagent as a file defines it."""

from collections.abc import Mapping
from copy import copy
from typing import Annotated, Any, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from mcp_subagents.config.schemas import require_result_schema
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.errors import ConfigError, did_you_mean

PYTHON_ONLY = frozenset({"agent", "agent_factory", "toolsets", "agent_kwargs", "retry_on"})
"""The keys of `SubAgentConfig` that hold live objects, which no file can."""


def _usable_name(name: str) -> str:
    if not name.strip() or name != name.strip() or not name.isprintable():
        raise ValueError("a name is one line of printable text, without spaces around it")
    return name


def named_model(model: str) -> str:
    if not model.strip():
        raise ValueError("a model has a name, such as openai:gpt-5; leave the key out for the default model")
    return model


def _result_schema(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        require_result_schema(schema)
    except ConfigError as why:
        raise ValueError(str(why).removeprefix("output_schema ")) from why
    return schema


def _web_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be the address of a gateway, such as http://localhost:11434/v1")
    if parts.username or parts.password:
        raise ValueError("holds credentials, which belong into a variable: name it with api_key_env")
    return url


def _variable(name: str) -> str:
    if not name.isidentifier():
        raise ValueError("must be the name of an environment variable, such as OPENAI_API_KEY, not a key")
    return name


class WorkspaceSpec(BaseModel):
    """A directory that a subagent can look into."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    path: str
    """The directory; in a file, relative to that file."""
    read_only: bool = True
    """Whether it may only read there."""


class SubAgentSpec(BaseModel):
    """A subagent as YAML or JSON declares it: the keys of `SubAgentConfig` that a file can hold."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: Annotated[str, Field(max_length=100), AfterValidator(_usable_name)]
    description: str = ""
    instructions: str = ""
    model: Annotated[str, AfterValidator(named_model)] | None = None
    can_ask_questions: bool | None = None
    max_questions: int | None = Field(default=None, ge=0)
    preferred_mode: Literal["sync", "async", "auto"] | None = None
    typical_complexity: Literal["simple", "moderate", "complex"] | None = None
    typically_needs_context: bool | None = None
    context_files: list[str] | None = None
    extra: dict[str, Any] = Field(default_factory=dict)
    max_retries: int | None = Field(default=None, ge=0)
    retry_initial_delay: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    retry_max_delay: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    retry_backoff_multiplier: float | None = Field(default=None, ge=1, allow_inf_nan=False)
    retry_jitter: bool | None = None
    limits: dict[str, float | None] | None = None
    max_concurrency: int | None = Field(default=None, ge=1)
    question_timeout: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    fallback_models: list[Annotated[str, AfterValidator(named_model)]] | None = None
    base_url: Annotated[str, AfterValidator(_web_address)] | None = None
    api_key_env: Annotated[str, AfterValidator(_variable)] | None = None
    effort: Literal["low", "medium", "high"] | None = None
    mcp_servers: dict[str, dict[str, Any]] | list[str | dict[str, Any]] | None = None
    capabilities: list[str | dict[str, Any]] | None = None
    workspace: str | WorkspaceSpec | None = None
    python_tools: list[str] | None = None
    tools: list[str] | None = None
    disallowed_tools: list[str] | None = None
    subagents: list[str] | None = None
    output_schema: Annotated[dict[str, Any], AfterValidator(_result_schema)] | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _know_every_key(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(data, Mapping):
            return handler(data)
        given = cast("Mapping[object, object]", data)
        unknown = [str(key) for key in given if key not in cls.model_fields]
        if not unknown:
            return handler(given)
        hints = "; ".join(f"unknown key {key!r}, {hint_for(key, cls.model_fields)}" for key in unknown)
        wrong = [InitErrorDetails(type=PydanticCustomError("unknown_key", "{hints}", {"hints": hints}), input=given)]
        try:
            handler({key: value for key, value in given.items() if key in cls.model_fields})
        except ValidationError as others:
            wrong += [_again(each) for each in others.errors()]
        raise ValidationError.from_exception_data(cls.__name__, wrong)

    def to_config(self) -> SubAgentConfig:
        """The same subagent as a `SubAgentConfig`, holding only what was set."""
        given = {key: _plain(value) for key, value in self if value is not None and (key != "extra" or value)}
        return cast("SubAgentConfig", given)

    @classmethod
    def from_config(cls, config: SubAgentConfig) -> "SubAgentSpec":
        """The part of `config` that a file can hold; its live objects (`PYTHON_ONLY`) stay behind.

        Raises:
            pydantic.ValidationError: a value is wrong, or a key is unknown.
        """
        data = {key: value for key, value in config.items() if key not in PYTHON_ONLY}
        model = data.get("model")
        if model is not None and not isinstance(model, str):
            data["model"] = str(getattr(model, "model_id", model))
        return cls.model_validate(data)


def _plain(value: object) -> object:
    return value.model_dump() if isinstance(value, BaseModel) else copy(value)


def hint_for(key: str, known: Mapping[str, object]) -> str:
    """What to write in place of a `key` that is not `known`."""
    if key in PYTHON_ONLY:
        return "which only Python code can set (SubAgentConfig)"
    return did_you_mean(key, known)


def _again(error: ErrorDetails) -> InitErrorDetails:
    told = PydanticCustomError("wrong_value", "{message}", {"message": error["msg"]})
    return InitErrorDetails(type=told, loc=error["loc"], input=error["input"])
