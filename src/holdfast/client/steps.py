"""The journals of durable jobs: look at one, and begin again from a step of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from ..creator import creator
from ..handle import Job
from ..ids import ids
from ..model.step import Step
from ..names import check_name
from ..rules.amounts import in_units
from ..storage.ops import insight, steps
from ..storage.ops.audit import audit
from ..storage.port import Op, Store, Tx
from .holding import id_of
from .scope import Scope

_CHARGES: Final = frozenset({"spend", "settle", "reserve"})


class JobSteps:
    """The part of `app.jobs` that knows steps."""

    _store: Callable[[], Store]
    _scope: Scope

    def steps(self, job_id: str, *, whole: bool = True) -> list[Step]:
        """What a durable job has done so far, in the order in which it asked for it.

        Unless they are read `whole`, a short reference stands for each value over 256 KiB.
        """
        return self._store().read(self._scope.sees(job_id, _steps(job_id, whole=whole)))

    async def asteps(self, job_id: str, *, whole: bool = True) -> list[Step]:
        return await self._store().aread(self._scope.sees(job_id, _steps(job_id, whole=whole)))

    def fork(self, job: Job[Any] | str, *, from_step: str, actor: str = "app", reason: str = "") -> Job[Any]:
        """A new job that has already done what this one did before a step, and does the rest again.

        `from_step` is the step's name, `name#2` for the second of that name, or a key as `steps` shows it.
        """
        op = self._scope.owns(id_of(job), _fork(job, from_step, actor, reason))
        task, new_id = self._store().write(op)
        return Job(self, new_id, task=task)  # type: ignore[arg-type]

    async def afork(self, job: Job[Any] | str, *, from_step: str, actor: str = "app", reason: str = "") -> Job[Any]:
        op = self._scope.owns(id_of(job), _fork(job, from_step, actor, reason))
        task, new_id = await self._store().awrite(op)
        return Job(self, new_id, task=task)  # type: ignore[arg-type]


def _steps(job_id: str, *, whole: bool) -> Op[list[Step]]:
    job_id = check_name("the id", job_id)

    async def run(tx: Tx) -> list[Step]:
        await insight.get_job(tx, job_id)
        if whole:
            return shown_steps(await steps.read_whole_journal(tx, job_id))
        return shown_steps((await steps.read_journal(tx, job_id)).steps)

    return Op(run)


def shown_steps(journal: Iterable[Step]) -> list[Step]:
    """The entries as they are shown: amounts in their own unit."""
    return [
        replace(step, value=in_units(step.value)) if step.kind in _CHARGES and step.value else step for step in journal
    ]


def _fork(job: Job[Any] | str, from_step: str, actor: str, reason: str) -> Op[tuple[str, str]]:
    job_id, new_id = id_of(job), ids.new()
    created_by = creator() if actor == "app" else actor

    async def run(tx: Tx) -> tuple[str, str]:
        await steps.fork(tx, job_id, from_step, new_id, created_by)
        after = {"from_step": from_step, "fork": new_id}
        await audit(tx, actor=actor, action="job.fork", target=job_id, reason=reason, after=after)
        return (await insight.get_job(tx, new_id)).task, new_id

    return Op(run)
