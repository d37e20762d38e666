"""Errors by kind: same task, same exception, same way through the code."""

from __future__ import annotations

import msgspec

from ...names import check_instant
from ...shapes.figures import ErrorGroup, ErrorWhole, of_error, of_error_whole
from ...shapes.pages import Page, whole
from ...shapes.values import Instant
from ..wire.call import Call
from ..wire.operation import Group
from .types import Name, PageSize

group = Group("Errors", "What went wrong, by kind.")


class ErrorQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of one task, seen since then, so many at most."""

    task: Name | None = None
    since: Instant | None = None
    limit: PageSize = 50


@group.get("/errors", needs="read")
async def list_errors(call: Call, query: ErrorQuery) -> Page[ErrorGroup]:
    """The kinds of errors, the last seen first. Workers count them every few seconds."""
    since = None if query.since is None else check_instant("since", query.since)
    return whole(await call.client.errors.alist(task=query.task, since=since, limit=query.limit), of_error)


@group.get("/errors/{fingerprint}", needs="read")
async def get_error(call: Call, fingerprint: Name) -> ErrorWhole:
    """One kind, with the traceback of its newest."""
    return of_error_whole(await call.client.errors.ashow(fingerprint), payload=call.may("payload"))
