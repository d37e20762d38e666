"""Put events into an outbox: `app.outbox("cloud").put(event)`, in a transaction of its own or in the caller's."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from .. import codec
from ..destinations import Destination
from ..errors import InvalidInput
from ..handle import Job
from ..ids import ids
from ..model.outbox import Outgoing
from ..names import check_name
from ..options import CallOptions
from ..storage.ops import outbox as ops
from ..storage.port import Op, Store
from ..tasks import JobRequest
from .enqueuer import MOST_AT_ONCE, Enqueuer
from .gauge import Gauge
from .jobs import Jobs
from .specs import spec_of

CAPTURE: Final = "HOLDFAST_CAPTURE"


class Outbox:
    """Where events wait for one destination. A put is durable when it returns, or when your transaction commits."""

    def __init__(
        self,
        destination: Destination,
        store: Callable[[], Store],
        jobs: Jobs,
        enqueuer: Enqueuer,
        tenant_of: Callable[[str | None], str],
        gauge: Gauge,
    ) -> None:
        self.name: Final = destination.short
        self._destination = destination
        self._store = store
        self._jobs = jobs
        self._enqueuer = enqueuer
        self._tenant_of = tenant_of
        self._gauge = gauge

    def put(
        self,
        data: Any,
        *,
        kind: str = "",
        key: str | None = None,
        id: str | None = None,
        connection: object | None = None,
        tenant: str | None = None,
    ) -> Job[None] | None:
        """Hand over an event; None where its kind is telemetry and that is switched off.

        `key` names those that are delivered in order, where the destination asks for it. With an `id` of your own the
        same event is put once, for as long as its entry is kept. `connection` is your own open transaction.
        """
        whose, event = self._tenant_of(tenant), Outgoing(data, kind, key, id)
        if self._is_muted(event):
            return None
        request = self._request(event, whose, connection)
        if self._is_free([event]):
            return self._enqueuer.one(request, whose)
        return self._carefully([event], [request], whose, connection)[0]

    async def aput(
        self,
        data: Any,
        *,
        kind: str = "",
        key: str | None = None,
        id: str | None = None,
        connection: object | None = None,
        tenant: str | None = None,
    ) -> Job[None] | None:
        """The awaiting twin of `put`."""
        whose, event = self._tenant_of(tenant), Outgoing(data, kind, key, id)
        if self._is_muted(event):
            return None
        request = self._request(event, whose, connection)
        if self._is_free([event]):
            return await self._enqueuer.aone(request, whose)
        return (await self._acarefully([event], [request], whose, connection))[0]

    def put_many(
        self, events: Iterable[Any], *, kind: str = "", connection: object | None = None, tenant: str | None = None
    ) -> list[Job[None]]:
        """Up to 10,000 events in one transaction. An `Outgoing` among them has its own kind, key and id."""
        whose = self._tenant_of(tenant)
        wanted = self._wanted(events, kind)
        requests = [self._request(event, whose, connection) for event in wanted]
        if self._is_free(wanted):
            return self._enqueuer.many(requests, whose, connection) if requests else []
        return self._carefully(wanted, requests, whose, connection)

    async def aput_many(
        self, events: Iterable[Any], *, kind: str = "", connection: object | None = None, tenant: str | None = None
    ) -> list[Job[None]]:
        """The awaiting twin of `put_many`."""
        whose = self._tenant_of(tenant)
        wanted = self._wanted(events, kind)
        requests = [self._request(event, whose, connection) for event in wanted]
        if self._is_free(wanted):
            return await self._enqueuer.amany(requests, whose, connection) if requests else []
        return await self._acarefully(wanted, requests, whose, connection)

    # -- what is put

    def _wanted(self, events: Iterable[Any], kind: str) -> list[Outgoing]:
        given = [event if isinstance(event, Outgoing) else Outgoing(event, kind) for event in events]
        if len(given) > MOST_AT_ONCE:
            raise InvalidInput(
                f"{len(given):,} events in one call are too many; put at most {MOST_AT_ONCE:,} at a time"
            )
        return [event for event in given if not self._is_muted(event)]

    def _is_muted(self, event: Outgoing) -> bool:
        return self._destination.is_telemetry(event.kind) and os.environ.get(CAPTURE) == "false"

    def _request(self, event: Outgoing, tenant: str, connection: object | None) -> JobRequest[None]:
        body: dict[str, Any] = {"data": event.data}
        if event.kind:
            body["kind"] = check_name("the kind", event.kind)
        if event.key is not None:
            body["key"] = check_name("the key", event.key)
        options = CallOptions(tenant=tenant or None, connection=connection)
        if event.id is not None:
            body["id"] = check_name("the event's id", event.id)
            named = f"{self.name}:{_own_id(event.id, tenant)}"
            options = CallOptions(tenant=tenant or None, connection=connection, id=named)
        return JobRequest(self._destination, codec.encode(body, what="the event"), options)

    # -- within the cap, and in order

    @property
    def _notes_order(self) -> bool:
        """Where the function is elsewhere, only that program knows whether it asks for order."""
        return self._destination.wants.ordered or self._destination.deliver is None

    def _is_free(self, events: Sequence[Outgoing]) -> bool:
        """Whether nothing must be looked at or noted beside the jobs themselves."""
        if self._notes_order and any(event.key is not None for event in events):
            return False
        return self._gauge.take(len(events), self._store())

    def _carefully(
        self, events: Sequence[Outgoing], requests: Sequence[JobRequest[None]], tenant: str, connection: object | None
    ) -> list[Job[None]]:
        with self._enqueuer.around(requests) as trace:
            op, store = self._op(events, requests, tenant, trace), self._store()
            done = store.write(op) if connection is None else store.within(connection, op)
        return self._done(done)

    async def _acarefully(
        self, events: Sequence[Outgoing], requests: Sequence[JobRequest[None]], tenant: str, connection: object | None
    ) -> list[Job[None]]:
        with self._enqueuer.around(requests) as trace:
            op, store = self._op(events, requests, tenant, trace), self._store()
            done = await (store.awrite(op) if connection is None else store.awithin(connection, op))
        return self._done(done)

    def _op(
        self, events: Sequence[Outgoing], requests: Sequence[JobRequest[None]], tenant: str, trace: str | None
    ) -> Op[ops.Put]:
        fresh = zip(requests, ids.many(len(requests)), strict=True)
        specs = [spec_of(request, tenant=tenant, id=new, trace=trace) for request, new in fresh]
        noted = events if self._notes_order else ()
        keys = {spec.id: e.key for spec, e in zip(specs, noted, strict=False) if e.key is not None}
        cap = self._gauge.cap
        counted = cap is not None and (not keys or not self._gauge.take(len(events), self._store()))
        room = ops.Room(self.name, self._destination.name, cap) if counted and cap is not None else None
        return Op(lambda tx: ops.put(tx, specs, keys, room))

    def _done(self, done: ops.Put) -> list[Job[None]]:
        if done.entries is not None:
            self._gauge.learn(done.entries, self._store())
        name = self._destination.name
        return [Job(self._jobs, answer.id, created=answer.created, task=name) for answer in done.answers]


def _own_id(event_id: str, tenant: str) -> str:
    """An event's id as a part of its job's, of which all tenants have the same ones: none can take another's."""
    return event_id if not tenant else hashlib.sha256(f"{tenant}\x1f{event_id}".encode()).hexdigest()[:32]
