"""What is done to endpoints of webhooks: switch, rotate, test, recover, delete; and to single deliveries."""

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
    """Which delivery."""

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
    """Tell it nothing any more."""
    if not form.confirmed:
        text = "It is told nothing any more. What waits for it fails, and can be recovered."
        return _ask(call, endpoint, form, "Disable this endpoint?", text, "Disable")
    changed = await call.client.webhooks.adisable(endpoint, actor=call.actor, reason=form.reason)
    say = "Disabled: it is told nothing any more." if changed else "It was disabled already."
    return Done(below("webhooks", endpoint), say, ok=changed)


@group.post("/webhooks/{endpoint}/enable", needs="operate")
@_told
async def enable(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Tell it again."""
    changed = await call.client.webhooks.aenable(endpoint, actor=call.actor, reason=form.reason)
    say = "Enabled: it is told of what happens from now on." if changed else "It was enabled already."
    return Done(below("webhooks", endpoint), say, ok=changed)


@group.post("/webhooks/{endpoint}/rotate", needs="admin")
@_told
async def rotate(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Sign with a new secret, which the page has, this once."""
    if not form.confirmed:
        text = "A new secret signs from now on, and is shown once. For a day the old one signs as well."
        return _ask(call, endpoint, form, "Make a new secret?", text, "Rotate the secret")
    found = await call.client.webhooks.arotate(endpoint, actor=call.actor, reason=form.reason)
    path = below("webhooks", endpoint)
    return Page("webhook_secret.html", {"page": "webhooks", "endpoint": found, "path": path, "new": False})


@group.post("/webhooks/{endpoint}/test", needs="operate")
@_told
async def test(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Send a test message."""
    sent = await call.client.webhooks.atest(endpoint, actor=call.actor, reason=form.reason)
    return Done(
        f"{below('webhooks', endpoint)}?delivery={sent.id}", "A test is on its way; what came of it appears here."
    )


@group.post("/webhooks/{endpoint}/recover", needs="operate")
@_told
async def recover(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Send again what was given up."""
    if not form.confirmed:
        text = "Up to 1,000 messages that were given up are sent again, the oldest first, each under its own id."
        return _ask(call, endpoint, form, "Send again what was given up?", text, "Recover")
    sent = await call.client.webhooks.arecover(endpoint, actor=call.actor, reason=form.reason)
    say = f"{len(sent):,} messages are on their way again." if sent else "Nothing was given up; nothing was sent."
    return Done(below("webhooks", endpoint), say, ok=bool(sent))


@group.post("/webhooks/{endpoint}/delete", needs="operate")
@_told
async def delete(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Forget it."""
    if not form.confirmed:
        text = "What waits for it is cancelled, and its log is gone. This cannot be undone."
        return _ask(call, endpoint, form, "Delete this endpoint?", text, "Delete", danger=True)
    await call.client.webhooks.adelete(endpoint, actor=call.actor, reason=form.reason)
    return Done("/webhooks", "The endpoint is deleted.")


@group.post("/webhooks/{endpoint}/replay", needs="operate")
@_told
async def replay(call: Call, endpoint: str, form: DeliveryForm) -> Done | Page:
    """Send a message again under its own id, or now if it waits."""
    there = f"{below('webhooks', endpoint)}?delivery={form.delivery}"
    found = await call.client.webhooks.adelivery(form.delivery)
    if found.endpoint != endpoint:
        return Done(below("webhooks", endpoint), "That message goes to another endpoint.", ok=False)
    done = await call.client.webhooks.areplay(form.delivery, actor=call.actor, reason=form.reason)
    say = "It is sent again, under its own id." if done else "It is being sent just now, or is due already."
    return Done(there, say, ok=done)


def _ask(call: Call, endpoint: str, form: ActForm, title: str, text: str, go: str, **more: Any) -> Page:
    return ask(call, form, title=title, text=text, go=go, back=below("webhooks", endpoint), page="webhooks", **more)
