"""What one tenant sees of what all share: queues, limits, numbers and errors, each as far as it is its own. It reads.

These are counted from the tenant's own jobs and from nothing else, so they cost as much as the tenant has jobs.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Final

from ..errors import InvalidInput, NotFound
from ..model.limits import Lane
from ..model.stats import ErrorGroup, QueueStats
from ..names import check_name, check_queue
from ..storage.ops import errors, insight, tenancy
from ..storage.port import Op, Store, Tx
from .failures import FailedRuns

_MOST_ERRORS: Final = 1_000
_LOOKED_AT: Final = 2_000
"""The newest failed runs of a tenant, whose kinds are told."""


class TenantQueues:
    """The queues in which a tenant has jobs."""

    def __init__(self, store: Callable[[], Store], tenant: str) -> None:
        self._store = store
        self._tenant = tenant

    def list(self) -> builtins.list[QueueStats]:
        """Each with its state, and how many of the tenant's jobs have each label."""
        return self._store().read(Op(lambda tx: _queues(tx, self._tenant)))

    async def alist(self) -> builtins.list[QueueStats]:
        return await self._store().aread(Op(lambda tx: _queues(tx, self._tenant)))

    def get(self, name: str) -> QueueStats:
        """One of them; one in which the tenant has nothing is empty."""
        return _pick(self.list(), check_queue(name))

    async def aget(self, name: str) -> QueueStats:
        return _pick(await self.alist(), check_queue(name))


class TenantLimits:
    """The limits by key that a tenant's own jobs ask for."""

    def __init__(self, store: Callable[[], Store], tenant: str) -> None:
        self._store = store
        self._tenant = tenant

    def list(self) -> builtins.list[Lane]:
        """Each with how much of it is in use."""
        return self._store().read(Op(lambda tx: tenancy.lanes_of(tx, self._tenant)))

    async def alist(self) -> builtins.list[Lane]:
        return await self._store().aread(Op(lambda tx: tenancy.lanes_of(tx, self._tenant)))


class TenantErrors(FailedRuns):
    """What went wrong in a tenant's jobs, by kind."""

    def __init__(self, store: Callable[[], Store], tenant: str) -> None:
        self._store = store
        self._tenant = self._whose = tenant

    def list(self, *, task: str | None = None, since: int | None = None, limit: int = 50) -> builtins.list[ErrorGroup]:
        """The kinds among the newest 2,000 failed runs, the last seen first. `since` is in microseconds."""
        return _kinds(self._store().read(_failures(self._tenant, task, since)))[: _limit(limit)]

    async def alist(
        self, *, task: str | None = None, since: int | None = None, limit: int = 50
    ) -> builtins.list[ErrorGroup]:
        return _kinds(await self._store().aread(_failures(self._tenant, task, since)))[: _limit(limit)]

    def show(self, fingerprint: str) -> ErrorGroup:
        """One kind, with the traceback of its newest."""
        return _one(self._store().read(_failures(self._tenant)), fingerprint)

    async def ashow(self, fingerprint: str) -> ErrorGroup:
        return _one(await self._store().aread(_failures(self._tenant)), fingerprint)


async def _queues(tx: Tx, tenant: str) -> list[QueueStats]:
    states = await insight.queue_states(tx)
    found: dict[str, dict[str, int]] = {}
    for count in await tenancy.counts(tx, tenant):
        found.setdefault(count.queue, {})[count.label] = count.jobs
    return [
        QueueStats(name=name, state=states.get(name, "active"), counts=counts) for name, counts in sorted(found.items())
    ]


def _pick(found: list[QueueStats], name: str) -> QueueStats:
    return next((queue for queue in found if queue.name == name), None) or QueueStats(name=name)


def _failures(tenant: str, task: str | None = None, since: int | None = None) -> Op[errors.Page]:
    named = None if task is None else check_name("task", task)
    return Op(lambda tx: errors.failures_of(tx, tenant, task=named, since=since, n=_LOOKED_AT), single=True)


def _kinds(found: errors.Page) -> list[ErrorGroup]:
    return sorted(errors.grouped(found), key=lambda group: (-group.last_seen, group.fingerprint))


def _one(found: errors.Page, fingerprint: str) -> ErrorGroup:
    for group in _kinds(found):
        if group.fingerprint == fingerprint:
            return group
    raise NotFound("error", fingerprint)


def _limit(limit: int) -> int:
    if not 1 <= limit <= _MOST_ERRORS:
        raise InvalidInput(f"limit is {limit}; use 1 to {_MOST_ERRORS:,}")
    return limit
