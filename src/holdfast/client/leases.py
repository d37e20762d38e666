"""Workers in other languages: `app.leases`. They register, claim, beat and finish, and the store sees no difference.

Every method has an awaiting twin. What a run does in between is in `lease_runs` and `lease_waits`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..clock import SECOND
from ..engine.lending import decide_failure
from ..errors import LeaseLost
from ..ids import token
from ..model.job import Claimed, JobRecord, JobState
from ..model.lease import AnyEnding, Beaten, Finished, HeldJob, LeasedJob, Registered
from ..model.outcome import Finish, Outcome, Recorded, Released, Retry, Snoozed, Throttled
from ..model.worker import WorkerSpec
from ..names import check_name
from ..options import Seconds
from ..rules.failure import Failure
from ..rules.handles import Lease
from ..rules.leasing import RELEASED, stated
from ..storage.ops import lending
from ..storage.ops.insight import get_job
from ..storage.ops.lending import Holding
from ..storage.port import Op, Tx
from ..storage.step import step
from .lease_base import LeaseBase, check_worker
from .lease_checks import beat_every, check_claim, check_confined, check_handles, introduction
from .lease_claims import claim
from .lines import Line
from .lease_runs import LeaseRuns
from .lease_waits import LeaseWaits


class Leases(LeaseRuns, LeaseWaits, LeaseBase):
    """The lease API of one app. It is of the whole store: a worker gets the jobs of every tenant."""

    def register(
        self,
        name: str,
        queues: Sequence[str],
        tasks: Sequence[str],
        *,
        capabilities: Sequence[str] = (),
        resident: Sequence[str] = (),
        concurrency: int = 1,
        lease: Seconds = 30,
        versions: Mapping[str, str] | None = None,
        host: str = "",
        client: str = "",
    ) -> Registered:
        """Make a worker known: which tasks of which queues it runs, in that order, how many at once.

        `resident` are the affinities that it has loaded; it has room for as many, and for one at least. `versions`
        are those of its tasks, `host` and `client` are shown to people.
        """
        spec = introduction(
            name, queues, tasks, capabilities=capabilities, resident=resident, concurrency=concurrency, lease=lease,
            versions=versions, host=host, client=client,
        )  # fmt: skip
        return step(self._register(self._blocking, spec))

    async def aregister(
        self,
        name: str,
        queues: Sequence[str],
        tasks: Sequence[str],
        *,
        capabilities: Sequence[str] = (),
        resident: Sequence[str] = (),
        concurrency: int = 1,
        lease: Seconds = 30,
        versions: Mapping[str, str] | None = None,
        host: str = "",
        client: str = "",
    ) -> Registered:
        """The awaiting twin of `register`."""
        spec = introduction(
            name, queues, tasks, capabilities=capabilities, resident=resident, concurrency=concurrency, lease=lease,
            versions=versions, host=host, client=client,
        )  # fmt: skip
        return await self._register(self._awaiting, spec)

    def beat(self, worker: str, handles: Sequence[str] = ()) -> Beaten:
        """Renew a worker's lease; what it owns, what of that is to be cancelled, and which of `handles` it lost.

        LeaseLost where the worker itself was given up: it should stop all it runs, and register again.
        """
        return step(self._beat(self._blocking, worker, handles))

    async def abeat(self, worker: str, handles: Sequence[str] = ()) -> Beaten:
        return await self._beat(self._awaiting, worker, handles)

    def claim(self, worker: str, limit: int = 1, *, wait: Seconds = 0, claim_id: str | None = None) -> list[LeasedJob]:
        """At most so many jobs, as far as the worker has room and limits allow; it may wait for the first up to 30 s.

        A claim renews the lease as a beat does, and waits no longer than half of it. One that is repeated with its
        `claim_id` gives what it took before, where that still runs.
        """
        return step(self._claim(self._blocking, worker, limit, wait, claim_id))

    async def aclaim(
        self, worker: str, limit: int = 1, *, wait: Seconds = 0, claim_id: str | None = None
    ) -> list[LeasedJob]:
        return await self._claim(self._awaiting, worker, limit, wait, claim_id)

    def finish(self, handle: str, outcome: AnyEnding) -> Finished:
        """Record how a run ended; what becomes of a failed job is decided by its attempts and its retry policy.

        Repeated after an answer that was lost, it says so. LeaseLost where the job is no longer this run's.
        """
        return step(self._finish(self._blocking, handle, outcome))

    async def afinish(self, handle: str, outcome: AnyEnding) -> Finished:
        return await self._finish(self._awaiting, handle, outcome)

    def deregister(self, worker: str) -> int:
        """Let a worker leave. What it still holds is handed back at no cost; how many jobs."""
        return step(self._deregister(self._blocking, worker))

    async def aderegister(self, worker: str) -> int:
        return await self._deregister(self._awaiting, worker)

    # -- how they work

    async def _register(self, line: Line, spec: WorkerSpec) -> Registered:
        caller = self._caller
        check_confined(spec, caller)
        await line.write(Op(lambda tx: lending.register(tx, replace(spec, holder=caller.holder), caller.actor)))
        return Registered(spec.id, spec.lease / SECOND, beat_every(spec.lease))

    async def _beat(self, line: Line, worker: str, handles: Sequence[str]) -> Beaten:
        worker_id, named = check_worker(worker), await self._leases(line, check_handles(handles))
        held = await line.write(Op(lambda tx: lending.beat(tx, worker_id, self._caller.holder)))
        jobs = [HeldJob(await self._handle(line, _lease(worker_id, job)), job.id, job.cancel_requested) for job in held]
        mine = {(worker_id, job.id, job.epoch) for job in held}
        lost = [text for text, run in named.items() if (run.worker, run.job_id, run.epoch) not in mine]
        return Beaten(worker_id, tuple(jobs), tuple(lost))

    async def _claim(self, line: Line, worker: str, limit: int, wait: Seconds, claim_id: str | None) -> list[LeasedJob]:
        worker_id, mark = check_worker(worker), None if claim_id is None else check_name("claim_id", claim_id)
        most, patience = check_claim(limit, wait)
        known = await line.read(Op(lambda tx: lending.get_worker(tx, worker_id, self._caller.holder)))
        ready = await claim(
            line, self._tasks, known, most, patience, mark or token(), random=self._random, poll=self._poll()
        )
        return [one.under(await self._handle(line, _lease(worker_id, one.job))) for one in ready]

    async def _finish(self, line: Line, handle: str, outcome: AnyEnding) -> Finished:
        lease, said, u = await self._lease(line, handle), stated(outcome, self._limit()), self._random()

        async def run(tx: Tx) -> Finished:
            end = said if not isinstance(said, Failure) else await self._decide(tx, lease, said, u)
            (verdict,) = await lending.finish(tx, lease.worker, [Finish(lease.job_id, lease.epoch, end)])
            if not isinstance(verdict, Recorded):
                raise LeaseLost(f"job {lease.job_id} is no longer this worker's; nothing was recorded")
            return Finished(lease.job_id, verdict.state, verdict.again, _delay(end, verdict))

        return await line.write(Op(run))

    async def _decide(self, tx: Tx, lease: Lease, failure: Failure, u: float) -> Outcome:
        job = await _job(tx, lease)
        if job is None:
            # The store refuses it, or knows it already: what it says is not looked at.
            return Released(RELEASED)
        return await decide_failure(tx, job, failure, self._tasks, u)

    async def _deregister(self, line: Line, worker: str) -> int:
        worker_id, count, more = check_worker(worker), 0, True
        while more:
            page, more = await line.write(Op(lambda tx: lending.hand_back(tx, worker_id, "shutdown", self._caller)))
            count += page
        return count


def _delay(outcome: Outcome, verdict: Recorded) -> float | None:
    if verdict.again or verdict.state != JobState.READY or not isinstance(outcome, Retry | Snoozed | Throttled):
        return None
    return outcome.delay / SECOND


def _lease(worker_id: str, job: Claimed | Holding) -> Lease:
    return Lease(job.id, job.epoch, worker_id, job.generation, job.attempt)


async def _job(tx: Tx, lease: Lease) -> JobRecord | None:
    """The job, if it is this run's."""
    if not await lending.is_own(tx, lease):
        return None
    return await get_job(tx, lease.job_id)
