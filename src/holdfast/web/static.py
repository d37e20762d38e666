"""Scripts, styles and icons from the package. Their URLs contain the version, so browsers can cache them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from .wire.failures import Refused, error_response

FOLDER: Final = Path(__file__).parent / "static"
_YEAR: Final = b"public, max-age=31536000, immutable"
_FRESH: Final = b"no-cache"


class Static:
    """Serves the files of the folder, and nothing outside it."""

    def __init__(self) -> None:
        self._files = StaticFiles(directory=FOLDER)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kept = _YEAR if b"v=" in scope.get("query_string", b"") else _FRESH

        async def sending(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start" and message["status"] in (200, 304):
                headers = [pair for pair in message["headers"] if pair[0] != b"cache-control"]  # type: ignore[attr-defined]
                message = {**message, "headers": [*headers, (b"cache-control", kept)]}
            await send(message)

        try:
            await self._files(scope, receive, sending)  # type: ignore[arg-type]
        except HTTPException as missing:
            await error_response(Refused(missing.status_code, "not_found", "no such file"))(scope, receive, send)
