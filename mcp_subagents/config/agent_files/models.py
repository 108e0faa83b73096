"""Models by the names that other apps give them."""

import re

INHERITED = frozenset({"inherit", "default", "auto"})
"""What stands for the model of whoever delegates: here, the default model."""

ALIASES = {
    "sonnet": "anthropic:claude-sonnet-5-5",
    "opus": "anthropic:claude-opus-5-5",
    "haiku": "anthropic:claude-haiku-5-5",
    "fable": "anthropic:claude-fable-5-1",
    "pro": "google:gemini-2.5-pro",
    "flash": "google:gemini-flash-latest",
    "flash-lite": "google:gemini-flash-lite-latest",
}

FAMILIES = {
    r"claude-": "anthropic",
    r"gpt-|o\d|codex-|chatgpt-": "openai",
    r"gemini-": "google",
    r"grok-": "xai",
    r"deepseek-": "deepseek",
    r"mistral-|codestral|devstral|magistral": "mistral",
    r"command-": "cohere",
}
"""How the models of a provider are named."""

PROVIDERS = {
    **{name: name for name in ("anthropic", "openai", "google", "xai", "groq", "mistral", "deepseek", "cohere")},
    **{name: name for name in ("openrouter", "huggingface", "moonshotai", "cerebras", "azure", "ollama", "bedrock")},
    **{name: name for name in ("openai-chat", "openai-responses", "google-cloud", "zai", "together", "fireworks")},
    "amazon-bedrock": "bedrock",
    "google-vertex": "google-cloud",
    "gemini": "google",
    "together-ai": "together",
    "fireworks-ai": "fireworks",
}
"""The providers that a name can begin with, as other apps and as pydantic-ai call them."""


def model_named(name: str) -> str | None:
    """The pydantic-ai model of that name, or `None` if it is not known."""
    plain = re.sub(r"\s*\([^)]*\)\s*$", "", name.strip())
    if plain in {"demo", "test"}:
        return plain
    for separator in (":", "/"):
        provider, found, model = plain.partition(separator)
        if found and provider.lower() in PROVIDERS and model:
            return f"{PROVIDERS[provider.lower()]}:{model}"
    spelt = re.sub(r"\s+", "-", plain.lower())
    if spelt in ALIASES:
        return ALIASES[spelt]
    family = next((family for begin, family in FAMILIES.items() if re.match(begin, spelt)), None)
    if family == "anthropic":
        # Cursor and Copilot write claude-4.5-sonnet and Claude Sonnet 4.5.
        spelt = re.sub(r"^claude-([\d.]+)-(\w+)", r"claude-\2-\1", spelt).replace(".", "-")
    return f"{family}:{spelt}" if family else None
