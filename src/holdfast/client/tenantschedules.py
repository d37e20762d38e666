"""The schedules of one tenant: `app.scoped("acme").schedules`. Each method has an awaiting twin.

In the store a tenant's schedule is named `acme/nightly`, and so it is in the app's own list; here it is `nightly`. Its
jobs are the tenant's. That name is the whole key: two tenants can each have a schedule `nightly`.
"""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..errors import InvalidInput, NotFound
from ..model.schedule import Backfill, RanNow, Schedule, ScheduledRun
from ..names import check_name
from ..storage.ops.schedules import list_schedules
from ..storage.port import Op, Store
from ..tasks import JobRequest, Task
from .schedules import Schedules
from .scope import Scope

_BETWEEN = "/"


class TenantSchedules:
    """The same schedules under shorter names; what code declares is the app's own and not here."""

    def __init__(
        self,
        store: Callable[[], Store],
        schedules: Schedules,
        scope: Scope,
        check: Callable[[JobRequest[Any]], None],
    ) -> None:
        self._store = store
        self._all = schedules
        self._scope = scope
        self._check = check
        self._prefix = f"{scope.home}{_BETWEEN}"

    def list(self) -> builtins.list[Schedule]:
        """Every schedule of the tenant, by name."""
        return self._own_of(self._store().read(self._listing()))

    async def alist(self) -> builtins.list[Schedule]:
        return self._own_of(await self._store().aread(self._listing()))

    def get(self, name: str) -> Schedule:
        """One schedule. NotFound if there is none."""
        return self._shown(self._all.get(self._found(name)))

    async def aget(self, name: str) -> Schedule:
        return self._shown(await self._all.aget(await self._afound(name)))

    def create(
        self, name: str, job: JobRequest[Any] | Task[Any, Any], *, actor: str = "app", reason: str = "", **when: Any
    ) -> Schedule:
        """Make a schedule whose jobs are the tenant's: `create("digest", mail.job("all"), cron="0 8 * * *")`."""
        return self._shown(self._all.create(self._key(name), self._own(job), actor=actor, reason=reason, **when))

    async def acreate(
        self, name: str, job: JobRequest[Any] | Task[Any, Any], *, actor: str = "app", reason: str = "", **when: Any
    ) -> Schedule:
        return self._shown(await self._all.acreate(self._key(name), self._own(job), actor=actor, reason=reason, **when))

    def edit(self, name: str, *, actor: str = "app", reason: str = "", **changes: Any) -> Schedule:
        """Change a schedule, as `app.schedules.edit` does."""
        return self._shown(self._all.edit(self._found(name), actor=actor, reason=reason, **changes))

    async def aedit(self, name: str, *, actor: str = "app", reason: str = "", **changes: Any) -> Schedule:
        return self._shown(await self._all.aedit(await self._afound(name), actor=actor, reason=reason, **changes))

    def pause(self, name: str, *, actor: str = "app", reason: str = "") -> Schedule:
        """Fire no more until `resume`."""
        return self._shown(self._all.pause(self._found(name), actor=actor, reason=reason))

    async def apause(self, name: str, *, actor: str = "app", reason: str = "") -> Schedule:
        return self._shown(await self._all.apause(await self._afound(name), actor=actor, reason=reason))

    def resume(self, name: str, *, actor: str = "app", reason: str = "") -> Schedule:
        """Fire again from the next tick on."""
        return self._shown(self._all.resume(self._found(name), actor=actor, reason=reason))

    async def aresume(self, name: str, *, actor: str = "app", reason: str = "") -> Schedule:
        return self._shown(await self._all.aresume(await self._afound(name), actor=actor, reason=reason))

    def delete(self, name: str, *, actor: str = "app", reason: str = "") -> None:
        """Remove a schedule; its jobs stay."""
        self._all.delete(self._found(name), actor=actor, reason=reason)

    async def adelete(self, name: str, *, actor: str = "app", reason: str = "") -> None:
        await self._all.adelete(await self._afound(name), actor=actor, reason=reason)

    def run_now(self, name: str, *, actor: str = "app", reason: str = "") -> RanNow:
        """Make a job now, under the overlap policy."""
        return self._all.run_now(self._found(name), actor=actor, reason=reason)

    async def arun_now(self, name: str, *, actor: str = "app", reason: str = "") -> RanNow:
        return await self._all.arun_now(await self._afound(name), actor=actor, reason=reason)

    def backfill(self, name: str, start: datetime, end: datetime, **how: Any) -> Backfill:
        """Make the jobs of past ticks that have none, as `app.schedules.backfill` does."""
        return self._all.backfill(self._found(name), start, end, **how)

    async def abackfill(self, name: str, start: datetime, end: datetime, **how: Any) -> Backfill:
        return await self._all.abackfill(await self._afound(name), start, end, **how)

    def ticks(self, name: str, limit: int = 20) -> builtins.list[tuple[int, str]]:
        """The newest ticks that made a job, each with that job's id."""
        return self._all.ticks(self._found(name), limit)

    async def aticks(self, name: str, limit: int = 20) -> builtins.list[tuple[int, str]]:
        return await self._all.aticks(await self._afound(name), limit)

    def runs(self, names: Sequence[str], limit: int = 20) -> dict[str, builtins.list[ScheduledRun]]:
        """Of each of these schedules the newest ticks that made a job, with what became of it."""
        own = {one.name for one in self.list()} & set(names)
        return self._shortened(self._all.runs([self._key(name) for name in sorted(own)], limit))

    async def aruns(self, names: Sequence[str], limit: int = 20) -> dict[str, builtins.list[ScheduledRun]]:
        own = {one.name for one in await self.alist()} & set(names)
        return self._shortened(await self._all.aruns([self._key(name) for name in sorted(own)], limit))

    def next_runs(self, name: str, count: int = 5) -> builtins.list[datetime]:
        """When it fires next."""
        return self._all.next_runs(self._found(name), count)

    async def anext_runs(self, name: str, count: int = 5) -> builtins.list[datetime]:
        return await self._all.anext_runs(await self._afound(name), count)

    def _shortened(self, runs: dict[str, builtins.list[ScheduledRun]]) -> dict[str, builtins.list[ScheduledRun]]:
        return {name.removeprefix(self._prefix): found for name, found in runs.items()}

    def _key(self, name: str) -> str:
        if _BETWEEN in self._scope.home:
            raise InvalidInput(f"tenant {self._scope.home!r} has a {_BETWEEN} in its name, and can have no schedules")
        return check_name("the schedule's name, with its tenant's,", self._prefix + check_name("the name", name))

    def _found(self, name: str) -> str:
        return self._require(self._all.get(self._key(name)))

    async def _afound(self, name: str) -> str:
        return self._require(await self._all.aget(self._key(name)))

    def _require(self, schedule: Schedule) -> str:
        """One that an operator made under this tenant's name, and for another tenant's jobs, is not the tenant's."""
        if not self._is_own(schedule):
            raise NotFound("schedule", schedule.name)
        return schedule.name

    def _listing(self) -> Op[builtins.list[Schedule]]:
        return Op(lambda tx: list_schedules(tx, self._prefix))

    def _own_of(self, found: builtins.list[Schedule]) -> builtins.list[Schedule]:
        return [self._shown(one) for one in found if self._is_own(one)]

    def _is_own(self, schedule: Schedule) -> bool:
        if _BETWEEN in self._scope.home or not schedule.name.startswith(self._prefix):
            return False
        return bool(json.loads(schedule.options).get("tenant") == self._scope.home)

    def _shown(self, schedule: Schedule) -> Schedule:
        return replace(schedule, name=schedule.name.removeprefix(self._prefix))

    def _own(self, job: JobRequest[Any] | Task[Any, Any]) -> JobRequest[Any] | Task[Any, Any]:
        options = job.call_options if isinstance(job, Task) else job.options
        self._scope.of(options.tenant)
        mine = replace(options, tenant=self._scope.home)
        if isinstance(job, Task):
            return job._with(mine)
        self._check(job)
        return job.with_options(mine)
