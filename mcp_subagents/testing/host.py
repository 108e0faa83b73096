"""An app in memory that delegates to your subagents, on models of your script."""

import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mcp_subagents.config.environment import ServerConfig, examine
from mcp_subagents.config.limits import EngineSettings
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.equipment.sound_files import sound
from mcp_subagents.store import Store

if TYPE_CHECKING:
    from mcp import Client

PATIENCE = 30.0
"""Seconds that a call may last before the test fails."""

_NEVER_GIVES_UP = 24 * 3600.0
"""Seconds that the server may make a call last: longer than any test."""
_REACHED_BY = ("fallback_models", "base_url", "api_key_env")


class Host:
    """What an app does with the delegation tools. Tasks are dictionaries, as they go over the wire."""

    client: "Client"
    """The connection, for everything else: resources, prompts, subscriptions."""

    def __init__(self, client: "Client", patience: float) -> None:
        self.client = client
        self._patience = patience

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """What a tool returns.

        Raises:
            AssertionError: it refuses; the message has its words.
            TimeoutError: it takes too long.
        """
        with anyio.fail_after(self._patience):
            result = await self.client.call_tool(tool, arguments)
        words = "\n".join(getattr(each, "text", "") for each in result.content)
        assert not result.is_error, f"{tool}: {words}"
        return cast("dict[str, Any]", result.structured_content)

    async def delegate(self, description: str, subagent: str = "general-purpose", **more: object) -> dict[str, Any]:
        """A new task, once it has ended or asks. Raises: as `call`."""
        return await self.call("task", description=description, subagent_type=subagent, **more)

    async def start(self, description: str, subagent: str = "general-purpose", **more: object) -> str:
        """The id of a new task, which runs in the background. Raises: as `call`."""
        return (await self.delegate(description, subagent, mode="async", **more))["task_id"]

    async def wait(self, *task_ids: str) -> list[dict[str, Any]]:
        """The tasks, once all of them have ended or one asks. Raises: as `call`."""
        return (await self.call("wait_tasks", task_ids=list(task_ids)))["tasks"]

    async def answer(self, task_id: str, answer: str, question_id: str = "") -> dict[str, Any]:
        """The task, once it has ended or asks again. Raises: as `call`."""
        await self.call("answer_subagent", task_id=task_id, answer=answer, question_id=question_id)
        return (await self.wait(task_id))[0]


@asynccontextmanager
async def host(
    subagents: str | Path | Iterable[SubAgentConfig | SubAgentSpec],
    models: Mapping[str, Model] | None = None,
    *,
    store: Store | Path | None = None,
    settings: EngineSettings | None = None,
    patience: float = PATIENCE,
) -> AsyncGenerator[Host]:
    """A host that is connected to a server with these subagents, for as long as the block lasts.

    `subagents` is the path of a configuration file, read as the server reads it, or definitions from Python. `models`
    says, by the name of a subagent, which model plays its own. No other model is asked by name: a task of a subagent
    that is missing there fails, and says so. A ready-made agent, or model, is used as it is. Retries do not wait.
    Tools, tool servers, workspaces and limits are those of the definitions. Tasks are kept in memory, or in `store`. A
    call that takes longer than `patience`, in seconds, fails the test.

    Raises:
        ConfigError: something is wrong with the file, or a definition.
        ValueError: `models` names what cannot be played.
    """
    # Loaded here: those who need nothing but a scripted model need not wait for a server.
    from mcp import Client

    from mcp_subagents.server import GENERAL_PURPOSE, DeliverySettings, create_server
    from mcp_subagents.store.memory import MemoryStore

    if isinstance(subagents, str | Path):
        said = sound(examine(subagents, os.environ))
        defined: Sequence[SubAgentConfig | SubAgentSpec] = said.subagents
    else:
        said, defined = ServerConfig(), list(subagents)
    server = create_server(
        played(defined or [GENERAL_PURPOSE], models or {}),
        store=MemoryStore() if store is None else store,
        settings=settings or said.settings,
        delivery=DeliverySettings(sync_patience=_NEVER_GIVES_UP),
        mcp_servers=said.mcp_servers,
        allow_python_tools=said.allow_python_tools,
        folder=said.folder,
    )
    failure: Exception | None = None
    async with Client(server) as client:
        try:
            yield Host(client, patience)
        except Exception as exc:
            # Raised again outside, or the client would wrap it: a test fails by its own error, as it is.
            failure = exc
    if failure is not None:
        raise failure


def played(subagents: Iterable[SubAgentConfig | SubAgentSpec], models: Mapping[str, Model]) -> list[SubAgentConfig]:
    """`subagents`, none of which asks a provider: each runs on its model in `models`, or on what it brings along.

    Raises:
        ValueError: `models` names a subagent that there is none of, or that brings an agent of its own.
    """
    configs = [each.to_config() if isinstance(each, SubAgentSpec) else each for each in subagents]
    names = [config.get("name", "") for config in configs]
    if unknown := sorted(models.keys() - set(names)):
        raise ValueError(f"`models` names {', '.join(unknown)}; the subagents are {', '.join(names)}.")
    return [_played(config, models.get(config.get("name", ""))) for config in configs]


def _played(config: SubAgentConfig, model: Model | None) -> SubAgentConfig:
    name = config.get("name", "")
    if "agent" in config or "agent_factory" in config:
        if model is not None:
            raise ValueError(f"{name} brings an agent of its own: script the model of that agent instead.")
        at_once: Any = {**config, "retry_initial_delay": 0.0}
        return SubAgentConfig(**at_once)
    own = config.get("model")
    playing = model or (own if isinstance(own, Model) else _nobody(name))
    kept: Any = {key: value for key, value in config.items() if key not in _REACHED_BY}
    kept |= {"model": playing, "retry_initial_delay": 0.0}
    return SubAgentConfig(**kept)


def _nobody(name: str) -> FunctionModel:
    """A model that says, whenever it is asked, that there is none."""

    def refuse(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        raise UserError(f"No model plays {name} in this test: give `models` one for it.")

    return FunctionModel(refuse)
