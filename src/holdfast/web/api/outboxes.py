"""Outboxes: pending and abandoned entries, and how to retry them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ...client.outbox import Outbox as OutboxOf
from ...errors import ConfigError, NotFound
from ...model.outbox import DrainReport, OutboxCounts, Outgoing
from ...shapes.jobs import AcceptedMany
from ..wire.call import Call
from ..wire.operation import Group
from .enqueue import MOST
from .paging import Page, whole
from .types import Acting, Changed, Name, Reason, Seconds

group = Group("Outboxes", "Events waiting for delivery to their destination.")


class NewEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An event. Events with the same `key` are delivered in order; an `id` of your own makes it unique."""

    data: Any
    kind: Name | None = None
    key: Name | None = None
    id: Name | None = None


class NewEvents(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Events to add together: all or none."""

    events: Annotated[list[NewEvent], msgspec.Meta(min_length=1, max_length=MOST)]


class DrainWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Selects entries older than this many seconds.

    Without `apply` the response is a preview. `apply` needs `older_than`; 0 selects all.
    """

    older_than: Seconds | None = None
    apply: bool = False
    reason: Reason = ""


class Due(Changed, frozen=True, kw_only=True):
    """The number of entries that have become due."""

    outbox: str
    due: int


@group.get("/outboxes", needs="read")
async def list_outboxes(call: Call) -> Page[OutboxCounts]:
    """List the outboxes that have entries."""
    return whole(await call.client.outbox.alist())


@group.post("/outboxes/{name}/events", needs="publish", status=201, bulk=True)
async def put_events(call: Call, name: Name, body: NewEvents) -> AcceptedMany:
    """Add up to 10,000 events to an outbox of this app, in one transaction.

    The ids are those of the entries, in the order of the events. Events of a disabled kind have none.
    """
    outgoing = [Outgoing(event.data, event.kind or "", event.key, event.id) for event in body.events]
    jobs = await _outbox(call, name).aput_many(outgoing)
    return AcceptedMany(ids=[job.id for job in jobs], created=sum(job.created for job in jobs))


@group.post("/outboxes/{name}/retry", needs="operate")
async def retry_outbox(call: Call, name: Name, body: Acting) -> Due:
    """Retry scheduled and parked entries now. Entries being sent are unchanged."""
    due = await call.client.outbox.aretry(name, actor=call.actor, reason=body.reason)
    return Due(changed=due > 0, outbox=name, due=due)


@group.post("/outboxes/{name}/drain", needs="operate")
async def drain_outbox(call: Call, name: Name, body: DrainWanted) -> DrainReport:
    """List abandoned entries by kind; with `apply`, retry them."""
    return await call.client.outbox.adrain(
        name, older_than=body.older_than, apply=body.apply, actor=call.actor, reason=body.reason
    )


def _outbox(call: Call, name: str) -> OutboxOf:
    try:
        return call.client.outbox(name)
    except ConfigError:
        # A client error, not a configuration error: the caller named an unknown destination.
        raise NotFound("outbox", name) from None
