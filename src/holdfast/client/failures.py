"""The newest runs that failed: the part of `app.errors` that knows single ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..errors import InvalidInput
from ..model.stats import FailedRun
from ..rules.fingerprint import fingerprint as kind_of
from ..storage.ops import errors
from ..storage.port import Op, Row, Store

MOST_RUNS: Final = 1_000
_REMEMBERED: Final = 20_000


class FailedRuns:
    """Whoever asks again and again, as an open page does, has each run's kind worked out once."""

    _store: Callable[[], Store]
    _whose: str | None = None
    """The tenant; None is everybody."""

    def runs(self, *, fingerprint: str | None = None, since: int = 0, limit: int = 200) -> list[FailedRun]:
        """The newest failed runs, of one kind or of all. Looks at the newest 1,000 since an instant in microseconds."""
        return self._told(self._store().read(self._recent(since)), fingerprint, limit)

    async def aruns(self, *, fingerprint: str | None = None, since: int = 0, limit: int = 200) -> list[FailedRun]:
        return self._told(await self._store().aread(self._recent(since)), fingerprint, limit)

    def _recent(self, since: int) -> Op[list[Row]]:
        return Op(lambda tx: errors.recent(tx, tenant=self._whose, since=since, n=MOST_RUNS), single=True)

    def _told(self, rows: list[Row], fingerprint: str | None, limit: int) -> list[FailedRun]:
        if not 1 <= limit <= MOST_RUNS:
            raise InvalidInput(f"limit is {limit}; use 1 to {MOST_RUNS:,}")
        runs = [self._run(row) for row in rows]
        return [run for run in runs if fingerprint in (None, run.fingerprint)][:limit]

    def _run(self, row: Row) -> FailedRun:
        at, job_id, epoch, task, error, attempt, outcome, state, queue, tenant = row
        return FailedRun(
            at=at, job_id=job_id, epoch=epoch, task=task, fingerprint=self._kind(job_id, epoch, task, error),
            attempt=attempt, outcome=outcome, error=error, state=state, queue=queue, tenant=tenant,
        )  # fmt: skip

    def _kind(self, job_id: str, epoch: int, task: str, error: str) -> str:
        known: dict[tuple[str, int], str] = self.__dict__.setdefault("_kinds", {})
        found = known.get((job_id, epoch))
        if found is None:
            if len(known) >= _REMEMBERED:
                known.clear()
            found = known[job_id, epoch] = kind_of(task, error).key
        return found
