"""Outboxes: `app.outbox("cloud").put(event)`, in its own transaction or the caller's, and operators' actions.

Each method has an async version, and actions are audited.
"""

from __future__ import annotations

import builtins
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ..clock import SECOND, SYSTEM_CLOCK
from ..errors import ConfigError, InvalidInput
from ..ids import ids
from ..model.jobs import Enqueued, JobSpec
from ..model.outbox import DrainReport, OutboxAges, OutboxCounts, Outgoing, queue_of
from ..names import check_name
from ..rules.durations import check_span
from ..storage.ops.outbox import entries as ops
from ..storage.ops.outbox import outboxes
from ..storage.port import Op, Store
from ..storage.step import step
from ..tasks.destinations import Destination
from ..tasks.job import Job
from ..tasks.options import CallOptions, Seconds
from ..tasks.task import JobRequest, Task
from ..values import codec
from .calls import composed, reads, writes
from .enqueuer import MOST_AT_ONCE, Enqueuer
from .jobs import Jobs
from .lines import Line
from .scope import EVERYTHING, Scope
from .specs import spec_of
from .transactions import joined

CAPTURE: Final = "HOLDFAST_CAPTURE"
# The share of the counted room that may be used before it is counted again: others put too.
_SHARE: Final = 4
_TRUSTED_FOR: Final = 30.0


class Outbox:
    """The events that wait for one destination. A put is durable when it returns, or when your transaction commits."""

    def __init__(
        self,
        destination: Destination,
        store: Callable[[], Store],
        jobs: Jobs,
        enqueuer: Enqueuer,
        tenant_of: Callable[[str | None], str],
        gauge: CapEstimate,
    ) -> None:
        self.name: Final = destination.short
        self._destination = destination
        self._store = store
        self._jobs = jobs
        self._enqueuer = enqueuer
        self._tenant_of = tenant_of
        self._gauge = gauge

    @composed
    async def put(
        self,
        line: Line,
        data: Any,
        *,
        kind: str = "",
        key: str | None = None,
        id: str | None = None,
        connection: object | None = None,
        tenant: str | None = None,
    ) -> Job[None] | None:
        """Put an event; None if its kind is telemetry and that is switched off.

        Events with the same `key` are delivered in order, if the destination asks for it. With your own `id` the same
        event is put once, for as long as its entry is kept. `connection` is your own open transaction.
        """
        whose, event = self._tenant_of(tenant), Outgoing(data, kind, key, id)
        if self._is_muted(event):
            return None
        return (await self._put(line, [event], whose, connection))[0]

    aput = put.awaiting

    @composed
    async def put_many(
        self,
        line: Line,
        events: Iterable[Any],
        *,
        kind: str = "",
        connection: object | None = None,
        tenant: str | None = None,
    ) -> list[Job[None]]:
        """Put up to 10,000 events in one transaction. An `Outgoing` among them has its own kind, key and id."""
        wanted = self._wanted(events, kind)
        return await self._put(line, wanted, self._tenant_of(tenant), connection) if wanted else []

    aput_many = put_many.awaiting

    # -- the entries

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

    # -- within the cap, in order, and into the spill while the store is unavailable

    async def _put(
        self, line: Line, events: Sequence[Outgoing], tenant: str, connection: object | None
    ) -> list[Job[None]]:
        requests = [self._request(event, tenant, connection) for event in events]
        with self._enqueuer.tracing(requests) as trace:
            specs, keys = self._specs(events, requests, tenant, trace)
            if (connection := joined(self._store, connection)) is not None:
                store = line.store
                answers = self._learned(await line.join(connection, self._op(specs, keys, store)), store)
            elif (spill := self._enqueuer.spill) is not None:
                answers = await line.call(
                    lambda: spill.put(specs, lambda: step(self._write(line, specs, keys)), keys),
                    lambda: spill.aput(specs, lambda: self._write(line, specs, keys), keys),
                )
            else:
                answers = await self._write(line, specs, keys)
        return self._handles(answers)

    async def _write(self, line: Line, specs: list[JobSpec], keys: Mapping[str, str]) -> list[Enqueued]:
        store = line.store
        if self._is_free(specs, keys, store):
            return await line.call(self._enqueuer.write, self._enqueuer.awrite, specs)
        return self._learned(await line.write(self._op(specs, keys, store)), store)

    def _specs(
        self, events: Sequence[Outgoing], requests: Sequence[JobRequest[None]], tenant: str, trace: str | None
    ) -> tuple[list[JobSpec], dict[str, str]]:
        """Return the jobs to store, and the keys by job id of those that are delivered in order."""
        fresh = zip(requests, ids.many(len(requests)), strict=True)
        specs = [spec_of(request, tenant=tenant, id=new, trace=trace) for request, new in fresh]
        # If the function is in another program, only that program knows whether it asks for order.
        if not self._destination.wants.ordered and self._destination.deliver is not None:
            return specs, {}
        named = zip(specs, events, strict=True)
        return specs, {spec.id: event.key for spec, event in named if event.key is not None}

    def _is_free(self, specs: Sequence[JobSpec], keys: Mapping[str, str], store: Store) -> bool:
        """Return True if nothing must be counted or recorded besides the jobs themselves."""
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


