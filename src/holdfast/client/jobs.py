"""Look at jobs and act on them: `app.jobs`. Each method has an awaiting twin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from ..errors import InvalidInput
from ..handle import Job
from ..model.answers import CancelResult, Count, DeleteResult, JobFilter
from ..model.bulk import BulkReport, Order
from ..model.control import Held
from ..model.job import Attempt, Demands, Ended, JobRecord
from ..names import check_name
from ..rules.explain import Explanation, Reason
from ..storage.ops import control, explaining, insight, steps, tenancy
from ..storage.ops.audit import audit
from ..storage.port import Op, Store, Tx
from ..tasks import Task
from . import bulk
from .grants import JobGrants
from .holding import JobControl
from .resultkeys import ResultKeys
from .scope import EVERYTHING, Scope
from .searching import JobSearch
from .steps import JobSteps
from .watch import Watch

if TYPE_CHECKING:
    from .signals import Signals
    from .streams import Streams

T = TypeVar("T")

_NOTHING_DONE: Final = (False, CancelResult.FINISHED, CancelResult.MOVED, DeleteResult.NEEDED)
"""Answers after which nothing is as it was not before."""

_IN_MEMORY: Final = (
    "and no other process reaches a store in memory; run its jobs here: in a test by holdfast.testing.drain(app), "
    "in a program inside of: with app.worker():"
)


class Jobs(JobSearch, JobSteps, JobControl, JobGrants):
    """The jobs of one app, or of one tenant."""

    def __init__(
        self,
        store: Callable[[], Store],
        tasks: dict[str, Task[Any, Any]],
        signals: Signals,
        streams: Streams,
        scope: Scope = EVERYTHING,
    ) -> None:
        """`signals` and `streams` are of the same app or tenant, for the handles of its jobs."""
        self._signals: Final = signals
        self._streams: Final = streams
        self._store = store
        self._tasks = tasks
        self._scope = scope
        self._keys: Final = ResultKeys(store)
        self._watch = Watch(
            store,
            "job",
            lambda ids: Op(lambda tx: _ended(tx, ids, scope), single=scope.tenant is None),
            lambda ids: Op(lambda tx: tenancy.owned_of(tx, scope.tenant, ids), single=True),
            lambda job_id: scope.sees(job_id, _existing(job_id, whole=False)),
            lambda job_id: first_reason(job_id, scope, in_memory=store().in_memory),
        )

    def get(self, job_id: str, *, whole: bool = True) -> JobRecord:
        """Everything the store knows about a job. NotFound if there is none.

        Unless it is read `whole`, arguments or a result over 256 KiB are left out: a short reference stands for them.
        """
        return self._store().read(self._scope.sees(job_id, _existing(_id(job_id), whole=whole)))

    async def aget(self, job_id: str, *, whole: bool = True) -> JobRecord:
        return await self._store().aread(self._scope.sees(job_id, _existing(_id(job_id), whole=whole)))

    def demands(self, job_id: str) -> Demands:
        """Return what a job asks of workers and limits: capabilities, affinity, keys, budgets, its webhook."""
        return self._store().read(self._scope.sees(job_id, _demands(job_id)))

    async def ademands(self, job_id: str) -> Demands:
        return await self._store().aread(self._scope.sees(job_id, _demands(job_id)))

    def find(self, wanted: JobFilter | None = None) -> list[JobRecord]:
        """Jobs, newest first."""
        wanted = self._wanted(wanted or JobFilter())
        return self._store().read(Op(lambda tx: insight.list_jobs(tx, wanted)))

    async def afind(self, wanted: JobFilter | None = None) -> list[JobRecord]:
        wanted = self._wanted(wanted or JobFilter())
        return await self._store().aread(Op(lambda tx: insight.list_jobs(tx, wanted)))

    def attempts(self, job_id: str) -> list[Attempt]:
        """The runs that did not end in success, oldest first; at most 32."""
        return self._store().read(self._scope.sees(job_id, _attempts(job_id)))

    async def aattempts(self, job_id: str) -> list[Attempt]:
        return await self._store().aread(self._scope.sees(job_id, _attempts(job_id)))

    def counts(self) -> list[Count]:
        """How many jobs are in each state of each queue."""
        return self._store().read(self._counts())

    async def acounts(self) -> list[Count]:
        return await self._store().aread(self._counts())

    def explain(self, job_id: str) -> Explanation:
        """Why a job is where it is, and what would move it."""
        return self._store().read(self._scope.sees(job_id, self._explain(job_id)))

    async def aexplain(self, job_id: str) -> Explanation:
        return await self._store().aread(self._scope.sees(job_id, self._explain(job_id)))

    def cancel(
        self,
        job_id: str,
        *,
        reason: str = "cancelled",
        force: bool = False,
        owner: str | None = None,
        epoch: int | None = None,
        actor: str = "app",
    ) -> CancelResult:
        """Cancel it if it waits, ask it to stop if it runs, end it at once with `force`.

        With an `owner` or an `epoch` only if it is in those hands; else the answer is MOVED and nothing is changed.
        The `actor`, here and below, is named by the record of the audit.
        """
        return self._store().write(self._cancel(job_id, reason, force, Held(owner, epoch), actor))

    async def acancel(
        self,
        job_id: str,
        *,
        reason: str = "cancelled",
        force: bool = False,
        owner: str | None = None,
        epoch: int | None = None,
        actor: str = "app",
    ) -> CancelResult:
        return await self._store().awrite(self._cancel(job_id, reason, force, Held(owner, epoch), actor))

    def retry(self, job_id: str, *, fresh: bool = False, actor: str = "app", reason: str = "") -> bool:
        """Run a finished job again, attempts from zero, history kept. False where a live twin holds its key.

        A durable job goes on from the steps that it has recorded; a `fresh` one does them all again.
        """
        return self._store().write(self._audited(_replay(job_id, fresh), "retry", job_id, actor, reason))

    async def aretry(self, job_id: str, *, fresh: bool = False, actor: str = "app", reason: str = "") -> bool:
        return await self._store().awrite(self._audited(_replay(job_id, fresh), "retry", job_id, actor, reason))

    def run_now(self, job_id: str, *, actor: str = "app", reason: str = "") -> bool:
        """Make a delayed or retrying job due. False if it was."""
        return self._store().write(
            self._audited(lambda tx: control.run_now(tx, _id(job_id)), "run_now", job_id, actor, reason)
        )

    async def arun_now(self, job_id: str, *, actor: str = "app", reason: str = "") -> bool:
        op = self._audited(lambda tx: control.run_now(tx, _id(job_id)), "run_now", job_id, actor, reason)
        return await self._store().awrite(op)

    def delete(self, job_id: str, *, actor: str = "app", reason: str = "") -> DeleteResult:
        """Remove a job and its history; a running one is asked to stop instead."""
        return self._store().write(
            self._audited(lambda tx: control.delete(tx, _id(job_id)), "delete", job_id, actor, reason)
        )

    async def adelete(self, job_id: str, *, actor: str = "app", reason: str = "") -> DeleteResult:
        op = self._audited(lambda tx: control.delete(tx, _id(job_id)), "delete", job_id, actor, reason)
        return await self._store().awrite(op)

    def bulk(
        self,
        action: str,
        filter: Mapping[str, object] | JobFilter | None = None,
        *,
        ids: Sequence[str] | None = None,
        all: bool = False,
        dry_run: bool = False,
        actor: str = "app",
        reason: str = "",
        priority: int | None = None,
        to_queue: str | None = None,
        force: bool = False,
    ) -> BulkReport:
        """Act on many jobs: retry, cancel, delete, run_now, priority, move, hold, release.

        Who is meant, by `filter`, by `ids` or by `all=True`, is settled once; then each 500 of them are one
        transaction, with a record in the audit. `dry_run` says what would become of them.
        """
        order = bulk.order_of(action, priority=priority, queue=to_queue, force=force)
        wanted = None if ids is not None else bulk.filter_of(filter, all=all)
        bulk.check_meant(filter, ids, all=all)
        order, wanted = self._confined(order, wanted)
        return bulk.run(self._store(), bulk.steps(order, wanted, ids, dry_run=dry_run, actor=actor, reason=reason))

    async def abulk(
        self,
        action: str,
        filter: Mapping[str, object] | JobFilter | None = None,
        *,
        ids: Sequence[str] | None = None,
        all: bool = False,
        dry_run: bool = False,
        actor: str = "app",
        reason: str = "",
        priority: int | None = None,
        to_queue: str | None = None,
        force: bool = False,
    ) -> BulkReport:
        """The awaiting twin of `bulk`."""
        order = bulk.order_of(action, priority=priority, queue=to_queue, force=force)
        wanted = None if ids is not None else bulk.filter_of(filter, all=all)
        bulk.check_meant(filter, ids, all=all)
        order, wanted = self._confined(order, wanted)
        steps = bulk.steps(order, wanted, ids, dry_run=dry_run, actor=actor, reason=reason)
        return await bulk.arun(self._store(), steps)

    def wait(self, job_id: str, timeout: float | None = None) -> Ended:
        """Block until a job has ended. ResultTimeout if it has not by then."""
        return self._watch.wait(job_id, timeout)

    async def await_(self, job_id: str, timeout: float | None = None) -> Ended:
        return await self._watch.await_(job_id, timeout)

    def decode_result(self, ended: Ended, task: str | None) -> Any:
        """The result as the task's own return type, where this app knows the task."""
        known = self._tasks.get(task) if task else None
        text = "null" if ended.result is None else ended.result
        return known.signature.decode_result(text) if known else msgspec.json.decode(text)

    def result_key(self, job_id: str) -> str:
        """The key by which a client without a token asks for the result of this job."""
        if self._scope.tenant is not None:
            self._store().read(self._scope.sees(job_id, _existing(_id(job_id), whole=False)))
        return self._keys.of(_id(job_id))

    async def aresult_key(self, job_id: str) -> str:
        if self._scope.tenant is not None:
            await self._store().aread(self._scope.sees(job_id, _existing(_id(job_id), whole=False)))
        return await self._keys.aof(_id(job_id))

    def pickled_by(self, task: str | None) -> Task[Any, Any] | None:
        """The task by which another process finds these jobs; None for a tenant's, which would lose its scope."""
        return self._tasks.get(task) if task and self._scope.tenant is None else None

    def renew(self) -> None:
        self._watch.renew()

    # -- within the scope

    def _confined(self, order: Order, wanted: JobFilter | None) -> tuple[Order, JobFilter | None]:
        if wanted is not None:
            wanted = replace(wanted, tenant=self._scope.within(wanted.tenant))
        return replace(order, only_tenant=self._scope.tenant), wanted

    def _counts(self) -> Op[list[Count]]:
        tenant = self._scope.tenant
        return Op(insight.count_jobs) if tenant is None else Op(lambda tx: tenancy.counts(tx, tenant), single=True)

    def _explain(self, job_id: str) -> Op[Explanation]:
        return Op(lambda tx: explaining.explain(tx, _id(job_id), self._scope.tenant))

    def _cancel(self, job_id: str, reason: str, force: bool, held: Held, actor: str) -> Op[CancelResult]:
        return self._audited(
            lambda tx: control.cancel(tx, _id(job_id), reason=reason, force=force, held=held),
            "cancel",
            job_id,
            actor,
            reason,
        )

    def _audited(
        self, answer: Callable[[Tx], Awaitable[T]], action: str, job_id: str, actor: str, reason: str
    ) -> Op[T]:
        """An action, with a record in the same commit where something was done."""

        async def run(tx: Tx) -> T:
            whose = await tenancy.tenant_of(tx, _id(job_id))
            done = await answer(tx)
            if done not in _NOTHING_DONE:
                after = {"answer": done if isinstance(done, bool) else str(done)}
                said = {"action": f"job.{action}", "target": job_id, "reason": reason}
                await audit(tx, actor=actor, **said, after=after, tenant=whose)
            return done

        return self._scope.owns(job_id, Op(run, name=f"jobs.{action}"))


