"""Webhook endpoints: the events that each receives, and the secrets that sign its messages."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from ....clock import SECOND
from ....errors import NotFound
from ....model.jobs import JobSpec
from ....model.limits import BreakerRecord
from ....model.webhooks import BREAKER, Endpoint, Health, NewEndpoint, Signed, endpoint_of, new_endpoint_of
from ....rules.signing import new_secret
from ....rules.webhooks import asks_for_all, origin_of
from ...port import Row, Tx
from ...statements import sql
from .. import events
from ..limits import breakers

TOPIC: Final = "webhooks"
CONCURRENCY: Final = 4
SECRET_BYTES: Final = 32
_FAILURES: Final = 5
_OPEN_FOR: Final = 60 * SECOND
_NOTED_EVERY: Final = 60 * SECOND
_WHAT: Final = "webhook endpoint"


async def note_called(tx: Tx, specs: Sequence[JobSpec]) -> None:
    """Store the callback URLs of new jobs in the commit that stores the jobs; create missing endpoints."""
    called = [(spec, spec.webhook) for spec in specs if spec.webhook is not None]
    if not called:
        return
    for (id, tenant), url in sorted({(webhook[0], spec.tenant): webhook[1] for spec, webhook in called}.items()):
        if await tx.one(sql.get_webhook, id=id) is None:
            secret = new_secret(secrets.token_bytes(SECRET_BYTES))
            await add(tx, id=id, tenant=tenant, url=origin_of(url), secret=secret, called=True)
    rows = [{"job_id": spec.id, "url": webhook[1]} for spec, webhook in called]
    await tx.one(sql.note_callbacks, rows=json.dumps(rows))
    await events.asked(tx, [spec.id for spec, _ in called if spec.tags and asks_for_all(spec.tags)])


async def add(
    tx: Tx,
    *,
    id: str,
    tenant: str,
    url: str,
    secret: str,
    events_wanted: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    called: bool = False,
    concurrency: int = CONCURRENCY,
) -> bool:
    """Create an endpoint that receives events from now on; False where it exists already."""
    newest = await events.newest(tx)
    row = await tx.one(
        sql.add_webhook, id=id, tenant=tenant, url=url, events=_json(events_wanted), tags=_json(tags),
        called=int(called), secret=secret, concurrency=concurrency, after_seq=newest,
    )  # fmt: skip
    if row is None:
        return False
    await tx.one(sql.begin_webhook_mark, seq=newest)
    await breakers.ensure(tx, scope_of(id), _FAILURES, _OPEN_FOR, origin="code")
    tx.notify(TOPIC)
    return True


async def get(tx: Tx, endpoint_id: str, tenant: str | None = None) -> Endpoint:
    """Return one endpoint; another tenant's is not found."""
    return endpoint_of(await _get(tx, endpoint_id, tenant))


async def get_with_secret(tx: Tx, endpoint_id: str, tenant: str | None = None) -> NewEndpoint:
    """Return one endpoint with its secret, which is shown only when it is new."""
    return new_endpoint_of(await _get(tx, endpoint_id, tenant))


async def _get(tx: Tx, endpoint_id: str, tenant: str | None) -> Row:
    row = await tx.one(sql.get_webhook, id=endpoint_id)
    if row is None or tenant not in (None, row[1]):
        raise NotFound(_WHAT, endpoint_id)
    return row


async def list_endpoints(tx: Tx, tenant: str | None, after: str, n: int) -> list[Endpoint]:
    return [endpoint_of(row) for row in await tx.all(sql.list_webhooks, tenant=tenant, after=after, n=n)]


async def rotate(tx: Tx, endpoint_id: str, secret: str, overlap: int) -> None:
    """Sign with a new secret, and for a while with the old one too."""
    await tx.one(sql.rotate_webhook, id=endpoint_id, secret=secret, overlap=overlap)


async def disable(tx: Tx, endpoint_id: str, reason: str) -> bool:
    """Disable an endpoint; its pending deliveries fail when they run. False if it was disabled."""
    if await tx.one(sql.disable_webhook, id=endpoint_id, reason=reason) is None:
        return False
    await _release(tx, endpoint_id)
    return True


async def enable(tx: Tx, endpoint_id: str) -> bool:
    """Enable an endpoint from now on; False if it was enabled."""
    if await tx.one(sql.enable_webhook, id=endpoint_id, after_seq=await events.newest(tx)) is None:
        return False
    await _release(tx, endpoint_id)
    tx.notify(TOPIC)
    return True


async def delete(tx: Tx, endpoint_id: str) -> bool:
    """Delete an endpoint; its deliveries stay as jobs, as long as those are kept."""
    if await tx.one(sql.delete_webhook, id=endpoint_id) is None:
        return False
    await tx.one(sql.forget_deliveries_to, endpoint=endpoint_id)
    await breakers.remove(tx, scope_of(endpoint_id))
    return True


async def signed(tx: Tx, endpoint_ids: Collection[str]) -> dict[str, Signed]:
    """Return what deliveries need from their endpoints; deleted endpoints are left out."""
    found: dict[str, Signed] = {}
    for id, url, state, reason, secret, old, old_until, succeeded_at, now in await tx.all(
        sql.signing_webhooks, ids=json.dumps(sorted(endpoint_ids))
    ):
        secrets = (secret, old) if old is not None and old_until > now else (secret,)
        found[id] = Signed(url, state, reason, secrets, succeeded_at, now)
    return found


def is_noteworthy(endpoint: Signed) -> bool:
    """Return whether a success is worth a write."""
    return endpoint.succeeded_at is None or endpoint.succeeded_at < endpoint.now - _NOTED_EVERY


async def succeeded(tx: Tx, endpoint_id: str) -> None:
    await tx.one(sql.note_webhook_success, id=endpoint_id, rest=_NOTED_EVERY)


async def given_up(tx: Tx, endpoint_id: str, since: int) -> bool:
    """Record that a delivery has failed for good: if none succeeded meanwhile, the endpoint is disabled."""
    if await tx.one(sql.disable_failing_webhook, id=endpoint_id, since=since) is None:
        return False
    await _release(tx, endpoint_id)
    return True


async def _release(tx: Tx, endpoint_id: str) -> None:
    """Release the deliveries behind its breaker: they need not wait any more."""
    await breakers.reset(tx, scope_of(endpoint_id))


def scope_of(endpoint_id: str) -> str:
    return BREAKER + endpoint_id


def _json(words: Sequence[str] | None) -> str | None:
    return None if words is None else json.dumps(list(words))


async def health_of(tx: Tx, ids: Sequence[str], tenant: str | None, n: int) -> dict[str, Health]:
    """Return the health of each endpoint, by its newest `n` deliveries. Unknown or other tenants' ones are left out."""
    asked = json.dumps(list(ids))
    found: dict[str, Health] = {}
    for id, threshold, open_for, failures, opened, until, now in await tx.all(
        sql.breakers_of_webhooks, ids=asked, tenant=tenant
    ):
        stands = BreakerRecord(
            scope=scope_of(id), threshold=threshold, open_for=open_for, opened_at=opened, open_until=until, now=now
        )
        found[id] = Health(stands.state, until, failures)
    for id, at, state in await tx.all(sql.newest_deliveries, ids=asked, tenant=tenant, last=n - 1):
        known = found.get(id, Health())
        newest = at if known.newest_at is None else known.newest_at
        found[id] = replace(known, states=(*known.states, state), newest_at=newest)
    return found
