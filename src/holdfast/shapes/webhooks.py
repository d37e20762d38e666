"""Webhooks: endpoints, which show their secret once, and deliveries to them."""

from __future__ import annotations

from typing import Any

import msgspec

from ..model.values import Instant, instant_of
from ..model.webhooks import Delivery as DeliveryRecord
from ..model.webhooks import Endpoint as EndpointRecord
from ..model.webhooks import Sending
from ..rules.webhooks import origin_of


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A URL that is told of what happens. Callers who may not operate see only its scheme and host."""

    id: str
    tenant: str
    url: str
    events: list[str] | None
    tags: list[str] | None
    called: bool
    state: str
    reason: str | None
    concurrency: int
    succeeded_at: Instant | None
    created_at: Instant | None
    updated_at: Instant | None


class NewEndpoint(Endpoint, frozen=True, kw_only=True):
    """An endpoint with the secret that signs: the only time that it is shown."""

    secret: str


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A message to an endpoint. It is a job: `id` finds it among them."""

    id: str
    endpoint: str
    message: str
    event: str
    job: str | None
    at: Instant | None
    state: str
    attempts: int
    next_at: Instant | None
    finished_at: Instant | None
    status: int | None
    ms: int | None
    error: str | None


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """A try of a delivery that failed."""

    attempt: int
    at: Instant | None
    status: int | None
    ms: int | None
    detail: str


class DeliveryWhole(Delivery, frozen=True, kw_only=True):
    """A delivery with each try that failed, the oldest first."""

    tries: list[Try]


def of_endpoint(endpoint: EndpointRecord, *, whole: bool = True) -> Endpoint:
    """Without its secret. A URL may have one in its path, so without `whole` that is left out."""
    return Endpoint(**_facts(endpoint, whole=whole))


def of_new_endpoint(endpoint: EndpointRecord) -> NewEndpoint:
    """One that was just made or has a new secret."""
    return NewEndpoint(**_facts(endpoint, whole=True), secret=endpoint.secret)


def of_delivery(delivery: DeliveryRecord) -> Delivery:
    return Delivery(**_delivery_facts(delivery))


def of_delivery_whole(delivery: DeliveryRecord) -> DeliveryWhole:
    return DeliveryWhole(**_delivery_facts(delivery), tries=[_try(one) for one in delivery.tries])


def _facts(endpoint: EndpointRecord, *, whole: bool) -> dict[str, Any]:
    return {
        "id": endpoint.id,
        "tenant": endpoint.tenant,
        "url": endpoint.url if whole else origin_of(endpoint.url),
        "events": None if endpoint.events is None else list(endpoint.events),
        "tags": None if endpoint.tags is None else list(endpoint.tags),
        "called": endpoint.called,
        "state": endpoint.state,
        "reason": endpoint.reason,
        "concurrency": endpoint.concurrency,
        "succeeded_at": instant_of(endpoint.succeeded_at),
        "created_at": instant_of(endpoint.created_at),
        "updated_at": instant_of(endpoint.updated_at),
    }


def _delivery_facts(delivery: DeliveryRecord) -> dict[str, Any]:
    return {
        "id": delivery.id,
        "endpoint": delivery.endpoint,
        "message": delivery.message,
        "event": delivery.kind,
        "job": delivery.job,
        "at": instant_of(delivery.at),
        "state": delivery.state,
        "attempts": delivery.attempts,
        "next_at": instant_of(delivery.next_at),
        "finished_at": instant_of(delivery.finished_at),
        "status": delivery.status,
        "ms": delivery.ms,
        "error": delivery.error,
    }


def _try(one: Sending) -> Try:
    return Try(attempt=one.attempt, at=instant_of(one.at), status=one.status, ms=one.ms, detail=one.detail)
