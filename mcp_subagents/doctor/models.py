"""Whether every model that a subagent names can be asked, and with `--live` whether it answers."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

import anyio

from mcp_subagents.config.providers import EXTRAS, PROVIDERS
from mcp_subagents.config.subagent import SubAgentConfig
from mcp_subagents.doctor.circumstances import Circumstances
from mcp_subagents.doctor.findings import Finding, fine, problem, warning
from mcp_subagents.errors import ConfigError
from mcp_subagents.model_addresses import Address, addresses, provider_of
from mcp_subagents.models import Models
from mcp_subagents.probing import Answered, Refused, ask

_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b")


async def models(there: Circumstances) -> Iterable[Finding]:
    """Keys and packages of all models, and their answers if they are asked."""
    if there.config is None:
        return ()
    found: list[Finding] = []
    if there.config.lacks_model:
        lacking = ", ".join(each.get("name", "") for each in there.subagents if not each.get("model"))
        told = f"There is no model for {lacking}: none is named, and no key of a provider is set whose package is here."
        found.append(problem("models", told, _way_to_a_model(there.env)))
    known, reached = Models(there.env), dict[Address, Finding]()
    users = _users(there.subagents, there.config.model)
    async with known.in_use(), anyio.create_task_group() as group:

        async def look(address: Address) -> None:
            reached[address] = await _looked(address, users[address], known, there)

        for address in users:
            group.start_soon(look, address)
    found += [reached[address] for address in users]
    found += _untidy(users, there.env)
    return found


def keys_in_use(there: Circumstances) -> Sequence[str]:
    """The variables that hold the keys of the models here."""
    if there.config is None:
        return ()
    found: dict[str, None] = {}
    for address in _users(there.subagents, there.config.model):
        own = [each.variable for each in PROVIDERS if each.name == provider_of(address.model)]
        names = [address.api_key_env] if address.api_key_env else [] if address.base_url else own
        found |= dict.fromkeys(name for name in names if there.env.get(name))
    return list(found)


def _users(subagents: Sequence[SubAgentConfig], default: str | None) -> Mapping[Address, Sequence[str]]:
    """Who uses which model."""
    found: dict[Address, list[str]] = {}
    for config in subagents:
        for address in addresses(config, default):
            names = found.setdefault(address, [])
            if (name := config.get("name", "")) not in names:
                names.append(name)
    return found


async def _looked(address: Address, users: Sequence[str], known: Models, there: Circumstances) -> Finding:
    who = f"{address.model}{f' at {address.base_url}' if address.base_url else ''} ({', '.join(users)})"
    try:
        model = known.model_for(_alone(address), None)
    except ConfigError as why:
        told = str(why).removeprefix(f"The model {address.model!r} ")
        return problem("models", f"{who}: {told}", remedy_for(address, why))
    if not there.options.live:
        return fine("models", f"{who}: {_key(address, there.env)}; not asked, --live does.")
    match await ask(model, patience=there.options.patience):
        case Answered(seconds, cost):
            return fine("models", f"{who}: answered in {seconds:.1f} s for {_price(cost)}.")
        case Refused(why, remedy):
            return problem("models", f"{who}: {why}", remedy)


def _alone(address: Address) -> SubAgentConfig:
    """A subagent with that model and no other."""
    config = SubAgentConfig(name="doctor", description="", instructions="", model=address.model)
    if address.base_url is not None:
        config["base_url"] = address.base_url
    if address.api_key_env is not None:
        config["api_key_env"] = address.api_key_env
    return config


def remedy_for(address: Address, why: ConfigError) -> str:
    """What would make a model usable."""
    provider = provider_of(address.model)
    if isinstance(why.__cause__, ImportError):
        extra = EXTRAS.get(provider, provider)
        return _install(extra)
    variable = address.api_key_env or next((each.variable for each in PROVIDERS if each.name == provider), None)
    if variable is None and (named := _VARIABLE.search(str(why))):
        variable = named[0]
    if variable is not None:
        return (
            f"export {variable}=... where you start mcp-subagents; for an app, put {variable} under `env` in its entry."
        )
    return f"Name it as provider:model, such as {PROVIDERS[0].model}."


def _install(extra: str) -> str:
    """For the environment that we run in, wherever the shell's own pip belongs."""
    return f"{sys.executable} -m pip install 'pydantic-ai-slim[{extra}]'"


def _way_to_a_model(env: Mapping[str, str]) -> str:
    lacking = next((each for each in PROVIDERS if env.get(each.variable, "").strip()), None)
    if lacking is not None:
        return f"{lacking.variable} is set, its package is missing: {_install(lacking.extra)}"
    return (
        f"export {PROVIDERS[0].variable}=...  # or the key of another provider; or try it out: MCP_SUBAGENTS_MODEL=demo"
    )


def _key(address: Address, env: Mapping[str, str]) -> str:
    if address.api_key_env:
        return f"{address.api_key_env} is set"
    if address.base_url:
        return "no key is sent"
    names = [each.variable for each in PROVIDERS if each.name == provider_of(address.model) and env.get(each.variable)]
    return f"{names[0]} is set" if names else "no key is needed, or it has one"


def _untidy(users: Iterable[Address], env: Mapping[str, str]) -> Iterable[Finding]:
    """Keys that were copied with something around them."""
    providers = {provider_of(each.model) for each in users if each.base_url is None and each.api_key_env is None}
    for variable in dict.fromkeys(each.variable for each in PROVIDERS if each.name in providers):
        value = env.get(variable, "")
        if value and (value != value.strip() or value[0] in "\"'" or value[-1] in "\"'"):
            yield warning(
                "models",
                f"{variable} has spaces, a line end or quotes around its key.",
                f"Set {variable} to the key alone.",
            )


def _price(cost: Decimal | None) -> str:
    return "an unknown price" if cost is None else f"${cost:.6f}"
