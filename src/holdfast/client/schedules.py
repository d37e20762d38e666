"""Schedules: `@app.cron`, `@app.every`, `app.schedule`, `app.schedules`. Each method that acts has an async version."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, Unpack

from ..errors import ConfigError, InvalidInput, UnknownOption
from ..model.schedules import (
    Backfill,
    Missed,
    Overlap,
    RanNow,
    Schedule,
    ScheduledRun,
    ScheduleKey,
    ScheduleSpec,
    ScheduleState,
    Timing,
)
from ..names import check_instant, check_name
from ..rules.schedules import local_time, ticks_after, webhook_of
from ..storage.ops.schedules import firing, schedules
from ..storage.ops.schedules.schedules import Operator
from ..storage.port import Op, Store, Tx
from ..tasks.decorators import ScheduleDecorator
from ..tasks.functions import is_importing
from ..tasks.options import Seconds
from ..tasks.task import JobRequest, Task
from .calls import reads, writes
from .plans import Policies, call_of, changed, check_policies, payload_for, plan
from .scope import EVERYTHING, Scope

logger: Final = logging.getLogger("holdfast")
_MOST_SHOWN: Final = 1_000
_MOST: Final = 1_000
"""The most runs of all schedules together that one call returns."""


class StoredSchedules:
    """The schedules in the store: those of one tenant, or the app's own, of no tenant.

    A name is looked up among those: `app.schedules.of("acme").pause("nightly")` acts on that tenant's `nightly`. In the
    view of a tenant, `app.scoped("acme").schedules`, nothing else is found.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        tasks: dict[str, Task[Any, Any]],
        check_url: Callable[[str], object],
        check: Callable[[JobRequest[Any]], None],
        scope: Scope = EVERYTHING,
    ) -> None:
        """`check_url` refuses a webhook URL that is not allowed, `check` a job of another app."""
        self._store = store
        self._tasks = tasks
        self._check_url = check_url
        self._check = check
        self._scope = scope

    def of(self, tenant: str) -> StoredSchedules:
        """Return the schedules of one tenant."""
        scope = Scope(self._scope.of(check_name("tenant", tenant)))
        return StoredSchedules(self._store, self._tasks, self._check_url, self._check, scope)

    @reads
    def list(self) -> Op[builtins.list[Schedule]]:
        """Return every schedule, of all tenants unless this is one tenant's view, by tenant and name."""
        return Op(lambda tx: schedules.list_schedules(tx, self._scope.tenant))

    alist = list.awaiting

    @reads
    def get(self, name: str) -> Op[Schedule]:
        """Return one schedule. NotFound if there is none."""
        return Op(lambda tx: schedules.get_schedule(tx, self._key(name)))

    aget = get.awaiting

    @reads
    def ticks(self, name: str, limit: int = 20) -> Op[builtins.list[tuple[int, str]]]:
        """Return the newest ticks that made a job, in microseconds, each with that job's id."""
        return Op(lambda tx: schedules.ticks_of(tx, self._key(name), limit))

    aticks = ticks.awaiting

    @reads
    def runs(
        self, keys: Sequence[tuple[str, str]], limit: int = 20
    ) -> Op[dict[ScheduleKey, builtins.list[ScheduledRun]]]:
        """Return the latest ticks of each of these schedules that created a job, with the state of that job.

        A key is a tenant and a name: `runs([one.key for one in app.schedules.list()])`.
        """
        if len(keys) > _MOST or not 1 <= limit <= _MOST:
            raise InvalidInput(
                f"{len(keys):,} schedules and {limit:,} runs of each are asked for; {_MOST:,} is the most"
            )
        asked = [_checked_key(one) for one in keys]
        own = [key for key in asked if self._scope.tenant in (None, key.tenant)]
        return Op(lambda tx: schedules.runs_of(tx, own, limit))

    aruns = runs.awaiting

    @writes
    def create(
        self, /, name: str, job: JobRequest[Any] | Task[Any, Any], *, actor: str = "app", reason: str = "", **when: Any
    ) -> Op[Schedule]:
        """Create a schedule at run time: `create("digest", mail.job("all"), cron="0 8 * * *", zone="Asia/Tokyo")`.

        `cron` or `every` says when, the rest is as for `@app.cron`. The first run is at the next tick. Given a task
        rather than a job, `kwargs` are its arguments. The schedule is of the tenant of its jobs.
        """
        by, job = Operator(actor, reason), self._own(job)
        timing = {key: value for key, value in when.items() if key != "kwargs"}
        request, tick = call_of(job, (), when.get("kwargs") or {}) if isinstance(job, Task) else (job, None)
        spec = plan(name, request, tick_argument=tick, **timing)
        self._check_webhooks([spec])
        return Op(lambda tx: schedules.create_schedule(tx, spec, by))

    acreate = create.awaiting

    @writes
    def edit(
        self,
        name: str,
        *,
        cron: str | None = None,
        every: Seconds | None = None,
        zone: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        queue: str | None = None,
        priority: int | None = None,
        missed: Missed | None = None,
        max_missed: int | None = None,
        overlap: Overlap | None = None,
        jitter: Seconds | None = None,
        cooldown: Seconds | None = None,
        actor: str = "app",
        reason: str = "",
    ) -> Op[Schedule]:
        """Change a schedule; arguments that are None change nothing. Redeployed code does not overwrite these changes.

        A change of the time applies from now on: past ticks are not repeated. An edit can also fix a broken schedule.
        """
        given = {key: value for key, value in locals().items() if key not in ("self", "name", "actor", "reason")}
        given.pop("arguments")

        def change(schedule: Schedule) -> ScheduleSpec:
            payload = None
            if arguments is not None:
                payload = payload_for(self._tasks.get(schedule.task), schedule, arguments)
            return changed(schedule, payload=payload, **given)

        return Op(lambda tx: schedules.edit_schedule(tx, self._key(name), change, Operator(actor, reason)))

    aedit = edit.awaiting

    @writes
    def pause(self, name: str, *, actor: str = "app", reason: str = "") -> Op[Schedule]:
        """Stop firing until `resume`. Jobs that it has enqueued continue."""
        return Op(lambda tx: schedules.pause_schedule(tx, self._key(name), Operator(actor, reason)))

    apause = pause.awaiting

    @writes
    def resume(self, name: str, *, actor: str = "app", reason: str = "") -> Op[Schedule]:
        """Resume firing from the next tick on."""
        return Op(lambda tx: schedules.resume_schedule(tx, self._key(name), Operator(actor, reason)))

    aresume = resume.awaiting

    @writes
    def delete(self, name: str, *, actor: str = "app", reason: str = "") -> Op[None]:
        """Delete a schedule; its jobs are kept. If code declares it, the next worker recreates it: pause it instead."""
        return Op(lambda tx: schedules.delete_schedule(tx, self._key(name), Operator(actor, reason)))

    adelete = delete.awaiting

    @writes
    def run_now(self, name: str, *, actor: str = "app", reason: str = "") -> Op[RanNow]:
        """Make a job now, under the overlap policy. The schedule's own ticks stay as they are."""
        return Op(lambda tx: firing.run_now(tx, self._key(name), Operator(actor, reason)))

    arun_now = run_now.awaiting

    @writes
    def backfill(
        self, name: str, start: datetime, end: datetime, *, dry_run: bool = False, actor: str = "app", reason: str = ""
    ) -> Op[Backfill]:
        """Create the missing jobs of past ticks, from `start` up to but excluding `end`; at most 1,000 at once."""
        by = Operator(actor, reason)
        first, last = check_instant("start", start), check_instant("end", end)
        return Op(lambda tx: firing.backfill(tx, self._key(name), first, last, by, dry_run=dry_run))

    abackfill = backfill.awaiting

    @reads
    def next_runs(self, name: str, count: int = 5) -> Op[builtins.list[datetime]]:
        """Return the next times at which it fires, in its own zone; an empty list while it is paused or broken."""
        _count(count)

        async def look(tx: Tx) -> builtins.list[datetime]:
            schedule = await schedules.get_schedule(tx, self._key(name))
            if schedule.state is not ScheduleState.ACTIVE:
                return []
            return [
                local_time(t, schedule.zone) for t in islice(ticks_after(schedule.timing, schedule.last_tick), count)
            ]

        return Op(look)

    anext_runs = next_runs.awaiting

    def _key(self, name: str) -> ScheduleKey:
        return ScheduleKey(self._scope.home, name)

    def _own(self, job: JobRequest[Any] | Task[Any, Any]) -> JobRequest[Any] | Task[Any, Any]:
        """Return a job as the tenant's own."""
        if self._scope.tenant is None:
            return job
        options = job.call_options if isinstance(job, Task) else job.options
        mine = replace(options, tenant=self._scope.of(options.tenant))
        if isinstance(job, Task):
            return job._with(mine)
        self._check(job)
        return job.with_options(mine)

    def _check_webhooks(self, specs: Sequence[ScheduleSpec]) -> None:
        for spec in specs:
            if (url := webhook_of(spec.options)) is not None:
                self._check_url(url)


