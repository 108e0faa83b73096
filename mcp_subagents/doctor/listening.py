"""Whether the address is free that a configuration wants to be served on."""

import json
from collections.abc import Iterable
from typing import Any

import anyio
import anyio.to_thread

from mcp_subagents.config.admission import Admission
from mcp_subagents.doctor.circumstances import Circumstances
from mcp_subagents.doctor.findings import Finding, fine, problem
from mcp_subagents.errors import ConfigError

_HOST, _PORT = "127.0.0.1", 8000
_PATIENCE = 2.0


async def listening(there: Circumstances) -> Iterable[Finding]:
    """Nothing, unless the configuration says that it is served over the network."""
    config = there.config
    if config is None or config.transport in (None, "stdio"):
        return ()
    host, port = config.host or _HOST, _PORT if config.port is None else config.port
    if (served := await _version_at(host, port)) is not None:
        return [fine("port", f"mcp-subagents {served} is listening on {host}, port {port}.")]
    try:
        await anyio.to_thread.run_sync(_try, host, port, config.admission)
    except ConfigError as why:
        return [problem("port", str(why), "Write another `port` (or `host`) into subagents.yaml, or end who has it.")]
    return [fine("port", f"Port {port} on {host} is free.")]


def _try(host: str, port: int, admission: Admission) -> None:
    from mcp_subagents.server.network import listen  # not before it is needed: it loads a web server

    listen(host, port, admission).close()


async def _version_at(host: str, port: int) -> str | None:
    """The version of the server of ours that listens there already."""
    try:
        with anyio.fail_after(_PATIENCE):
            async with await anyio.connect_tcp(host.strip("[]"), port) as stream:
                await stream.send(f"GET /healthz HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
                answer = b"".join([chunk async for chunk in stream])
        said: Any = json.loads(answer.partition(b"\r\n\r\n")[2])
        return str(said["version"]) if said["status"] == "ok" else None
    except (OSError, TimeoutError, anyio.BrokenResourceError, ValueError, LookupError, TypeError):
        return None
