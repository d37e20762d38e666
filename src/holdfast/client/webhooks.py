"""Webhooks: `app.webhooks`. Each method has an awaiting twin, what acts is audited."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from ..clock import SYSTEM_CLOCK, Clock
from ..model.webhook import Delivery, Endpoint, Health
from ..options import Seconds
from ..outbound.policy import Policy
from ..storage.ops.endpoints import CONCURRENCY
from ..storage.port import Op, Store
from . import webhookops as ops
from .scope import EVERYTHING, Scope

OVERLAP: Final = 86_400.0


class Webhooks:
    """Who is told of what happens, and what became of telling them."""

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
    ) -> Endpoint:
        """Tell this URL of what happens from now on; the answer has the secret that signs.

        `events` are kinds or their beginnings, such as "job.failed", "job" or "flow"; None is all that is told of jobs.
        `tags` narrow it to jobs with at least one of them. With a `tenant` it hears of that tenant's jobs alone. At
        most `concurrency` deliveries are under way at once. A repeated call with the same `id` and URL makes nothing
        new: its answer is the endpoint that is there.
        """
        return self._store().write(self._adding(**_given(locals())))

    async def aadd(
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
    ) -> Endpoint:
        return await self._store().awrite(self._adding(**_given(locals())))

    def for_calls(self, url: str, *, tenant: str | None = None) -> Endpoint:
        """The endpoint that jobs with `webhook=url` name, with its secret; made if it is not there yet.

        It is one for all URLs of the same host, so that a URL may be made for a single job.
        """
        return self._store().write(ops.calling(self._scope, self._policy(), url, tenant))

    async def afor_calls(self, url: str, *, tenant: str | None = None) -> Endpoint:
        return await self._store().awrite(ops.calling(self._scope, self._policy(), url, tenant))

    def list(self, *, after: Endpoint | str | None = None, limit: int = 500) -> builtins.list[Endpoint]:
        """Every endpoint, in the order of their ids. `after` is the last of the page before, or its id."""
        return self._store().read(ops.listing(self._scope, after, limit))

    async def alist(self, *, after: Endpoint | str | None = None, limit: int = 500) -> builtins.list[Endpoint]:
        return await self._store().aread(ops.listing(self._scope, after, limit))

    def get(self, endpoint_id: str) -> Endpoint:
        """One endpoint; NotFound if there is none."""
        return self._store().read(ops.getting(self._scope, endpoint_id))

    async def aget(self, endpoint_id: str) -> Endpoint:
        return await self._store().aread(ops.getting(self._scope, endpoint_id))

    def health(self, ids: Sequence[str], *, limit: int = 20) -> dict[str, Health]:
        """How each of these endpoints fares, by the newest `limit` deliveries to it."""
        return self._store().read(ops.health(self._scope, ids, limit))

    async def ahealth(self, ids: Sequence[str], *, limit: int = 20) -> dict[str, Health]:
        return await self._store().aread(ops.health(self._scope, ids, limit))

    def rotate(
        self,
        endpoint_id: str,
        *,
        overlap: Seconds = OVERLAP,
        secret: str | None = None,
        actor: str = "app",
        reason: str = "",
    ) -> Endpoint:
        """A new secret, which the answer has. For `overlap` seconds the old one signs as well."""
        return self._store().write(ops.rotating(self._scope, endpoint_id, overlap, secret, actor, reason))

    async def arotate(
        self,
        endpoint_id: str,
        *,
        overlap: Seconds = OVERLAP,
        secret: str | None = None,
        actor: str = "app",
        reason: str = "",
    ) -> Endpoint:
        return await self._store().awrite(ops.rotating(self._scope, endpoint_id, overlap, secret, actor, reason))

    def disable(self, endpoint_id: str, *, actor: str = "app", reason: str = "") -> bool:
        """Tell it nothing any more; False if that was so. What waits for it fails, and can be replayed."""
        return self._store().write(ops.switching(self._scope, endpoint_id, False, actor, reason))

    async def adisable(self, endpoint_id: str, *, actor: str = "app", reason: str = "") -> bool:
        return await self._store().awrite(ops.switching(self._scope, endpoint_id, False, actor, reason))

    def enable(self, endpoint_id: str, *, actor: str = "app", reason: str = "") -> bool:
        """Tell it again of what happens from now on; False if that was so. `recover` sends what it has missed."""
        return self._store().write(ops.switching(self._scope, endpoint_id, True, actor, reason))

    async def aenable(self, endpoint_id: str, *, actor: str = "app", reason: str = "") -> bool:
        return await self._store().awrite(ops.switching(self._scope, endpoint_id, True, actor, reason))

    def delete(self, endpoint_id: str, *, actor: str = "app", reason: str = "") -> None:
        """Forget an endpoint and cancel what waits for it."""
        store = self._store()
        store.write(ops.switching(self._scope, endpoint_id, False, actor, reason))
        while store.write(ops.cancelling(endpoint_id)):
            pass
        store.write(ops.deleting(self._scope, endpoint_id, actor, reason))

    async def adelete(self, endpoint_id: str, *, actor: str = "app", reason: str = "") -> None:
        store = self._store()
        await store.awrite(ops.switching(self._scope, endpoint_id, False, actor, reason))
        while await store.awrite(ops.cancelling(endpoint_id)):
            pass
        await store.awrite(ops.deleting(self._scope, endpoint_id, actor, reason))

    # -- deliveries

    def test(self, endpoint_id: str, *, actor: str = "app", reason: str = "") -> Delivery:
        """Send a test message, of the type webhook.test."""
        return self._store().write(ops.testing(self._scope, endpoint_id, self._now(), actor, reason))

    async def atest(self, endpoint_id: str, *, actor: str = "app", reason: str = "") -> Delivery:
        return await self._store().awrite(ops.testing(self._scope, endpoint_id, self._now(), actor, reason))

    def log(self, endpoint_id: str, *, before: str | None = None, limit: int = 100) -> builtins.list[Delivery]:
        """The deliveries to an endpoint, the newest first. `before` is the id of the last of the page before."""
        return self._store().read(ops.logging(self._scope, endpoint_id, before, limit))

    async def alog(self, endpoint_id: str, *, before: str | None = None, limit: int = 100) -> builtins.list[Delivery]:
        return await self._store().aread(ops.logging(self._scope, endpoint_id, before, limit))

    def delivery(self, delivery_id: str) -> Delivery:
        """One delivery, with each try that failed."""
        return self._store().read(ops.reading(self._scope, delivery_id))

    async def adelivery(self, delivery_id: str) -> Delivery:
        return await self._store().aread(ops.reading(self._scope, delivery_id))

    def replay(self, delivery_id: str, *, actor: str = "app", reason: str = "") -> bool:
        """Send a message again, or now if it waits, under the same id; False where it is being sent."""
        return self._store().write(ops.replaying(self._scope, delivery_id, actor, reason))

    async def areplay(self, delivery_id: str, *, actor: str = "app", reason: str = "") -> bool:
        return await self._store().awrite(ops.replaying(self._scope, delivery_id, actor, reason))

    def recover(
        self,
        endpoint_id: str,
        *,
        since: datetime | None = None,
        limit: int = ops.MOST,
        actor: str = "app",
        reason: str = "",
    ) -> builtins.list[str]:
        """Send again up to `limit` messages that were given up, the oldest first; their deliveries' ids."""
        return self._store().write(ops.recovering(self._scope, endpoint_id, since, limit, actor, reason))

    async def arecover(
        self,
        endpoint_id: str,
        *,
        since: datetime | None = None,
        limit: int = ops.MOST,
        actor: str = "app",
        reason: str = "",
    ) -> builtins.list[str]:
        return await self._store().awrite(ops.recovering(self._scope, endpoint_id, since, limit, actor, reason))

    def _adding(self, url: str, **given: Any) -> Op[Endpoint]:
        return ops.adding(self._scope, self._policy(), url, **given)

    def _now(self) -> int:
        return (self._clock() or SYSTEM_CLOCK).now()


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "self"}
