"""Whether the subagents of a configuration can be equipped: those of its file must be, an agent file is left out."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_subagents.config.environment import ServerConfig, project_of
from mcp_subagents.config.mistakes import Mistake
from mcp_subagents.config.spec import SubAgentSpec
from mcp_subagents.equipment.places import anchored
from mcp_subagents.equipment.soundness import require_sound
from mcp_subagents.errors import ConfigError

if TYPE_CHECKING:
    from mcp_subagents.config.agent_files import AgentFile


def sound(config: ServerConfig, env: Mapping[str, str] = os.environ) -> ServerConfig:
    """`config`, in which an agent file that names what is not there has become one with mistakes.

    Raises:
        ConfigError: the configuration file itself names what is not there.
    """
    of_files = {file.spec.name for file in config.agent_files if file.spec is not None}
    own = [spec for spec in config.subagents if spec.name not in of_files]
    _require(own, config, env)
    files = tuple(_judged(file, config, env) for file in config.agent_files)
    return replace(
        config,
        subagents=(*own, *(file.spec for file in files if file.spec is not None)),
        agent_files=files,
    )


def sound_beside(new: ServerConfig, running: ServerConfig, env: Mapping[str, str] = os.environ) -> ServerConfig:
    """The same of `new`, for a server that was started with the settings of `running`. Raises: `ConfigError`."""
    try:
        return sound(replace(new, mcp_servers=running.mcp_servers, allow_python_tools=running.allow_python_tools), env)
    except ConfigError as wrong:
        if (new.mcp_servers, new.allow_python_tools) == (running.mcp_servers, running.allow_python_tools):
            raise
        later = "`mcp_servers` and `allow_python_tools` have changed, which holds from the next start."
        raise ConfigError(f"{wrong}\n{later}") from wrong


def _judged(file: "AgentFile", config: ServerConfig, env: Mapping[str, str]) -> "AgentFile":
    if file.spec is None:
        return file
    spec = _settled(file.spec, config)
    try:
        _require([spec], config, env)
    except ConfigError as why:
        return replace(file, spec=None, wrong=tuple(Mistake(what=line) for line in str(why).splitlines()))
    return replace(file, spec=spec)


def _settled(spec: SubAgentSpec, config: ServerConfig) -> SubAgentSpec:
    """`spec`, whose own tool servers start in the project, as in the app that it was written for."""
    if not spec.mcp_servers:
        return spec
    servers = anchored(spec.to_config(), project_of(config.file)).get("mcp_servers")
    return spec.model_copy(update={"mcp_servers": servers})


def _require(specs: list[SubAgentSpec], config: ServerConfig, env: Mapping[str, str]) -> None:
    require_sound(
        [spec.to_config() for spec in specs],
        mcp_servers=config.mcp_servers,
        allow_python_tools=config.allow_python_tools,
        base=config.folder,
        env=env,
    )
