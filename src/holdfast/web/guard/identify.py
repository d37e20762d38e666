"""Caller identification: by the host application, by a token, by a session, or the local user on loopback."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

from starlette.requests import HTTPConnection

from ...app import App
from ...clock import SYSTEM_CLOCK
from ...model.access import LOCAL, Identity
from ..settings import WebSettings
from ..wire.failures import Refused
from .cookies import session_of
from .proxies import sign_of_proxy
from .throttle import Throttle, caller_of

# A valid token or session is cached for this long; a revoked one is rejected after that at the latest.
TRUSTED_SECONDS: Final = 5.0
_REMEMBERED: Final = 1_000
_BEARER: Final = "bearer "
_TOKEN: Final = b"token "
_SESSION: Final = b"session "


class Authenticator:
    """Identifies callers. Recent ones are cached, so that a busy client costs one lookup in a few seconds."""

    def __init__(self, app: App, settings: WebSettings) -> None:
        self._app = app
        self._settings = settings
        self._known: OrderedDict[bytes, tuple[Identity, float]] = OrderedDict()
        # 256 bits cannot be guessed; the limit stops those who try, and never affects a valid token.
        self._misses = Throttle(burst=20, per_second=0.5)

    async def identify(self, connection: HTTPConnection) -> Identity | None:
        """Return the identity of the caller; None if anonymous. An invalid token is rejected even if a session is
        valid.
        """
        if self._settings.identify is not None and (found := await self._settings.identify(connection)) is not None:
            return found
        authorization = connection.headers.get("authorization")
        if authorization is not None:
            return await self._by_token(connection, authorization)
        session = session_of(connection, secure=self._settings.secure)
        if session is not None and (found := await self._by_session(session)) is not None:
            return found
        return self._local_user(connection) if self._settings.auth == "off" else None

    def forget_session(self, secret: str) -> None:
        """Drop an ended session from the cache."""
        self._known.pop(_key(_SESSION, secret), None)

    @staticmethod
    def _local_user(connection: HTTPConnection) -> Identity:
        """Return the local administrator; Refused if a proxy sent the request, whose client may be anywhere."""
        if sign := sign_of_proxy(connection):
            raise Refused(
                403,
                "proxied",
                f"this request came through a proxy ({sign}), and without auth only this machine may call; start the"
                " site with --behind-proxy, or auth='required' in your program, and send a token",
            )
        return LOCAL

    async def _by_token(self, connection: HTTPConnection, authorization: str) -> Identity:
        secret = authorization[len(_BEARER) :].strip() if authorization.lower().startswith(_BEARER) else ""
        if found := self._remembered(_TOKEN, secret):
            return found
        identity = await self._app.tokens.aidentify(secret) if secret else None
        if identity is None:
            if wait := self._misses.take(caller_of(connection)):
                raise Refused(429, "rate_limited", "too many invalid tokens", {"retry-after": str(int(wait) + 1)})
            raise Refused(401, "unauthenticated", _wrong(authorization), {"www-authenticate": "Bearer"})
        return self._remember(_TOKEN, secret, identity)

    async def _by_session(self, session: str) -> Identity | None:
        if found := self._remembered(_SESSION, session):
            return found
        identity = await self._app.tokens.asession(session)
        return None if identity is None else self._remember(_SESSION, session, identity)

    def _remembered(self, kind: bytes, secret: str) -> Identity | None:
        found = self._known.get(_key(kind, secret))
        return found[0] if found is not None and SYSTEM_CLOCK.monotonic() < found[1] else None

    def _remember(self, kind: bytes, secret: str, identity: Identity) -> Identity:
        self._known[_key(kind, secret)] = (identity, SYSTEM_CLOCK.monotonic() + TRUSTED_SECONDS)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return identity


def _wrong(authorization: str) -> str:
    if not authorization.lower().startswith(_BEARER):
        return "the header has no token after the word Bearer; send it as: Authorization: Bearer TOKEN"
    return "invalid or expired token"


def _key(kind: bytes, secret: str) -> bytes:
    # The secret itself is not kept in memory longer than its request. A token is never accepted as a session, nor a
    # session as a token: which of them is used decides whether the origin must be checked.
    return hashlib.sha256(kind + secret.encode()).digest()
