"""The signs of a proxy. A site without auth trusts whoever reaches it, and through a proxy that may be anyone."""

from __future__ import annotations

from typing import Final

from starlette.requests import HTTPConnection

_HEADERS: Final = ("forwarded", "via", "x-real-ip", "true-client-ip", "cf-connecting-ip", "x-client-ip")
_PREFIX: Final = "x-forwarded-"


def sign_of_proxy(connection: HTTPConnection) -> str:
    """Return what shows that a proxy sent this request; "" if nothing does.

    nginx sends no header of its own unless told to, but HTTP/1.0, which browsers and HTTP libraries no longer send.
    """
    name: str
    for name in connection.headers:
        if name in _HEADERS or name.startswith(_PREFIX):
            return name
    return "HTTP/1.0" if connection.scope.get("http_version") == "1.0" else ""
