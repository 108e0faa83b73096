"""Which model there is when nobody names one: that of the first provider whose key is at hand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from mcp_subagents.errors import ConfigError


@dataclass(frozen=True, slots=True)
class KnownProvider:
    """A provider as the environment shows it."""

    variable: str
    """Holds its key."""
    model: str
    """Cheap and current: what a task runs on if nobody chose a model."""
    package: str
    """The package that talks to it."""
    extra: str
    """Of mcp-subagents, which brings that package."""

    @property
    def name(self) -> str:
        return self.model.partition(":")[0]


PROVIDERS = (
    KnownProvider("ANTHROPIC_API_KEY", "anthropic:claude-haiku-5-5", "anthropic", "anthropic"),
    KnownProvider("OPENAI_API_KEY", "openai:gpt-6-luna", "openai", "openai"),
    KnownProvider("GEMINI_API_KEY", "google:gemini-3.8-flash", "google.genai", "google"),
    KnownProvider("GOOGLE_API_KEY", "google:gemini-3.8-flash", "google.genai", "google"),
    KnownProvider("OPENROUTER_API_KEY", "openrouter:openai/gpt-5-mini", "openai", "openrouter"),
    KnownProvider("GROQ_API_KEY", "groq:openai/gpt-oss-120b", "groq", "groq"),
    KnownProvider("MISTRAL_API_KEY", "mistral:mistral-small-latest", "mistralai", "mistral"),
    KnownProvider("XAI_API_KEY", "xai:grok-4-1-fast", "xai_sdk", "xai"),
    KnownProvider("DEEPSEEK_API_KEY", "deepseek:deepseek-v4-flash", "openai", "openai"),
    KnownProvider("CEREBRAS_API_KEY", "cerebras:gpt-oss-120b", "openai", "openai"),
    KnownProvider("MOONSHOTAI_API_KEY", "moonshotai:kimi-k2.6", "openai", "openai"),
    KnownProvider("CO_API_KEY", "cohere:command-r-08-2024", "cohere", "cohere"),
)
"""In the order in which their keys are looked for."""

DEMO = "demo"
"""The model that needs no provider and no key: a script, to try everything else with."""

EXTRAS = {provider.name: provider.extra for provider in PROVIDERS}


def is_installed(package: str) -> bool:
    """Whether `package` can be imported, found out without importing it."""
    try:
        return find_spec(package) is not None
    except ImportError:
        return False  # the package around it is missing


def default_model(env: Mapping[str, str], *, installed: Callable[[str], bool] = is_installed) -> str | None:
    """The model for subagents that name none: of the first provider with a key in `env` and its package at hand."""
    usable = (provider for provider in _with_keys(env) if installed(provider.package))
    return next((provider.model for provider in usable), None)


def why_no_model(env: Mapping[str, str], *, installed: Callable[[str], bool] = is_installed) -> str:
    """What is missing for a default model, and what would mend it. Names variables, never what they hold."""
    lacking = [provider for provider in _with_keys(env) if not installed(provider.package)]
    ways = [
        f"{each.variable} is set, but the package for it is missing: {install_hint(each.extra)}" for each in lacking
    ]
    variables = ", ".join(provider.variable for provider in PROVIDERS)
    return " ".join(
        [
            "There is no model to run tasks on.",
            *ways,
            f"Set MCP_SUBAGENTS_MODEL (such as {PROVIDERS[0].model}) along with its provider's key, or just one of the "
            f"keys {variables}; or give the subagent a `model` of its own. "
            f"To look around without a key, set MCP_SUBAGENTS_MODEL={DEMO}.",
        ]
    )


def install_hint(extra: str) -> str:
    return f"install mcp-subagents[{extra}]."


def require_key(variable: str, env: Mapping[str, str]) -> str:
    """The key that `variable` holds. Raises: `ConfigError`, which names the variable."""
    key = env.get(variable, "").strip()
    if not key:
        raise ConfigError(
            f"The variable {variable} (`api_key_env`) is {'empty' if variable in env else 'not set'}; "
            "it must hold the key for the model."
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"The variable {variable} (`api_key_env`) holds characters that no key has.")
    return key


def _with_keys(env: Mapping[str, str]) -> list[KnownProvider]:
    return [provider for provider in PROVIDERS if env.get(provider.variable, "").strip()]
