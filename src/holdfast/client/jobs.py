"""Read jobs and act on them: `app.jobs`. Each method has an async version; actions are audited."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Never

import msgspec

from ..errors import InvalidInput, NotFound
from ..model.actions import Action, ActionResult, BulkReport, Lease, Order
from ..model.answers import Count, JobFilter, JobPage
from ..model.jobs import Attempt, Demands, Ended, JobRecord
from ..model.routing import Grant
from ..model.steps import StepInfo
from ..names import check_name
from ..rules.actions import ACTIONS, JobAction, action_of
from ..rules.explain import Explanation
from ..rules.resultkeys import job_of, result_key
from ..rules.routing import Reason
from ..storage.ops import tenants
from ..storage.ops.jobs import actions, explaining, queries
from ..storage.ops.routing import grants, stranded
from ..storage.ops.signals.keys import store_secret
from ..storage.ops.workers import leases
from ..storage.port import Op, Store, Tx
from ..tasks.job import Job
from ..tasks.options import Seconds
from ..tasks.task import Task
from . import bulk
from .calls import composed, reads, writes
from .lines import Line
from .scope import EVERYTHING, Scope
from .steps import fork, journal
from .watch import Watch

if TYPE_CHECKING:
    from .signals import Signals
    from .streams import Streams

_IN_MEMORY: Final = (
    "and no other process reaches a store in memory; run its jobs here: in a test by holdfast.testing.drain(app), "
    "in a program inside of: with app.worker():"
)


LOOKED_AT: Final = 10_000
"""Jobs that are searched for one page, where no index applies."""


MOST_LISTED = 1_000


class Jobs:
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
            lambda ids: Op(lambda tx: tenants.owned_of(tx, scope.tenant, ids), single=True),
            lambda job_id: scope.sees(job_id, _existing(job_id, whole=False)),
            lambda job_id: first_reason(job_id, scope, in_memory=store().in_memory),
        )

    @reads
    def get(self, job_id: str, *, whole: bool = True) -> Op[JobRecord]:
        """Return the whole record of a job. NotFound if there is none.

        Unless it is read `whole`, arguments or a result over 256 KiB are replaced by a short reference.
        """
        return self._scope.sees(job_id, _existing(_id(job_id), whole=whole))

    aget = get.awaiting

    @reads
    def demands(self, job_id: str) -> Op[Demands]:
        """Return what a job requires of workers and limits: capabilities, affinity, keys, budgets, its webhook."""
        return self._scope.sees(job_id, Op(lambda tx: queries.demands(tx, _id(job_id))))

    ademands = demands.awaiting

    @reads
    def find(self, /, wanted: JobFilter | None = None, **unknown: Never) -> Op[list[JobRecord]]:
        """Return jobs, newest first."""
        if unknown:
            how = ", ".join(f"{name}=…" for name in unknown)
            raise TypeError(f"find takes a filter; write find(holdfast.model.JobFilter({how}))")
        wanted = self._wanted(wanted or JobFilter())
        return Op(lambda tx: queries.list_jobs(tx, wanted))

    afind = find.awaiting

    @reads
    def attempts(self, job_id: str) -> Op[list[Attempt]]:
        """Return the runs that did not succeed, oldest first; at most 32."""

        async def read(tx: Tx) -> list[Attempt]:
            found = await queries.attempts_of(tx, _id(job_id))
            if not found:
                await queries.get_job(tx, job_id)  # NotFound, where there is no such job.
            return found

        return self._scope.sees(job_id, Op(read))

    aattempts = attempts.awaiting

    @reads
    def counts(self) -> Op[list[Count]]:
        """Count the jobs in each state of each queue."""
        tenant = self._scope.tenant
        return Op(queries.count_jobs) if tenant is None else Op(lambda tx: tenants.counts(tx, tenant), single=True)

    acounts = counts.awaiting

    @reads
    def explain(self, job_id: str) -> Op[Explanation]:
        """Explain why a job is in its state, and what would change that."""
        op = Op(lambda tx: explaining.explain(tx, _id(job_id), self._scope.tenant))
        return self._scope.sees(job_id, op)

    aexplain = explain.awaiting

    @reads
    def search(self, wanted: JobFilter | None = None) -> Op[JobPage]:
        """Return a page of jobs, newest first, and the `before` of the next one.

        `tag`, `text`, `created_by`, `priority`, `min_attempts`, `reason` and times are searched among 10,000 jobs at
        a time: a page may be short and yet not be the last. `find` continues until it is full.
        """
        asked = self._wanted(wanted or JobFilter())
        return Op(lambda tx: queries.search_jobs(tx, asked, LOOKED_AT))

    asearch = search.awaiting

    @reads
    def steps(self, job_id: str, *, whole: bool = True) -> Op[list[StepInfo]]:
        """Return the steps that a durable job has recorded so far, in their order.

        Unless they are read `whole`, a text with its size replaces each value over 256 KiB.
        """
        return self._scope.sees(job_id, journal(job_id, whole=whole))

    asteps = steps.awaiting

    # -- act

    @writes
    def act(
        self, /, action: str, job: Job[Any] | str, *, actor: str = "app", reason: str = "", **parameters: object
    ) -> Op[ActionResult]:
        """Perform an operator action by its name, such as "hold": the methods below, with their parameters.

        Returns the result also where nothing was changed. The `actor`, here and below, is named in the audit.
        """
        return self._act(job, action_of(action), actor, reason, parameters)

    aact = act.awaiting

    @writes
    def cancel(
        self,
        job: Job[Any] | str,
        *,
        reason: str = "cancelled",
        force: bool = False,
        owner: str | None = None,
        epoch: int | None = None,
        actor: str = "app",
    ) -> Op[ActionResult]:
        """Cancel it if it waits, ask it to stop if it runs, end it at once with `force`.

        With an `owner` or an `epoch`, only if they match; else the result is `different_owner` or `epoch_moved`, and
        nothing is changed.
        """
        given = {"force": force, "owner": owner, "epoch": epoch}
        return self._act(job, ACTIONS[Action.CANCEL], actor, reason, given)

    acancel = cancel.awaiting

    @writes
    def retry(self, job: Job[Any] | str, *, fresh: bool = False, actor: str = "app", reason: str = "") -> Op[bool]:
        """Run a finished job again, attempts from zero, history kept. False if another live job holds its key.

        A durable job resumes after its recorded steps; with `fresh` it runs them all again.
        """
        return self._change(job, Action.RETRY, actor, reason, fresh=fresh)

    aretry = retry.awaiting

    @writes
    def run_now(self, job: Job[Any] | str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Make a delayed, retrying or parked job due. False if it was due."""
        return self._change(job, Action.RUN_NOW, actor, reason)

    arun_now = run_now.awaiting

    @writes
    def reschedule(
        self,
        job: Job[Any] | str,
        *,
        at: datetime | None = None,
        delay: Seconds | None = None,
        actor: str = "app",
        reason: str = "",
    ) -> Op[bool]:
        """Give a ready or held job a new time: `at` an instant, or after a `delay`. False if it has that time.

        A time in the past makes it due now. A held job keeps its new time for when it is released.
        """
        return self._change(job, Action.RESCHEDULE, actor, reason, at=at, delay=delay)

    areschedule = reschedule.awaiting

    @writes
    def delete(self, job: Job[Any] | str, *, actor: str = "app", reason: str = "") -> Op[ActionResult]:
        """Remove a job and its history; a running one is asked to stop instead."""
        return self._act(job, ACTIONS[Action.DELETE], actor, reason, {})

    adelete = delete.awaiting

    @composed
    async def fork(
        self, line: Line, job: Job[Any] | str, *, from_step: str, actor: str = "app", reason: str = ""
    ) -> Job[Any]:
        """Copy a job with its steps before a given one; the new job runs the rest again.

        `from_step` is the step's name, `name#2` for the second of that name, or a key as `steps` shows it.
        """
        op = self._scope.owns(id_of(job), fork(id_of(job), from_step, actor, reason))
        task, new_id = await line.write(op)
        return Job(self, new_id, task=task)

    afork = fork.awaiting

    # Each returns False, and changes and records nothing, if it is so already.

    @writes
    def hold(self, job: Job[Any] | str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Keep a ready job from starting, until `release`. False if it is held already."""
        return self._change(job, Action.HOLD, actor, reason)

    ahold = hold.awaiting

    @writes
    def release(self, job: Job[Any] | str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Release a held job, with its due time and what it waited for. False if it was not held."""
        return self._change(job, Action.RELEASE, actor, reason)

    arelease = release.awaiting

    @writes
    def set_priority(self, job: Job[Any] | str, priority: int, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Change the priority of a job that has not started; higher runs first. False if it has that priority."""
        return self._change(job, Action.SET_PRIORITY, actor, reason, priority=priority)

    aset_priority = set_priority.awaiting

    @writes
    def move(self, job: Job[Any] | str, queue: str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Move a job that has not started to another queue. False if it is there."""
        return self._change(job, Action.MOVE, actor, reason, queue=queue)

    amove = move.awaiting

    @writes
    def revoke(
        self,
        job: Job[Any] | str,
        *,
        owner: str | None = None,
        epoch: int | None = None,
        actor: str = "app",
        reason: str = "",
    ) -> Op[ActionResult]:
        """Take a running job from its worker and stop its handler: ready again, without using an attempt.

        With an `owner` (a worker's id) or an `epoch`, only if they match. The result is `revoked`, `cancelled` if it
        had been asked to stop, or why there was nothing to revoke: `no_active_lease`, `different_owner` or
        `epoch_moved`.
        """
        return self._act(job, ACTIONS[Action.REVOKE], actor, reason, {"owner": owner, "epoch": epoch})

    arevoke = revoke.awaiting

    @reads
    def expired_leases(self, *, after: str = "", limit: int = 100) -> Op[list[Lease]]:
        """Return jobs whose worker is dead, or silent for longer than its lease, in the order of their ids.

        They are about to be rescued. `after` is the job that the last page ended with.
        """
        tenant = self._scope.within()
        if not 1 <= limit <= MOST_LISTED:
            raise InvalidInput(f"limit is {limit}; use 1 to {MOST_LISTED:,}")
        place = check_name("after", after) if after else ""
        return Op(lambda tx: leases.expired_leases(tx, tenant=tenant, after=place, limit=limit), single=True)

    aexpired_leases = expired_leases.awaiting

    @writes
    def grant(
        self, job: Job[Any] | str, *, worker: str, expires: Seconds = 30, actor: str = "app", reason: str = ""
    ) -> Op[Grant]:
        """Let only the worker of that name claim a waiting job, once, for `expires` seconds.

        After that any worker can claim it again. An existing grant is replaced.
        """
        granted = self._act(job, ACTIONS[Action.GRANT], actor, reason, {"worker": worker, "expires": expires})

        async def run(tx: Tx) -> Grant:
            await granted.run(tx)
            made = await grants.grant_of(tx, id_of(job))
            assert made is not None
            return made

        return Op(run, name=granted.name)

    agrant = grant.awaiting

    @writes
    def withdraw(self, job: Job[Any] | str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Withdraw a grant: any worker can claim the job now. False if there was none."""
        return self._change(job, Action.WITHDRAW, actor, reason)

    awithdraw = withdraw.awaiting

    @reads
    def grants(self) -> Op[list[Grant]]:
        """Return the grants that were neither used nor withdrawn, the first to expire first; at most 1,000."""
        tenant = self._scope.within()
        return Op(lambda tx: grants.list_grants(tx, tenant), single=True)

    agrants = grants.awaiting

    @reads
    def unrunnable(self, jobs: Sequence[JobRecord]) -> Op[dict[str, Reason]]:
        """Return those of these waiting jobs that no live worker could run, by id, each with what is missing."""
        return Op(lambda tx: stranded.unrunnable(tx, jobs))

    aunrunnable = unrunnable.awaiting

    @composed
    async def bulk(
        self,
        line: Line,
        action: str,
        filter: Mapping[str, object] | JobFilter | None = None,
        *,
        ids: Sequence[str] | None = None,
        all: bool = False,
        dry_run: bool = False,
        actor: str = "app",
        reason: str = "",
        priority: int | None = None,
        queue: str | None = None,
        force: bool = False,
        fresh: bool = False,
        owner: str | None = None,
        epoch: int | None = None,
        worker: str | None = None,
        expires: Seconds | None = None,
        at: datetime | None = None,
        delay: Seconds | None = None,
    ) -> BulkReport:
        """Perform an operator action on many jobs, with the name and the parameters of the method for one job.

        The jobs are chosen once, by `filter`, by `ids` or by `all=True`; then each 500 of them are one transaction,
        with a record in the audit. `dry_run` returns the expected results.
        """
        order = action_of(action).order(
            {
                "priority": priority, "queue": queue, "force": force, "fresh": fresh, "owner": owner, "epoch": epoch,
                "worker": worker, "expires": expires, "at": at, "delay": delay,
            },
            partial=dry_run,
        )  # fmt: skip
        wanted = None if ids is not None else bulk.filter_of(filter, all=all)
        bulk.check_meant(filter, ids, all=all)
        order, wanted = self._confined(order, wanted)
        return await bulk.run(line, order, wanted, ids, dry_run=dry_run, actor=actor, reason=reason)

    abulk = bulk.awaiting

    @composed
    async def wait(self, line: Line, job_id: str, timeout: float | None = None) -> Ended:
        """Wait until a job has ended. ResultTimeout if it has not by then."""
        return await line.call(self._watch.wait, self._watch.await_, job_id, timeout)

    await_ = wait.awaiting

    def decode_result(self, ended: Ended, task: str | None) -> Any:
        """Return the result as the task's own return type, if this app knows the task."""
        known = self._tasks.get(task) if task else None
        text = "null" if ended.result is None else ended.result
        return known.signature.decode_result(text) if known else msgspec.json.decode(text)

    @composed
    async def result_key(self, line: Line, job_id: str) -> str:
        """Return the key by which a client without a token asks for the result of this job."""
        if self._scope.tenant is not None:
            await line.read(self._scope.sees(job_id, _existing(_id(job_id), whole=False)))
        return await self._keys.of(line, _id(job_id))

    aresult_key = result_key.awaiting

    def pickled_by(self, task: str | None) -> Task[Any, Any] | None:
        """Return the task by which another process finds these jobs; None for a tenant's, whose scope would be lost."""
        return self._tasks.get(task) if task and self._scope.tenant is None else None

    def renew(self) -> None:
        self._watch.renew()

    # -- within the scope

    def _wanted(self, wanted: JobFilter) -> JobFilter:
        bulk.check_filter(wanted)
        if not 1 <= wanted.limit <= 10_000:
            raise InvalidInput(f"limit is {wanted.limit}; use 1 to 10,000")
        return replace(wanted, tenant=self._scope.within(wanted.tenant))

    def _confined(self, order: Order, wanted: JobFilter | None) -> tuple[Order, JobFilter | None]:
        if wanted is not None:
            wanted = replace(wanted, tenant=self._scope.within(wanted.tenant))
        return replace(order, only_tenant=self._scope.tenant), wanted

    def _act(
        self, job: Job[Any] | str, record: JobAction, actor: str, reason: str, given: Mapping[str, object]
    ) -> Op[ActionResult]:
        """Do an action, with an audit record in the same commit if it changed something."""
        job_id, order = id_of(job), record.order(given)
        op = Op(lambda tx: actions.act(tx, job_id, order, actor=actor, reason=reason), name=f"jobs.{record.verb}")
        return self._scope.owns(job_id, op)

    def _change(self, job: Job[Any] | str, action: Action, actor: str, reason: str, **given: object) -> Op[bool]:
        """Do an action; True if it changed something."""
        op = self._act(job, ACTIONS[action], actor, reason, given)

        async def run(tx: Tx) -> bool:
            return (await op.run(tx)).changes

        return Op(run, name=op.name)


class ResultKeys:
    """The keys with which clients without a token get results. The secret of the store is read once."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._known: tuple[Store, bytes] | None = None

    async def of(self, line: Line, job_id: str) -> str:
        """Return the key of a job."""
        return result_key(await self._secret(line), job_id)

    @composed
    async def job(self, line: Line, key: str) -> str:
        """Return the id of the job that a key is for. NotFound if it is not a key of this store."""
        job_id = job_of(await self._secret(line), key)
        if job_id is None:
            raise NotFound("result", "of this key")
        return job_id

    ajob = job.awaiting

    async def _secret(self, line: Line) -> bytes:
        store = line.store
        if self._known is None or self._known[0] is not store:
            self._known = (store, await line.write(Op(store_secret)))
        return self._known[1]


async def _ended(tx: Tx, job_ids: Sequence[str], scope: Scope) -> list[Ended]:
    own = job_ids if scope.tenant is None else await tenants.owned_of(tx, scope.tenant, job_ids)
    return await queries.outcomes_of(tx, own)


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
        return Op(lambda tx: queries.whole_job(tx, job_id), single=True)
    return Op(lambda tx: queries.get_job(tx, job_id), single=True)


def _id(job_id: str) -> str:
    if isinstance(job_id, Job):
        raise InvalidInput("the id must be text, not a Job; pass job.id")
    return check_name("the id", job_id)


def id_of(job: Job[Any] | str) -> str:
    """Return a job's id, from its handle too."""
    return check_name("the id", job.id if isinstance(job, Job) else job)
