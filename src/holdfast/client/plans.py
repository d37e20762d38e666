"""Make the stored schedule from a request: each value is checked, in code and at run time alike."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, TypedDict

from ..clock import SECOND
from ..errors import ConfigError, InvalidArguments, InvalidInput, PayloadTooLarge, UnknownOption
from ..model.schedules import MISSED, OVERLAP, Missed, Overlap, ScheduleRecord, ScheduleSpec
from ..model.values import INLINE, is_large
from ..names import check_duration, check_name, check_priority, check_queue
from ..rules.cron import check_steps, check_text, check_zone, parse_cron
from ..rules.reserved import check_open_queue
from ..rules.schedules import options_of
from ..tasks.options import CALL_OPTIONS, TASK_OPTIONS, Seconds
from ..tasks.task import JobRequest, Task
from ..values.codec import decode, encode
from .specs import spec_of

TICK: Final = "tick"
"""A task's parameter of this name gets the time of the job's tick."""
MOST_MISSED: Final = 1_000
_SHORTEST: Final = SECOND
_LONGEST_COOLDOWN: Final = 60 * SECOND
_SAMPLE: Final = datetime(2000, 1, 1, tzinfo=UTC)


class Policies(TypedDict, total=False):
    """The policies of a schedule; an omitted one has its default."""

    zone: str
    missed: Missed
    max_missed: int
    overlap: Overlap
    jitter: Seconds
    cooldown: Seconds


_POLICIES: Final = ("name", *Policies.__annotations__)
_CALLED_ELSEWHERE: Final = {"tz": "zone", "timezone": "zone", "catchup": "missed", "max_instances": "overlap"}


_ONCE: Final = ("id", "at", "delay", "connection")
"""Options of one job, which jobs of a schedule cannot share."""
_BOTH: Final = "the schedule has a cron expression and an interval; give one"


def check_policies(where: str, given: Policies) -> Policies:
    """Refuse an unknown policy, with its name here."""
    for name in given:
        if name in _CALLED_ELSEWHERE:
            raise UnknownOption(f"{where} has no option {name!r}; use {_CALLED_ELSEWHERE[name]}")
        if name not in _POLICIES:
            raise UnknownOption(f"{where} has no option {name!r}; {_hint(where, name)}")
    return given


def _hint(where: str, name: str) -> str:
    """Return what to write for an option that schedules do not have."""
    if name in _ONCE:
        return "a schedule makes job after job; leave it out"
    if where != "app.schedule" and name in TASK_OPTIONS:
        return f"it is an option of the job: write @app.task({name}=…) below {where}"
    if name in CALL_OPTIONS:
        return f"it is an option of the job: app.schedule(task.options({name}=…).job(…), …)"
    known = _POLICIES if where == "app.schedule" else ("args", "kwargs", *_POLICIES)
    return f"it has {', '.join(known)}"


def plan(
    name: str,
    request: JobRequest[Any],
    *,
    cron: str | None = None,
    every: Seconds | None = None,
    tick_argument: str | None = None,
    zone: str = "UTC",
    missed: Missed = "one",
    max_missed: int = 100,
    overlap: Overlap = "allow",
    jitter: Seconds = 0,
    cooldown: Seconds | None = None,
) -> ScheduleSpec:
    """Return a schedule, complete and checked."""
    job = spec_of(_repeatable(request.complete()))
    interval = None if every is None else check_duration("every", every)
    spec = ScheduleSpec(
        tenant=job.tenant,
        name=check_name("the schedule's name", name),
        task=job.task,
        payload=job.payload,
        queue=job.route.queue,
        options=options_of(job),
        tick_argument=tick_argument,
        expression=cron,
        every=interval,
        zone=zone,
        missed=missed,
        max_missed=max_missed,
        overlap=overlap,
        jitter=check_duration("jitter", jitter),
        cooldown=_cooldown(interval) if cooldown is None else check_duration("cooldown", cooldown),
    )
    return checked(spec)


def call_of(task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[JobRequest[Any], str | None]:
    """Return a call of a task, and its parameter that each tick fills in."""
    if not isinstance(args, (list, tuple)):
        raise ConfigError(f"args is {args!r}; give a list, such as args=['eu'], or names: kwargs={{'region': 'eu'}}")
    if not isinstance(kwargs, Mapping):
        raise ConfigError(f"kwargs is {kwargs!r}; give arguments by name, such as kwargs={{'region': 'eu'}}")
    if _wants_tick(task, args, kwargs):
        sample = task.signature.encode(args, {**kwargs, TICK: _SAMPLE})
        payload = {name: value for name, value in json.loads(sample).items() if name != TICK}
        return JobRequest(task, encode(payload), task.call_options), TICK
    return task.job(*args, **kwargs), None


def checked(spec: ScheduleSpec) -> ScheduleSpec:
    """Return a schedule in its normal form; InvalidInput if something does not fit."""
    if is_large(spec.payload):
        raise PayloadTooLarge("the schedule's arguments", len(spec.payload.encode()), INLINE)
    if spec.expression is None and spec.every is None:
        raise InvalidInput("a schedule needs a time: give a cron expression, or every")
    if spec.expression is not None and spec.every is not None:
        raise InvalidInput(_BOTH)
    if spec.every is not None and spec.every < _SHORTEST:
        raise InvalidInput("every is shorter than a second; give at least 1")
    if spec.missed not in MISSED:
        raise InvalidInput(f"missed is {spec.missed!r}; use one of {', '.join(MISSED)}")
    if spec.overlap not in OVERLAP:
        raise InvalidInput(f"overlap is {spec.overlap!r}; use one of {', '.join(OVERLAP)}")
    if isinstance(spec.max_missed, bool) or not isinstance(spec.max_missed, int):
        raise InvalidInput(f"max_missed is {spec.max_missed!r}; use a whole number")
    if not 1 <= spec.max_missed <= MOST_MISSED:
        raise InvalidInput(f"max_missed is {spec.max_missed}; use 1 to {MOST_MISSED:,}")
    if spec.expression is None:
        check_zone(spec.zone)
        return spec
    check_steps(check_text(spec.expression))
    return replace(spec, expression=parse_cron(spec.expression, spec.zone).text)


def changed(
    schedule: ScheduleRecord,
    *,
    cron: str | None = None,
    every: Seconds | None = None,
    payload: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
    **policies: Any,
) -> ScheduleSpec:
    """Return a schedule's definition after an edit; what is None stays."""
    if cron is not None and every is not None:
        raise InvalidInput(_BOTH)
    changes: dict[str, Any] = {name: value for name, value in policies.items() if value is not None}
    changes |= {name: check_duration(name, changes[name]) for name in ("jitter", "cooldown") if name in changes}
    if cron is not None:
        changes |= {"expression": cron, "every": None}
    if every is not None:
        interval = check_duration("every", every)
        changes = {"cooldown": _cooldown(interval), **changes, "every": interval, "expression": None}
    if payload is not None:
        changes["payload"] = payload
    if queue is not None:
        changes["queue"] = check_open_queue(check_queue(queue))
    if priority is not None:
        options = {**decode(schedule.options, dict[str, Any]), "priority": check_priority(priority)}
        changes["options"] = json.dumps(options, sort_keys=True)
    return checked(replace(schedule.spec, **changes))


