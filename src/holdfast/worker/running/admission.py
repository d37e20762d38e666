"""Admission before a handler starts: check the job's quota and reserve its budgets, or do not start it.

A refused job holds no slot and uses no attempt. If the store fails, no job is admitted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from ...clock import SECOND
from ...errors import StorageError
from ...model.budgets import BUDGET_EXHAUSTED, QUOTA, Admission, ConcurrencyExceeded, Exhausted, RateExceeded
from ...model.jobs import Claimed
from ...model.limits import JobLimits
from ...model.outcomes import Outcome, Parked, Snoozed
from ...rules.failure import error_json
from ...storage.ops.budgets import reservations
from ...storage.ops.budgets.reservations import Runner, wishes_of
from ...storage.ops.workers import workers
from ...storage.outage import Outage
from ...storage.port import Op, Reads, Writes
from .runs import Run

logger: Final = logging.getLogger("holdfast.worker")

_AFTER_AN_ERROR: Final = 1 * SECOND
_SOON: Final = SECOND // 20


class ReadsAndWrites(Reads, Writes, Protocol):
    """A store with async reads and writes."""


class AdmissionCheck:
    """Asks the store whether a job may start."""

    def __init__(self, store: ReadsAndWrites, random: Callable[[], float], outage: Outage | None = None) -> None:
        self._store = store
        self._random = random
        self._outage = outage

    async def admit(self, run: Run) -> Outcome | None:
        """Return None if the run may start; otherwise its outcome."""
        return await self.admit_job(run.owner, run.job)

    async def admit_job(self, owner: str, job: Claimed) -> Outcome | None:
        """Admit a job of any worker; see `admit`."""
        limits = JobLimits.decode(job.limits or "{}")
        who = Runner(owner, job.id, job.epoch)
        wishes, shares_quota = wishes_of(job), not limits.own_quota
        op = Op(lambda tx: reservations.reserve(tx, who, wishes, quota=limits.quota, shares_quota=shares_quota))
        try:
            answer = await self._store.awrite(op)
        except StorageError as error:
            if self._outage is None or not self._outage.covers(f"the admission of job {job.id}", error):
                logger.warning("job %s could not be admitted (%s); retrying in one second", job.id, error)
            return Snoozed(_AFTER_AN_ERROR, "admission")
        return None if answer is None else self._refused(answer)

    async def refusal(self, run: Run) -> str | None:
        """Return why a claimed job's handler must not begin: cancel or lost. None if it may, or the store fails."""
        op = Op(lambda tx: workers.stop_reason(tx, run.job.id, run.job.epoch), single=True)
        try:
            return await self._store.aread(op)
        except StorageError as error:
            if self._outage is None or not self._outage.covers(f"the cancel check of job {run.job.id}", error):
                logger.warning("job %s starts without a check for its cancel (%s)", run.job.id, error)
            return None

    def _refused(self, answer: Exhausted | Admission) -> Outcome:
        match answer:
            case Exhausted():
                return Parked(BUDGET_EXHAUSTED, error_json("BudgetExhausted", str(answer)), began=False)
            case RateExceeded() | ConcurrencyExceeded():
                # Another job was admitted since the claim. The next claim parks this one behind the quota.
                return Snoozed(round(_SOON * (1 + self._random())), QUOTA)
            case _:
                raise AssertionError(f"{answer} is not a refusal")


def is_limited(job: Claimed) -> bool:
    """Return True if a job must be admitted; cheap, because most jobs need not be."""
    return job.limits is not None and ('"reserve"' in job.limits or '"quota"' in job.limits)
