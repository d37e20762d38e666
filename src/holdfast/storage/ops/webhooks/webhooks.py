"""Webhook deliveries. Each is a job, with a row that names its endpoint and subject."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from ....clock import SECOND
from ....errors import NotFound
from ....ids import ids
from ....model.jobs import JobSpec
from ....model.limits import JobLimits, key_lane
from ....model.routing import Route
from ....model.values import instant_of
from ....model.webhooks import (
    QUEUE,
    TASK,
    Delivery,
    DeliveryWhole,
    Endpoint,
    Try,
    delivery_of,
    said_by,
    whole_delivery_of,
)
from ....rules.lifecycle import MAX_GENERATION
from ....rules.webhooks import ATTEMPTS
from ...port import Row, Tx
from ...statements import sql
from ..jobs import actions
from ..jobs.enqueue import enqueue, enqueue_keyless
from ..jobs.queries import attempts_of
from .endpoints import get, scope_of

PAGE: Final = 500
_TIMEOUT: Final = 60 * SECOND
_ROUTE: Final = Route(QUEUE)


def delivery_job(
    endpoint: Endpoint, message_id: str, body: str, url: str | None = None, trace: str | None = None
) -> JobSpec:
    """Return the job that sends a message. It has its endpoint's concurrency limit and breaker."""
    limits = JobLimits(
        key_lane(endpoint.tenant, scope_of(endpoint.id)), endpoint.concurrency, breaker=scope_of(endpoint.id)
    )
    payload = {"endpoint": endpoint.id, "message": message_id, "body": body, **({"url": url} if url else {})}
    return JobSpec(
        id=ids.new(),
        task=TASK,
        route=_ROUTE,
        tenant=endpoint.tenant,
        payload=json.dumps(payload, ensure_ascii=False),
        max_attempts=ATTEMPTS,
        timeout=_TIMEOUT,
        limits=limits.encode(),
        trace=trace,
    )


async def send(tx: Tx, made: Sequence[tuple[JobSpec, dict[str, str | None]]]) -> None:
    """Store deliveries, each with its subject: endpoint, message, kind, job."""
    if made:
        if small := [spec for spec, _ in made if spec.is_keyless]:
            await enqueue_keyless(tx, small)
        if large := [spec for spec, _ in made if not spec.is_keyless]:
            await enqueue(tx, large)
        rows = [{"job_id": spec.id, **about} for spec, about in made]
        await tx.one(sql.note_deliveries, rows=json.dumps(rows))


async def log(tx: Tx, endpoint_id: str, before: str | None, n: int) -> list[Delivery]:
    """List the deliveries to an endpoint, the newest first."""
    return [delivery_of(row) for row in await tx.all(sql.deliveries_to, endpoint=endpoint_id, before=before, n=n)]


async def delivery(tx: Tx, delivery_id: str, tenant: str | None) -> DeliveryWhole:
    """Return one delivery with each of its failed attempts."""
    row = await _delivery(tx, delivery_id, tenant)
    tries = []
    for one in await attempts_of(tx, delivery_id):
        status, ms, text = said_by(None, one.error)
        at = instant_of(one.ended_at)
        tries.append(Try(attempt=one.attempt, at=at, status=status, ms=ms, detail=text or one.outcome))
    return whole_delivery_of(row, tuple(tries))


async def retry(tx: Tx, delivery_id: str, tenant: str | None) -> bool:
    """Send a message again under its own id, or now if it is pending; False where it is being sent."""
    state = (await _delivery(tx, delivery_id, tenant))[6]
    if state == "running":
        return False
    if state in ("ready", "blocked"):
        return await actions.run_now(tx, delivery_id)
    return await actions.retry(tx, delivery_id)


async def recover(tx: Tx, endpoint_id: str, since: int, n: int) -> list[str]:
    """Send again the deliveries given up since then; return which."""
    rows = await tx.all(sql.failed_deliveries, endpoint=endpoint_id, since=since, most=MAX_GENERATION, n=n)
    return [job_id for (job_id,) in rows if await actions.retry(tx, job_id)]


async def cancel_page(tx: Tx, endpoint_id: str) -> int:
    """Cancel some pending deliveries before their endpoint is deleted; return how many."""
    rows = await tx.all(sql.waiting_deliveries, endpoint=endpoint_id, n=PAGE)
    for (job_id,) in rows:
        await actions.cancel(tx, job_id, reason="the endpoint was deleted")
    return len(rows)


async def _delivery(tx: Tx, delivery_id: str, tenant: str | None) -> Row:
    row = await tx.one(sql.delivery_of, job_id=delivery_id)
    if row is None:
        raise NotFound("delivery", delivery_id)
    if tenant is not None:
        try:
            await get(tx, row[1], tenant)
        except NotFound:
            raise NotFound("delivery", delivery_id) from None
    return row
