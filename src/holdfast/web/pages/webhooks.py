"""Webhooks: the list of endpoints, one endpoint with its deliveries, and the form for a new one."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import msgspec

from ...errors import HoldfastError
from ...model.webhooks import Delivery
from ..wire.call import Call
from ..wire.operation import Group
from .addresses import below
from .asking import ActForm, number_of, words_of
from .frame import Page
from .webhookrows import row_of

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


async def _delivery(call: Call, delivery_id: str) -> Delivery | None:
    return await call.client.webhooks.adelivery(delivery_id) if delivery_id else None


def _form(form: NewForm, wrong: str, status: int = 200) -> Page:
    shows: dict[str, Any] = {"page": "webhooks", "asked": form, "wrong": wrong}
    return Page("webhook_new.html", shows, status)


def _listed(text: str) -> list[str] | None:
    return [part.strip() for part in text.split(",") if part.strip()] or None
