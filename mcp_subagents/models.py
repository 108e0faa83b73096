"""From the names in a definition to models that are ready to ask, whose connections all tasks share."""

import inspect
import logging
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
from pydantic_ai import Tool
from pydantic_ai import exceptions as pai
from pydantic_ai.models import Model, infer_model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

from mcp_subagents.config.providers import DEMO, EXTRAS, install_hint, require_key, why_no_model
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.errors import ConfigError
from mcp_subagents.evidence import evidence_of
from mcp_subagents.faults import classify
from mcp_subagents.model_addresses import Address, address, addresses, provider_of
from mcp_subagents.texts import brief
from mcp_subagents.types import FailureType

logger = logging.getLogger(__name__)

_NO_KEY = "not-needed"
"""What a gateway is sent that wants no key. The clients insist on one, and would else send it the provider's own."""
_PATIENCE = 1.0
"""Seconds for the goodbyes to all providers."""


class Models:
    """The models of a process. Each is made once, so that all tasks share its connections."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._env = env
        self._models: dict[Address | tuple[Address, ...], Model] = {}
        self._providers: dict[object, Provider[Any]] = {}
        self._users = 0

    @asynccontextmanager
    async def in_use(self) -> AsyncGenerator[None]:
        """For as long as the block lasts, connections are kept; when the last such block ends, they are closed."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                with anyio.move_on_after(_PATIENCE, shield=True):
                    await self._close()

    async def _close(self) -> None:
        for provider in self._providers.values():
            try:
                # Leaving it closes its client; another one is made if it is used again.
                async with provider:
                    pass
            except Exception:
                # Whatever a client makes of its end, nobody needs it any more.
                logger.debug("the client of %s did not close", provider.name, exc_info=True)

    def model_for(self, config: SubAgentConfig, default_model: "str | Model | None") -> Model:
        """The model of a subagent, with those it falls back to.

        Raises:
            ConfigError: there is none, its name is not known, its package or its key is missing.
        """
        chosen = config.get("model") or default_model
        if chosen is None:
            raise ConfigError(why_no_model(self._env))
        others = [self._made(address(name, config, default_model)) for name in config.get("fallback_models", ())]
        if isinstance(chosen, Model):
            return FallbackModel(chosen, *others, fallback_on=another_model_may_help) if others else chosen
        chain = addresses(config, default_model)
        if len(chain) == 1:
            return self._made(chain[0])
        if chain not in self._models:
            first = self._made(chain[0])
            self._models[chain] = FallbackModel(first, *others, fallback_on=another_model_may_help)
        return self._models[chain]

    def _made(self, place: Address) -> Model:
        if place not in self._models:
            try:
                self._models[place] = self._make(place)
            except ImportError as why:
                extra = EXTRAS.get(provider_of(place.model))
                hint = install_hint(extra) if extra else f"{brief(str(why))}."
                raise ConfigError(f"The package for the model {place.model!r} is missing: {hint}") from why
            except (pai.UserError, ValueError) as why:
                raise ConfigError(f"The model {place.model!r} cannot be used: {_told(why)}{_hint(place)}") from why
        return self._models[place]

    def _make(self, place: Address) -> Model:
        if place.model == DEMO:
            from mcp_subagents.demo.model import DemoModel  # here, since hardly any server has one

            return DemoModel(place.base_url)
        key = require_key(place.api_key_env, self._env) if place.api_key_env else None
        return infer_model(_spoken_of(place), lambda provider: self._provider(provider, place, key))

    def _provider(self, name: str, place: Address, key: str | None) -> Provider[Any]:
        kind = name if name.startswith("gateway/") else infer_provider_class(name)
        door = (kind, place.base_url, place.api_key_env)
        if door not in self._providers:
            elsewhere = place.base_url is not None or key is not None
            made = _provider_at(name, place.base_url, key) if elsewhere else infer_provider(name)
            self._providers[door] = made
        return self._providers[door]


def _provider_at(name: str, base_url: str | None, key: str | None) -> Provider[Any]:
    """The provider of that name at another address, or with another key."""
    kind = infer_provider_class(name)
    takes = inspect.signature(kind).parameters
    if base_url is None:
        if "api_key" not in takes:
            raise ConfigError(f"Models of {name!r} do not take a key (`api_key_env`).")
        return kind(api_key=key)  # pyright: ignore[reportCallIssue]  # it takes one, as its signature says
    if name in _OPENAI:
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        return OpenAICompatibleProvider("openai", base_url=base_url, api_key=key or _NO_KEY)
    url = next((each for each in ("base_url", "api_base") if each in takes), None)
    if url is None:
        raise ConfigError(
            f"Models of {name!r} cannot be reached at another address (`base_url`); "
            "for a gateway that speaks OpenAI's language, name the model openai:NAME."
        )
    return kind(**{url: base_url, "api_key": key or _NO_KEY})


_OPENAI = ("openai", "openai-chat", "openai-responses")


def _spoken_of(place: Address) -> str:
    """The model's name as pydantic-ai knows it. What a gateway serves is asked for by the API that all of them have."""
    provider, _, name = place.model.partition(":")
    return f"openai-chat:{name}" if place.base_url is not None and provider == "openai" else place.model


def _told(why: Exception) -> str:
    """What pydantic-ai says, but for what it says to those who write Python."""
    told = brief(str(why).split(" or pass it via", 1)[0].split(" To try Pydantic AI", 1)[0])
    return told if told.endswith("?") else f"{told}."


def _hint(place: Address) -> str:
    return f" For a gateway that speaks OpenAI's language, name it openai:{place.model}." if place.base_url else ""


def another_model_may_help(exc: Exception) -> bool:
    """Whether to turn to the next model: this one is busy, broken, barred to us, unknown, or its window too small.

    A request that was rejected for what it says would not become a better one.
    """
    if isinstance(exc, pai.ModelContextWindowExceededError):
        return True
    fault = classify(exc)
    is_of_model = (evidence := evidence_of(exc)) is not None and evidence.model is not None
    return fault.is_transient or (is_of_model and fault.failure_type is not FailureType.VALIDATION)


def tools_of(model: Model) -> Sequence[Tool[Any]]:
    """The tools that a model brings along: none, but for the demo model, which could not take several turns else."""
    if model.system != DEMO:
        return ()
    from mcp_subagents.demo.model import STEP_TOOL

    return (STEP_TOOL,)


def settings_for(config: SubAgentConfig) -> dict[str, Any]:
    """What an agent is told to ask of its model; a model that cannot think leaves it at that."""
    effort = config.get("effort")
    given: object = config.get("agent_kwargs", {}).get("model_settings") or {}
    if effort is None or not isinstance(given, Mapping):
        return {}
    return {"model_settings": {**cast("Mapping[str, Any]", given), "thinking": effort}}
