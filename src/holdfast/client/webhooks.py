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
from .calls import composed, reads, writes
from .lines import Line
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
    ) -> Op[Endpoint]:
        """Tell this URL of what happens from now on; the answer has the secret that signs.

        `events` are kinds or their beginnings, such as "job.failed", "job" or "flow"; None is all that is told of jobs.
        `tags` narrow it to jobs with at least one of them. With a `tenant` it hears of that tenant's jobs alone. At
        most `concurrency` deliveries are under way at once. A repeated call with the same `id` and URL makes nothing
        new: its answer is the endpoint that is there.
        """
        return self._adding(**_given(locals()))

    aadd = add.awaiting

    @writes
    def for_calls(self, url: str, *, tenant: str | None = None) -> Op[Endpoint]:
        """The endpoint that jobs with `webhook=url` name, with its secret; made if it is not there yet.

        It is one for all URLs of the same host, so that a URL may be made for a single job.
        """
        return ops.calling(self._scope, self._policy(), url, tenant)

    afor_calls = for_calls.awaiting

    @reads
    def list(self, *, after: Endpoint | str | None = None, limit: int = 500) -> Op[builtins.list[Endpoint]]:
        """Every endpoint, in the order of their ids. `after` is the last of the page before, or its id."""
        return ops.listing(self._scope, after, limit)

    alist = list.awaiting

    @reads
    def get(self, endpoint_id: str) -> Op[Endpoint]:
        """One endpoint; NotFound if there is none."""
        return ops.getting(self._scope, endpoint_id)

    aget = get.awaiting

    @reads
    def health(self, ids: Sequence[str], *, limit: int = 20) -> Op[dict[str, Health]]:
        """How each of these endpoints fares, by the newest `limit` deliveries to it."""
        return ops.health(self._scope, ids, limit)

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
    ) -> Op[Endpoint]:
        """A new secret, which the answer has. For `overlap` seconds the old one signs as well."""
        return ops.rotating(self._scope, endpoint_id, overlap, secret, actor, reason)

    arotate = rotate.awaiting

    @writes
    def disable(self, endpoint_id: str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Tell it nothing any more; False if that was so. What waits for it fails, and can be replayed."""
        return ops.switching(self._scope, endpoint_id, False, actor, reason)

    adisable = disable.awaiting

    @writes
    def enable(self, endpoint_id: str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Tell it again of what happens from now on; False if that was so. `recover` sends what it has missed."""
        return ops.switching(self._scope, endpoint_id, True, actor, reason)

    aenable = enable.awaiting

    @composed
    async def delete(self, line: Line, endpoint_id: str, *, actor: str = "app", reason: str = "") -> None:
        """Forget an endpoint and cancel what waits for it."""
        await line.write(ops.switching(self._scope, endpoint_id, False, actor, reason))
        while await line.write(ops.cancelling(endpoint_id)):
            pass
        await line.write(ops.deleting(self._scope, endpoint_id, actor, reason))

    adelete = delete.awaiting

    # -- deliveries

    @writes
    def test(self, endpoint_id: str, *, actor: str = "app", reason: str = "") -> Op[Delivery]:
        """Send a test message, of the type webhook.test."""
        return ops.testing(self._scope, endpoint_id, self._now(), actor, reason)

    atest = test.awaiting

    @reads
    def log(self, endpoint_id: str, *, before: str | None = None, limit: int = 100) -> Op[builtins.list[Delivery]]:
        """The deliveries to an endpoint, the newest first. `before` is the id of the last of the page before."""
        return ops.logging(self._scope, endpoint_id, before, limit)

    alog = log.awaiting

    @reads
    def delivery(self, delivery_id: str) -> Op[Delivery]:
        """One delivery, with each try that failed."""
        return ops.reading(self._scope, delivery_id)

    adelivery = delivery.awaiting

    @writes
    def replay(self, delivery_id: str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Send a message again, or now if it waits, under the same id; False where it is being sent."""
        return ops.replaying(self._scope, delivery_id, actor, reason)

    areplay = replay.awaiting

    @writes
    def recover(
        self,
        endpoint_id: str,
        *,
        since: datetime | None = None,
        limit: int = ops.MOST,
        actor: str = "app",
        reason: str = "",
    ) -> Op[builtins.list[str]]:
        """Send again up to `limit` messages that were given up, the oldest first; their deliveries' ids."""
        return ops.recovering(self._scope, endpoint_id, since, limit, actor, reason)

    arecover = recover.awaiting

    def _adding(self, url: str, **given: Any) -> Op[Endpoint]:
        return ops.adding(self._scope, self._policy(), url, **given)

    def _now(self) -> int:
        return (self._clock() or SYSTEM_CLOCK).now()


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "self"}
