"""The composed site: the guard, and behind it the API, the pages, live updates and static files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from ..app import App
from .api import GROUPS
from .guard.guard import Guard
from .guard.identify import Authenticator
from .live.hub import Hub
from .live.live_pages import LivePages
from .pages import PAGES
from .pages.frame import HtmlRenderer
from .pages.templates import MOUNT, Templates, mount_of
from .settings import WebSettings
from .static import Static
from .wire.access_log import AccessLog
from .wire.dispatch import Dispatcher, JsonRenderer, path_below
from .wire.failures import Refused, error_response

API: Final = "/api/v1"


def build(app: App, settings: WebSettings) -> ASGIApp:
    """The site as an ASGI application, to serve or to mount."""
    authenticator = Authenticator(app, settings)
    json, html = JsonRenderer(), HtmlRenderer(Templates(app))
    hub, log = Hub(refreshes=settings.refreshes), AccessLog(app)
    api = Dispatcher(app, settings, [op for group in GROUPS for op in group.operations], {"api": json}, json, log)
    pages = Dispatcher(app, settings, [op for group in PAGES for op in group.operations], {"page": html}, html, log)
    parts: dict[str, ASGIApp] = {
        API: api,
        "/api": _beside_the_api,
        "/static": Static(),
        "/live": LivePages(hub, pages, html, app, settings),
    }
    return Guard(_Parts(parts, pages), authenticator, settings)


class _Parts:
    """Routes a request to the part whose path prefix matches, otherwise to the pages."""

    def __init__(self, parts: Mapping[str, ASGIApp], pages: ASGIApp) -> None:
        self._parts = parts
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        path = path_below(scope)
        for prefix, part in self._parts.items():
            if path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", "/"):
                below = {**scope, "root_path": scope.get("root_path", "") + prefix, MOUNT: mount_of(scope)}
                await part(below, receive, send)
                return
        await self._pages(scope, receive, send)


async def _beside_the_api(scope: Scope, receive: Receive, send: Send) -> None:
    message = f"the API is below {API}; {API}/openapi.json lists its operations"
    await error_response(Refused(404, "not_found", message))(scope, receive, send)


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
