"""The gate in front of a server on the network: nobody passes without the token."""

from hmac import compare_digest

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

HEALTH = "/healthz"
"""Open to all, since it tells nothing: whoever watches over the process needs no token."""


class Gate:
    """`app`, for those who send the token as `Authorization: Bearer TOKEN`. Others are refused unread."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        open_to_all = scope["type"] == "lifespan" or scope.get("path") == HEALTH
        if open_to_all or admits(Headers(scope=scope).getlist("authorization"), self._token):
            await self._app(scope, receive, send)
            return
        refusal = Response(
            "The token of this server is needed: send it in the header Authorization, as Bearer TOKEN.",
            status_code=401,
            headers={"www-authenticate": 'Bearer realm="mcp-subagents"'},
        )
        await refusal(scope, receive, send)


def admits(sent: list[str], token: str) -> bool:
    """Whether these `Authorization` headers show that the caller knows `token`."""
    if len(sent) != 1:  # of two, a proxy in front of us may have judged the other one
        return False
    scheme, _, shown = sent[0].partition(" ")
    # In a time that does not tell how much of it was right.
    return compare_digest(shown.strip().encode("latin-1", "replace"), token.encode()) and scheme.lower() == "bearer"
