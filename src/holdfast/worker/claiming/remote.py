"""Claiming for remote workers: the same claim and the same admission check as for local ones.

No state is kept between calls: a worker's routes, jobs and loaded affinities are read from the store, so any process
can serve it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import HoldfastError, LeaseLost, StorageError
from ...model.jobs import Claimed, JobRecord
from ...model.outcomes import Cancelled, Expired, Failed, Finish, Outcome, Released, Snoozed
from ...model.values import is_reference
from ...model.workers import WorkerRecord
from ...rules import retry
from ...rules.failure import Failure, FailureClass, classify, decide, error_json, error_text
from ...rules.remote import decided
from ...rules.routing import Hold, worker_capability
from ...storage.ops import remote
from ...storage.ops.jobs import claims
from ...storage.ops.jobs.claims import ClaimRequest
from ...storage.ops.jobs.queries import clock, get_job
from ...storage.ops.queues import get_queue
from ...storage.ops.remote import Holding, Overdue
from ...storage.ops.routing.routes import special_routes
from ...storage.ops.workers.lookout import Lookout, look
from ...storage.ops.workers.workers import beat
from ...storage.port import Tx
from ...tasks.task import Task
from ..running.admission import AdmissionCheck, ReadsAndWrites, is_limited
from ..running.inputs import Inputs, UnfitInputs
from ..state import QueueDefaults
from .capacity import Capacity, open_routes, rerouted, routing_of
from .routes import ServedRoutes

Tasks = Mapping[str, Task[Any, Any]]


@dataclass(frozen=True, slots=True)
class RemoteClaim:
    """Result of a claim: jobs to prepare, and jobs that end before they start. `now` is by the store's clock."""

    jobs: Sequence[Claimed]
    ended: Sequence[Finish]
    now: int = 0
    parked: int = 0
    """Jobs that were next but over a limit; there may be others behind them."""


def routes_of(worker: WorkerRecord) -> ServedRoutes:
    """Return the routes that a worker registered for, its queues in strict order."""
    own = (f"task:{name}" for name in worker.tasks)
    able = [*worker.capabilities, *own, worker_capability(worker.name)]
    return ServedRoutes(worker.queues, able, versions=worker.versions)


async def claim_for(tx: Tx, worker_id: str, limit: int, token: str, tasks: Tasks, *, renew: bool) -> RemoteClaim:
    """Claim for a worker. If an earlier claim with the same token got jobs, return those."""
    worker = await remote.lock_worker(tx, worker_id)
    if renew:
        await beat(tx, worker_id)
    routes = routes_of(worker)
    routes.learn(await special_routes(tx))
    view = await look(tx, worker_id, routes.numbers)
    claimed, parked = await claims.claimed_under(tx, worker_id, token), 0
    if not claimed:
        request = _request(worker, await remote.holdings(tx, worker_id), routes, view, limit, token)
        turn = await claims.turn(tx, worker_id, [], request)
        claimed, parked = turn.claimed, turn.parked
    if not claimed:
        return RemoteClaim((), (), parked=parked)
    now = await clock(tx)
    ended = {job.id: end for job in claimed if (end := _unfit(worker, routes, job, now)) is not None}
    defaults = QueueDefaults()
    defaults.learn(view.queues)
    return RemoteClaim(
        [defaults.fill(job, tasks.get(job.task)) for job in claimed if job.id not in ended],
        [Finish(job.id, job.epoch, ended[job.id]) for job in claimed if job.id in ended],
        now,
    )


def _request(
    worker: WorkerRecord, held: Sequence[Holding], routes: ServedRoutes, view: Lookout, limit: int, token: str
) -> ClaimRequest | None:
    """Build a claim for the free slots; None if there are none. A suspect runs alone, on an idle worker."""
    free = min(limit, worker.concurrency - len(held))
    if free <= 0 or any(job.alone for job in held):
        return None
    # A busy worker leaves suspects to idle ones, and to those that run them in a process of their own.
    alone = view.suspects_wait and not held
    served, parts = open_routes(routes, view.shares, (job.queue for job in held), free)
    if served is None:
        return None
    routing = routing_of(routes, lambda: _hold(worker, held, routes), worker.resident)
    capacity = Capacity(1 if alone else free, served, suspects=int(alone), alone=alone, parts=parts, routing=routing)
    return capacity.request(worker.id, token, view.standing)


