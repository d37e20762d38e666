"""Webhooks: the list of endpoints, one endpoint with its deliveries, and the form for a new one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import msgspec

from ...errors import HoldfastError
from ...model.webhooks import DeliveryWhole, Endpoint, Health
from ...rules.webhooks import origin_of
from ..wire.call import Call
from ..wire.operation import Group
from .forms import ActForm, ask, number_of, refusals_at, words_of
from .frame import Done, Page
from .templates import below

group = Group("Webhooks", kind="page")

SHOWN: Final = 100
_LOGGED: Final = 50
_JUDGED: Final = 24
_AUDIT: Final = 10

_Id = Annotated[str, msgspec.Meta(max_length=128)]
_Line = Annotated[str, msgspec.Meta(max_length=2_048)]


class WebhooksQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The position in the list; `make` asks for the form of a new endpoint."""

    after: _Id = ""
    make: str = ""


class WebhookQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The position in the deliveries, and the delivery to show in full."""

    before: _Id = ""
    delivery: _Id = ""


class NewForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new endpoint: URL, events, tags. Kinds and tags are comma-separated."""

    url: _Line = ""
    events: _Line = ""
    tags: _Line = ""
    tenant: _Id = ""
    concurrency: _Id = ""


@group.get("/webhooks", needs="read")
async def show(call: Call, query: WebhooksQuery) -> Page:
    """Show the endpoints."""
    if query.make:
        return _form(NewForm(), "")
    webhooks = call.client.webhooks
    found = await webhooks.alist(after=query.after or None, limit=SHOWN + 1)
    shown = found[:SHOWN]
    health = await webhooks.ahealth([one.id for one in shown], limit=_JUDGED) if shown else {}
    return Page(
        "webhooks.html",
        {
            "page": "webhooks",
            "rows": [row_of(one, health, whole=call.may("operate")) for one in shown],
            "tenants": not call.identity.tenant and any(one.tenant for one in shown),
            "next": "/webhooks?" + urlencode({"after": shown[-1].id}) if len(found) > SHOWN else None,
            "first": "/webhooks" if query.after else None,
        },
    )


@group.post("/webhooks", needs="admin")
async def add(call: Call, form: NewForm) -> Page:
    """Add an endpoint. The page shows its secret once."""
    try:
        made = await call.client.webhooks.aadd(
            form.url.strip(),
            events=_listed(form.events),
            tags=_listed(form.tags),
            tenant=form.tenant or None,
            concurrency=number_of("the concurrency", form.concurrency) or 4,
            actor=call.actor,
            reason=form.reason,
        )
    except HoldfastError as wrong:
        return _form(form, words_of(wrong), 422)
    return Page(
        "webhook_secret.html", {"page": "webhooks", "endpoint": made, "path": below("webhooks", made.id), "new": True}
    )


@group.get("/webhooks/{endpoint}", needs="read")
async def show_one(call: Call, endpoint: str, query: WebhookQuery) -> Page:
    """Show one endpoint with its deliveries."""
    webhooks = call.client.webhooks
    found, health, log, audit, delivery = await asyncio.gather(
        webhooks.aget(endpoint),
        webhooks.ahealth([endpoint], limit=_LOGGED),
        webhooks.alog(endpoint, before=query.before or None, limit=_LOGGED + 1),
        call.client.audit.alist(target_kind="webhook", target=endpoint, limit=_AUDIT),
        _delivery(call, query.delivery),
    )
    row = row_of(found, health, whole=call.may("operate"))
    return Page(
        "webhook.html",
        {
            "page": "webhooks",
            "endpoint": found,
            "row": row,
            "path": row.path,
            "query": query,
            "log": log[:_LOGGED],
            "delivery": delivery if delivery is not None and delivery.endpoint == found.id else None,
            "audit": audit,
            "older": f"{row.path}?{urlencode({'before': log[_LOGGED - 1].id})}" if len(log) > _LOGGED else None,
        },
    )


async def _delivery(call: Call, delivery_id: str) -> DeliveryWhole | None:
    return await call.client.webhooks.adelivery(delivery_id) if delivery_id else None


def _form(form: NewForm, wrong: str, status: int = 200) -> Page:
    shows: dict[str, Any] = {"page": "webhooks", "asked": form, "wrong": wrong}
    return Page("webhook_new.html", shows, status)


def _listed(text: str) -> list[str] | None:
    return [part.strip() for part in text.split(",") if part.strip()] or None


_UNKNOWN: Final = Health()
_REASONS: Final = {
    "gone": "the endpoint answered 410 Gone",
    "failing": "no delivery succeeded for days",
    "operator": "",
}


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """An endpoint. Only operators see the whole URL: its path may contain a secret."""

    endpoint: Endpoint
    path: str
    url: str
    events: str
    health: Health
    tone: str
    label: str
    """Its health in a word."""
    why: str


def row_of(endpoint: Endpoint, health: Mapping[str, Health], *, whole: bool) -> EndpointRow:
    found = health.get(endpoint.id, _UNKNOWN)
    tone, label = _standing(endpoint, found)
    return EndpointRow(
        endpoint,
        below("webhooks", endpoint.id),
        endpoint.url if whole else origin_of(endpoint.url),
        events_of(endpoint),
        found,
        tone,
        label,
        _REASONS.get(endpoint.reason or "", endpoint.reason or ""),
    )


