"""The guard: the single entry point for all requests."""

from __future__ import annotations

from typing import Final

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...model.access import Identity
from ..settings import WebSettings
from ..wire.dispatch import FORGET, IDENTITY
from ..wire.failures import Refused, error_response, refusal_of
from ..wire.seats import SEATS, Seats
from .cors import allowed_origin, is_preflight, preflight, shared_with
from .headers import protect
from .hosts import check_host, check_size
from .identify import Authenticator
from .origins import check_origin
from .throttle import Throttle

_BY_BROWSER: Final = frozenset({"session", "local", "host"})


class Guard:
    """Checks host, caller, origin and rate, in this order, and adds the security headers to every response."""

    def __init__(self, inner: ASGIApp, authenticator: Authenticator, settings: WebSettings) -> None:
        self._inner = inner
        self._authenticator = authenticator
        self._settings = settings
        self._seats = Seats(
            settings.viewers, authenticator.identify, every=settings.recheck, each_alone=settings.identify is not None
        )
        self._rates = Throttle(burst=max(1.0, settings.rate), per_second=settings.rate) if settings.rate else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, _protected(send))
        else:
            # WebSocket is not supported; closing before accepting is a 403.
            await send({"type": "websocket.close", "code": 1000})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        origin = allowed_origin(scope, connection.headers, self._settings.origins)
        send = send if origin is None else shared_with(origin, send)
        try:
            check_size(scope)
            check_host(connection.headers.get("host", ""), self._settings.hosts)
            if origin is not None and is_preflight(scope, connection.headers):
                await preflight()(scope, receive, send)
                return
            identity = await self._authenticator.identify(connection)
            # An allowed origin may call anonymously or with a token; cookies count only for our own pages.
            if (identity is None and origin is None) or (identity is not None and identity.via in _BY_BROWSER):
                cookie = identity is not None and identity.via != "local"
                check_origin(scope["method"], connection.headers, cookie=cookie)
            self._check_rate(identity)
        except Exception as error:
            await error_response(refusal_of(error))(scope, receive, send)
            return
        scope[IDENTITY], scope[SEATS], scope[FORGET] = identity, self._seats, self._authenticator.forget_session
        await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application behind the guard; if it fails, send an error with the same headers."""
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._inner(scope, receive, sending)
        except Exception as error:
            if begun:
                raise
            await error_response(refusal_of(error))(scope, receive, send)

    def _check_rate(self, identity: Identity | None) -> None:
        if self._rates is None or identity is None or identity.via == "local":
            return
        if wait := self._rates.take(identity.name):
            raise Refused(429, "rate_limited", "too many requests", {"retry-after": str(int(wait) + 1)})


def _protected(send: Send) -> Send:
    async def sending(message: Message) -> None:
        await send(protect(message) if message["type"] == "http.response.start" else message)

    return sending
