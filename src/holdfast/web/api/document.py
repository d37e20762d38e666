"""The OpenAPI document."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..pages.templates import mount_of
from ..wire.call import Call
from ..wire.openapi import document
from ..wire.operation import Group

group = Group("Document", "The API description.")


@group.get("/openapi.json", needs="nothing")
async def openapi(call: Call) -> dict[str, Any]:
    """Get the OpenAPI 3.1 document, generated from the types that validate requests."""
    return {**_document(), "servers": [{"url": mount_of(call.request.scope) or "/"}]}


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    from . import GROUPS

    return document(GROUPS)
