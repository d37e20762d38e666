"""The audit log: operator actions, including denied attempts."""

from __future__ import annotations

from msgspec import structs

from ...model.audit import AuditRecord
from ...model.values import Instant
from ..wire.call import Call
from ..wire.operation import Group
from .paging import Page, part, place_at
from .types import Listing, Name

group = Group("Audit", "Operator actions, with time, actor and reason.")


class AuditQuery(Listing, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Filters. A target needs its kind."""

    actor: Name | None = None
    action: Name | None = None
    target_kind: Name | None = None
    target: Name | None = None
    since: Instant | None = None
    until: Instant | None = None
    tenant: Name | None = None


@group.get("/audit", needs="read")
async def list_audit(call: Call, query: AuditQuery) -> Page[AuditRecord]:
    """List audit records, newest first.

    Callers without the scope `payload` do not see the values.
    """
    found = await call.client.audit.alist(
        actor=query.actor,
        action=query.action,
        target_kind=query.target_kind,
        target=query.target,
        since=query.since,
        until=query.until,
        before=None if query.after is None else place_at(query.after)[0],
        limit=query.limit,
        tenant=query.tenant,
    )
    if not call.may("payload"):
        found = [structs.replace(one, before=None, after=None) for one in found]
    return part(found, query.limit, lambda one: (one.id,))
