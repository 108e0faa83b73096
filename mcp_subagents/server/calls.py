"""One call of a tool: who calls, from where, and what its app can bear."""

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcp_subagents.errors import ConfigError
from mcp_subagents.server.hosts import Host, host_named

if TYPE_CHECKING:
    from mcp_subagents.engine import Engine

OWNER = "local"
"""Everybody who can reach this server; owners of their own come with authentication."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliverySettings:
    """How results reach the host."""

    sync_patience: float | None = None
    """Seconds that a call may last; without it, what is known of the host decides."""
    progress_every: float = 10.0
    """Seconds between two words on how it goes, while a call waits."""

    def __post_init__(self) -> None:
        if self.sync_patience is not None and not _is_time(self.sync_patience):
            raise ConfigError(f"sync_patience must be a number of seconds, 0 or more, not {self.sync_patience!r}")
        if not _is_time(self.progress_every) or not self.progress_every:
            raise ConfigError(f"progress_every must be a number of seconds above 0, not {self.progress_every!r}")


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < inf


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """What a tool knows of the call it serves."""

    engine: "Engine"
    context: Context[Any, Any]
    settings: DeliverySettings
    owner: str = OWNER

    @property
    def host(self) -> Host:
        client = self.context.request_context.session.client_params
        return host_named(client.client_info.name if client else None)

    @property
    def patience(self) -> float:
        """Seconds that this call may last."""
        if self.settings.sync_patience is not None:
            return self.settings.sync_patience
        return self.host.bears(remote=self.context.headers is not None)

    @property
    def is_modern(self) -> bool:
        """Whether the host speaks the protocol in which a server never calls back."""
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def can_ask_human(self) -> bool:
        """Whether the host can show a form to its user."""
        capabilities = self.context.client_capabilities
        forms = capabilities.elicitation if capabilities else None
        return forms is not None and (forms.form is not None or forms.url is None)
