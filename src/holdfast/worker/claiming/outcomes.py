"""Outcomes on their way to the store: queued for the next commit, and kept while the store fails or refuses one."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from ...errors import HoldfastError, InvalidInput, StorageError
from ...model.jobs import Claimed
from ...model.outcomes import Failed, Finish, Lost, Outcome
from ...rules.failure import error_text
from ...storage.ops.jobs import claims
from ...storage.ops.jobs.claims import Turn
from ...storage.port import Op, Store

logger: Final = logging.getLogger("holdfast.worker")

_PAUSE_AFTER_ERROR: Final = 0.5
_UNRECORDABLE: Final = "unrecordable"


class OutcomeQueue:
    """Outcomes that the store does not have yet, and the wake-up of the loop that records them and claims."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, int], Finish] = {}
        self._recording: dict[tuple[str, int], Finish] = {}
        self.in_flight: Final = set[str]()
        """Tokens of claims that the store has not answered yet."""
        self.may_have_work = True
        """True if there may be something to claim."""
        self.exhausted: Final = set[str]()
        """Kinds of jobs of which the last claim found too few, for workers with batches."""
        self.wake: Final = asyncio.Event()

    def finished(self, job: Claimed, outcome: Outcome) -> None:
        """Queue the outcome of a run."""
        self.submit(Finish(job.id, job.epoch, outcome))

    def submit(self, finish: Finish) -> None:
        """Queue an outcome, of a job that need not have run."""
        self._waiting[finish.id, finish.epoch] = finish
        self.wake.set()

    def request_claim(self) -> None:
        """Claim soon: there may be work."""
        self.expect_work()
        self.wake.set()

    def expect_work(self) -> None:
        """Note that there may be something to claim, of any kind."""
        self.may_have_work = True
        self.exhausted.clear()

    @property
    def waiting(self) -> int:
        """Outcomes that no commit under way records."""
        return len(self._waiting)

    @property
    def pending(self) -> int:
        """Outcomes that the store does not have yet."""
        return len(self._waiting) + len(self._recording)

    def is_recording(self, job_id: str, epoch: int) -> bool:
        """Return True if the outcome of that run is queued or being recorded."""
        return (job_id, epoch) in self._recording or (job_id, epoch) in self._waiting

    def forget(self) -> None:
        """Drop queued outcomes: the worker was declared lost, so they no longer count."""
        self._waiting.clear()

    def take(self, most: int) -> list[Finish]:
        """Take the next outcomes for a commit; `done` ends it."""
        keys = list(itertools.islice(self._waiting, most))
        batch = {key: self._waiting.pop(key) for key in keys}
        self._recording |= batch
        return list(batch.values())

    def recorded(self, finishes: Sequence[Finish], turn: Turn) -> None:
        """Read the store's answers to these outcomes."""
        for finish, verdict in zip(finishes, turn.verdicts, strict=True):
            if isinstance(verdict, Lost):
                logger.warning(
                    "the outcome of job %s came too late: it belongs to another worker now and its run there counts",
                    finish.id,
                )

    def put_back(self, finishes: Iterable[Finish]) -> None:
        """Queue outcomes again, before all others, that a commit could not record."""
        self._waiting = {(finish.id, finish.epoch): finish for finish in finishes} | self._waiting

    def done(self, batch: Iterable[Finish]) -> None:
        """End the commit of a batch, whether or not it succeeded."""
        for finish in batch:
            self._recording.pop((finish.id, finish.epoch), None)


class FailedCommits:
    """Handles the failures of commits that record outcomes and claim. `subject` names them in log lines."""

    def __init__(self, store: Store, subject: str) -> None:
        self._store = store
        self._subject = subject

    async def recover(self, owner: str, claim: str) -> list[Claimed] | None:
        """Read a claim again, whose commit may have happened. None if the store fails: a heartbeat hands it back."""
        try:
            return await self._store.aread(Op(lambda tx: claims.claimed_under(tx, owner, claim)))
        except StorageError:
            return None

    async def record_rest(
        self, error: Exception, finishes: list[Finish], record: Callable[[Finish], Awaitable[object]]
    ) -> tuple[list[Finish], Exception | None]:
        """Record the outcomes of a refused batch one by one, so that only the refused job fails.

        Return the outcomes still to be recorded, and the error to wait for, if any.
        """
        if not finishes or not is_refusal(error):
            return finishes, error
        return await record_one_by_one(finishes, record)

    async def pause(self, error: Exception | None, kept: int) -> None:
        """Log the error, unless it belongs to an outage that was logged, and wait before the next try."""
        if error is None:
            return
        if not self._store.outage.covers(self._subject, error):
            logger.error(
                "the store failed (%s: %s); %d outcomes are kept and tried again in %.1f s",
                type(error).__name__, error, kept, _PAUSE_AFTER_ERROR,
            )  # fmt: skip
        await asyncio.sleep(_PAUSE_AFTER_ERROR)


def is_refusal(error: Exception) -> bool:
    """Return True if the store rejected a value, rather than being down, full or busy."""
    return not isinstance(error, HoldfastError) or isinstance(error, InvalidInput) or type(error) is StorageError


async def record_one_by_one(
    finishes: Sequence[Finish], record: Callable[[Finish], Awaitable[object]]
) -> tuple[list[Finish], Exception | None]:
    """Record each outcome in a commit of its own; a refused one becomes a failure of its job.

    Return the outcomes still to be recorded, and the error other than a refusal that stopped this, if any.
    """
    kept: list[Finish] = []
    for at, finish in enumerate(finishes):
        try:
            await record(finish)
        except Exception as error:
            if not is_refusal(error) or _is_unrecordable(finish):
                return [*kept, *finishes[at:]], error
            logger.error("the outcome of job %s cannot be stored (%s); it fails instead", finish.id, error)
            kept.append(Finish(finish.id, finish.epoch, Failed(_UNRECORDABLE, error_text(error))))
    return kept, None


def _is_unrecordable(finish: Finish) -> bool:
    return isinstance(finish.outcome, Failed) and finish.outcome.kind == _UNRECORDABLE