class Outboxes:
    """The outboxes of an app, and those that are in its store."""

    def __init__(
        self,
        store: Callable[[], Store],
        jobs: Jobs,
        enqueuer: Enqueuer,
        tasks: Mapping[str, Task[Any, Any]],
        tenant_of: Callable[[str | None], str],
        gauges: dict[str, CapEstimate] | None = None,
        scope: Scope = EVERYTHING,
    ) -> None:
        """`gauges` are shared by all that put into the same outboxes: a cap is for all tenants together."""
        self._store = store
        self._jobs = jobs
        self._enqueuer = enqueuer
        self._tasks = tasks
        self._tenant_of = tenant_of
        self._gauges: dict[str, CapEstimate] = {} if gauges is None else gauges
        self._scope = scope
        self._known: dict[str, Outbox] = {}

    def __call__(self, name: str) -> Outbox:
        """Return the outbox of a destination that this app registered, or declared by `app.declare_destination`."""
        if (found := self._known.get(name)) is None:
            destination = self._tasks.get(queue_of(name))
            if not isinstance(destination, Destination):
                known = ", ".join(task.short for task in self._tasks.values() if isinstance(task, Destination))
                raise ConfigError(
                    f"there is no destination {name!r}, only {known or 'none'}; "
                    "if it is implemented elsewhere, name it by app.declare_destination"
                )
            gauge = self._gauges.setdefault(name, CapEstimate(destination.wants.cap))
            found = Outbox(destination, self._store, self._jobs, self._enqueuer, self._tenant_of, gauge)
            self._known[name] = found
        return found

    def _within(self, scope: Scope, jobs: Jobs, enqueuer: Enqueuer) -> Outboxes:
        """Return these outboxes as one tenant sees them."""
        return Outboxes(
            self._store, jobs, enqueuer, self._tasks, lambda given: scope.of(given) or "", self._gauges, scope
        )

    @reads
    def list(self) -> Op[builtins.list[OutboxCounts]]:
        """Return the counts of each outbox that has entries."""
        return Op(lambda tx: outboxes.counts(tx, self._scope.tenant))

    alist = list.awaiting

    @reads
    def ages(self, names: Sequence[str]) -> Op[dict[str, OutboxAges]]:
        """Return when the oldest entry of each of these outboxes was put, of all tenants together."""
        self._scope.whole("how old the entries of an outbox are")
        asked = [check_name("the outbox's name", name) for name in names]
        return Op(lambda tx: outboxes.ages(tx, asked))

    aages = ages.awaiting

    @reads
    def last_delivery(self, names: Sequence[str]) -> Op[int | None]:
        """Return when an entry of these outboxes, or a webhook, was last delivered, in microseconds."""
        self._scope.whole("the deliveries of the whole store")
        return Op(lambda tx: outboxes.last_delivery(tx, names))

    alast_delivery = last_delivery.awaiting

    @writes
    def retry(self, name: str, *, actor: str = "app", reason: str = "") -> Op[int]:
        """Make waiting and parked entries due now; return their number. Entries that are being sent are not changed."""
        outbox = check_name("the outbox's name", name)
        return Op(lambda tx: outboxes.retry_now(tx, outbox, self._scope.tenant, actor=actor, reason=reason))

    aretry = retry.awaiting

    @composed
    async def drain(
        self,
        line: Line,
        name: str,
        *,
        older_than: Seconds | str | None = None,
        apply: bool = False,
        actor: str = "app",
        reason: str = "",
    ) -> DrainReport:
        """Count abandoned entries of that age, by kind; with `apply` they become pending again.

        `apply` needs an `older_than`, so that omitting it cannot resend everything by accident; 0 is all of them.
        """
        if apply and older_than is None:
            raise InvalidInput("apply needs older_than: the age of the entries, such as '30d', or 0 for all of them")
        outbox, older = check_name("the outbox's name", name), round(check_span("older_than", older_than or 0) * SECOND)
        tenant = self._scope.tenant
        op = Op(lambda tx: outboxes.drain(tx, outbox, older, tenant, apply=apply, actor=actor, reason=reason))
        return await (line.write(op) if apply else line.read(op))

    adrain = drain.awaiting


class CapEstimate:
    """Counts entries the more often the nearer the cap; far from it, not at all. For all threads of a process."""

    def __init__(self, cap: int | None) -> None:
        self.cap: Final = cap
        self._lock = threading.Lock()
        self._left = 0
        self._until = float("-inf")
        self._where: object = None

    def take(self, n: int, where: object) -> bool:
        """Return True if `n` entries may be put without reading the store, which is `where`."""
        if self.cap is None:
            return True
        with self._lock:
            if self._left < n or self._where is not where or SYSTEM_CLOCK.monotonic() > self._until:
                return False
            self._left -= n
            return True

    def learn(self, entries: int, where: object) -> None:
        """Remember the current number of entries."""
        if self.cap is not None:
            with self._lock:
                self._where = where
                self._left = max(0, self.cap - entries) // _SHARE
                self._until = SYSTEM_CLOCK.monotonic() + _TRUSTED_FOR


def _own_id(event_id: str, tenant: str) -> str:
    """Return an event's id as a part of its job's id, with the tenant: no tenant can take another's."""
    return event_id if not tenant else hashlib.sha256(f"{tenant}\x1f{event_id}".encode()).hexdigest()[:32]
