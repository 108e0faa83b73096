"""Planted where models are named, and where their keys are."""

from planting import Ground, Plant, Plants

from mcp_subagents.config.providers import PROVIDERS


def on(ground: Ground, model: str, **more: object) -> None:
    """A subagent on that model, and nobody's key at hand."""
    without_keys(ground)
    ground.configure(subagents=[{"name": "a", "model": model, **more}])


def without_keys(ground: Ground) -> None:
    for each in PROVIDERS:
        ground.monkeypatch.delenv(each.variable, raising=False)
    ground.monkeypatch.delenv("MCP_SUBAGENTS_MODEL")


def with_key(ground: Ground, variable: str, value: str, model: str) -> None:
    on(ground, model)
    ground.set(variable, value)


MODELS: Plants = {
    "no model at all": Plant(
        check="models",
        plant=without_keys,
        says="problem There is no model for general-purpose: none is named, and no key of a provider is set whose "
        "package "
        "is here.",
        fix="export ANTHROPIC_API_KEY=... # or the key of another provider; or try it out: MCP_SUBAGENTS_MODEL=demo",
    ),
    "a key whose package is missing, and no model": Plant(
        check="models",
        plant=lambda ground: (without_keys(ground), ground.set("GROQ_API_KEY", "gsk")),
        says="problem There is no model for general-purpose: none is named, and no key of a provider is set whose "
        "package "
        "is here.",
        fix="GROQ_API_KEY is set, its package is missing: {python} -m pip install 'pydantic-ai-slim[groq]'",
    ),
    "a missing key": Plant(
        check="models",
        plant=lambda ground: on(ground, "openai:gpt-5-mini"),
        says="problem openai:gpt-5-mini (a): cannot be used: Set the `OPENAI_API_KEY` environment variable.",
        fix="export OPENAI_API_KEY=... where you start mcp-subagents; for an app, put OPENAI_API_KEY under `env` "
        "in its "
        "entry.",
    ),
    "a missing key of its own": Plant(
        check="models",
        plant=lambda ground: on(ground, "openai:m", base_url="http://127.0.0.1:1/v1", api_key_env="TEAM_KEY"),
        says="problem openai:m at http://127.0.0.1:1/v1 (a): The variable TEAM_KEY (`api_key_env`) is not set; it must "
        "hold the key for the model.",
        fix="export TEAM_KEY=... where you start mcp-subagents; for an app, put TEAM_KEY under `env` in its entry.",
    ),
    "a missing package of a provider": Plant(
        check="models",
        plant=lambda ground: with_key(ground, "GROQ_API_KEY", "gsk", "groq:openai/gpt-oss-120b"),
        says="problem groq:openai/gpt-oss-120b (a): The package for the model 'groq:openai/gpt-oss-120b' is missing: "
        "install mcp-subagents[groq].",
        fix="{python} -m pip install 'pydantic-ai-slim[groq]'",
    ),
    "a provider that does not exist": Plant(
        check="config",
        plant=lambda ground: on(ground, "opnai:gpt-5"),
        says="problem subagents.yaml:2: subagents[0].model: there is no provider 'opnai'; did you mean 'openai'?",
        fix="Mend it in that file, and look again: mcp-subagents doctor",
    ),
    "a missing key of a model to fall back on": Plant(
        check="models",
        plant=lambda ground: on(ground, "test", fallback_models=["anthropic:claude-haiku-5-5"]),
        says="problem anthropic:claude-haiku-5-5 (a): cannot be used: Set the "
        "`ANTHROPIC_API_KEY` environment variable.",
        fix="export ANTHROPIC_API_KEY=... where you start mcp-subagents; for an app, put ANTHROPIC_API_KEY under "
        "`env` in "
        "its entry.",
    ),
    "a key in quotes": Plant(
        check="models",
        plant=lambda ground: with_key(ground, "OPENAI_API_KEY", '"sk-x"', "openai:gpt-5-mini"),
        says="warning OPENAI_API_KEY has spaces, a line end or quotes around its key.",
        fix="Set OPENAI_API_KEY to the key alone.",
    ),
}