def _hold(worker: WorkerRecord, held: Sequence[Holding], routes: ServedRoutes) -> Hold:
    in_use = frozenset(routes.affinities[job.route] for job in held if job.route in routes.affinities)
    # A remote worker's limit is the number of affinities it registered with.
    return Hold(worker.resident, in_use, max(1, len(worker.resident)))


def _unfit(worker: WorkerRecord, routes: ServedRoutes, job: Claimed, now: int) -> Outcome | None:
    """Return the outcome of a job that has expired or that the worker cannot run; else None."""
    if job.time_left is not None and job.time_left <= 0:
        return Expired()
    return None if job.task in worker.tasks else rerouted(job, routes, now)


class Preparing:
    """Completes the arguments of claimed jobs, and admits them to their quotas and budgets."""

    def __init__(self, store: ReadsAndWrites, tasks: Tasks, random: Callable[[], float]) -> None:
        self._inputs = Inputs(store)
        self._admission = AdmissionCheck(store, random)
        self._random = random
        self._tasks = tasks

    async def prepare(self, owner: str, job: Claimed, now: int) -> Claimed | Outcome:
        """Return the job ready to start, or its outcome if it cannot."""
        if job.inputs is None and not is_reference(job.payload) and not is_limited(job):
            return job
        try:
            job = await self._inputs.fill(job)
            refused = await self._admission.admit_job(owner, job) if is_limited(job) else None
        except UnfitInputs as unfit:
            return Failed(unfit.kind, error_text(unfit))
        except LeaseLost:
            # The job was taken away already; the store refuses this outcome.
            return Released("orphan")
        except StorageError:
            raise
        except HoldfastError as error:
            return self._failed(job, error, now)
        return job if refused is None else refused

    def _failed(self, job: Claimed, error: HoldfastError, now: int) -> Outcome:
        failure = classify(error)
        if isinstance(failure, Snoozed | Cancelled):
            return failure
        return decide(failure, job, policy_of(job, self._tasks.get(job.task)), now=now, u=self._random())


async def end_overdue(tx: Tx, runs: Sequence[Overdue], tasks: Tasks, u: float) -> None:
    """End overdue runs, as a local worker does with its own. Their workers lose them at the next heartbeat."""
    for run in runs:
        if not await remote.owns(tx, run.owner, run.job_id, run.epoch):
            continue
        outcome: Outcome = Expired() if run.why == "expired" else Cancelled("cancelled")
        if run.why == "timeout":
            job = await get_job(tx, run.job_id)
            failure = Failure(FailureClass.TIMEOUT, error_json("Timeout", "the run took longer than its timeout"))
            outcome = await decide_failure(tx, job, failure, tasks, u)
        await remote.finish(tx, run.owner, [Finish(run.job_id, run.epoch, outcome)])


async def decide_failure(tx: Tx, job: JobRecord, failure: Failure, tasks: Tasks, u: float) -> Outcome:
    """Return the outcome of a job whose remote run failed."""
    policy = policy_of(job, tasks.get(job.task), (await get_queue(tx, job.queue)).retry)
    tried = _Tried(job.attempts, job.max_attempts, job.crashes, job.created_at)
    return decided(failure, tried, policy, now=await clock(tx), u=u)


@dataclass(frozen=True, slots=True)
class _Tried:
    attempt: int
    max_attempts: int
    crashes: int
    created_at: int


def policy_of(job: Claimed | JobRecord, task: Task[Any, Any] | None, of_queue: str | None = None) -> retry.RetryPolicy:
    """Return the retry policy of the job, else of its task, else of its queue."""
    if job.retry:
        return retry.decode(job.retry)
    own = None if task is None else task.task_options.retry
    return own or retry.decode(of_queue)
