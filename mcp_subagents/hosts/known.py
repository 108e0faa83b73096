"""The apps that can be told of our server: what each is called, and how it writes servers down."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from mcp_subagents.errors import ConfigError, did_you_mean

Syntax = Literal["json", "jsonc", "toml"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """An app that keeps its MCP servers in a file."""

    name: str
    """How it is called on the command line."""
    title: str
    """How its makers call it."""
    syntax: Syntax
    """`json` has no comments: the app could not read them. `jsonc` has comments and trailing commas."""
    key: str
    """Under which its servers are, at the top of the file."""
    reference: str | None
    """How a value in its file names a variable of the environment; none if it cannot."""
    hands_on: bool
    """Whether its servers get its whole environment."""
    desktop: bool
    """Whether people start it with a click: then its environment is not that of their shell."""


HOSTS: Mapping[str, Host] = {
    host.name: host
    for host in (
        Host(
            name="claude-desktop",
            title="Claude Desktop",
            syntax="json",
            key="mcpServers",
            reference=None,
            hands_on=False,
            desktop=True,
        ),
        Host(
            name="claude-code",
            title="Claude Code",
            syntax="json",
            key="mcpServers",
            reference="${%s}",
            hands_on=True,
            desktop=False,
        ),
        Host(
            name="cursor",
            title="Cursor",
            syntax="jsonc",
            key="mcpServers",
            reference="${env:%s}",
            hands_on=False,
            desktop=True,
        ),
        Host(
            name="vscode",
            title="VS Code",
            syntax="jsonc",
            key="servers",
            reference="${env:%s}",
            hands_on=True,
            desktop=True,
        ),
        Host(
            name="codex",
            title="Codex",
            syntax="toml",
            key="mcp_servers",
            reference="%s",
            hands_on=False,
            desktop=False,
        ),
        Host(
            name="gemini",
            title="Gemini CLI",
            syntax="jsonc",
            key="mcpServers",
            reference="$%s",
            hands_on=False,
            desktop=False,
        ),
        Host(
            name="opencode",
            title="OpenCode",
            syntax="jsonc",
            key="mcp",
            reference="{env:%s}",
            hands_on=True,
            desktop=False,
        ),
    )
}
"""By name, in the order in which they are listed."""


def named(names: Iterable[str]) -> tuple[Host, ...]:
    """The hosts of these names, each once. Raises: `ConfigError`, which says what would be right."""
    wanted = [name.lower().replace("_", "-") for name in names]
    for name in wanted:
        if name not in HOSTS:
            raise ConfigError(
                f"There is no host {name!r} here; {did_you_mean(name, HOSTS)} "
                "For any other app, docs/hosts.md shows what to write into its file."
            )
    return tuple(HOSTS[name] for name in dict.fromkeys(wanted))
