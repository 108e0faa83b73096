"""From a subagent's definition to an agent that is ready to run."""

import logging
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai import Agent
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model
from pydantic_ai.models.instrumented import InstrumentationSettings

from mcp_subagents import telemetry
from mcp_subagents.asking import ASK_PARENT, ASKING, may_ever_ask
from mcp_subagents.config.definitions import Definition
from mcp_subagents.config.roster import by_name
from mcp_subagents.config.spec import PYTHON_ONLY
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.equipment.kits import Equipment
from mcp_subagents.equipment.rehearsal import may_lack_something, rehearse
from mcp_subagents.errors import UnknownSubagent
from mcp_subagents.journal import JournalledTools
from mcp_subagents.model_addresses import account_of, requested_model
from mcp_subagents.models import Models, settings_for, tools_of
from mcp_subagents.nesting import delegation_tools, delegation_toolset
from mcp_subagents.outputs import output_for, repairs_left, require_fit
from mcp_subagents.own_capability import capability_beside
from mcp_subagents.prompts import SUBAGENT_SYSTEM_PROMPT

logger = logging.getLogger(__name__)

MOST_COMPILED = 100
"""Definitions that are kept ready to run; one that is not is made again from what is stored."""


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
    delegation: object | None = None
    """The toolset with which it delegates itself, if it may."""
    delegates: Mapping[str, SubAgentConfig] | None = None
    """Those that it may delegate to, by their names; `None` if it may not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """What a task takes along of its subagent."""

    config: SubAgentConfig
    definition: str | None
    """As JSON, and enough for any process; `None` if live objects are in it, or in one that it may delegate to."""
    model: str | None
    """The model that it is to run on, by its name; `None` if nobody can tell."""
    provider: str
    """Whose models it uses: tasks with the same answer share a cooldown."""


class Roster:
    """The subagents of a process, each compiled when it is first needed."""

    def __init__(
        self,
        configs: Iterable[SubAgentConfig] | Mapping[str, SubAgentConfig],
        *,
        default_model: "str | Model | None" = None,
        equipment: Equipment | None = None,
    ) -> None:
        self.equipment = equipment or Equipment()
        # A mapping is looked at anew every time: it may follow its files.
        given = cast("Mapping[str, SubAgentConfig]", configs) if isinstance(configs, Mapping) else by_name(configs)
        self._configs = given
        self._default_model = default_model
        self._models = Models()
        self._compiled: dict[str, CompiledSubAgent] = {}
        """By their stored definitions, the one that was used last at the end."""
        self._resident: dict[str, tuple[Definition, CompiledSubAgent]] = {}
        """Those that no definition can stand for, by their names."""

    @asynccontextmanager
    async def open(self, *, looking: bool = True) -> AsyncGenerator[None]:
        """Keep connections to models and let tool servers run for as long as the block lasts; then none is left.

        If `looking`, the tools that definitions name are looked for meanwhile, so that a mistake is in the log before
        a task meets it.
        """
        async with self._models.in_use(), self.equipment.open(self._look_for_tools if looking else _rest):
            yield

    async def _look_for_tools(self) -> None:
        for name, config in list(self._configs.items()):
            if may_lack_something(config):
                try:
                    await self.check(name)
                except Exception as exc:
                    logger.error("the subagent %s cannot work: %s", name, exc)

    async def check(self, name: str) -> None:
        """Bring up all that the subagent works with, but for its model; while `open` only.

        Raises:
            UnknownSubagent: there is none of that name.
            ConfigError: its definition is wrong, or names a tool that does not exist.
            ToolServerDown: a tool server of it does not start.
        """
        compiled = self.compiled(name, self.definition(name))
        if compiled.is_ours:
            await rehearse(cast("Agent[Any, Any]", compiled.agent))

    @property
    def configs(self) -> Mapping[str, SubAgentConfig]:
        return self._configs

    @property
    def resident(self) -> frozenset[str]:
        """The names of subagents that no stored definition can stand for."""
        return frozenset(name for name in self._configs if self.definition(name) is None)

    def _is_resident(self, definition: Definition) -> bool:
        # One that delegates to such a subagent is one itself: it can work only where that is.
        return any(
            PYTHON_ONLY & config.keys() or isinstance(config.get("model", self._default_model), Model)
            for config in definition.subagents.values()
        )

    def config(self, name: str) -> SubAgentConfig:
        """The subagent of that name. Raises: `UnknownSubagent`."""
        if name not in self._configs:
            raise UnknownSubagent(name, self._configs)
        return self._configs[name]

    def definition(self, name: str) -> str | None:
        """The definition as JSON, to be stored with a task; `None` if it holds live objects."""
        return self.assignment(name).definition

    def assignment(self, name: str, above: str | None = None) -> Assignment:
        """What a task of that subagent takes along.

        `above` is the definition of the task that delegates: those that it defines are as they were when it began.

        Raises:
            UnknownSubagent: there is none of that name.
            ConfigError: it names what is not there.
        """
        known: Mapping[str, SubAgentConfig] = {} if above is None else Definition.loaded(above).subagents
        definition = Definition.of(name, known) if name in known else self._current(name)
        config = definition.config
        return Assignment(
            config=config,
            definition=None if self._is_resident(definition) else definition.dumped(),
            model=requested_model(config, self._default_model),
            provider=account_of(config, self._default_model),
        )

    def _current(self, name: str) -> Definition:
        self.config(name)
        return Definition.of(name, self._configs, self._closed)

    def _closed(self, config: SubAgentConfig) -> SubAgentConfig:
        config = self.equipment.closed(config)
        if isinstance(self._default_model, str) and not config.get("model") and not PYTHON_ONLY & config.keys():
            return {**config, "model": self._default_model}
        return config

    def compiled(self, name: str, definition: str | None) -> CompiledSubAgent:
        """The agent for a task: from the definition stored with it, or else from this process's own.

        Raises:
            ConfigError: it cannot be made from its definition.
        """
        if definition is None:
            return self._compiled_here(name)
        compiled = self._compiled.pop(definition, None) or self._compile(Definition.loaded(definition))
        self._compiled[definition] = compiled
        while len(self._compiled) > MOST_COMPILED:
            del self._compiled[next(iter(self._compiled))]
        return compiled

    def _compiled_here(self, name: str) -> CompiledSubAgent:
        definition = self._current(name)
        if name not in self._resident or self._resident[name][0] != definition:
            self._resident[name] = definition, self._compile(definition)
        return self._resident[name][1]

    def _compile(self, definition: Definition) -> CompiledSubAgent:
        config, names = definition.config, definition.config.get("subagents") or ()
        # One that was stored without them finds its delegates here, by their names.
        found = {name: definition.subagents.get(name) or self._configs.get(name) for name in names}
        delegates = {name: each for name, each in found.items() if each is not None}
        return CompiledSubAgent(
            name=definition.name,
            description=config.get("description", ""),
            config=config,
            agent=_agent(config, self._models, self._default_model, self.equipment, delegates),
            is_ours=not {"agent", "agent_factory"} & config.keys(),
            delegation=delegation_toolset(names, delegates) if names else None,
            delegates=delegates if names else None,
        )


async def _rest() -> None:
    """Do nothing beside the tool servers."""


def _agent(
    config: SubAgentConfig,
    models: Models,
    default_model: "str | Model | None",
    equipment: Equipment,
    others: Mapping[str, SubAgentConfig],
) -> Any:
    if (ready := config.get("agent")) is not None:
        return ready
    if (factory := config.get("agent_factory")) is not None:
        return factory(config)
    kit = equipment.kit(config)
    given: dict[str, Any] = {**config.get("agent_kwargs", {}), **settings_for(config), **output_for(config)}
    given["tools"] = [*given.get("tools", ()), *([ASK_PARENT] if may_ever_ask(config) else ())]
    given["tools"] += delegation_tools(config.get("subagents", ()), others)
    model = models.model_for(config, default_model)
    given["tools"] += tools_of(model)
    capabilities = [*given.get("capabilities", ()), *kit.capabilities]
    given["capabilities"] = [*capabilities, capability_beside(capabilities)]
    agent = Agent[Any, Any](
        model,
        name=config.get("name"),
        instructions=[SUBAGENT_SYSTEM_PROMPT, config.get("instructions", ""), *kit.instructions],
        toolsets=[*(config.get("toolsets") or ()), *kit.toolsets],
        **given,
    )
    require_fit(agent, config)
    return agent


def additions(subagent: CompiledSubAgent, history: list[ModelMessage], *, trace_content: bool) -> dict[str, Any]:
    """What a run of the agent needs beside what is in it."""
    added = repairs_left(subagent.config, history)
    if not subagent.is_ours:
        added["capabilities"] = [JournalledTools()]
        added["toolsets"] = [ASKING] if may_ever_ask(subagent.config) else []
        added["toolsets"] += [subagent.delegation] if subagent.delegation is not None else []
    agent: Agent[Any, Any] = subagent.agent  # pyright: ignore[reportAssignmentType]
    if traced := tracing(agent, with_content=trace_content):
        added["capabilities"] = [*added.get("capabilities", []), traced]
    return added


def tracing(agent: Agent[Any, Any], *, with_content: bool) -> Instrumentation | None:
    """What traces the turns and tools of a run, if anybody takes spans; an agent that has its own keeps that."""
    if not telemetry.is_on() or agent.instrument:
        return None
    return Instrumentation(
        InstrumentationSettings(include_content=with_content, include_model_request_parameters=with_content)
    )
