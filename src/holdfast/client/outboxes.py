"""Outboxes: `app.outbox`. Called with a name it gives the outbox to put events in; the rest is for operators.

Each method has an awaiting twin, and what acts is audited.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..clock import SECOND
from ..destinations import Destination
from ..errors import ConfigError, InvalidInput
from ..model.outbox import DrainReport, OutboxAges, OutboxCounts, queue_of
from ..names import check_name
from ..options import Seconds
from ..rules.durations import check_span
from ..storage.ops import outboxes as ops
from ..storage.port import Op, Store
from ..tasks import Task
from .calls import composed, reads, writes
from .enqueuer import Enqueuer
from .gauge import Gauge
from .jobs import Jobs
from .lines import Line
from .outbox import Outbox
from .scope import EVERYTHING, Scope


class Outboxes:
    """The outboxes of an app, and those that are in its store."""

    def __init__(
        self,
        store: Callable[[], Store],
        jobs: Jobs,
        enqueuer: Enqueuer,
        tasks: Mapping[str, Task[Any, Any]],
        tenant_of: Callable[[str | None], str],
        gauges: dict[str, Gauge] | None = None,
        scope: Scope = EVERYTHING,
    ) -> None:
        """`gauges` are those of all who put into the same outboxes: their caps are for all tenants together."""
        self._store = store
        self._jobs = jobs
        self._enqueuer = enqueuer
        self._tasks = tasks
        self._tenant_of = tenant_of
        self._gauges: dict[str, Gauge] = {} if gauges is None else gauges
        self._scope = scope
        self._known: dict[str, Outbox] = {}

    def __call__(self, name: str) -> Outbox:
        """The outbox of a destination that this app registered, or declared by `app.declare_destination`."""
        if (found := self._known.get(name)) is None:
            destination = self._tasks.get(queue_of(name))
            if not isinstance(destination, Destination):
                known = ", ".join(task.short for task in self._tasks.values() if isinstance(task, Destination))
                raise ConfigError(
                    f"there is no destination {name!r}, only {known or 'none'}; "
                    "if it is implemented elsewhere, name it by app.declare_destination"
                )
            gauge = self._gauges.setdefault(name, Gauge(destination.wants.cap))
            found = Outbox(destination, self._store, self._jobs, self._enqueuer, self._tenant_of, gauge)
            self._known[name] = found
        return found

    def _within(self, scope: Scope, jobs: Jobs, enqueuer: Enqueuer) -> Outboxes:
        """The same outboxes as one tenant sees them."""
        return Outboxes(
            self._store, jobs, enqueuer, self._tasks, lambda given: scope.of(given) or "", self._gauges, scope
        )

    @reads
    def list(self) -> Op[builtins.list[OutboxCounts]]:
        """How each outbox stands that has entries."""
        return self._listing()

    alist = list.awaiting

    @reads
    def ages(self, names: Sequence[str]) -> Op[dict[str, OutboxAges]]:
        """When the oldest entry of each of these outboxes was put; of all tenants together."""
        self._scope.whole("how old the entries of an outbox are")
        return _ages(names)

    aages = ages.awaiting

    def last_delivery(self, names: Sequence[str]) -> int | None:
        """Return when an entry of these outboxes, or a webhook, was last delivered, in microseconds."""
        self._scope.whole("the deliveries of the whole store")
        return self._store().read(Op(lambda tx: ops.last_delivery(tx, names)))

    async def alast_delivery(self, names: Sequence[str]) -> int | None:
        self._scope.whole("the deliveries of the whole store")
        return await self._store().aread(Op(lambda tx: ops.last_delivery(tx, names)))

    @writes
    def retry(self, name: str, *, actor: str = "app", reason: str = "") -> Op[int]:
        """Retry now: what waits for its time or is parked becomes due; how many. What is being sent is not touched."""
        return self._retrying(name, actor, reason)

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
        """Abandoned entries that were put so long ago, by kind; with `apply` they are pending again.

        `apply` needs an `older_than`, so that nobody sends everything again by leaving out a word; 0 is all of them.
        """
        op = self._draining(name, older_than, apply, actor, reason)
        return await (line.write(op) if apply else line.read(op))

    adrain = drain.awaiting

    def _listing(self) -> Op[builtins.list[OutboxCounts]]:
        return Op(lambda tx: ops.counts(tx, self._scope.tenant))

    def _retrying(self, name: str, actor: str, reason: str) -> Op[int]:
        outbox = check_name("the outbox's name", name)
        return Op(lambda tx: ops.retry_now(tx, outbox, self._scope.tenant, actor=actor, reason=reason))

    def _draining(
        self, name: str, older_than: Seconds | str | None, apply: bool, actor: str, reason: str
    ) -> Op[DrainReport]:
        if apply and older_than is None:
            raise InvalidInput("apply needs older_than: the age of the entries, such as '30d', or 0 for all of them")
        outbox, older = check_name("the outbox's name", name), round(check_span("older_than", older_than or 0) * SECOND)
        tenant = self._scope.tenant
        return Op(lambda tx: ops.drain(tx, outbox, older, tenant, apply=apply, actor=actor, reason=reason))


def _ages(names: Sequence[str]) -> Op[dict[str, OutboxAges]]:
    asked = [check_name("the outbox's name", name) for name in names]
    return Op(lambda tx: ops.ages(tx, asked))
