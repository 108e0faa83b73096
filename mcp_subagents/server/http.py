"""MCP over the network: Streamable HTTP, and SSE for hosts that know nothing newer, in one app."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from copy import copy
from importlib.metadata import version
from ipaddress import ip_address
from typing import Any

import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.runner import serve_dual_era_loop
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp_types import JSONRPCMessage
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Receive, Scope, Send

from mcp_subagents.config.admission import TOKEN, Admission
from mcp_subagents.errors import ConfigError
from mcp_subagents.server.framing import Refused, parse
from mcp_subagents.server.gate import Gate
from mcp_subagents.server.requests import NothingToReplay, OneIdEach, WholePosts, replayed

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
MAX_BODY = 4 * 2**20
MAX_SESSIONS = 1000
SESSION_IDLE_TIMEOUT = 1800.0


def network_app(
    server: MCPServer[Any],
    *,
    host: str = "127.0.0.1",
    sse: bool = False,
    max_body: int = MAX_BODY,
    max_sessions: int = MAX_SESSIONS,
    session_idle_timeout: float = SESSION_IDLE_TIMEOUT,
    admission: Admission | None = None,
) -> Starlette:
    """`server` at `/mcp`, with `sse` also at `/sse`, and its health at `/healthz`.

    It is for clients on this machine; with a token in `admission`, for all who know it, and for nobody else. The
    server's lifespan lasts as long as that of the app, whoever is connected. Host and Origin are always checked, so
    that no web page can reach it through a name of its own.

    Raises:
        ConfigError: others can reach `host`, and there is no token.
    """
    admission = admission or Admission()
    low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]  # as the SDK's own servers do; no public door
    security = _known_names_only(host, admission)
    streams = _SseStreams(low, security, max_body, max_sessions)
    sessions = StreamableHTTPSessionManager(
        _sharing_its_state(low, streams),
        security_settings=security,
        max_request_body_size=max_body,
        max_sessions=max_sessions,
        session_idle_timeout=session_idle_timeout,
    )
    routes: list[BaseRoute] = [
        Route("/healthz", _health_behind(TransportSecurityMiddleware(security)), methods=["GET"]),
        Route("/mcp", OneIdEach(NothingToReplay(StreamableHTTPASGIApp(sessions)))),
    ]
    if sse:
        routes += [Route("/sse", streams, methods=["GET"]), Mount("/messages/", app=streams.messages)]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with sessions.run():
            yield

    gate = [Middleware(Gate, admission.token)] if admission.token else []
    return Starlette(routes=routes, lifespan=lifespan, middleware=[*gate, Middleware(WholePosts, max_body)])


def require_admission(host: str, admission: Admission | None) -> None:
    """Raises: `ConfigError` unless only this machine can reach `host`, or a token is asked for."""
    if admission is not None and admission.token:
        return
    try:
        local = host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        local = False
    if not local:
        raise ConfigError(
            f"Cannot listen on {host!r}: other machines could reach it, and anybody there could delegate. "
            f"Use 127.0.0.1, ::1 or localhost, or set {TOKEN} to a secret that callers must know."
        )


def _known_names_only(host: str, admission: Admission) -> TransportSecuritySettings:
    require_admission(host, admission)
    named = host if ":" not in host or host.startswith("[") else f"[{host}]"
    names = list(dict.fromkeys((named, *LOOPBACK_NAMES)))
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[pattern for name in (*names, *admission.names) for pattern in (name, f"{name}:*")],
        allowed_origins=[f"http://{pattern}" for name in names for pattern in (name, f"{name}:*")],
    )


def _health_behind(security: TransportSecurityMiddleware) -> Any:
    health = {"status": "ok", "version": version("mcp-subagents")}

    async def healthz(request: Request) -> Response:
        return await security.validate_request(request) or JSONResponse(health)

    return healthz


def _sharing_its_state(low: Server[Any], streams: "_SseStreams") -> Server[Any]:
    """`low`, whose lifespan also serves `streams`. The SDK would open it once more for each SSE connection."""

    @asynccontextmanager
    async def lifespan(_: Server[Any]) -> AsyncGenerator[Any]:
        async with low.lifespan(low) as streams.state:
            yield streams.state

    shared = copy(low)
    shared.lifespan = lifespan
    return shared


class _SseStreams:
    """The SSE connections: one stream each, and one place for the messages of all."""

    def __init__(self, low: Server[Any], security: TransportSecuritySettings, max_body: int, most: int) -> None:
        self._low = low
        self._security = TransportSecurityMiddleware(security)
        self._transport = SseServerTransport("/messages/", security, max_body)
        self._most, self._open = most, 0
        self.state: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Asked here, since the transport answers and then raises, which reads like a crash in the log.
        refusal = await self._security.validate_request(Request(scope, receive))
        if refusal is None and self._open >= self._most:
            refusal = Response("Too many connections are open", status_code=503)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        self._open += 1
        try:
            async with self._transport.connect_sse(scope, receive, send) as (incoming, outgoing):
                await serve_dual_era_loop(self._low, incoming, outgoing, lifespan_state=self.state)
        finally:
            self._open -= 1

    async def messages(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a message for one of the streams; what is none is refused as on a pipe."""
        request = Request(scope, receive)
        if request.method == "POST":
            refusal = await self._security.validate_request(request, is_post=True)
            if refusal is None:
                message = parse(await request.body())
                if isinstance(message, Refused):
                    refusal = Response(_encoded(message.answer), status_code=400, media_type="application/json")
                else:
                    receive = replayed({"type": "http.request", "body": _encoded(message)}, receive)
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        # The stream may end while its message is on the way in.
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._transport.handle_post_message(scope, receive, send)


def _encoded(message: JSONRPCMessage) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