def _checked_key(given: object) -> ScheduleKey:
    match given:
        case (str() as tenant, str() as name):
            return ScheduleKey(tenant, name)
        case _:
            raise InvalidInput(
                f"{given!r:.100} is not the key of a schedule; give its tenant and name, such as ('', 'nightly')"
            )


class Schedules(StoredSchedules):
    """The schedules of one app: those that its code declares, and all that are stored.

    Their names default to those of their tasks.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        tasks: dict[str, Task[Any, Any]],
        register: Callable[[Callable[..., Any]], Task[Any, Any]],
        check_url: Callable[[str], object],
        check: Callable[[JobRequest[Any]], None],
    ) -> None:
        super().__init__(store, tasks, check_url, check)
        self._register = register
        self._declared: dict[ScheduleKey, ScheduleSpec] = {}
        self._declarers: dict[ScheduleKey, Task[Any, Any]] = {}

    def cron(
        self,
        expression: str,
        *,
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **policies: Unpack[Policies],
    ) -> ScheduleDecorator:
        """Run a function or a task by the clock: `@app.cron("0 3 * * *", zone="Europe/Paris")`.

        `missed` is the policy for missed ticks: "skip" them, run the latest "one" (the default) or "all" up to
        `max_missed`. `overlap` is the policy while the last job is unfinished: "allow", "skip" the tick,
        "cancel_previous". `jitter` spreads the start over that many seconds.
        """
        if not isinstance(expression, str):
            raise ConfigError(f'@app.cron needs an expression, not {expression!r}; write @app.cron("0 3 * * *")')
        return self._decorator(name, args, kwargs or {}, {"cron": expression, **check_policies("@app.cron", policies)})

    def every(
        self,
        seconds: Seconds,
        *,
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **policies: Unpack[Policies],
    ) -> ScheduleDecorator:
        """Run a function or a task at an interval in seconds, the first time one interval after it was stored.

        If it is overdue when workers start, it waits `cooldown` seconds first: by default the interval, up to a minute.
        """
        if not isinstance(seconds, (int, float, timedelta)):
            raise ConfigError(f"@app.every needs an interval, not {seconds!r}; write @app.every(60), in seconds")
        return self._decorator(name, args, kwargs or {}, {"every": seconds, **check_policies("@app.every", policies)})

    def schedule(
        self,
        job: JobRequest[Any] | Task[Any, Any],
        *,
        cron: str | None = None,
        every: Seconds | None = None,
        name: str | None = None,
        **policies: Unpack[Policies],
    ) -> str:
        """Run a job by the clock or at an interval: `app.schedule(report.job("eu"), cron="0 6 * * *")`.

        In a module that is being imported this declares the schedule, as `@app.cron` does, and workers store it when
        they start. Anywhere else it is stored at once, and a schedule of that name is changed as redeployed code
        changes it. Returns the schedule's name: `name`, or that of the task. The policies are those of `@app.cron`.
        """
        spec, task = self._planned(job, name, cron=cron, every=every, policies=policies)
        if is_importing():
            self._declare(spec, task)
        else:
            self._store().write(self._storing(spec))
        return spec.name

    async def aschedule(
        self,
        job: JobRequest[Any] | Task[Any, Any],
        *,
        cron: str | None = None,
        every: Seconds | None = None,
        name: str | None = None,
        **policies: Unpack[Policies],
    ) -> str:
        """The async version of `schedule`; it always stores at once."""
        spec, _ = self._planned(job, name, cron=cron, every=every, policies=policies)
        await self._store().awrite(self._storing(spec))
        return spec.name

    @property
    def declared(self) -> tuple[ScheduleSpec, ...]:
        """Return the schedules that `@app.cron`, `@app.every` and `app.schedule` declared."""
        return tuple(self._declared.values())

    @writes
    def ensure(self) -> Op[builtins.list[str]]:
        """Store the schedules declared in code, as every worker does when it starts; return the names that changed.

        An operator's edits are not overwritten.
        """
        return self._ensuring(self.declared)

    aensure = ensure.awaiting

    def preview(self, cron: str, *, zone: str = "UTC", after: datetime, count: int = 5) -> builtins.list[datetime]:
        """Return when an expression would fire. InvalidInput says what is wrong with it."""
        timing = Timing(expression=cron, every=None, zone=zone)
        found = islice(ticks_after(timing, check_instant("after", after)), _count(count))
        return [local_time(tick, zone) for tick in found]

    def declarations(self) -> builtins.list[Op[None]]:
        """Return the operations that a worker runs when it starts."""
        # URLs are checked here and not when they are declared: the app's policy may be set later in the code.
        self._check_webhooks(self.declared)
        return [Op(self._ensure)] if self._declared else []

    async def _ensure(self, tx: Tx) -> None:
        if altered := await schedules.ensure_schedules(tx, self.declared):
            logger.info("schedules that are new or changed by this code: %s", ", ".join(altered))

    def _ensuring(self, specs: Sequence[ScheduleSpec]) -> Op[builtins.list[str]]:
        self._check_webhooks(specs)
        return Op(lambda tx: schedules.ensure_schedules(tx, specs))

    def _storing(self, spec: ScheduleSpec) -> Op[builtins.list[str]]:
        self._require_unnamed(spec.key)
        return self._ensuring([spec])

    def _decorator(
        self, name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any], timing: dict[str, Any]
    ) -> ScheduleDecorator:
        def declare(task: Task[Any, Any]) -> None:
            request, tick = call_of(task, args, kwargs)
            self._declare(plan(name or task.name, request, tick_argument=tick, **timing), task)

        def decorate(target: Any) -> Any:
            if isinstance(target, Task):
                declare(target)
                return target
            before = dict(self._tasks)
            task = self._register(target)
            try:
                declare(task)
            except BaseException:
                # A refused schedule leaves no task behind: the fixed code defines it again.
                del self._tasks[task.name]
                self._tasks.update(before)
                raise
            return task

        return decorate

    def _planned(
        self,
        job: JobRequest[Any] | Task[Any, Any],
        name: str | None,
        *,
        cron: str | None,
        every: Seconds | None,
        policies: Policies,
    ) -> tuple[ScheduleSpec, Task[Any, Any]]:
        if not isinstance(job, (JobRequest, Task)):
            raise InvalidInput(f"app.schedule takes what task.job(…) makes, or a task, not {job!r}")
        if "args" in policies or "kwargs" in policies:
            raise UnknownOption("app.schedule takes the arguments with the job: app.schedule(task.job(…), …)")
        check_policies("app.schedule", policies)
        request, tick = call_of(job, (), {}) if isinstance(job, Task) else (job, None)
        spec = plan(name or request.task.name, request, cron=cron, every=every, tick_argument=tick, **policies)
        return spec, request.task

    def _declare(self, spec: ScheduleSpec, task: Task[Any, Any]) -> None:
        self._require_unnamed(spec.key)
        self._declared[spec.key], self._declarers[spec.key] = spec, task

    def _require_unnamed(self, key: ScheduleKey) -> None:
        if (earlier := self._declarers.get(key)) is not None and self._is_current(earlier):
            raise ConfigError(f"there are two schedules named {key.name!r}; give one of them another name=")

    def _is_current(self, task: Task[Any, Any]) -> bool:
        """Return whether a task is still the one of its name; a cell of a notebook that runs again replaces it."""
        return task.name not in self._tasks or self._tasks[task.name].fn is task.fn


def _count(count: int) -> int:
    if not 1 <= count <= _MOST_SHOWN:
        raise InvalidInput(f"count is {count}; use 1 to {_MOST_SHOWN:,}")
    return count
