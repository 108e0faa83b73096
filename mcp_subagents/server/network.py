"""A listening socket, and a web server on it that ends when it is told to."""

import errno
import socket
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_subagents.config.admission import Admission
from mcp_subagents.errors import ConfigError
from mcp_subagents.server.http import network_app, require_admission

LAST_ANSWERS = 0.5
"""Seconds for which requests may still be answered once the server is told to stop."""
LONGEST_PARTING = 4
"""Seconds after which the web server cuts off whatever is still open."""


async def serve_network(
    server: MCPServer[Any], *, host: str, port: int, sse: bool, admission: Admission | None = None
) -> None:
    """Serve `server` on `host` and `port` until cancelled; port 0 is any free one. Standard error says where.

    Raises:
        ConfigError: others can reach `host` and there is no token, or the port cannot be had.
    """
    app = network_app(server, host=host, sse=sse, admission=admission)
    requests = Interruptible(app)
    with closing(listen(host, port, admission)) as listener:
        web = _WebServer(
            uvicorn.Config(
                requests,
                lifespan="off",  # opened below: uvicorn would turn what goes wrong in it into a traceback of its own
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=LONGEST_PARTING,
            )
        )
        async with anyio.create_task_group() as group:
            try:
                async with app.router.lifespan_context(app):
                    group.start_soon(web.run_to_the_end, listener, name="web server")
                    _say_where(listener, sse)
                    await _until_cancelled(web, requests)
            finally:
                # After the engine has closed: a call that is interrupted here can not take its task along.
                requests.interrupt()


async def _until_cancelled(web: uvicorn.Server, requests: "Interruptible") -> None:
    try:
        await anyio.sleep_forever()
    finally:
        web.should_exit = True
        with anyio.move_on_after(LAST_ANSWERS, shield=True):
            await requests.all_ended()


def listen(host: str, port: int, admission: Admission | None = None) -> socket.socket:
    """A socket that listens there.

    Raises:
        ConfigError: others can reach `host` and there is no token, or the port cannot be had.
    """
    require_admission(host, admission)
    address = "127.0.0.1" if host == "localhost" else host.strip("[]")
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":  # where it would let two servers have one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(socket.SOMAXCONN)
    except (OSError, OverflowError) as why:
        listener.close()
        if isinstance(why, OSError) and why.errno == errno.EADDRINUSE:
            raise ConfigError(f"Port {port} on {host} is in use. Choose another one, or 0 for any free one.") from why
        raise ConfigError(f"Cannot listen on {host}, port {port}: {why}.") from why
    return listener


def _say_where(listener: socket.socket, sse: bool) -> None:
    host, port = listener.getsockname()[:2]
    base = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    places = f"{base}/mcp and {base}/sse" if sse else f"{base}/mcp"
    sys.stderr.write(f"mcp-subagents: listening on {places}\n")
    sys.stderr.flush()


class _WebServer(uvicorn.Server):
    """uvicorn, but signals and the end of serving are ours."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def run_to_the_end(self, listener: socket.socket) -> None:
        """Serve until `should_exit`; being cancelled does not end it, so that open requests are ended in order."""
        with anyio.CancelScope(shield=True):
            await self.serve(sockets=[listener])


class Interruptible:
    """An app whose open requests can be ended: an event stream, or a long wait, would not end by itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[anyio.CancelScope] = set()
        self._ended = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        last: Message | None = None

        async def send_and_see(message: Message) -> None:
            nonlocal last
            # The SDK answers again when its first answer goes wrong; to the web server that is a crash.
            if not _is_whole(last):
                last = message
                await send(message)

        with anyio.CancelScope() as request:
            self._open.add(request)
            try:
                await self._app(scope, receive, send_and_see)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                # Its session ended while the message was on its way in.
                if last is None:
                    raise
            finally:
                self._open.discard(request)
                self._ended.set()
                self._ended = anyio.Event()
        if request.cancelled_caught or (last is not None and not _is_whole(last)):
            await _finish(last, scope, receive, send)

    async def all_ended(self) -> None:
        """Wait until no request is open."""
        while self._open:
            await self._ended.wait()

    def interrupt(self) -> None:
        """End the requests that are open."""
        for request in self._open:
            request.cancel()


def _is_whole(last: Message | None) -> bool:
    """Whether an answer whose `last` message this was has been sent to its end."""
    return last is not None and last["type"] == "http.response.body" and not last.get("more_body")


async def _finish(last: Message | None, scope: Scope, receive: Receive, send: Send) -> None:
    """End an unfinished answer as if it were whole; a client takes a torn one for a broken network."""
    if last is None:
        await Response("The server is stopping", status_code=503)(scope, receive, send)
    elif not _is_whole(last):
        await send({"type": "http.response.body", "body": b"", "more_body": False})
