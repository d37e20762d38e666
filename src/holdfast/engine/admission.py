"""Before a handler starts: its job's quota lets it in, and what it asks of budgets is set aside, or it does not start.

A job that is refused holds no slot and loses no attempt. Where the store cannot say, nobody is admitted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ..clock import SECOND
from ..errors import StorageError
from ..model.budget import BUDGET_EXHAUSTED, QUOTA, Admission, ConcurrencyExceeded, Exhausted, RateExceeded
from ..model.job import Claimed
from ..model.limits import JobLimits
from ..model.outcome import Outcome, Parked, Snoozed
from ..rules.failure import error_json
from ..storage.ops import reserving
from ..storage.ops.reserving import Runner, Wish, admission_hold
from ..storage.port import Op, Writes
from .runs import Run

logger: Final = logging.getLogger("holdfast.engine")

_AFTER_AN_ERROR: Final = 1 * SECOND
# Those who were refused together shall not all come back at once.
_SPREAD: Final = 0.1


class Doorkeeper:
    """Asks the store on behalf of a job that is about to start."""

    def __init__(self, store: Writes, random: Callable[[], float]) -> None:
        self._store = store
        self._random = random

    async def admit(self, run: Run) -> Outcome | None:
        """None if it may start; otherwise what becomes of it instead."""
        return await self.let_in(run.owner, run.job)

    async def let_in(self, owner: str, job: Claimed) -> Outcome | None:
        """The same for a job in the hands of whichever worker."""
        limits = JobLimits.decode(job.limits or "{}")
        who = Runner(owner, job.id, job.epoch)
        wishes = [Wish(admission_hold(name), name, amounts) for name, amounts in (limits.reserve or {}).items()]
        op = Op(lambda tx: reserving.reserve(tx, who, wishes, quota=limits.quota))
        try:
            answer = await self._store.awrite(op)
        except StorageError as error:
            logger.warning("job %s could not be admitted (%s); it tries again in a second", job.id, error)
            return Snoozed(_AFTER_AN_ERROR, "admission")
        return None if answer is None else self._refused(answer, limits.quota or "")

    def _refused(self, answer: Exhausted | Admission, quota: str) -> Outcome:
        match answer:
            case Exhausted():
                return Parked(BUDGET_EXHAUSTED, error_json("BudgetExhausted", str(answer)))
            case RateExceeded(after):
                return Snoozed(round(after * (1 + _SPREAD * self._random()) * SECOND), QUOTA)
            case ConcurrencyExceeded(active):
                text = f"quota {quota!r} has {active} active, as many as it allows"
                return Parked(QUOTA, error_json("QuotaExceeded", text))
            case _:
                raise AssertionError(f"{answer} is no refusal")


def is_limited(job: Claimed) -> bool:
    """Whether a job must be admitted: a glance, because most jobs need not."""
    return job.limits is not None and ('"reserve"' in job.limits or '"quota"' in job.limits)