def events_of(endpoint: Endpoint) -> str:
    """Describe the events it receives."""
    kinds = "jobs that set this webhook" if endpoint.called else ", ".join(endpoint.events or ("job",))
    return f"{kinds}, tagged {' or '.join(endpoint.tags)}" if endpoint.tags else kinds


def _standing(endpoint: Endpoint, health: Health) -> tuple[str, str]:
    if endpoint.state != "active":
        return "plain", "disabled"
    if health.breaker == "open":
        return "bad", "resting"
    if health.breaker == "half_open":
        return "warn", "one attempt"
    if health.rate is not None and health.rate < 0.9:
        return "warn", "failing"
    return ("good", "healthy") if health.rate is not None else ("info", "untried")


class DeliveryForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The delivery."""

    delivery: Annotated[str, msgspec.Meta(max_length=128)]


_on_its_page = refusals_at(lambda endpoint, **_: below("webhooks", endpoint))


@group.post("/webhooks/{endpoint}/disable", needs="operate")
@_on_its_page
async def disable(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Disable the endpoint."""
    if not form.confirmed:
        text = "No more events are sent. Pending deliveries fail and can be retried later."
        return _ask(call, endpoint, form, "Disable this endpoint?", text, "Disable")
    changed = await call.client.webhooks.adisable(endpoint, actor=call.actor, reason=form.reason)
    say = "Disabled: no more events are sent." if changed else "The endpoint was already disabled."
    return Done(below("webhooks", endpoint), say, ok=changed)


@group.post("/webhooks/{endpoint}/enable", needs="operate")
@_on_its_page
async def enable(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Enable the endpoint."""
    changed = await call.client.webhooks.aenable(endpoint, actor=call.actor, reason=form.reason)
    say = "Enabled: new events are sent from now on." if changed else "The endpoint was already enabled."
    return Done(below("webhooks", endpoint), say, ok=changed)


@group.post("/webhooks/{endpoint}/rotate", needs="admin")
@_on_its_page
async def rotate(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Rotate the secret; the page shows the new one once."""
    if not form.confirmed:
        text = "The new secret is shown once. The old one remains valid for a day."
        return _ask(call, endpoint, form, "Rotate the secret?", text, "Rotate secret")
    found = await call.client.webhooks.arotate(endpoint, actor=call.actor, reason=form.reason)
    path = below("webhooks", endpoint)
    return Page("webhook_secret.html", {"page": "webhooks", "endpoint": found, "path": path, "new": False})


@group.post("/webhooks/{endpoint}/test", needs="operate")
@_on_its_page
async def test(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Send a test message."""
    sent = await call.client.webhooks.atest(endpoint, actor=call.actor, reason=form.reason)
    return Done(f"{below('webhooks', endpoint)}?delivery={sent.id}", "Test sent; the result appears here.")


@group.post("/webhooks/{endpoint}/recover", needs="operate")
@_on_its_page
async def recover(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Retry the failed deliveries."""
    if not form.confirmed:
        text = "Up to 1,000 messages, oldest first, with their original ids."
        return _ask(call, endpoint, form, "Retry failed deliveries?", text, "Recover")
    sent = await call.client.webhooks.arecover(endpoint, actor=call.actor, reason=form.reason)
    say = f"{len(sent):,} deliveries are being retried." if sent else "No failed deliveries; nothing was sent."
    return Done(below("webhooks", endpoint), say, ok=bool(sent))


@group.post("/webhooks/{endpoint}/delete", needs="operate")
@_on_its_page
async def delete(call: Call, endpoint: str, form: ActForm) -> Done | Page:
    """Delete the endpoint."""
    if not form.confirmed:
        text = "Pending deliveries are cancelled, and its delivery log is removed. This cannot be undone."
        return _ask(call, endpoint, form, "Delete this endpoint?", text, "Delete", danger=True)
    await call.client.webhooks.adelete(endpoint, actor=call.actor, reason=form.reason)
    return Done("/webhooks", "Endpoint deleted.")


@group.post("/webhooks/{endpoint}/retry", needs="operate")
@_on_its_page
async def retry(call: Call, endpoint: str, form: DeliveryForm) -> Done | Page:
    """Send a message again with its original id, or now if it is scheduled."""
    there = f"{below('webhooks', endpoint)}?delivery={form.delivery}"
    found = await call.client.webhooks.adelivery(form.delivery)
    if found.endpoint != endpoint:
        return Done(below("webhooks", endpoint), "That message belongs to another endpoint.", ok=False)
    done = await call.client.webhooks.aretry(form.delivery, actor=call.actor, reason=form.reason)
    say = "Sending again, with its original id." if done else "Already due or being sent."
    return Done(there, say, ok=done)


def _ask(call: Call, endpoint: str, form: ActForm, title: str, text: str, go: str, **more: Any) -> Page:
    return ask(call, form, title=title, text=text, go=go, back=below("webhooks", endpoint), page="webhooks", **more)
