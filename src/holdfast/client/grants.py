"""Jobs for one worker only, and jobs that no worker can run. Each method has an awaiting twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import InvalidInput
from ..handle import Job
from ..model.grant import Grant
from ..model.job import JobRecord
from ..names import check_duration, check_name
from ..options import Seconds
from ..rules.reach import Reason
from ..storage.ops import grants, stranded
from ..storage.ops.audit import audit
from ..storage.port import Op, Store, Tx
from .holding import id_of
from .scope import Scope


class JobGrants:
    """The part of `app.jobs` that knows who may run what."""

    _store: Callable[[], Store]
    _scope: Scope

    def grant(
        self, job: Job[Any] | str, *, worker: str, expires: Seconds = 30, actor: str = "app", reason: str = ""
    ) -> Grant:
        """Let only the worker of that name claim a job that waits, once, for so many seconds.

        After that it is open to everybody again. A grant that is there already is replaced.
        """
        return self._store().write(self._scope.owns(id_of(job), _grant(job, worker, expires, actor, reason)))

    async def agrant(
        self, job: Job[Any] | str, *, worker: str, expires: Seconds = 30, actor: str = "app", reason: str = ""
    ) -> Grant:
        return await self._store().awrite(self._scope.owns(id_of(job), _grant(job, worker, expires, actor, reason)))

    def withdraw(self, job: Job[Any] | str, *, actor: str = "app", reason: str = "") -> bool:
        """Take a grant back: the job is open to everybody now. False if there was none."""
        return self._store().write(self._scope.owns(id_of(job), _withdraw(job, actor, reason)))

    async def awithdraw(self, job: Job[Any] | str, *, actor: str = "app", reason: str = "") -> bool:
        return await self._store().awrite(self._scope.owns(id_of(job), _withdraw(job, actor, reason)))

    def grants(self) -> list[Grant]:
        """Those that were neither used nor ended, the first to expire first; at most 1,000."""
        return self._store().read(self._grants())

    async def agrants(self) -> list[Grant]:
        return await self._store().aread(self._grants())

    def unrunnable(self, jobs: Sequence[JobRecord]) -> dict[str, Reason]:
        """Of these jobs, those that wait and that no live worker could run, by id, each with what is missing."""
        return self._store().read(Op(lambda tx: stranded.unrunnable(tx, jobs)))

    async def aunrunnable(self, jobs: Sequence[JobRecord]) -> dict[str, Reason]:
        return await self._store().aread(Op(lambda tx: stranded.unrunnable(tx, jobs)))

    def _grants(self) -> Op[list[Grant]]:
        tenant = self._scope.within()
        return Op(lambda tx: grants.list_grants(tx, tenant), single=True)


def _grant(job: Job[Any] | str, worker: str, expires: Seconds, actor: str, reason: str) -> Op[Grant]:
    job_id, name, duration = id_of(job), check_name("worker", worker), check_duration("expires", expires)
    if duration == 0:
        raise InvalidInput("expires is 0; give more seconds, or leave it out for 30")

    async def run(tx: Tx) -> Grant:
        before = await grants.grant_of(tx, job_id)
        made = await grants.grant(tx, job_id, name, duration)
        await audit(
            tx,
            actor=actor,
            action="job.grant",
            target=job_id,
            reason=reason,
            before=None if before is None else {"worker": before.worker, "expires_at": before.expires_at},
            after={"worker": made.worker, "expires_at": made.expires_at},
        )
        return made

    return Op(run)


def _withdraw(job: Job[Any] | str, actor: str, reason: str) -> Op[bool]:
    job_id = id_of(job)

    async def run(tx: Tx) -> bool:
        before = await grants.grant_of(tx, job_id)
        done = await grants.withdraw(tx, job_id)
        if done and before is not None:
            was = {"worker": before.worker, "expires_at": before.expires_at}
            await audit(tx, actor=actor, action="job.withdraw", target=job_id, reason=reason, before=was)
        return done

    return Op(run)
