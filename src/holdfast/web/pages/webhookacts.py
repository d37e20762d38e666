"""Actions on webhook endpoints and deliveries: enable, disable, rotate, test, retry, delete."""

from __future__ import annotations

from functools import wraps
from typing import Annotated, Any

import msgspec

from ...errors import Conflict, InvalidInput
from ..wire.call import Call
from ..wire.operation import Group
from .addresses import below
from .asking import Act, ActForm, ask, sentence
from .frame import Done, Page

group = Group("Webhook actions", kind="page")


class DeliveryForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The delivery."""

    delivery: Annotated[str, msgspec.Meta(max_length=128)]


def _told(act: Act) -> Act:
    @wraps(act)
    async def telling(call: Call, endpoint: str, **given: Any) -> Done | Page:
        try:
            return await act(call, endpoint, **given)
        except (Conflict, InvalidInput) as refused:
            return Done(below("webhooks", endpoint), sentence(str(refused)), ok=False)

    return telling


@group.post("/webhooks/{endpoint}/disable", needs="operate")
@_told
async def disable(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Disable the endpoint."""
    if not form.confirmed:
        text = "No more events are sent. Pending deliveries fail and can be retried later."
        return _ask(call, endpoint, form, "Disable this endpoint?", text, "Disable")
    changed = await call.client.webhooks.adisable(endpoint, actor=call.actor, reason=form.reason)
    say = "Disabled: no more events are sent." if changed else "The endpoint was already disabled."
    return Done(below("webhooks", endpoint), say, ok=changed)


@group.post("/webhooks/{endpoint}/enable", needs="operate")
@_told
async def enable(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Enable the endpoint."""
    changed = await call.client.webhooks.aenable(endpoint, actor=call.actor, reason=form.reason)
    say = "Enabled: new events are sent from now on." if changed else "The endpoint was already enabled."
    return Done(below("webhooks", endpoint), say, ok=changed)


@group.post("/webhooks/{endpoint}/rotate", needs="admin")
@_told
async def rotate(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Rotate the secret; the page shows the new one once."""
    if not form.confirmed:
        text = "The new secret is shown once. The old one remains valid for a day."
        return _ask(call, endpoint, form, "Rotate the secret?", text, "Rotate secret")
    found = await call.client.webhooks.arotate(endpoint, actor=call.actor, reason=form.reason)
    path = below("webhooks", endpoint)
    return Page("webhook_secret.html", {"page": "webhooks", "endpoint": found, "path": path, "new": False})


@group.post("/webhooks/{endpoint}/test", needs="operate")
@_told
async def test(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Send a test message."""
    sent = await call.client.webhooks.atest(endpoint, actor=call.actor, reason=form.reason)
    return Done(f"{below('webhooks', endpoint)}?delivery={sent.id}", "Test sent; the result appears here.")


@group.post("/webhooks/{endpoint}/recover", needs="operate")
@_told
async def recover(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Retry the failed deliveries."""
    if not form.confirmed:
        text = "Up to 1,000 messages, oldest first, with their original ids."
        return _ask(call, endpoint, form, "Retry failed deliveries?", text, "Recover")
    sent = await call.client.webhooks.arecover(endpoint, actor=call.actor, reason=form.reason)
    say = f"{len(sent):,} deliveries are being retried." if sent else "No failed deliveries; nothing was sent."
    return Done(below("webhooks", endpoint), say, ok=bool(sent))


@group.post("/webhooks/{endpoint}/delete", needs="operate")
@_told
async def delete(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Delete the endpoint."""
    if not form.confirmed:
        text = "Pending deliveries are cancelled, and its delivery log is removed. This cannot be undone."
        return _ask(call, endpoint, form, "Delete this endpoint?", text, "Delete", danger=True)
    await call.client.webhooks.adelete(endpoint, actor=call.actor, reason=form.reason)
    return Done("/webhooks", "Endpoint deleted.")


@group.post("/webhooks/{endpoint}/replay", needs="operate")
@_told
async def replay(call: Call, endpoint: str, form: DeliveryForm) -> Done | Page:
    """Send a message again with its original id, or now if it is scheduled."""
    there = f"{below('webhooks', endpoint)}?delivery={form.delivery}"
    found = await call.client.webhooks.adelivery(form.delivery)
    if found.endpoint != endpoint:
        return Done(below("webhooks", endpoint), "That message belongs to another endpoint.", ok=False)
    done = await call.client.webhooks.areplay(form.delivery, actor=call.actor, reason=form.reason)
    say = "Sending again, with its original id." if done else "Already due or being sent."
    return Done(there, say, ok=done)


def _ask(call: Call, endpoint: str, form: ActForm, title: str, text: str, go: str, **more: Any) -> Page:
    return ask(call, form, title=title, text=text, go=go, back=below("webhooks", endpoint), page="webhooks", **more)
