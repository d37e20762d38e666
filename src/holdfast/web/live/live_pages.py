"""GET /live?page=/jobs: follow a page. Needs the same permissions as the page."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from ...app import App
from ...model.access import Identity
from ..pages.frame import HtmlRenderer, Page
from ..pages.templates import mount_of
from ..settings import WebSettings
from ..wire.call import Call
from ..wire.confine import check_operation
from ..wire.dispatch import IDENTITY, Dispatcher
from ..wire.failures import Refused, error_response, refusal_of
from ..wire.operation import Operation
from ..wire.reading import read_arguments
from ..wire.sse import stream
from .hub import Hub


class LivePages:
    """The route that live pages use."""

    def __init__(self, hub: Hub, pages: Dispatcher, renderer: HtmlRenderer, app: App, settings: WebSettings) -> None:
        self._hub = hub
        self._pages = pages
        self._renderer = renderer
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            identity = _known(scope)
            page = _asked(scope)
            operation, values = self._find(page)
            if not identity.may(operation.needs):
                raise Refused(403, "forbidden", f"Missing scope: {operation.needs}")
            call = self._call(scope, page, identity)
            given = await read_arguments(operation, call.request, values, 0, 1.0)
            await check_operation(call, operation, given)
            looked = _RenderedPage(self._renderer, operation, given, call)
            # The content of a page depends on the permissions of its viewer.
            key: Hashable = (mount_of(scope), page, identity.tenant, identity.scopes)
            response = stream(self._hub.watch(key, looked.render))
        except Exception as error:
            response = error_response(refusal_of(error))  # type: ignore[assignment]
        await response(scope, receive, send)

    def _find(self, page: str) -> tuple[Operation, list[str]]:
        found = self._pages.find(urlsplit(page).path)
        if found is None:
            raise Refused(404, "not_found", "no such page")
        return found

    def _call(self, scope: Scope, page: str, identity: Identity) -> Call:
        parts = urlsplit(page)
        asked = {
            "type": "http",
            "method": "GET",
            "path": mount_of(scope) + parts.path,
            "query_string": parts.query.encode(),
            "root_path": mount_of(scope),
            "headers": [],
            IDENTITY: identity,
        }
        return Call(self._app, Request(asked), identity, self._settings)


class _RenderedPage:
    """A page that is rendered again and again."""

    def __init__(self, renderer: HtmlRenderer, operation: Operation, given: Mapping[str, Any], call: Call) -> None:
        self._renderer = renderer
        self._operation = operation
        self._given = given
        self._call = call

    async def render(self) -> Mapping[str, str]:
        page = await self._operation.handler(self._call, **self._given)
        if not isinstance(page, Page):
            return {}
        return self._renderer.templates.parts(page.template, self._call.request, self._call.identity, page.shows)


def _known(scope: Scope) -> Identity:
    identity: Identity | None = scope.get(IDENTITY)
    if identity is None:
        raise Refused(401, "unauthenticated", "log in first")
    return identity


def _asked(scope: Scope) -> str:
    if scope["method"] != "GET":
        raise Refused(405, "method_not_allowed", "use GET here", {"allow": "GET"})
    query: bytes = scope["query_string"]
    pages = parse_qs(query.decode("latin-1")).get("page", [])
    if len(pages) != 1 or not pages[0].startswith("/") or len(pages[0]) > 4_096:
        raise Refused(400, "invalid", "give the page to follow, as in /live?page=/jobs")
    return pages[0]
