"""The dashboard as a Django view, for Django's users: `path("jobs/", include("holdfast.contrib.django.urls"))`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.middleware.csrf import CsrfViewMiddleware, get_token
from django.views.decorators.csrf import csrf_exempt

from ...model.access import Identity
from ...web import asgi
from ...web.pages.templates import CSRF
from ...web.wire.sse import BRIEF
from .access import identify_again, identity_of
from .exchange import BackgroundLoop, respond, respond_from_thread
from .project import shared_app
from .store_in_tests import is_testing

if TYPE_CHECKING:
    from django.http.response import HttpResponseBase
    from starlette.requests import HTTPConnection
    from starlette.types import ASGIApp, Scope

_VISITOR: Final = "holdfast.visitor"
_FIELD: Final = "csrfmiddlewaretoken"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_MOST: Final = 16 * 1024 * 1024
"""The largest body that the site accepts of anybody, in bytes."""
_BACKGROUND: Final = BackgroundLoop()
_SITES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, ASGIApp]] = WeakKeyDictionary()


class Visitor:
    """The sender of one request. A page that stays open asks again who it is."""

    def __init__(self, request: Any, identity: Identity) -> None:
        self._request = request
        self._identity: Identity | None = identity

    async def identity(self) -> Identity | None:
        """Return the caller: at first as the request came, later as the session and the permissions are then."""
        identity, self._identity = self._identity, None
        return identity or await asyncio.to_thread(identify_again, self._request)


class _CsrfCheck(CsrfViewMiddleware):
    """Django's check, which returns the reason instead of a page."""

    def _reject(self, request: Any, reason: str) -> Any:
        return reason


@csrf_exempt
async def dashboard(request: Any, below: str = "") -> HttpResponseBase:
    """Serve the dashboard and the HTTP API. Programs send a token of Holdfast; browsers are Django's users."""
    csrf = _CsrfCheck(lambda request: None)
    body, scope, refused = await sync_to_async(_admit)(request, below, csrf)
    if refused is not None:
        return refused
    if isinstance(request, ASGIRequest):
        response = await respond(_site(asyncio.get_running_loop()), scope, body)
    elif is_testing():
        # On the loop of this request, from which the store reaches the test's own connection.
        scope[BRIEF] = True
        response = await respond(_site(asyncio.get_running_loop()), scope, body, whole=True)
    else:
        scope[BRIEF] = True
        response = await respond_from_thread(_site(_BACKGROUND.get()), scope, body, _BACKGROUND)
    # With the site's own policy, forms have no origin, and Django refuses them.
    response.headers["referrer-policy"] = "same-origin"
    return await sync_to_async(csrf.process_response)(request, response)


# The site reads and writes in transactions of its own, and Django has none for async views.
setattr(dashboard, "_non_atomic_requests", set(connections))  # noqa: B010


def _site(loop: asyncio.AbstractEventLoop) -> ASGIApp:
    """Return the site of an event loop, with its live pages."""
    if loop not in _SITES:
        # ALLOWED_HOSTS has been checked.
        _SITES[loop] = asgi(shared_app(), hosts=("*",), identify=_identify)
    return _SITES[loop]


async def _identify(connection: HTTPConnection) -> Identity | None:
    visitor: Visitor | None = connection.scope.get(_VISITOR)
    return None if visitor is None else await visitor.identity()


def _admit(request: Any, below: str, csrf: _CsrfCheck) -> tuple[bytes, Scope, HttpResponseBase | None]:
    """Return the body and the scope for the site; or the response to someone who is not admitted."""
    scope = _scope(request, below)
    if "authorization" in request.headers:
        return request.read(_MOST + 1), scope, None
    identity = identity_of(getattr(request, "user", None))
    if identity is None:
        is_page = below.partition("/")[0] not in ("api", "live", "static")
        return b"", scope, _refuse(request) if is_page else None
    scope[_VISITOR] = Visitor(request, identity)
    # Before the check, which may parse it as a form.
    body = request.body
    csrf.process_request(request)
    reason = csrf.process_view(request, None, (), {})
    if reason is not None:
        raise PermissionDenied(f"CSRF Failed: {reason}")
    # Also after a form: what it previews has a form of its own.
    scope[CSRF] = (_FIELD, get_token(request))
    if request.method not in _SAFE:
        # Django has checked the origin, by settings such as CSRF_TRUSTED_ORIGINS that the site does not know.
        kept = [(name, value) for name, value in scope["headers"] if name not in (b"origin", b"sec-fetch-site")]
        scope["headers"] = [*kept, (b"sec-fetch-site", b"same-origin")]
    return _without_token(body), scope, None


def _refuse(request: Any) -> HttpResponseBase:
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        raise PermissionDenied("the dashboard needs the permission holdfast.view_job, operate_job or administer_job")
    return redirect_to_login(request.get_full_path())


def _without_token(body: bytes) -> bytes:
    # The site's forms know no field of Django's.
    field = f"{_FIELD}=".encode()
    return b"&".join(part for part in body.split(b"&") if not part.startswith(field)) if field in body else body


def _scope(request: Any, below: str) -> Scope:
    """Return the ASGI scope of a request, mounted at the path that the project gave the dashboard."""
    mount = str(request.path)[: len(request.path) - len(below)].rstrip("/")
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": _raw_path(request, mount, below),
        "root_path": mount,
        "query_string": request.META.get("QUERY_STRING", "").encode("latin-1"),
        # The name of the site as browsers see it, also behind a proxy.
        "headers": [(b"host", request.get_host().encode("latin-1")), *(h for h in headers if h[0] != b"host")],
        "client": (request.META.get("REMOTE_ADDR", ""), 0),
        "server": None,
    }


def _raw_path(request: Any, mount: str, below: str) -> bytes:
    """Return the path as it was sent, where a name may contain a quoted slash; else the path quoted again."""
    sent = _sent_path(request)
    for prefix, whole in ((mount, request.path), (mount.removeprefix(_script_name(request)), request.path_info)):
        if unquote(sent) == whole:
            inside = sent.split("/")[prefix.count("/") + 1 :]
            return f"{quote(mount)}/{'/'.join(inside)}".encode("latin-1")
    return quote(f"{mount}/{below}").encode("latin-1")


def _sent_path(request: Any) -> str:
    if isinstance(request, ASGIRequest):
        raw: bytes = request.scope.get("raw_path") or b""
        return raw.partition(b"?")[0].decode("latin-1")
    # gunicorn has RAW_URI; uWSGI and mod_wsgi have REQUEST_URI.
    sent: str = request.META.get("RAW_URI") or request.META.get("REQUEST_URI") or ""
    return sent.partition("?")[0]


def _script_name(request: Any) -> str:
    return str(request.path)[: len(request.path) - len(request.path_info)]
