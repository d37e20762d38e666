"""Errors grouped by task, exception and stack trace."""

from __future__ import annotations

import msgspec
from msgspec import structs

from ...model.stats import ErrorGroup, ErrorWhole
from ...model.values import Instant
from ..wire.call import Call
from ..wire.operation import Group
from .paging import Page, whole
from .types import Name, PageSize

group = Group("Errors", "Errors grouped by task, exception and stack trace.")


class ErrorQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The task, the time since last seen, and the maximum number."""

    task: Name | None = None
    since: Instant | None = None
    limit: PageSize = 50


@group.get("/errors", needs="read")
async def list_errors(call: Call, query: ErrorQuery) -> Page[ErrorGroup]:
    """List the error groups, most recent first.

    Workers update the counts every few seconds.
    """
    return whole(await call.client.errors.alist(task=query.task, since=query.since, limit=query.limit))


@group.get("/errors/{fingerprint}", needs="read")
async def get_error(call: Call, fingerprint: Name) -> ErrorWhole:
    """Get an error group with its latest traceback."""
    found = await call.client.errors.ashow(fingerprint)
    return found if call.may("payload") else structs.replace(found, traceback=None)
