"""Put events into an outbox: `app.outbox("cloud").put(event)`, in a transaction of its own or in the caller's."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from .. import codec
from ..destinations import Destination
from ..errors import InvalidInput
from ..handle import Job
from ..ids import ids
from ..model.job import Enqueued, JobSpec
from ..model.outbox import Outgoing
from ..names import check_name
from ..options import CallOptions
from ..storage.ops import outbox as ops
from ..storage.port import Op, Store
from ..tasks import JobRequest
from ..transactions import joined
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
        return self._put([event], whose, connection)[0]

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
        return (await self._aput([event], whose, connection))[0]

    def put_many(
        self, events: Iterable[Any], *, kind: str = "", connection: object | None = None, tenant: str | None = None
    ) -> list[Job[None]]:
        """Up to 10,000 events in one transaction. An `Outgoing` among them has its own kind, key and id."""
        wanted = self._wanted(events, kind)
        return self._put(wanted, self._tenant_of(tenant), connection) if wanted else []

    async def aput_many(
        self, events: Iterable[Any], *, kind: str = "", connection: object | None = None, tenant: str | None = None
    ) -> list[Job[None]]:
        """The awaiting twin of `put_many`."""
        wanted = self._wanted(events, kind)
        return await self._aput(wanted, self._tenant_of(tenant), connection) if wanted else []

    # -- what is put

    def _wanted(self, events: Iterable[Any], kind: str) -> list[Outgoing]:
        if isinstance(events, (str, bytes, Mapping, Outgoing)):
            kind_given = type(events).__name__
            raise InvalidInput(
                f"put_many takes a list of events, not one {kind_given}; use put(event), or put_many([event])"
            )
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

    # -- within the cap, in order, and into the spill where the store is away

    def _put(self, events: Sequence[Outgoing], tenant: str, connection: object | None) -> list[Job[None]]:
        requests = [self._request(event, tenant, connection) for event in events]
        with self._enqueuer.around(requests) as trace:
            specs, keys = self._specs(events, requests, tenant, trace)
            spill = self._enqueuer.spill
            if (connection := joined(self._store, connection)) is not None:
                store = self._store()
                answers = self._learned(store.within(connection, self._op(specs, keys, store)), store)
            elif spill is not None:
                answers = spill.put(specs, lambda: self._write(specs, keys), keys)
            else:
                answers = self._write(specs, keys)
        return self._handles(answers)

    async def _aput(self, events: Sequence[Outgoing], tenant: str, connection: object | None) -> list[Job[None]]:
        requests = [self._request(event, tenant, connection) for event in events]
        with self._enqueuer.around(requests) as trace:
            specs, keys = self._specs(events, requests, tenant, trace)
            spill = self._enqueuer.spill
            if (connection := joined(self._store, connection)) is not None:
                store = self._store()
                answers = self._learned(await store.awithin(connection, self._op(specs, keys, store)), store)
            elif spill is not None:
                answers = await spill.aput(specs, lambda: self._awrite(specs, keys), keys)
            else:
                answers = await self._awrite(specs, keys)
        return self._handles(answers)

    def _write(self, specs: list[JobSpec], keys: Mapping[str, str]) -> list[Enqueued]:
        store = self._store()
        if self._is_free(specs, keys, store):
            return self._enqueuer.write(specs)
        return self._learned(store.write(self._op(specs, keys, store)), store)

    async def _awrite(self, specs: list[JobSpec], keys: Mapping[str, str]) -> list[Enqueued]:
        store = self._store()
        if self._is_free(specs, keys, store):
            return await self._enqueuer.awrite(specs)
        return self._learned(await store.awrite(self._op(specs, keys, store)), store)

    def _specs(
        self, events: Sequence[Outgoing], requests: Sequence[JobRequest[None]], tenant: str, trace: str | None
    ) -> tuple[list[JobSpec], dict[str, str]]:
        """The jobs to store, and of those that are delivered in order their keys by job id."""
        fresh = zip(requests, ids.many(len(requests)), strict=True)
        specs = [spec_of(request, tenant=tenant, id=new, trace=trace) for request, new in fresh]
        # Where the function is in another program, only that one knows whether it asks for order.
        if not self._destination.wants.ordered and self._destination.deliver is not None:
            return specs, {}
        named = zip(specs, events, strict=True)
        return specs, {spec.id: event.key for spec, event in named if event.key is not None}

    def _is_free(self, specs: Sequence[JobSpec], keys: Mapping[str, str], store: Store) -> bool:
        """Whether nothing must be counted or noted beside the jobs themselves."""
        return not keys and self._gauge.take(len(specs), store)

    def _op(self, specs: list[JobSpec], keys: Mapping[str, str], store: Store) -> Op[ops.Put]:
        cap = self._gauge.cap
        counted = cap is not None and (not keys or not self._gauge.take(len(specs), store))
        room = ops.Room(self.name, self._destination.name, cap) if counted and cap is not None else None
        return Op(lambda tx: ops.put(tx, specs, keys, room))

    def _learned(self, done: ops.Put, store: Store) -> list[Enqueued]:
        if done.entries is not None:
            self._gauge.learn(done.entries, store)
        return done.answers

    def _handles(self, answers: Sequence[Enqueued]) -> list[Job[None]]:
        name = self._destination.name
        return [Job(self._jobs, answer.id, created=answer.created, task=name) for answer in answers]


def _own_id(event_id: str, tenant: str) -> str:
    """An event's id as a part of its job's, of which all tenants have the same ones: none can take another's."""
    return event_id if not tenant else hashlib.sha256(f"{tenant}\x1f{event_id}".encode()).hexdigest()[:32]
