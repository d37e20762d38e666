"""Schedules: `@app.cron`, `@app.every`, `app.schedule`, `app.schedules`. Each method that acts has an awaiting twin."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, Unpack

from ..decorate import ScheduleDecorator
from ..errors import ConfigError, InvalidInput, UnknownOption
from ..functions import is_importing
from ..model.schedule import Backfill, Missed, Overlap, RanNow, Schedule, ScheduleSpec, ScheduleState, Timing
from ..names import check_instant
from ..options import Seconds
from ..rules.blueprint import local_time, webhook_of
from ..rules.ticks import ticks_after
from ..storage.ops import firing, schedules
from ..storage.ops.schedules import Operator
from ..storage.port import Op, Store, Tx
from ..tasks import JobRequest, Task
from .pastruns import ScheduledRuns
from .plans import Policies, call_of, changed, check_policies, payload_for, plan

logger: Final = logging.getLogger("holdfast")

_MOST_SHOWN: Final = 1_000


class Schedules(ScheduledRuns):
    """The schedules of one app. Names are those of their tasks unless said otherwise."""

    def __init__(
        self,
        store: Callable[[], Store],
        tasks: dict[str, Task[Any, Any]],
        register: Callable[[Callable[..., Any]], Task[Any, Any]],
        check_url: Callable[[str], object],
    ) -> None:
        """`check_url` refuses a webhook that may not be told of jobs."""
        self._store = store
        self._tasks = tasks
        self._register = register
        self._check_url = check_url
        self._declared: dict[str, ScheduleSpec] = {}
        self._declarers: dict[str, Task[Any, Any]] = {}

    # -- in code

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

        `missed` says what becomes of ticks that nobody was there for: "skip" them, make up for the latest "one" (the
        default) or for "all" up to `max_missed`. `overlap` says what happens while the last job is not done: "allow",
        "skip" the tick, "cancel_previous". `jitter` spreads the start over so many seconds.
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
        """Run a function or a task every so many seconds, the first time one interval after it became known.

        Where it is overdue when workers start, it waits `cooldown` seconds first: the interval, at most a minute.
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
        """Run a job by the clock or every so many seconds: `app.schedule(report.job("eu"), cron="0 6 * * *")`.

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
        """What `@app.cron`, `@app.every` and `app.schedule` asked for."""
        return tuple(self._declared.values())

    def ensure(self) -> builtins.list[str]:
        """Bring what code declares into the store, as every worker does when it starts; the names of what changed.

        What an operator has edited is left alone.
        """
        return self._store().write(self._ensuring())

    async def aensure(self) -> builtins.list[str]:
        return await self._store().awrite(self._ensuring())

    def declarations(self) -> builtins.list[Op[None]]:
        """What a worker runs against the store when it starts."""
        self._check_webhooks(self.declared)
        return [Op(self._ensure)] if self._declared else []

    async def _ensure(self, tx: Tx) -> None:
        if altered := await schedules.ensure_schedules(tx, self.declared):
            logger.info("schedules that are new or changed by this code: %s", ", ".join(altered))

    def _ensuring(self, specs: Sequence[ScheduleSpec] | None = None) -> Op[builtins.list[str]]:
        wanted = self.declared if specs is None else specs
        self._check_webhooks(wanted)
        return Op(lambda tx: schedules.ensure_schedules(tx, wanted))

    def _storing(self, spec: ScheduleSpec) -> Op[builtins.list[str]]:
        self._require_unnamed(spec.name)
        return self._ensuring([spec])

    def _check_webhooks(self, specs: Sequence[ScheduleSpec]) -> None:
        # Not when they are declared: what the app allows may be said below that in the code.
        for spec in specs:
            if (url := webhook_of(spec.options)) is not None:
                self._check_url(url)

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
                # A schedule that is refused leaves no task behind: the mended code defines it again.
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
            raise TypeError(f"app.schedule takes what task.job(…) makes, or a task, not {job!r}")
        if "args" in policies or "kwargs" in policies:
            raise UnknownOption("app.schedule takes the arguments with the job: app.schedule(task.job(…), …)")
        check_policies("app.schedule", policies)
        request, tick = call_of(job, (), {}) if isinstance(job, Task) else (job, None)
        spec = plan(name or request.task.name, request, cron=cron, every=every, tick_argument=tick, **policies)
        return spec, request.task

    def _declare(self, spec: ScheduleSpec, task: Task[Any, Any]) -> None:
        self._require_unnamed(spec.name)
        self._declared[spec.name], self._declarers[spec.name] = spec, task

    def _require_unnamed(self, name: str) -> None:
        if (earlier := self._declarers.get(name)) is not None and self._is_current(earlier):
            raise ConfigError(f"there are two schedules named {name!r}; give one of them another name=")

    def _is_current(self, task: Task[Any, Any]) -> bool:
        """Return whether a task is still the one of its name; a cell of a notebook that runs again replaces it."""
        return task.name not in self._tasks or self._tasks[task.name].fn is task.fn

    # -- at run time

    def list(self) -> builtins.list[Schedule]:
        """Every schedule of the store, by name."""
        return self._store().read(Op(schedules.list_schedules))

    async def alist(self) -> builtins.list[Schedule]:
        return await self._store().aread(Op(schedules.list_schedules))

    def get(self, name: str) -> Schedule:
        """One schedule. NotFound if there is none."""
        return self._store().read(Op(lambda tx: schedules.get_schedule(tx, name)))

    async def aget(self, name: str) -> Schedule:
        return await self._store().aread(Op(lambda tx: schedules.get_schedule(tx, name)))

    def ticks(self, name: str, limit: int = 20) -> builtins.list[tuple[int, str]]:
        """The newest ticks that made a job, in microseconds, each with that job's id."""
        return self._store().read(Op(lambda tx: schedules.ticks_of(tx, name, limit)))

    async def aticks(self, name: str, limit: int = 20) -> builtins.list[tuple[int, str]]:
        return await self._store().aread(Op(lambda tx: schedules.ticks_of(tx, name, limit)))

    def create(
        self, name: str, job: JobRequest[Any] | Task[Any, Any], *, actor: str = "app", reason: str = "", **when: Any
    ) -> Schedule:
        """Make a schedule at run time: `create("digest", mail.job("all"), cron="0 8 * * *", zone="Asia/Tokyo")`.

        `cron` or `every` says when, the rest is as for `@app.cron`. The first run is at the next tick. Given a task
        rather than a job, `kwargs` are its arguments.
        """
        return self._store().write(self._creating(name, job, when, Operator(actor, reason)))

    async def acreate(
        self, name: str, job: JobRequest[Any] | Task[Any, Any], *, actor: str = "app", reason: str = "", **when: Any
    ) -> Schedule:
        return await self._store().awrite(self._creating(name, job, when, Operator(actor, reason)))

    def _creating(
        self, name: str, job: JobRequest[Any] | Task[Any, Any], when: dict[str, Any], by: Operator
    ) -> Op[Schedule]:
        timing = {key: value for key, value in when.items() if key != "kwargs"}
        request, tick = call_of(job, (), when.get("kwargs") or {}) if isinstance(job, Task) else (job, None)
        spec = plan(name, request, tick_argument=tick, **timing)
        self._check_webhooks([spec])
        return Op(lambda tx: schedules.create_schedule(tx, spec, by))

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
    ) -> Schedule:
        """Change a schedule; what is None stays. Redeployed code leaves alone what was changed here.

        A change of the time counts from now on: ticks of the past are not made again. It also mends a broken one.
        """
        given = {key: value for key, value in locals().items() if key not in ("self", "name", "actor", "reason")}
        return self._store().write(self._editing(name, given, Operator(actor, reason)))

    async def aedit(self, name: str, *, actor: str = "app", reason: str = "", **changes: Any) -> Schedule:
        return await self._store().awrite(self._editing(name, changes, Operator(actor, reason)))

    def _editing(self, name: str, given: dict[str, Any], by: Operator) -> Op[Schedule]:
        arguments = given.pop("arguments", None)

        def change(schedule: Schedule) -> ScheduleSpec:
            payload = None
            if arguments is not None:
                payload = payload_for(self._tasks.get(schedule.task), schedule, arguments)
            return changed(schedule, payload=payload, **given)

        return Op(lambda tx: schedules.edit_schedule(tx, name, change, by))

    def pause(self, name: str, *, actor: str = "app", reason: str = "") -> Schedule:
        """Fire no more until `resume`. What it has enqueued goes on."""
        return self._store().write(Op(lambda tx: schedules.pause_schedule(tx, name, Operator(actor, reason))))

    async def apause(self, name: str, *, actor: str = "app", reason: str = "") -> Schedule:
        return await self._store().awrite(Op(lambda tx: schedules.pause_schedule(tx, name, Operator(actor, reason))))

    def resume(self, name: str, *, actor: str = "app", reason: str = "") -> Schedule:
        """Fire again from the next tick on."""
        return self._store().write(Op(lambda tx: schedules.resume_schedule(tx, name, Operator(actor, reason))))

    async def aresume(self, name: str, *, actor: str = "app", reason: str = "") -> Schedule:
        return await self._store().awrite(Op(lambda tx: schedules.resume_schedule(tx, name, Operator(actor, reason))))

    def delete(self, name: str, *, actor: str = "app", reason: str = "") -> None:
        """Remove a schedule; its jobs stay. One that code declares comes back with its worker: pause it instead."""
        self._store().write(Op(lambda tx: schedules.delete_schedule(tx, name, Operator(actor, reason))))

    async def adelete(self, name: str, *, actor: str = "app", reason: str = "") -> None:
        await self._store().awrite(Op(lambda tx: schedules.delete_schedule(tx, name, Operator(actor, reason))))

    def run_now(self, name: str, *, actor: str = "app", reason: str = "") -> RanNow:
        """Make a job now, under the overlap policy. The schedule's own ticks stay as they are."""
        return self._store().write(Op(lambda tx: firing.run_now(tx, name, Operator(actor, reason))))

    async def arun_now(self, name: str, *, actor: str = "app", reason: str = "") -> RanNow:
        return await self._store().awrite(Op(lambda tx: firing.run_now(tx, name, Operator(actor, reason))))

    def backfill(
        self, name: str, start: datetime, end: datetime, *, dry_run: bool = False, actor: str = "app", reason: str = ""
    ) -> Backfill:
        """Make the jobs of past ticks that have none, from `start` up to but without `end`; at most 1,000 at once."""
        return self._store().write(_backfilling(name, start, end, dry_run, Operator(actor, reason)))

    async def abackfill(
        self, name: str, start: datetime, end: datetime, *, dry_run: bool = False, actor: str = "app", reason: str = ""
    ) -> Backfill:
        return await self._store().awrite(_backfilling(name, start, end, dry_run, Operator(actor, reason)))

    def next_runs(self, name: str, count: int = 5) -> builtins.list[datetime]:
        """When it fires next, on its zone's clock; nothing while it is paused or broken."""
        return self._store().read(_next_runs(name, count))

    async def anext_runs(self, name: str, count: int = 5) -> builtins.list[datetime]:
        return await self._store().aread(_next_runs(name, count))

    def preview(self, cron: str, *, zone: str = "UTC", after: datetime, count: int = 5) -> builtins.list[datetime]:
        """When an expression would fire. InvalidInput says what is wrong with it."""
        timing = Timing(expression=cron, every=None, zone=zone)
        found = islice(ticks_after(timing, check_instant("after", after)), _count(count))
        return [local_time(tick, zone) for tick in found]


def _backfilling(name: str, start: datetime, end: datetime, dry_run: bool, by: Operator) -> Op[Backfill]:
    first, last = check_instant("start", start), check_instant("end", end)
    return Op(lambda tx: firing.backfill(tx, name, first, last, by, dry_run=dry_run))


def _next_runs(name: str, count: int) -> Op[builtins.list[datetime]]:
    _count(count)

    async def look(tx: Tx) -> builtins.list[datetime]:
        schedule = await schedules.get_schedule(tx, name)
        if schedule.state is not ScheduleState.ACTIVE:
            return []
        return [local_time(t, schedule.zone) for t in islice(ticks_after(schedule.timing, schedule.last_tick), count)]

    return Op(look)


def _count(count: int) -> int:
    if not 1 <= count <= _MOST_SHOWN:
        raise InvalidInput(f"count is {count}; use 1 to {_MOST_SHOWN:,}")
    return count
