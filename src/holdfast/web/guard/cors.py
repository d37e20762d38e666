"""Which pages of other sites may call the API by a script (CORS): those that a setting names, and no others.

They bring a token of their own, or a result key. No cookie counts for them, so no session can be used from elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Scope, Send

_API: Final = "/api/"
_METHODS: Final = "GET, HEAD, POST, PUT, PATCH, DELETE"
_HEADERS: Final = "authorization, content-type, last-event-id"
_EXPOSED: Final = "retry-after, www-authenticate"
_REMEMBERED: Final = "600"


def allowed_origin(scope: Scope, headers: Headers, origins: Collection[str]) -> str | None:
    """The origin of the page that calls the API, where the setting names it."""
    origin = headers.get("origin")
    below = scope["path"].removeprefix(scope.get("root_path", ""))
    return origin if origin in origins and below.startswith(_API) else None


def is_preflight(scope: Scope, headers: Headers) -> bool:
    """Whether a browser asks what a page may send, before it sends that."""
    return scope["method"] == "OPTIONS" and "access-control-request-method" in headers


def preflight() -> Response:
    """The answer to that."""
    said = {
        "access-control-allow-methods": _METHODS,
        "access-control-allow-headers": _HEADERS,
        "access-control-max-age": _REMEMBERED,
    }
    return Response(status_code=204, headers=said)


def shared_with(origin: str, send: Send) -> Send:
    """Answers that the browser lets a page of this origin read."""
    shared = (
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _EXPOSED.encode()),
        (b"vary", b"Origin"),
    )

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *shared]}
        await send(message)

    return sending
