"""The apps on this machine that can be told of our server, and what they know of it."""

from mcp_subagents.hosts.known import HOSTS, Host
from mcp_subagents.hosts.launches import Launch
from mcp_subagents.hosts.states import HostState, found

__all__ = ["HOSTS", "Host", "HostState", "Launch", "found"]
