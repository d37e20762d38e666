"""Responses of pages: a template with its context, a redirect after an action, or an error page."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ...model.access import Identity
from ..wire.call import Call
from ..wire.dispatch import IDENTITY, path_below
from ..wire.failures import Refused
from ..wire.operation import Operation
from .templates import Templates, mount_of

FLASH: Final = "holdfast_flash"
_FLASH_SECONDS: Final = 20


@dataclass(frozen=True, slots=True)
class Page:
    """A template with its context. Its blocks named `live_…` are re-sent while the page is open."""

    template: str
    shows: dict[str, Any] = field(default_factory=dict[str, Any])
    status: int = 200


@dataclass(frozen=True, slots=True)
class Done:
    """A redirect after an action, with a message."""

    to: str
    say: str
    ok: bool = True


class HtmlRenderer:
    """Renders responses as HTML."""

    def __init__(self, templates: Templates) -> None:
        self.templates: Final = templates

    async def answer(self, operation: Operation, call: Call, result: Any) -> Response:
        if isinstance(result, Done):
            return _after(call.request, result)
        assert isinstance(result, Page)
        flash = _flash(call.request)
        html = await self.templates.render(result.template, call.request, call.identity, result.shows, flash=flash)
        response = HTMLResponse(html, result.status)
        if flash is not None:
            response.delete_cookie(FLASH, path=mount_of(call.request.scope) or "/")
        return response

    async def refuse(self, request: Request, refused: Refused) -> Response:
        if refused.status == 401 and request.method in ("GET", "HEAD"):
            return _to_login(request)
        identity: Identity | None = request.scope.get(IDENTITY)
        shows = {"status": refused.status, "problem": refused.problem}
        html = await self.templates.render("error.html", request, identity, shows)
        return HTMLResponse(html, refused.status, refused.headers)


def _to_login(request: Request) -> Response:
    query = request.url.query
    wanted = path_below(request.scope) + (f"?{query}" if query else "")
    return RedirectResponse(f"{mount_of(request.scope)}/login?next={quote(wanted, safe='')}", 303)


def _after(request: Request, done: Done) -> Response:
    mount = mount_of(request.scope)
    response = RedirectResponse(mount + done.to, 303)
    said = quote(json.dumps({"say": done.say[:1_000], "ok": done.ok}))
    # Read by the next page and dropped there. It is shown as text, so forging it affects only the forger.
    response.set_cookie(FLASH, said, max_age=_FLASH_SECONDS, path=mount or "/", httponly=True, samesite="strict")
    return response


def _flash(request: Request) -> dict[str, Any] | None:
    text = request.cookies.get(FLASH)
    if not text:
        return None
    try:
        said = json.loads(unquote(text))
        # Lone surrogates can be decoded but not encoded.
        return {"say": str(said["say"]).encode("utf-8", "replace").decode(), "ok": bool(said["ok"])}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
