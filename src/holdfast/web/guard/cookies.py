"""The session cookie, protected from scripts, other sites, and other applications on the same host."""

from __future__ import annotations

from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import Response

_PLAIN: Final = "holdfast_session"
_HOST: Final = "__Host-holdfast"
_SECURE: Final = "__Secure-holdfast"
SESSION_SECONDS: Final = 12 * 3600


def session_of(connection: HTTPConnection, *, secure: bool) -> str | None:
    """Return the session's secret, if there is one.

    With HTTPS, a cookie without a prefix is not ours: a neighbouring host, or an attacker on plain HTTP, could have set
    it.
    """
    cookies = connection.cookies
    return next((cookies[name] for name in ((_HOST, _SECURE) if secure else (_PLAIN,)) if cookies.get(name)), None)


def set_session(response: Response, secret: str, *, mount: str, secure: bool) -> None:
    """Set the session cookie, for the site's own path only."""
    response.set_cookie(
        _name(mount, secure),
        secret,
        max_age=SESSION_SECONDS,
        path=mount or "/",
        secure=secure,
        httponly=True,
        samesite="strict",
    )


def drop_session(response: Response, *, mount: str, secure: bool) -> None:
    """Delete the session cookie."""
    response.delete_cookie(_name(mount, secure), path=mount or "/", secure=secure, httponly=True, samesite="strict")


def _name(mount: str, secure: bool) -> str:
    # __Host- binds a cookie to this exact host, and is for the root path only.
    if not secure:
        return _PLAIN
    return _SECURE if mount else _HOST
