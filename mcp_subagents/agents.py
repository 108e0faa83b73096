"""From a subagent's definition to an agent that is ready to run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic_ai import Agent
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models import Model
from pydantic_ai.models.instrumented import InstrumentationSettings

from mcp_subagents import telemetry
from mcp_subagents.asking import ASK_PARENT, may_ever_ask
from mcp_subagents.config.roster import by_name
from mcp_subagents.config.spec import PYTHON_ONLY, SubAgentSpec
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.errors import ConfigError, UnknownSubagent
from mcp_subagents.journal import JournalledTools
from mcp_subagents.prompts import SUBAGENT_SYSTEM_PROMPT


@dataclass(frozen=True, slots=True)
class CompiledSubAgent:
    """A subagent that is ready to run."""

    name: str
    description: str
    config: SubAgentConfig
    agent: object | None = None
    """The pydantic-ai agent."""
    is_ours: bool = False
    """Whether we built the agent, with our tools in it; to one that somebody else built, each run adds them."""


_HOME = frozenset({"api.openai.com", "api.anthropic.com"})
"""Where the providers themselves are: a model that goes there shares the account of one that does not say."""


class Roster:
    """The subagents of a process, each compiled when it is first needed."""

    def __init__(
        self,
        configs: Iterable[SubAgentConfig] | Mapping[str, SubAgentConfig],
        *,
        default_model: "str | Model | None" = None,
    ) -> None:
        # A mapping is used as it is: it may follow its files.
        given = cast("Mapping[str, SubAgentConfig]", configs) if isinstance(configs, Mapping) else by_name(configs)
        self._configs = given
        self._default_model = default_model
        self._compiled: dict[str, CompiledSubAgent] = {}

    @property
    def configs(self) -> Mapping[str, SubAgentConfig]:
        return self._configs

    @property
    def resident(self) -> frozenset[str]:
        """The names of subagents that no stored definition can stand for."""
        return frozenset(name for name in self._configs if self.definition(name) is None)

    def config(self, name: str) -> SubAgentConfig:
        """The subagent of that name. Raises: `UnknownSubagent`."""
        if name not in self._configs:
            raise UnknownSubagent(name, self._configs)
        return self._configs[name]

    def definition(self, name: str) -> str | None:
        """The definition as JSON, to be stored with a task; `None` if it holds live objects."""
        config = self.config(name)
        model = config.get("model", self._default_model)
        if PYTHON_ONLY & config.keys() or isinstance(model, Model):
            return None
        spec = SubAgentSpec.from_config(config)
        return spec.model_copy(update={"model": model}).model_dump_json(exclude_none=True)

    def provider(self, name: str) -> str:
        """Whose model the subagent uses: tasks with the same answer share a cooldown."""
        config = self.config(name)
        model: object = config.get("model") or getattr(config.get("agent"), "model", None) or self._default_model
        if isinstance(model, Model):
            host = urlsplit(model.base_url or "").hostname or ""
            return model.system if host in _HOME or not host else f"{model.system} {host}"
        # `openai-responses:gpt-5` and `openai-chat:gpt-5` are one account.
        return str(model).partition(":")[0].removesuffix("-responses").removesuffix("-chat") if model else ""

    def compiled(self, name: str, definition: str | None) -> CompiledSubAgent:
        """The agent for a task: from the definition stored with it, or else from this process's own.

        Raises:
            ConfigError: it cannot be made from its definition.
        """
        key = definition if definition is not None else f"name:{name}"
        if key not in self._compiled:
            config = (
                self.config(name) if definition is None else SubAgentSpec.model_validate_json(definition).to_config()
            )
            self._compiled[key] = _compile(config, self._default_model)
        return self._compiled[key]


def _compile(config: SubAgentConfig, default_model: "str | Model | None") -> CompiledSubAgent:
    name = config.get("name", "")
    return CompiledSubAgent(
        name=name,
        description=config.get("description", ""),
        config=config,
        agent=_agent(config, default_model),
        is_ours=not {"agent", "agent_factory"} & config.keys(),
    )


def _agent(config: SubAgentConfig, default_model: "str | Model | None") -> Any:
    if (ready := config.get("agent")) is not None:
        return ready
    if (factory := config.get("agent_factory")) is not None:
        return factory(config)
    model = config.get("model") or default_model
    if model is None:
        raise ConfigError(
            f"The subagent {config.get('name', '')!r} has no model. Give it one (`model: openai:gpt-5`), "
            "or set MCP_SUBAGENTS_MODEL."
        )
    given: dict[str, Any] = dict(config.get("agent_kwargs", {}))
    given["tools"] = [*given.get("tools", ()), *([ASK_PARENT] if may_ever_ask(config) else ())]
    given["capabilities"] = [*given.get("capabilities", ()), JournalledTools()]
    return Agent[Any, Any](
        model,
        name=config.get("name"),
        instructions=[SUBAGENT_SYSTEM_PROMPT, config.get("instructions", "")],
        toolsets=config.get("toolsets"),
        **given,
    )


def tracing(agent: Agent[Any, Any], *, with_content: bool) -> Instrumentation | None:
    """What traces the turns and tools of a run, if anybody takes spans; an agent that has its own keeps that."""
    if not telemetry.is_on() or agent.instrument:
        return None
    return Instrumentation(
        InstrumentationSettings(include_content=with_content, include_model_request_parameters=with_content)
    )
