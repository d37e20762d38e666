"""What operators do to single jobs that wait or run: hold, release, reorder, take away. Each is in the audit.

Each can be repeated: what is so already is said, and nothing is changed or recorded. Each has an awaiting twin.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ..errors import IllegalMove, InvalidInput
from ..handle import Job
from ..model.bulk import Action, Fate, Order
from ..model.control import AlreadySatisfied, Held, Lease, Revoked
from ..model.job import JobState
from ..names import check_name, check_priority, check_queue
from ..rules.reserved import check_open_queue
from ..storage.ops import bulk, control, insight, leases
from ..storage.port import Op, Store, Tx
from .scope import Scope

T = TypeVar("T")

MOST_LISTED = 1_000


class JobControl:
    """The part of `app.jobs` that is for operators."""

    _store: Callable[[], Store]
    _scope: Scope

    def hold(self, job: Job[Any] | str, *, actor: str = "app", reason: str = "") -> bool:
        """Keep a job that waits from starting, until `release`. False if it is held already."""
        return self._store().write(self._on(job, _hold(job, actor, reason)))

    async def ahold(self, job: Job[Any] | str, *, actor: str = "app", reason: str = "") -> bool:
        return await self._store().awrite(self._on(job, _hold(job, actor, reason)))

    def release(self, job: Job[Any] | str, *, actor: str = "app", reason: str = "") -> bool:
        """Let a held job go on: when it is due, with what it waited for. False if nobody held it."""
        return self._store().write(self._on(job, _release(job, actor, reason)))

    async def arelease(self, job: Job[Any] | str, *, actor: str = "app", reason: str = "") -> bool:
        return await self._store().awrite(self._on(job, _release(job, actor, reason)))

    def set_priority(self, job: Job[Any] | str, priority: int, *, actor: str = "app", reason: str = "") -> bool:
        """Change the priority of a job that has not started; higher goes first. False if it has that one."""
        return self._store().write(self._on(job, _prioritise(job, priority, actor, reason)))

    async def aset_priority(self, job: Job[Any] | str, priority: int, *, actor: str = "app", reason: str = "") -> bool:
        return await self._store().awrite(self._on(job, _prioritise(job, priority, actor, reason)))

    def move(self, job: Job[Any] | str, queue: str, *, actor: str = "app", reason: str = "") -> bool:
        """Move a job that has not started to another queue. False if it is there."""
        return self._store().write(self._on(job, _move(job, queue, actor, reason)))

    async def amove(self, job: Job[Any] | str, queue: str, *, actor: str = "app", reason: str = "") -> bool:
        return await self._store().awrite(self._on(job, _move(job, queue, actor, reason)))

    def revoke(
        self,
        job: Job[Any] | str,
        *,
        owner: str | None = None,
        epoch: int | None = None,
        actor: str = "app",
        reason: str = "",
    ) -> Revoked | AlreadySatisfied:
        """Take a running job from its worker: ready again at no cost, under a new epoch, and its handler is stopped.

        With an `owner` (a worker's id) or an `epoch` only if it is in those hands. Where there is nothing to take
        away, `AlreadySatisfied` says why: `no_active_lease`, `different_owner` or `epoch_moved`.
        """
        return self._store().write(self._on(job, _revoke(job, Held(owner, epoch), actor, reason)))

    async def arevoke(
        self,
        job: Job[Any] | str,
        *,
        owner: str | None = None,
        epoch: int | None = None,
        actor: str = "app",
        reason: str = "",
    ) -> Revoked | AlreadySatisfied:
        return await self._store().awrite(self._on(job, _revoke(job, Held(owner, epoch), actor, reason)))

    def expired_leases(self, *, after: str = "", limit: int = 100) -> list[Lease]:
        """Jobs in the hands of a worker that is dead, or silent for longer than its lease, in the order of their ids.

        They are about to be rescued. `after` is the job that the last page ended with.
        """
        return self._store().read(_expired(self._scope.within(), after, limit))

    async def aexpired_leases(self, *, after: str = "", limit: int = 100) -> list[Lease]:
        return await self._store().aread(_expired(self._scope.within(), after, limit))

    def _on(self, job: Job[Any] | str, act: Callable[[Tx], Awaitable[T]]) -> Op[T]:
        async def run(tx: Tx) -> T:
            return await act(tx)

        return self._scope.owns(id_of(job), Op(run))


def _hold(job: Job[Any] | str, actor: str, reason: str) -> Callable[[Tx], Awaitable[bool]]:
    return lambda tx: control.hold(tx, id_of(job), actor=actor, reason=reason)


def _release(job: Job[Any] | str, actor: str, reason: str) -> Callable[[Tx], Awaitable[bool]]:
    return lambda tx: control.unhold(tx, id_of(job), actor=actor, reason=reason)


def _prioritise(job: Job[Any] | str, priority: int, actor: str, reason: str) -> Callable[[Tx], Awaitable[bool]]:
    wanted = check_priority(priority)
    return lambda tx: control.prioritise(tx, id_of(job), wanted, actor=actor, reason=reason)


def _move(job: Job[Any] | str, queue: str, actor: str, reason: str) -> Callable[[Tx], Awaitable[bool]]:
    job_id, target = id_of(job), check_open_queue(check_queue(queue))

    async def run(tx: Tx) -> bool:
        before = await insight.get_job(tx, job_id)
        if before.queue == target and before.state in (JobState.READY, JobState.BLOCKED):
            return False
        order = Order(Action.MOVE, queue=target)
        fates = await bulk.apply(tx, [job_id], order, actor=actor, reason=reason, target=job_id)
        if fates[job_id] is not Fate.MOVED:
            raise IllegalMove(
                f"job {job_id} is {before.state}; only a job that has not started can be moved; "
                "enqueue it anew in the other queue"
            )
        return True

    return run


def _revoke(
    job: Job[Any] | str, held: Held, actor: str, reason: str
) -> Callable[[Tx], Awaitable[Revoked | AlreadySatisfied]]:
    return lambda tx: leases.revoke(tx, id_of(job), held, actor=actor, reason=reason)


def _expired(tenant: str | None, after: str, limit: int) -> Op[list[Lease]]:
    if not 1 <= limit <= MOST_LISTED:
        raise InvalidInput(f"limit is {limit}; use 1 to {MOST_LISTED:,}")
    place = check_name("after", after) if after else ""
    return Op(lambda tx: leases.expired_leases(tx, tenant=tenant, after=place, limit=limit), single=True)


def id_of(job: Job[Any] | str) -> str:
    """A job's id, from its handle too."""
    return check_name("the id", job.id if isinstance(job, Job) else job)
