"""The HTTP API and the dashboard, as an ASGI application.

`holdfast serve shop.jobs:app` serves it; `holdfast.web.asgi(app)` mounts it in a program of yours.
"""

from __future__ import annotations

from typing import Any

from ..errors import ConfigError, MissingExtra

try:
    from starlette.types import ASGIApp

    from .site import build
except ModuleNotFoundError as missing:
    if not MissingExtra.explains(missing, "web"):
        raise
    raise MissingExtra("holdfast.web", missing, "web") from missing

from ..app import App
from ..model.access import Identity
from .settings import WebSettings


def asgi(app: App, **settings: Any) -> ASGIApp:
    """Return the site as an ASGI application, to serve or to mount: `Mount("/jobs", holdfast.web.asgi(app))`.

    Callers need a token or a session. The settings are those of `WebSettings`: `hosts` are the allowed host names;
    `identify` is an async function that returns the identity of a request, such as from your own login.
    """
    if not isinstance(app, App):
        raise ConfigError(f"asgi takes a holdfast.App, not {app!r}; write: holdfast.web.asgi(holdfast.App(…))")
    return build(app, WebSettings(**settings))


__all__ = ["asgi", "Identity", "WebSettings"]
