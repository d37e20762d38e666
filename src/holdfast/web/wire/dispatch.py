"""The handling of one request: find the operation, check permissions, parse, run, respond."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...app import App
from ...errors import AccessDenied, BadHandle
from ...model.access import NOBODY, Identity
from ...tasks.tenants import creating_as
from ..settings import WebSettings
from .access_log import AccessLog
from .call import Call
from .confine import check_operation
from .failures import Refused, error_response, refusal_of
from .operation import Answered as Answered
from .operation import Kind, Operation
from .reading import read_arguments
from .router import Router, segments_of

IDENTITY: Final = "holdfast.identity"
"""The key under which the guard stores the identity in the request's scope."""
FORGET: Final = "holdfast.forget"
"""The key of the function that makes the guard look up an ended session again."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_SEGMENTS: Final = 32
_MOST_NOTED: Final = 200


class Renderer(Protocol):
    """Renders responses and errors of one kind: JSON, or HTML pages."""

    async def answer(self, operation: Operation, call: Call, result: Any) -> Response: ...

    async def refuse(self, request: Request, refused: Refused) -> Response: ...


class JsonRenderer:
    """Renders responses as JSON."""

    async def answer(self, operation: Operation, call: Call, result: Any) -> Response:
        status, headers = operation.status, None
        if isinstance(result, Answered):
            status, headers, result = result.status, result.headers, result.value
        content = b"" if status == 204 else msgspec.json.encode(result)
        return Response(content, status, headers, media_type=operation.media if content else None)

    async def refuse(self, request: Request, refused: Refused) -> Response:
        return error_response(refused)


class Dispatcher:
    """An ASGI application of operations. The guard in front of it has already identified the caller."""

    def __init__(
        self,
        app: App,
        settings: WebSettings,
        operations: Iterable[Operation],
        renderers: Mapping[Kind, Renderer],
        other: Renderer,
        log: AccessLog,
    ) -> None:
        self._app = app
        self._settings = settings
        self._router = Router(operations)
        self._renderers = renderers
        self._log = log
        self._other = other
        """The application to use where no operation matches."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        identity: Identity | None = scope.get(IDENTITY)
        # Also while the response is sent: a stream enqueues its job only then.
        with creating_as((identity or NOBODY).actor):
            response = await self.respond(request)
            await response(scope, receive, send)

    async def respond(self, request: Request) -> Response:
        """Return the response to a request, including error responses."""
        renderer = self._other
        try:
            methods, values = self._find(request.scope)
            operation = _pick(methods, request.method)
            renderer = self._renderers[operation.kind]
            call = Call(self._app, request, await self._admitted(operation, request), self._settings)
            limit = self._limit(operation)
            given = await read_arguments(operation, request, values, limit, self._settings.request_seconds)
            try:
                await check_operation(call, operation, given)
                result = await operation.handler(call, **given)
                await self._note_read(operation, request, call.identity, given)
            except (AccessDenied, BadHandle):
                await self._note(operation, request, call.identity)
                raise
            return result if isinstance(result, Response) else await renderer.answer(operation, call, result)
        except Exception as error:
            return await renderer.refuse(request, refusal_of(error))

    def _limit(self, operation: Operation) -> int:
        """Return the maximum size of an operation's body."""
        settings = self._settings
        if operation.bulk:
            return settings.bulk_limit
        return min(settings.small_limit, settings.body_limit) if operation.small else settings.body_limit

    def find(self, path: str) -> tuple[Operation, list[str]] | None:
        """Return the operation that handles GET for a path below this application, and its path parameters."""
        found = self._router.find(path)
        return (found[0]["GET"], found[1]) if found is not None and "GET" in found[0] else None

    def _find(self, scope: Scope) -> tuple[dict[str, Operation], list[str]]:
        found = self._router.find(path_below(scope))
        if found is None:
            raise Refused(404, "not_found", "not found")
        return found

    async def _admitted(self, operation: Operation, request: Request) -> Identity:
        identity: Identity | None = request.scope.get(IDENTITY)
        if operation.needs == "nothing":
            return identity or NOBODY
        if identity is None:
            raise Refused(401, "unauthenticated", "a token is required", {"www-authenticate": "Bearer"})
        if not identity.may(operation.needs):
            await self._note(operation, request, identity)
            raise Refused(403, "forbidden", f"Missing scope: {operation.needs}")
        return identity

    async def _note_read(
        self, operation: Operation, request: Request, identity: Identity, given: Mapping[str, Any]
    ) -> None:
        """Audit that a payload was shown; not on this machine, whose user can read the store itself."""
        if operation.shows_payload and identity.may("payload") and identity.via != "local":
            kind = "flow" if "flow_id" in given else "job"
            await self._log.note_read(identity.actor, kind, given[f"{kind}_id"], _said(operation, request))

    async def _note(self, operation: Operation, request: Request, identity: Identity) -> None:
        """Audit an attempt to act without permission; refused reads are not audited."""
        if operation.method not in SAFE:
            await self._log.note_refusal(identity.actor, _said(operation, request))


def _said(operation: Operation, request: Request) -> str:
    return f"{operation.method} {path_below(request.scope)}"[:_MOST_NOTED]


def path_below(scope: Scope) -> str:
    """Return the path below the mount point, still quoted: a name may contain a quoted slash."""
    raw: bytes | None = scope.get("raw_path")
    path = raw.partition(b"?")[0].decode("latin-1") if raw else quote(scope["path"])
    return _below(path, scope.get("root_path", ""))


@lru_cache(maxsize=256)
def _below(path: str, root: str) -> str:
    mounted = [part for part in root.split("/") if part]
    segments = segments_of(path)[len(mounted) :]
    if len(segments) > _MOST_SEGMENTS:
        raise Refused(404, "not_found", "not found")
    return "/" + "/".join(segments)


def _pick(methods: dict[str, Operation], method: str) -> Operation:
    operation = methods.get("GET" if method == "HEAD" else method)
    if operation is None:
        allowed = ", ".join(sorted(methods))
        raise Refused(405, "method_not_allowed", f"use {allowed} here", {"allow": allowed})
    return operation
