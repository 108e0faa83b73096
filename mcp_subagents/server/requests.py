"""HTTP requests as the SDK can bear them: whole, no id twice at a time, and nothing to replay."""

from contextlib import ExitStack

from mcp.server.transport_security import RequestBodyLimitMiddleware
from mcp_types import INVALID_REQUEST
from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_subagents.server.framing import refuse


class WholePosts:
    """An app that sees a post when all of it is there: the SDK takes a client that leaves before for a crash."""

    def __init__(self, app: ASGIApp, max_body: int) -> None:
        self._app = app
        self._posts = RequestBodyLimitMiddleware(self._posted, max_body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        await (self._posts if is_post else self._app)(scope, receive, send)

    async def _posted(self, scope: Scope, receive: Receive, send: Send) -> None:
        first = await receive()
        # The body has been read into one message, unless the client left on the way.
        if first["type"] == "http.request" and not first.get("more_body"):
            await self._app(scope, replayed(first, receive), send)


class OneIdEach:
    """An app, behind `WholePosts`, that sees no id of a session twice at a time.

    The protocol forbids it. The SDK would give the second request the place of the first, which then never ends.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = Headers(scope=scope).get("mcp-session-id")
        if session is None or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        post = await receive()
        request_id = _request_id(post.get("body", b""))
        key = (session, str(request_id))
        if key in self._open:
            in_use = refuse(INVALID_REQUEST, f"The id {request_id!r} is that of a request still open.", request_id)
            body = in_use.answer.model_dump_json(exclude_unset=True)
            await Response(body, status_code=400, media_type="application/json")(scope, receive, send)
            return
        with ExitStack() as held:
            if request_id is not None:
                self._open.add(key)
                held.callback(self._open.discard, key)

            async def send_and_see(message: Message) -> None:
                # Given back before the client can know that it is answered: from then on, the id may be used again.
                if message["type"] == "http.response.body" and not message.get("more_body"):
                    held.close()
                await send(message)

            await self._app(scope, replayed(post, receive), send_and_see)


class NothingToReplay:
    """An app that is asked for new events only: we keep no others, and the SDK would not answer at all."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(name, value) for name, value in scope["headers"] if name != b"last-event-id"]
        await self._app({**scope, "headers": headers}, receive, send)


def replayed(first: Message, rest: Receive) -> Receive:
    """A `receive` that begins with `first`."""
    left = [first]

    async def receive() -> Message:
        return left.pop() if left else await rest()

    return receive


def _request_id(body: bytes) -> int | str | None:
    """The id of the request in `body`, if there is one; an answer has one too, but of ours."""
    try:
        match from_json(body):
            case {"method": _, "id": int() | str() as request_id}:
                return request_id
            case _:
                return None
    except ValueError:
        return None
