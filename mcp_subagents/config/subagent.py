"""A subagent as Python code defines it."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from pydantic_ai import RunContext, UsageLimits
    from pydantic_ai.models import Model


class SubAgentConfig(TypedDict, total=False):
    """A subagent: its name, what the host is told of it, its instructions, and how it runs."""

    name: str
    """How the host calls it; one of a kind."""
    description: str
    """What it is good for, as the host's model reads it."""
    instructions: str
    """What the subagent itself is told."""
    model: NotRequired["str | Model"]
    """A pydantic-ai model or its name; without it, the default model."""
    agent: NotRequired[Any]
    """A ready-made pydantic-ai agent, used as it is."""
    agent_factory: NotRequired[Callable[..., Any]]
    """Called with this config to make the agent, where `agent` is not given."""
    can_ask_questions: NotRequired[bool]
    """Whether it may ask its parent."""
    max_questions: NotRequired[int]
    """How many questions one task may ask."""
    preferred_mode: NotRequired[Literal["sync", "async", "auto"]]
    """Whether the host waits for its tasks, when the caller leaves that open."""
    typical_complexity: NotRequired[Literal["simple", "moderate", "complex"]]
    """What its tasks are like when the caller does not say."""
    typically_needs_context: NotRequired[bool]
    """Whether its tasks need the user at hand when the caller does not say."""
    toolsets: NotRequired[list[Any]]
    """pydantic-ai toolsets it may use."""
    agent_kwargs: NotRequired[dict[str, Any]]
    """More arguments for pydantic-ai's `Agent`."""
    context_files: NotRequired[list[str]]
    """Files whose text joins its instructions."""
    extra: NotRequired[dict[str, Any]]
    """Yours: carried along, never read."""
    max_retries: NotRequired[int]
    """Further attempts after a transient failure; 0 for none (default 3)."""
    retry_initial_delay: NotRequired[float]
    """Seconds before the first retry (default 1.0)."""
    retry_max_delay: NotRequired[float]
    """The longest backoff in seconds (default 30.0)."""
    retry_backoff_multiplier: NotRequired[float]
    """How much longer each backoff is than the one before (default 2.0)."""
    retry_jitter: NotRequired[bool]
    """Whether a backoff is shortened at random, so that many subagents do not come back at once (default true)."""
    retry_on: NotRequired[Callable[[BaseException], bool]]
    """Decides which exceptions are transient, in place of `is_transient_error`."""
    limits: NotRequired[dict[str, float | None]]
    """What one task may use, where it differs from the default (see `Limits`)."""
    max_concurrency: NotRequired[int]
    """How many of its tasks may run at a time."""
    question_timeout: NotRequired[float]
    """Seconds that a question may stay open."""
    fallback_models: NotRequired[list[str]]
    """Models to turn to, in order, when the first one fails."""
    base_url: NotRequired[str]
    """Where an OpenAI-compatible gateway is that serves the model."""
    api_key_env: NotRequired[str]
    """The variable that holds the key for the model or its gateway."""
    effort: NotRequired[Literal["low", "medium", "high"]]
    """How hard the model thinks, where it can."""
    mcp_servers: NotRequired[dict[str, dict[str, Any]] | list[str | dict[str, Any]]]
    """MCP servers whose tools it may use, in the form of the hosts' `mcpServers`, or by name."""
    capabilities: NotRequired[list[str | dict[str, Any]]]
    """pydantic-ai capabilities by name, each alone or with its settings: `{WebSearch: {...}}`."""
    workspace: NotRequired[Any]
    """A directory it may look into: a path, or `{path, read_only}`."""
    python_tools: NotRequired[list[str]]
    """Toolsets or functions by import path, `package.module:name`, where the operator allows that."""
    tools: NotRequired[list[str]]
    """The only tools it may use, by name or pattern (`server__*`)."""
    disallowed_tools: NotRequired[list[str]]
    """Tools it may not use."""
    subagents: NotRequired[list[str]]
    """The subagents it may delegate to itself."""
    output_schema: NotRequired[dict[str, Any]]
    """The JSON schema of its result, which is then an object."""


ToolsetFactory = Callable[[Any], list[Any]]
"""Makes the toolsets of a subagent from the dependencies of its run."""

UsageLimitsFactory = Callable[["RunContext[Any]", SubAgentConfig], "UsageLimits | None"]
"""Chooses the usage limits of one task; `None` for no explicit limits."""

AskUserCallback = Callable[[str], Awaitable[str]]
"""Answers the question a subagent asks in sync mode."""
