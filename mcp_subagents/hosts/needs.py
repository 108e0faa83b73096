"""Which variables a server needs that reads a given configuration: a host has to hand them on."""

from collections.abc import Iterator, Mapping

from mcp_subagents.config.environment import ServerConfig
from mcp_subagents.equipment.definitions import VARIABLE, ToolServerDefinition, definitions_of


def needed(config: ServerConfig, env: Mapping[str, str]) -> tuple[str, ...]:
    """The variables of its keys and tool servers, each once; those with a default only if they are set in `env`.

    Raises:
        ConfigError: the tool servers of a subagent are not defined as they should be.
    """
    found: list[str] = []
    for spec in config.subagents:
        if spec.api_key_env:
            found.append(spec.api_key_env)
        for server in definitions_of(spec.to_config(), config.mcp_servers, config.folder):
            for match in (match for text in _texts(server) for match in VARIABLE.finditer(text)):
                if match["default"] is None or env.get(match["name"]):
                    found.append(match["name"])
    return tuple(dict.fromkeys(found))


def _texts(server: ToolServerDefinition) -> Iterator[str]:
    """Where a definition may name variables."""
    yield from (server.command, server.cwd or "", server.url)
    yield from server.args
    yield from server.env.values()
    yield from server.headers.values()
