"""What `app.webhooks` does, as operations. Another tenant's endpoints and deliveries do not exist."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from ..errors import Conflict, InvalidInput
from ..ids import ids
from ..model.webhook import Delivery, Endpoint, Health
from ..names import check_duration, check_id, check_instant, check_limit, check_name, check_tags
from ..options import Seconds
from ..outbound.policy import Policy, parse
from ..rules.signing import key_of, new_secret
from ..rules.webhooks import called_endpoint, check_kinds, origin_of, trial_message
from ..storage.ops import endpoints, webhook_health, webhooks
from ..storage.ops.audit import audit
from ..storage.port import Op, Tx
from .scope import Scope

MOST = 1_000


def adding(
    scope: Scope,
    policy: Policy,
    url: str,
    *,
    id: str | None,
    events: Sequence[str] | None,
    tags: Sequence[str] | None,
    tenant: str | None,
    concurrency: int,
    secret: str | None,
    actor: str,
    reason: str,
) -> Op[Endpoint]:
    parse(url, policy)
    whose, key, own = _whose(scope, tenant), _secret(secret), ids.new() if id is None else check_id(id)
    kinds = None if events is None else check_kinds(events)
    wanted = None if tags is None else check_tags(tags)
    most = check_limit("concurrency", concurrency)

    async def run(tx: Tx) -> Endpoint:
        new = await endpoints.add(
            tx, id=own, tenant=whose, url=url, secret=key, events_wanted=kinds, tags=wanted, concurrency=most
        )
        endpoint = await endpoints.get(tx, own, secret=True)
        if new:
            after = {"url": url, "events": kinds, "tags": wanted, "concurrency": most}
            await audit(tx, actor=actor, action="webhook.add", target=own, reason=reason, after=after, tenant=whose)
        elif (endpoint.url, endpoint.tenant) != (url, whose):
            # Another tenant's is not handed out: only that the id is taken is said.
            raise Conflict(f"webhook {own} exists with another URL or tenant; choose another id")
        return endpoint

    return Op(run)


def calling(scope: Scope, policy: Policy, url: str, tenant: str | None) -> Op[Endpoint]:
    parse(url, policy)
    whose, key = _whose(scope, tenant), _secret(None)
    id = called_endpoint(whose, url)

    async def run(tx: Tx) -> Endpoint:
        await endpoints.add(tx, id=id, tenant=whose, url=origin_of(url), secret=key, called=True)
        return await endpoints.get(tx, id, whose, secret=True)

    return Op(run)


def listing(scope: Scope, after: Endpoint | str | None, limit: int) -> Op[list[Endpoint]]:
    start, n = after if isinstance(after, str) else "" if after is None else after.id, _page(limit)
    return Op(lambda tx: endpoints.list_endpoints(tx, scope.tenant, start, n), single=True)


def getting(scope: Scope, endpoint_id: str) -> Op[Endpoint]:
    return Op(lambda tx: endpoints.get(tx, endpoint_id, scope.tenant), single=True)


def rotating(
    scope: Scope, endpoint_id: str, overlap: Seconds, secret: str | None, actor: str, reason: str
) -> Op[Endpoint]:
    key, both = _secret(secret), check_duration("overlap", overlap)

    async def run(tx: Tx) -> Endpoint:
        endpoint = await endpoints.get(tx, endpoint_id, scope.tenant)
        await endpoints.rotate(tx, endpoint_id, key, both)
        said = {"action": "webhook.rotate", "target": endpoint_id, "reason": reason}
        await audit(tx, actor=actor, **said, tenant=endpoint.tenant)
        return replace(endpoint, secret=key)

    return Op(run)


def switching(scope: Scope, endpoint_id: str, on: bool, actor: str, reason: str) -> Op[bool]:
    async def run(tx: Tx) -> bool:
        endpoint = await endpoints.get(tx, endpoint_id, scope.tenant)
        if on:
            changed = await endpoints.enable(tx, endpoint_id)
        else:
            changed = await endpoints.disable(tx, endpoint_id, reason or "operator")
        if changed:
            action = "webhook.enable" if on else "webhook.disable"
            await audit(tx, actor=actor, action=action, target=endpoint_id, reason=reason, tenant=endpoint.tenant)
        return changed

    return Op(run)


def cancelling(endpoint_id: str) -> Op[int]:
    return Op(lambda tx: webhooks.cancel_page(tx, endpoint_id))


def deleting(scope: Scope, endpoint_id: str, actor: str, reason: str) -> Op[None]:
    async def run(tx: Tx) -> None:
        endpoint = await endpoints.get(tx, endpoint_id, scope.tenant)
        await endpoints.delete(tx, endpoint_id)
        said = {"action": "webhook.delete", "target": endpoint_id, "reason": reason}
        await audit(tx, actor=actor, **said, before={"url": endpoint.url}, tenant=endpoint.tenant)

    return Op(run)


def testing(scope: Scope, endpoint_id: str, now: int, actor: str, reason: str) -> Op[Delivery]:
    message = f"msg_{ids.new()}"

    async def run(tx: Tx) -> Delivery:
        endpoint = await endpoints.get(tx, endpoint_id, scope.tenant)
        spec = webhooks.delivery_job(endpoint, message, trial_message(message, endpoint_id, now))
        about = {"endpoint": endpoint_id, "message": message, "kind": "webhook.test", "job": None}
        await webhooks.send(tx, [(spec, about)])
        said = {"action": "webhook.test", "target": endpoint_id, "reason": reason}
        await audit(tx, actor=actor, **said, after={"delivery": spec.id}, tenant=endpoint.tenant)
        return await webhooks.delivery(tx, spec.id, None)

    return Op(run)


def logging(scope: Scope, endpoint_id: str, before: str | None, limit: int) -> Op[list[Delivery]]:
    n = _page(limit)

    async def run(tx: Tx) -> list[Delivery]:
        await endpoints.get(tx, endpoint_id, scope.tenant)
        return await webhooks.log(tx, endpoint_id, before, n)

    return Op(run)


def reading(scope: Scope, delivery_id: str) -> Op[Delivery]:
    return Op(lambda tx: webhooks.delivery(tx, delivery_id, scope.tenant))


def replaying(scope: Scope, delivery_id: str, actor: str, reason: str) -> Op[bool]:
    async def run(tx: Tx) -> bool:
        replayed = await webhooks.replay(tx, delivery_id, scope.tenant)
        if replayed:
            # The delivery is a job, and its tenant is the job's.
            await audit(tx, actor=actor, action="job.replay", target=delivery_id, reason=reason)
        return replayed

    return Op(run)


def health(scope: Scope, ids: Sequence[str], limit: int) -> Op[dict[str, Health]]:
    n, asked = _page(limit), [check_name("the endpoint's id", id) for id in ids]
    if len(asked) > MOST:
        raise InvalidInput(f"{len(asked):,} endpoints are asked for; ask for at most {MOST:,} at once")
    return Op(lambda tx: webhook_health.health_of(tx, asked, scope.tenant, n))


def recovering(
    scope: Scope, endpoint_id: str, since: datetime | None, limit: int, actor: str, reason: str
) -> Op[list[str]]:
    start, n = 0 if since is None else check_instant("since", since), _page(limit)

    async def run(tx: Tx) -> list[str]:
        endpoint = await endpoints.get(tx, endpoint_id, scope.tenant)
        sent = await webhooks.recover(tx, endpoint_id, start, n)
        if sent:
            said = {"action": "webhook.recover", "target": endpoint_id, "reason": reason}
            await audit(tx, actor=actor, **said, after={"deliveries": len(sent)}, tenant=endpoint.tenant)
        return sent

    return Op(run)


def _whose(scope: Scope, tenant: str | None) -> str:
    return scope.of(None if tenant is None else check_name("tenant", tenant)) or ""


def _secret(given: str | None) -> str:
    if given is None:
        return new_secret(secrets.token_bytes(endpoints.SECRET_BYTES))
    key_of(given)
    return given


def _page(limit: int) -> int:
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"limit is {limit}; use 1 to {MOST:,}")
    return limit
