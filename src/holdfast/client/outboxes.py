"""Outboxes: `app.outbox`. Called with a name it gives the outbox to put events in; the rest is for operators.

Each method has an awaiting twin, and what acts is audited.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from typing import Any

from ..clock import SECOND
from ..destinations import Destination
from ..errors import ConfigError
from ..model.outbox import DrainReport, OutboxCounts, queue_of
from ..names import check_name
from ..options import Seconds
from ..rules.durations import check_span
from ..storage.ops import outboxes as ops
from ..storage.port import Op, Store
from ..tasks import Task
from .enqueuer import Enqueuer
from .jobs import Jobs
from .outbox import Outbox


class Outboxes:
    """The outboxes of an app, and those that are in its store."""

    def __init__(
        self,
        store: Callable[[], Store],
        jobs: Jobs,
        enqueuer: Enqueuer,
        tasks: Mapping[str, Task[Any, Any]],
        tenant_of: Callable[[str | None], str],
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._enqueuer = enqueuer
        self._tasks = tasks
        self._tenant_of = tenant_of
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
            found = Outbox(destination, self._store, self._jobs, self._enqueuer, self._tenant_of)
            self._known[name] = found
        return found

    def list(self) -> builtins.list[OutboxCounts]:
        """How each outbox stands that has entries."""
        return self._store().read(Op(ops.counts))

    async def alist(self) -> builtins.list[OutboxCounts]:
        return await self._store().aread(Op(ops.counts))

    def retry(self, name: str, *, actor: str = "app", reason: str = "") -> int:
        """Retry now: what waits for its time or is parked becomes due; how many. What is being sent is not touched."""
        return self._store().write(_retry(name, actor, reason))

    async def aretry(self, name: str, *, actor: str = "app", reason: str = "") -> int:
        return await self._store().awrite(_retry(name, actor, reason))

    def drain(
        self, name: str, *, older_than: Seconds | str = 0, apply: bool = False, actor: str = "app", reason: str = ""
    ) -> DrainReport:
        """Abandoned entries that were put so long ago, by kind; with `apply` they are pending again."""
        op = _drain(name, older_than, apply, actor, reason)
        return self._store().write(op) if apply else self._store().read(op)

    async def adrain(
        self, name: str, *, older_than: Seconds | str = 0, apply: bool = False, actor: str = "app", reason: str = ""
    ) -> DrainReport:
        op = _drain(name, older_than, apply, actor, reason)
        return await (self._store().awrite(op) if apply else self._store().aread(op))


def _retry(name: str, actor: str, reason: str) -> Op[int]:
    outbox = check_name("the outbox's name", name)
    return Op(lambda tx: ops.retry_now(tx, outbox, actor=actor, reason=reason))


def _drain(name: str, older_than: Seconds | str, apply: bool, actor: str, reason: str) -> Op[DrainReport]:
    outbox, older = check_name("the outbox's name", name), round(check_span("older_than", older_than) * SECOND)
    return Op(lambda tx: ops.drain(tx, outbox, older, apply=apply, actor=actor, reason=reason))
