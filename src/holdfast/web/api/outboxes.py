"""Outboxes: what waits for its destination, what was abandoned, and how to try again."""

from __future__ import annotations

import msgspec

from ...shapes.outboxes import Drain, Due, Outbox, of_drain, of_outbox
from ...shapes.pages import Page, whole
from ..wire.call import Call
from ..wire.operation import Group
from .types import Acting, Name, Reason, Seconds

group = Group("Outboxes", "Events that wait for their destination.")


class DrainWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Only entries that were put so many seconds ago. Without `apply` it is only said which those are."""

    older_than: Seconds = 0.0
    apply: bool = False
    reason: Reason = ""


@group.get("/outboxes", needs="read")
async def list_outboxes(call: Call) -> Page[Outbox]:
    """How each outbox stands that has entries."""
    return whole(await call.client.outbox.alist(), of_outbox)


@group.post("/outboxes/{name}/retry", needs="operate")
async def retry_outbox(call: Call, name: Name, body: Acting) -> Due:
    """Try now what waits for its time or is parked. What is being sent is not touched."""
    due = await call.client.outbox.aretry(name, actor=call.actor, reason=body.reason)
    return Due(changed=due > 0, outbox=name, due=due)


@group.post("/outboxes/{name}/drain", needs="operate")
async def drain_outbox(call: Call, name: Name, body: DrainWanted) -> Drain:
    """Abandoned entries by kind; where it is applied they are tried again."""
    return of_drain(
        await call.client.outbox.adrain(
            name, older_than=body.older_than, apply=body.apply, actor=call.actor, reason=body.reason
        )
    )
