"""The journals of durable jobs: look at one, and begin again from a step of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..handle import Job
from ..ids import ids
from ..model.step import Step
from ..names import check_name
from ..storage.ops import insight, steps
from ..storage.ops.audit import audit
from ..storage.port import Op, Store, Tx
from .holding import id_of
from .scope import Scope


class JobSteps:
    """The part of `app.jobs` that knows steps."""

    _store: Callable[[], Store]
    _scope: Scope

    def steps(self, job_id: str) -> list[Step]:
        """What a durable job has done so far, in the order in which it asked for it."""
        return self._store().read(self._scope.sees(job_id, _steps(job_id)))

    async def asteps(self, job_id: str) -> list[Step]:
        return await self._store().aread(self._scope.sees(job_id, _steps(job_id)))

    def fork(self, job: Job[Any] | str, *, from_step: str, actor: str | None = None, reason: str = "") -> Job[Any]:
        """A new job that has already done what this one did before a step, and does the rest again.

        `from_step` is the step's name, `name#2` for the second of that name, or a key as `steps` shows it.
        """
        op = self._scope.owns(id_of(job), _fork(job, from_step, actor, reason))
        task, new_id = self._store().write(op)
        return Job(self, new_id, task=task)  # type: ignore[arg-type]

    async def afork(
        self, job: Job[Any] | str, *, from_step: str, actor: str | None = None, reason: str = ""
    ) -> Job[Any]:
        op = self._scope.owns(id_of(job), _fork(job, from_step, actor, reason))
        task, new_id = await self._store().awrite(op)
        return Job(self, new_id, task=task)  # type: ignore[arg-type]


def _steps(job_id: str) -> Op[list[Step]]:
    job_id = check_name("the id", job_id)

    async def run(tx: Tx) -> list[Step]:
        await insight.get_job(tx, job_id)
        return list((await steps.read_journal(tx, job_id)).steps)

    return Op(run)


def _fork(job: Job[Any] | str, from_step: str, actor: str | None, reason: str) -> Op[tuple[str, str]]:
    job_id, new_id = id_of(job), ids.new()

    async def run(tx: Tx) -> tuple[str, str]:
        await steps.fork(tx, job_id, from_step, new_id)
        if actor is not None:
            after = {"from_step": from_step, "fork": new_id}
            await audit(tx, actor=actor, action="job.fork", target=job_id, reason=reason, after=after)
        return (await insight.get_job(tx, new_id)).task, new_id

    return Op(run)
