"""Webhooks: endpoints and deliveries. A secret is shown once, when it is new."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ...model.values import Instant
from ...model.webhooks import Delivery, DeliveryWhole, Endpoint, NewEndpoint
from ...rules.webhooks import origin_of
from ..wire.call import Call
from ..wire.operation import Group
from .paging import Page, part, place_at
from .types import Acting, Changed, Listing, Name, PageSize, Reason, ReasonQuery, Seconds

group = Group("Webhooks", "Signed event notifications, retried until delivered.")

Url = Annotated[str, msgspec.Meta(min_length=1, max_length=2_048, pattern=r"^https?://[\x21-\x7e]+$")]
Kinds = Annotated[list[Name], msgspec.Meta(min_length=1, max_length=64)]
Tag = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]
Tags = Annotated[list[Tag], msgspec.Meta(min_length=1, max_length=32)]


class NewWebhook(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new endpoint.

    `events` are kinds or prefixes, such as job.failed or flow; left out, all job events. `tags` restrict it to jobs
    with at least one of them.
    """

    url: Url
    events: Kinds | None = None
    tags: Tags | None = None
    tenant: Name | None = None
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 4
    reason: Reason = ""


class Rotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The seconds for which the old secret stays valid."""

    overlap: Seconds = 86_400.0
    reason: Reason = ""


class Recovery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The maximum number, and the earliest time."""

    since: Instant | None = None
    limit: PageSize = 1_000
    reason: Reason = ""


class Recovered(Changed, frozen=True, kw_only=True):
    """The deliveries that are retried."""

    deliveries: list[str]


@group.get("/webhooks", needs="read")
async def list_webhooks(call: Call, query: Listing) -> Page[Endpoint]:
    """List the endpoints, without their secrets."""
    after = None if query.after is None else place_at(query.after)[0]
    found = await call.client.webhooks.alist(after=after, limit=query.limit)
    return part([_shown(call, one) for one in found], query.limit, lambda one: (one.id,))


@group.post("/webhooks", needs="admin", status=201)
async def add_webhook(call: Call, body: NewWebhook) -> NewEndpoint:
    """Add an endpoint for new events.

    The response contains its signing secret, once.
    """
    return await call.client.webhooks.aadd(
        body.url,
        events=body.events,
        tags=body.tags,
        tenant=body.tenant,
        concurrency=body.concurrency,
        actor=call.actor,
        reason=body.reason,
    )


@group.get("/webhooks/{endpoint}", needs="read")
async def get_webhook(call: Call, endpoint: Name) -> Endpoint:
    """Get an endpoint, without its secret."""
    return _shown(call, await call.client.webhooks.aget(endpoint))


@group.delete("/webhooks/{endpoint}", needs="operate")
async def delete_webhook(call: Call, endpoint: Name, query: ReasonQuery) -> Changed:
    """Delete an endpoint and cancel its pending deliveries."""
    await call.client.webhooks.adelete(endpoint, actor=call.actor, reason=query.reason)
    return Changed(changed=True)


@group.post("/webhooks/{endpoint}/rotate", needs="admin")
async def rotate_webhook(call: Call, endpoint: Name, body: Rotation) -> NewEndpoint:
    """Rotate the signing secret.

    The response contains the new secret, once.
    """
    webhooks = call.client.webhooks
    return await webhooks.arotate(endpoint, overlap=body.overlap, actor=call.actor, reason=body.reason)


@group.post("/webhooks/{endpoint}/disable", needs="operate")
async def disable_webhook(call: Call, endpoint: Name, body: Acting) -> Changed:
    """Disable an endpoint; its pending deliveries fail and can be retried."""
    return Changed(changed=await call.client.webhooks.adisable(endpoint, actor=call.actor, reason=body.reason))


@group.post("/webhooks/{endpoint}/enable", needs="operate")
async def enable_webhook(call: Call, endpoint: Name, body: Acting) -> Changed:
    """Enable an endpoint, for new events."""
    return Changed(changed=await call.client.webhooks.aenable(endpoint, actor=call.actor, reason=body.reason))


@group.post("/webhooks/{endpoint}/test", needs="operate", status=202)
async def test_webhook(call: Call, endpoint: Name, body: Acting) -> Delivery:
    """Send a test message."""
    return await call.client.webhooks.atest(endpoint, actor=call.actor, reason=body.reason)


@group.get("/webhooks/{endpoint}/deliveries", needs="read")
async def list_deliveries(call: Call, endpoint: Name, query: Listing) -> Page[Delivery]:
    """List the deliveries to an endpoint, newest first."""
    before = None if query.after is None else place_at(query.after)[0]
    found = await call.client.webhooks.alog(endpoint, before=before, limit=query.limit)
    return part(found, query.limit, lambda one: (one.id,))


@group.post("/webhooks/{endpoint}/recover", needs="operate")
async def recover_webhook(call: Call, endpoint: Name, body: Recovery) -> Recovered:
    """Retry failed deliveries, oldest first."""
    sent = await call.client.webhooks.arecover(
        endpoint, since=body.since, limit=body.limit, actor=call.actor, reason=body.reason
    )
    return Recovered(changed=bool(sent), deliveries=sent)


@group.get("/deliveries/{delivery}", needs="read")
async def get_delivery(call: Call, delivery: Name) -> DeliveryWhole:
    """Get a delivery, with its failed attempts."""
    return await call.client.webhooks.adelivery(delivery)


@group.post("/deliveries/{delivery}/retry", needs="operate")
async def retry_delivery(call: Call, delivery: Name, body: Acting) -> Changed:
    """Send a message again with its original id, or now if it is scheduled. Unchanged while it is being sent."""
    return Changed(changed=await call.client.webhooks.aretry(delivery, actor=call.actor, reason=body.reason))


def _shown(call: Call, endpoint: Endpoint) -> Endpoint:
    """Leave the path, which may have a secret in it, to callers who may operate."""
    return endpoint if call.may("operate") else msgspec.structs.replace(endpoint, url=origin_of(endpoint.url))