def payload_for(task: Task[Any, Any] | None, schedule: ScheduleRecord, arguments: Mapping[str, Any]) -> str:
    """Return other arguments for a schedule, checked if this program knows the task."""
    if schedule.tick_argument in arguments:
        raise InvalidInput(f"{schedule.tick_argument} is filled in at each tick; leave it out")
    if task is None:
        return encode(dict(arguments), what="the arguments")
    if schedule.tick_argument is None:
        return task.signature.encode((), arguments)
    return call_of(task, (), arguments)[0].payload


def _cooldown(interval: int | None) -> int:
    return 0 if interval is None else min(interval, _LONGEST_COOLDOWN)


def _repeatable(request: JobRequest[Any]) -> JobRequest[Any]:
    call = request.options
    if once := [name for name in _ONCE if getattr(call, name) is not None]:
        raise InvalidInput(f"a schedule makes job after job; leave out {', '.join(once)}")
    if isinstance(call.deadline, datetime):
        raise InvalidInput("a schedule's deadline must be seconds from each job's start of waiting, not an instant")
    return request


def _wants_tick(task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    parameters = inspect.signature(task.fn).parameters if task.fn else {}
    if TICK not in parameters or TICK in kwargs or TICK in _bound(task, args, kwargs):
        return False
    if parameters[TICK].default is inspect.Parameter.empty:
        return True
    try:
        task.signature.encode(args, {**kwargs, TICK: _SAMPLE})
    except InvalidArguments:
        return False  # a parameter that happens to have this name, and a default
    return True


def _bound(task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return task.signature.bind(args, kwargs)
    except InvalidArguments:
        return {}  # a required tick is what is missing, or encoding will say what else is
