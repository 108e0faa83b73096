"""Where the models of a subagent are asked, with whose key, and what an answer says of its model. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model

from mcp_subagents.config.providers import DEMO, PROVIDERS
from mcp_subagents.config.subagent import SubAgentConfig

_HOME = frozenset({"api.openai.com", "api.anthropic.com"})
"""Where the providers themselves are: a model that goes there shares the account of one that does not say."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a model is asked, and with which key."""

    model: str
    base_url: str | None = None
    api_key_env: str | None = None


def addresses(config: SubAgentConfig, default_model: "str | Model | None") -> tuple[Address, ...]:
    """Where the subagent's models are asked, as far as their names say: the first, then those it falls back to."""
    chosen = config.get("model") or default_model
    names = [*([chosen] if isinstance(chosen, str) else ()), *config.get("fallback_models", ())]
    return tuple(address(name, config, default_model) for name in names)


def address(name: str, config: SubAgentConfig, default_model: "str | Model | None") -> Address:
    """`base_url` and `api_key_env` are of the subagent's first model, and of all others of the same provider."""
    first = config.get("model") or default_model
    at = config.get("base_url")
    name, first = _full(name, at), _full(first, at) if isinstance(first, str) else ""
    if provider_of(name) != provider_of(first):
        return Address(name)
    return Address(name, at, config.get("api_key_env"))


def _full(name: str, base_url: str | None) -> str:
    """A bare name at a gateway is that of an OpenAI-compatible model."""
    return f"openai:{name}" if base_url is not None and ":" not in name and name != DEMO else name


def provider_of(name: str) -> str:
    # `openai-responses:gpt-5` and `openai-chat:gpt-5` are one account.
    return name.partition(":")[0].removesuffix("-responses").removesuffix("-chat")


def requested_model(config: SubAgentConfig, default_model: "str | Model | None") -> str | None:
    """The name of the model that a subagent is to run on."""
    model = _first_model(config, default_model)
    return model.model_id if isinstance(model, Model) else model


def _first_model(config: SubAgentConfig, default_model: "str | Model | None") -> "str | Model | None":
    if (agent := config.get("agent")) is not None:
        return getattr(agent, "model", None)
    # What a factory makes of a subagent without a model, only it knows.
    return config.get("model") or (None if "agent_factory" in config else default_model)


def account_of(config: SubAgentConfig, default_model: "str | Model | None") -> str:
    """Whose models the subagent uses. Subagents with the same answer are slowed down together.

    One that can fall back on another provider goes on while the first is busy, and so is by itself.
    """
    model = _first_model(config, default_model) or default_model
    named = config.get("agent") is None and config.get("agent_factory") is None
    accounts = [_account_of_model(model)] if isinstance(model, Model) else []
    if named:
        accounts += map(_account, addresses(config, default_model))
    elif isinstance(model, str):
        accounts.append(_account(Address(model)))
    return ", ".join(dict.fromkeys(accounts))


def _account_of_model(model: Model) -> str:
    host = urlsplit(model.base_url or "").hostname or ""
    return model.system if host in _HOME or not host else f"{model.system} {host}"


def _account(address: Address) -> str:
    provider = provider_of(address.model)
    host = urlsplit(address.base_url or "").netloc.rpartition("@")[2]
    own_key = address.api_key_env not in {None, *(each.variable for each in PROVIDERS if each.name == provider)}
    told = [provider, host if host not in _HOME else "", address.api_key_env or "" if own_key else ""]
    return " ".join(part for part in told if part)


def answered_by(messages: Sequence[ModelMessage]) -> str | None:
    """The model that gave the last answer, as it names itself."""
    last = messages[-1] if messages else None
    if not isinstance(last, ModelResponse) or not last.model_name:
        return None
    return f"{last.provider_name}:{last.model_name}" if last.provider_name else last.model_name