async def _ended(tx: Tx, job_ids: Sequence[str], scope: Scope) -> list[Ended]:
    own = job_ids if scope.tenant is None else await tenancy.owned_of(tx, scope.tenant, job_ids)
    return await insight.outcomes_of(tx, own)


def first_reason(job_id: str, scope: Scope, *, in_memory: bool = False) -> Op[Reason]:
    """Read what holds a job, in one sentence."""

    async def run(tx: Tx) -> Reason:
        first = (await explaining.explain(tx, job_id, scope.tenant)).reasons[0]
        if not (in_memory and first.code == "no_worker"):
            return first
        return Reason(first.code, f"{first.text.partition('; ')[0]}, {_IN_MEMORY}")

    return Op(run)


def _existing(job_id: str, *, whole: bool) -> Op[JobRecord]:
    if whole:
        return Op(lambda tx: insight.whole_job(tx, job_id), single=True)
    return Op(lambda tx: insight.get_job(tx, job_id), single=True)


def _attempts(job_id: str) -> Op[list[Attempt]]:
    async def read(tx: Tx) -> list[Attempt]:
        found = await insight.attempts_of(tx, _id(job_id))
        if not found:
            await insight.get_job(tx, job_id)  # NotFound, where there is no such job.
        return found

    return Op(read)


def _demands(job_id: str) -> Op[Demands]:
    return Op(lambda tx: insight.demands(tx, _id(job_id)))


def _replay(job_id: str, fresh: bool) -> Callable[[Tx], Awaitable[bool]]:
    async def run(tx: Tx) -> bool:
        again = await control.replay(tx, _id(job_id))
        if again and fresh:
            await steps.forget(tx, job_id)
        return again

    return run


def _id(job_id: str) -> str:
    if isinstance(job_id, Job):
        raise InvalidInput("the id must be text, not a Job; pass job.id")
    return check_name("the id", job_id)
