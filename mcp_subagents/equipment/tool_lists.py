"""Which tools a subagent may use: `tools` and `disallowed_tools`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.tools import ToolDefinition

from mcp_subagents.delegation import DELEGATION_TOOLS
from mcp_subagents.errors import ConfigError, did_you_mean

ALWAYS_THERE = DELEGATION_TOOLS | {"ask_parent"}
"""Tools that are ours to give: left out by a list only if it denies them by name, and known even where not given."""


def is_allowed(name: str, tools: Sequence[str] | None, disallowed: Sequence[str]) -> bool:
    """Whether the lists let the tool through: denied wins, and no `tools` means all of them."""
    if name in ALWAYS_THERE:
        return name not in disallowed
    if any(fnmatchcase(name, pattern) for pattern in disallowed):
        return False
    return tools is None or any(fnmatchcase(name, pattern) for pattern in tools)


def require_known(
    subagent: str, named: Iterable[str], existing: Iterable[str], *, known: frozenset[str] = ALWAYS_THERE
) -> None:
    """Every tool that is named without a wildcard exists. Raises: `ConfigError`."""
    there = set(existing)
    missing = [name for name in named if not set(name) & set("*?[") and name not in there | known]
    if missing:
        # What is known but not given would be no help.
        wrong = "; ".join(f"{name!r} ({did_you_mean(name, there)})" for name in missing)
        raise ConfigError(f"The subagent {subagent!r} names tools that do not exist: {wrong}.")


def names_tools(tools: Sequence[str] | None, disallowed: Sequence[str]) -> bool:
    """Whether the lists name anything that could be missing."""
    return any(not set(name) & set("*?[") and name not in ALWAYS_THERE for name in [*(tools or ()), *disallowed])


@dataclass
class ToolLists(AbstractCapability[Any]):
    """Lets a subagent see and call what its lists let through, and nothing else."""

    subagent: str
    tools: Sequence[str] | None
    disallowed: Sequence[str]

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        """Raises: `ConfigError`, before the first request, for a tool that does not exist."""
        if ctx.run_step <= 1:
            require_known(self.subagent, [*(self.tools or ()), *self.disallowed], [each.name for each in tool_defs])
        return [each for each in tool_defs if is_allowed(each.name, self.tools, self.disallowed)]
