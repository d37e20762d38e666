"""Cross-origin calls to the API (CORS): allowed only for the origins in the settings.

They use a token of their own, or a result key. Cookies are ignored, so no session can be used from another site.
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
    """Return the origin of the calling page if the settings allow it."""
    origin = headers.get("origin")
    below = scope["path"].removeprefix(scope.get("root_path", ""))
    return origin if origin in origins and below.startswith(_API) else None


def is_preflight(scope: Scope, headers: Headers) -> bool:
    """Return True for a CORS preflight request."""
    return scope["method"] == "OPTIONS" and "access-control-request-method" in headers


def preflight() -> Response:
    """Return the response to a preflight request."""
    said = {
        "access-control-allow-methods": _METHODS,
        "access-control-allow-headers": _HEADERS,
        "access-control-max-age": _REMEMBERED,
    }
    return Response(status_code=204, headers=said)


def shared_with(origin: str, send: Send) -> Send:
    """Add the headers that let a page of this origin read the response."""
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
