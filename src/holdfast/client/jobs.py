"""Look at jobs and act on them: `app.jobs`. Each method has an awaiting twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import InvalidInput
from ..model.answers import CancelResult, Count, DeleteResult, JobFilter
from ..model.job import Attempt, Ended, JobRecord, JobState
from ..rules.explain import Explanation
from ..storage.ops import control, explaining, insight
from ..storage.port import Op, Store
from ..tasks import Task
from .watch import Watch


class Jobs:
    """The jobs of one app."""

    def __init__(self, store: Callable[[], Store], tasks: dict[str, Task[Any, Any]]) -> None:
        self._store = store
        self._tasks = tasks
        self._watch = Watch(store)

    def get(self, job_id: str) -> JobRecord:
        """Everything the store knows about a job. NotFound if there is none."""
        return self._store().read(Op(lambda tx: insight.get_job(tx, job_id), single=True))

    async def aget(self, job_id: str) -> JobRecord:
        return await self._store().aread(Op(lambda tx: insight.get_job(tx, job_id), single=True))

    def find(self, wanted: JobFilter | None = None) -> list[JobRecord]:
        """Jobs, newest first."""
        wanted = _checked(wanted or JobFilter())
        return self._store().read(Op(lambda tx: insight.list_jobs(tx, wanted)))

    async def afind(self, wanted: JobFilter | None = None) -> list[JobRecord]:
        wanted = _checked(wanted or JobFilter())
        return await self._store().aread(Op(lambda tx: insight.list_jobs(tx, wanted)))

    def attempts(self, job_id: str) -> list[Attempt]:
        """The runs that did not end in success, oldest first; at most 32."""
        return self._store().read(Op(lambda tx: insight.attempts_of(tx, job_id), single=True))

    async def aattempts(self, job_id: str) -> list[Attempt]:
        return await self._store().aread(Op(lambda tx: insight.attempts_of(tx, job_id), single=True))

    def counts(self) -> list[Count]:
        """How many jobs are in each state of each queue."""
        return self._store().read(Op(insight.count_jobs))

    async def acounts(self) -> list[Count]:
        return await self._store().aread(Op(insight.count_jobs))

    def explain(self, job_id: str) -> Explanation:
        """Why a job is where it is, and what would move it."""
        return self._store().read(Op(lambda tx: explaining.explain(tx, job_id)))

    async def aexplain(self, job_id: str) -> Explanation:
        return await self._store().aread(Op(lambda tx: explaining.explain(tx, job_id)))

    def cancel(self, job_id: str, *, reason: str = "cancelled", force: bool = False) -> CancelResult:
        """Cancel it if it waits, ask it to stop if it runs, end it at once with `force`."""
        return self._store().write(Op(lambda tx: control.cancel(tx, job_id, reason=reason, force=force)))

    async def acancel(self, job_id: str, *, reason: str = "cancelled", force: bool = False) -> CancelResult:
        return await self._store().awrite(Op(lambda tx: control.cancel(tx, job_id, reason=reason, force=force)))

    def retry(self, job_id: str) -> bool:
        """Run a finished job again, attempts from zero, history kept. False where a live twin holds its key."""
        return self._store().write(Op(lambda tx: control.replay(tx, job_id)))

    async def aretry(self, job_id: str) -> bool:
        return await self._store().awrite(Op(lambda tx: control.replay(tx, job_id)))

    def run_now(self, job_id: str) -> bool:
        """Make a delayed or retrying job due. False if it was."""
        return self._store().write(Op(lambda tx: control.run_now(tx, job_id)))

    async def arun_now(self, job_id: str) -> bool:
        return await self._store().awrite(Op(lambda tx: control.run_now(tx, job_id)))

    def delete(self, job_id: str) -> DeleteResult:
        """Remove a job and its history; a running one is asked to stop instead."""
        return self._store().write(Op(lambda tx: control.delete(tx, job_id)))

    async def adelete(self, job_id: str) -> DeleteResult:
        return await self._store().awrite(Op(lambda tx: control.delete(tx, job_id)))

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

    def renew(self) -> None:
        self._watch.renew()


def _checked(wanted: JobFilter) -> JobFilter:
    if wanted.state is not None and wanted.state not in list(JobState):
        raise InvalidInput(f"there is no state {wanted.state!r}; use one of {', '.join(JobState)}")
    if not 1 <= wanted.limit <= 10_000:
        raise InvalidInput(f"limit is {wanted.limit}; use 1 to 10,000")
    return wanted


