"""Webhooks: `app.webhooks`. Each method has an async version, and actions are audited."""

from __future__ import annotations

import builtins
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from ..clock import SYSTEM_CLOCK, Clock
from ..errors import Conflict, InvalidInput
from ..ids import ids
from ..model.webhooks import Delivery, DeliveryWhole, Endpoint, Health, NewEndpoint
from ..names import check_duration, check_id, check_instant, check_limit, check_name, check_tags
from ..outbound.policy import Policy, parse
from ..rules.signing import key_of, new_secret
from ..rules.webhooks import called_endpoint, check_kinds, origin_of, trial_message
from ..storage.ops.audit import audit
from ..storage.ops.webhooks import endpoints, webhooks
from ..storage.ops.webhooks.endpoints import CONCURRENCY
from ..storage.port import Op, Store, Tx
from ..tasks.options import Seconds
from .calls import composed, reads, writes
from .lines import Line
from .scope import EVERYTHING, Scope

OVERLAP: Final = 86_400.0
MOST: Final = 1_000


class Webhooks:
    """Endpoints that are notified of events, and the deliveries to them."""

    def __init__(
        self,
        store: Callable[[], Store],
        policy: Callable[[], Policy],
        clock: Callable[[], Clock | None],
        scope: Scope = EVERYTHING,
    ) -> None:
        self._store = store
        self._policy = policy
        self._clock = clock
        self._scope = scope

    @writes
    def add(
        self,
        url: str,
        *,
        id: str | None = None,
        events: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        tenant: str | None = None,
        concurrency: int = CONCURRENCY,
        secret: str | None = None,
        actor: str = "app",
        reason: str = "",
    ) -> Op[NewEndpoint]:
        """Notify this URL of events from now on; the result has the secret that signs messages.

        `events` are kinds or their prefixes, such as "job.failed", "job" or "flow"; None is all events of jobs. `tags`
        narrow it to jobs with at least one of them. With a `tenant` it gets only that tenant's events. At most
        `concurrency` deliveries run at once. A repeated call with the same `id` and URL returns the existing endpoint.
        """
        parse(url, self._policy())
        whose, key, own = _whose(self._scope, tenant), _secret(secret), ids.new() if id is None else check_id(id)
        kinds = None if events is None else check_kinds(events)
        wanted = None if tags is None else check_tags(tags)
        most = check_limit("concurrency", concurrency)

        async def run(tx: Tx) -> NewEndpoint:
            new = await endpoints.add(
                tx, id=own, tenant=whose, url=url, secret=key, events_wanted=kinds, tags=wanted, concurrency=most
            )
            endpoint = await endpoints.get_with_secret(tx, own)
            if new:
                after = {"url": url, "events": kinds, "tags": wanted, "concurrency": most}
                await audit(tx, actor=actor, action="webhook.add", target=own, reason=reason, after=after, tenant=whose)
            elif (endpoint.url, endpoint.tenant) != (url, whose):
                # Another tenant's endpoint is not returned, only that the id is taken.
                raise Conflict(f"webhook {own} exists with another URL or tenant; choose another id")
            return endpoint

        return Op(run)

    aadd = add.awaiting

    @writes
    def for_calls(self, url: str, *, tenant: str | None = None) -> Op[NewEndpoint]:
        """Return the endpoint that jobs with `webhook=url` name, with its secret; created if it does not exist.

        All URLs of the same host share one, so that a URL may be made for a single job.
        """
        parse(url, self._policy())
        whose, key = _whose(self._scope, tenant), _secret(None)
        id = called_endpoint(whose, url)

        async def run(tx: Tx) -> NewEndpoint:
            await endpoints.add(tx, id=id, tenant=whose, url=origin_of(url), secret=key, called=True)
            return await endpoints.get_with_secret(tx, id, whose)

        return Op(run)

    afor_calls = for_calls.awaiting

    @reads
    def list(self, *, after: Endpoint | str | None = None, limit: int = 500) -> Op[builtins.list[Endpoint]]:
        """Return every endpoint, by id. `after` is the last of the page before, or its id."""
        start, n = after if isinstance(after, str) else "" if after is None else after.id, _page(limit)
        return Op(lambda tx: endpoints.list_endpoints(tx, self._scope.tenant, start, n), single=True)

    alist = list.awaiting

    @reads
    def get(self, endpoint_id: str) -> Op[Endpoint]:
        """Return one endpoint; NotFound if there is none."""
        return Op(lambda tx: endpoints.get(tx, endpoint_id, self._scope.tenant), single=True)

    aget = get.awaiting

    @reads
    def health(self, ids: Sequence[str], *, limit: int = 20) -> Op[dict[str, Health]]:
        """Return the health of each of these endpoints, by the newest `limit` deliveries to it."""
        n, asked = _page(limit), [check_name("the endpoint's id", id) for id in ids]
        if len(asked) > MOST:
            raise InvalidInput(f"{len(asked):,} endpoints are asked for; ask for at most {MOST:,} at once")
        return Op(lambda tx: endpoints.health_of(tx, asked, self._scope.tenant, n))

    ahealth = health.awaiting

    @writes
    def rotate(
        self,
        endpoint_id: str,
        *,
        overlap: Seconds = OVERLAP,
        secret: str | None = None,
        actor: str = "app",
        reason: str = "",
    ) -> Op[NewEndpoint]:
        """Make a new secret, which the result has. For `overlap` seconds the old one signs as well."""
        key, both = _secret(secret), check_duration("overlap", overlap)

        async def run(tx: Tx) -> NewEndpoint:
            endpoint = await endpoints.get(tx, endpoint_id, self._scope.tenant)
            await endpoints.rotate(tx, endpoint_id, key, both)
            said = {"action": "webhook.rotate", "target": endpoint_id, "reason": reason}
            await audit(tx, actor=actor, **said, tenant=endpoint.tenant)
            return NewEndpoint(**msgspec.structs.asdict(endpoint), secret=key)

        return Op(run)

    arotate = rotate.awaiting

    @writes
    def disable(self, endpoint_id: str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Disable an endpoint; False if it was disabled. Waiting deliveries fail, and can be retried."""
        return self._switching(endpoint_id, False, actor, reason)

    adisable = disable.awaiting

    @writes
    def enable(self, endpoint_id: str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Enable an endpoint for events from now on; False if it was enabled. `recover` sends what it has missed."""
        return self._switching(endpoint_id, True, actor, reason)

    aenable = enable.awaiting

    @composed
    async def delete(self, line: Line, endpoint_id: str, *, actor: str = "app", reason: str = "") -> None:
        """Delete an endpoint and cancel the deliveries that wait for it."""
        await line.write(self._switching(endpoint_id, False, actor, reason))
        while await line.write(Op(lambda tx: webhooks.cancel_page(tx, endpoint_id))):
            pass
        await line.write(self._deleting(endpoint_id, actor, reason))

    adelete = delete.awaiting

    # -- deliveries

    @writes
    def test(self, endpoint_id: str, *, actor: str = "app", reason: str = "") -> Op[Delivery]:
        """Send a test message, of the type webhook.test."""
        message, now = f"msg_{ids.new()}", (self._clock() or SYSTEM_CLOCK).now()

        async def run(tx: Tx) -> Delivery:
            endpoint = await endpoints.get(tx, endpoint_id, self._scope.tenant)
            spec = webhooks.delivery_job(endpoint, message, trial_message(message, endpoint_id, now))
            about = {"endpoint": endpoint_id, "message": message, "kind": "webhook.test", "job": None}
            await webhooks.send(tx, [(spec, about)])
            said = {"action": "webhook.test", "target": endpoint_id, "reason": reason}
            await audit(tx, actor=actor, **said, after={"delivery": spec.id}, tenant=endpoint.tenant)
            return await webhooks.delivery(tx, spec.id, None)

        return Op(run)

    atest = test.awaiting

    @reads
    def log(self, endpoint_id: str, *, before: str | None = None, limit: int = 100) -> Op[builtins.list[Delivery]]:
        """Return the deliveries to an endpoint, the newest first. `before` is the id of the last of the page before."""
        n = _page(limit)

        async def run(tx: Tx) -> builtins.list[Delivery]:
            await endpoints.get(tx, endpoint_id, self._scope.tenant)
            return await webhooks.log(tx, endpoint_id, before, n)

        return Op(run)

    alog = log.awaiting

    @reads
    def delivery(self, delivery_id: str) -> Op[DeliveryWhole]:
        """Return one delivery, with each failed attempt."""
        return Op(lambda tx: webhooks.delivery(tx, delivery_id, self._scope.tenant))

    adelivery = delivery.awaiting

    @writes
    def retry(self, delivery_id: str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Send a message again, or now if it waits, under the same id; False if it is being sent."""

        async def run(tx: Tx) -> bool:
            retried = await webhooks.retry(tx, delivery_id, self._scope.tenant)
            if retried:
                # The delivery is a job, and its tenant is the job's.
                await audit(tx, actor=actor, action="job.retry", target=delivery_id, reason=reason)
            return retried

        return Op(run)

    aretry = retry.awaiting

    @writes
    def recover(
        self,
        endpoint_id: str,
        *,
        since: datetime | None = None,
        limit: int = MOST,
        actor: str = "app",
        reason: str = "",
    ) -> Op[builtins.list[str]]:
        """Resend up to `limit` messages that were given up, the oldest first; return their deliveries' ids."""
        start, n = 0 if since is None else check_instant("since", since), _page(limit)

        async def run(tx: Tx) -> builtins.list[str]:
            endpoint = await endpoints.get(tx, endpoint_id, self._scope.tenant)
            sent = await webhooks.recover(tx, endpoint_id, start, n)
            if sent:
                said = {"action": "webhook.recover", "target": endpoint_id, "reason": reason}
                await audit(tx, actor=actor, **said, after={"deliveries": len(sent)}, tenant=endpoint.tenant)
            return sent

        return Op(run)

    arecover = recover.awaiting

    def _switching(self, endpoint_id: str, on: bool, actor: str, reason: str) -> Op[bool]:
        async def run(tx: Tx) -> bool:
            endpoint = await endpoints.get(tx, endpoint_id, self._scope.tenant)
            if on:
                changed = await endpoints.enable(tx, endpoint_id)
            else:
                changed = await endpoints.disable(tx, endpoint_id, reason or "operator")
            if changed:
                action = "webhook.enable" if on else "webhook.disable"
                await audit(tx, actor=actor, action=action, target=endpoint_id, reason=reason, tenant=endpoint.tenant)
            return changed

        return Op(run)

    def _deleting(self, endpoint_id: str, actor: str, reason: str) -> Op[None]:
        async def run(tx: Tx) -> None:
            endpoint = await endpoints.get(tx, endpoint_id, self._scope.tenant)
            await endpoints.delete(tx, endpoint_id)
            said = {"action": "webhook.delete", "target": endpoint_id, "reason": reason}
            await audit(tx, actor=actor, **said, before={"url": endpoint.url}, tenant=endpoint.tenant)

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
