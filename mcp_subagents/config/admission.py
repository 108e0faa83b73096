"""Who is let in over the network, as the environment says it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mcp_subagents.errors import ConfigError

TOKEN = "MCP_SUBAGENTS_TOKEN"
NAMES = "MCP_SUBAGENTS_ALLOWED_HOSTS"

SHORTEST_TOKEN = 32
"""Characters. What has to be as hard to guess as a key is made, not thought of."""

_TOKEN = re.compile(r"[!-~]+")
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:]+\]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """Who is let in: without a token, only this machine."""

    token: str | None = field(default=None, repr=False)
    """What everybody who calls has to know."""
    names: tuple[str, ...] = ()
    """The names by which the server is called, beside those of this machine."""


def admission_in(env: Mapping[str, str]) -> Admission:
    """Who is let in, by `env`.

    Raises:
        ConfigError: the token is easy to guess, or a name is none. The message never holds the token.
    """
    token = env.get(TOKEN, "").strip() or None
    names = tuple(name for each in env.get(NAMES, "").split(",") if (name := each.strip()))
    if token is not None and (len(token) < SHORTEST_TOKEN or not _TOKEN.fullmatch(token)):
        raise ConfigError(
            f"{TOKEN}: must be at least {SHORTEST_TOKEN} ASCII characters without spaces, so that nobody guesses it; "
            "`openssl rand -hex 32` makes one"
        )
    if wrong := [name for name in names if not _NAME.fullmatch(name)]:
        raise ConfigError(f"{NAMES}: {wrong[0]!r} is no name of a host; write it without scheme, port and path")
    if names and token is None:
        raise ConfigError(f"{NAMES}: needs {TOKEN}, since others than this machine can call by these names")
    return Admission(token=token, names=names)
