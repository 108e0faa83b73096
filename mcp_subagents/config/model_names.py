"""Whether a model's name can be one, told without loading what would know it."""

from collections.abc import Collection
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from mcp_subagents.config.providers import DEMO, PROVIDERS, install_hint, is_installed
from mcp_subagents.errors import did_you_mean

_NOT_PROVIDERS = frozenset({"gateway", "openai-compatible"})
"""Modules among pydantic-ai's providers that no name begins with, or not alone."""


@cache
def known_providers() -> frozenset[str]:
    """The providers of pydantic-ai as it is installed: each has a module of its own."""
    found = find_spec("pydantic_ai")
    folders = [] if found is None else [Path(each) / "providers" for each in found.submodule_search_locations or ()]
    modules = {path.stem.replace("_", "-") for folder in folders for path in folder.glob("[a-z]*.py")}
    return frozenset(modules - _NOT_PROVIDERS)


def why_no_such_model(name: str, *, at_gateway: bool = False, providers: Collection[str] | None = None) -> str:
    """What is wrong with a model's name, if no model can have it; `at_gateway`, it may do without its provider."""
    provider, colon, model = name.partition(":")
    known = known_providers() if providers is None else providers
    if name in ("test", DEMO) or not known or provider.startswith("gateway/"):
        return ""
    if not colon:
        return "" if at_gateway else f"must be written provider:model, such as openai:gpt-5, not {name!r}"
    if not model.strip():
        return f"names a provider and no model: write provider:model, such as {provider}:gpt-5"
    # `openai-chat` has no module of its own: it is one of the ways to ask OpenAI.
    if provider in known or any(provider.startswith(f"{each}-") for each in known):
        return ""
    if at_gateway:
        return f"there is no provider {provider!r}; of a gateway that speaks OpenAI's language, name it openai:{name}"
    hint = did_you_mean(provider, known)
    return f"there is no provider {provider!r}; {hint if hint.startswith('did') else 'write provider:model'}"


def lacking_package(name: str) -> str:
    """What to install for a model, if its package is not here."""
    provider = name.partition(":")[0].removesuffix("-responses").removesuffix("-chat")
    for each in PROVIDERS:
        if each.name == provider and not is_installed(each.package):
            return f"the package for {name} is missing: {install_hint(each.extra)}"
    return ""
