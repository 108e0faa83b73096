"""`mcp-subagents agents check --tools`: whether subagents get the tools that they name, seen by starting them."""

from collections.abc import Mapping

import anyio

from mcp_subagents.config.environment import ServerConfig
from mcp_subagents.config.mistakes import Mistake
from mcp_subagents.errors import SubagentsError


def missing_tools(config: ServerConfig) -> Mapping[str, Mistake]:
    """Why subagents cannot work, by their names; their tool servers run meanwhile, and no model is asked."""
    return anyio.run(_missing_tools, config)


async def _missing_tools(config: ServerConfig) -> Mapping[str, Mistake]:
    from mcp_subagents.agents import Roster  # not before it is needed: it loads pydantic-ai
    from mcp_subagents.equipment.kits import Equipment

    equipment = Equipment(
        mcp_servers=config.mcp_servers, allow_python_tools=config.allow_python_tools, base=config.folder
    )
    roster = Roster([spec.to_config() for spec in config.subagents], default_model=config.model, equipment=equipment)
    found: dict[str, Mistake] = {}
    async with roster.open(looking=False):
        for name in roster.configs:
            try:
                await roster.check(name)
            except SubagentsError as why:
                found[name] = Mistake(what=str(why))
    return found
