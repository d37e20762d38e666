"""Operator actions on jobs, one or many, made from their descriptions. Repeating one changes nothing and says so."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec

from ...errors import NotFound
from ...model.actions import Action, BulkReport
from ...rules.actions import ACTIONS, JobAction, Kind, Parameter
from ...shapes.jobs import Job, of_job
from ..wire.call import Call
from ..wire.operation import Group
from .enqueue import MOST, STORABLE, Instant, Priority
from .jobs import Wanted, filter_of
from .types import Acting, Changed, Name, QueueName, ReasonQuery, Seconds

group = Group("Actions", "Operator actions on jobs. `changed` is false if the job was already in that state.")

_Many: TypeAlias = Annotated[list[Name], msgspec.Meta(min_length=1, max_length=MOST)]
_TYPES: Final[dict[Kind, Any]] = {
    "flag": bool,
    "priority": Priority,
    "queue": QueueName,
    "name": Name,
    "number": Annotated[int, msgspec.Meta(ge=0, le=2**53)],
    "duration": Annotated[float, msgspec.Meta(gt=0, le=86_400)],
    "delay": Seconds,
    "instant": Instant,
}


def _field(one: Parameter, *, required: bool) -> Any:
    type_ = _TYPES[one.kind]
    if one.kind == "flag":
        return one.name, type_, False
    return (one.name, type_) if required else (one.name, type_ | None, None)


def _body(record: JobAction) -> type[msgspec.Struct]:
    """Make the body of an action: its reason and its parameters."""
    name = "".join(word.capitalize() for word in record.verb.split("_"))
    given = [_field(one, required=one.required) for one in record.parameters]
    lines = [f"`{one.name}`: {one.about}" for one in record.parameters]
    made = msgspec.defstruct(
        f"{name}Job", given, bases=(Acting,), frozen=True, forbid_unknown_fields=True, kw_only=True
    )
    made.__doc__ = "\n".join(lines) or Acting.__doc__
    return made


def _given(record: JobAction, body: Acting) -> dict[str, Any]:
    return {one.name: getattr(body, one.name) for one in record.parameters}


def _offer(record: JobAction) -> None:
    """Add the operation of an action on one job."""
    outcomes = ", ".join(f"`{result}`" for result in record.outcomes)

    async def act(call: Call, job_id: str, body: Acting) -> Acted:
        return await _act(call, job_id, record, body.reason, **_given(record, body))

    async def remove(call: Call, job_id: str, query: ReasonQuery) -> Acted:
        return await _act(call, job_id, record, query.reason)

    handler: Any = remove if record.verb is Action.DELETE else act
    handler.__name__ = f"{record.verb}_job"
    handler.__doc__ = f"{record.about}\n\nThe outcome is one of {outcomes}."
    handler.__annotations__ |= {"job_id": Name}
    if record.verb is Action.DELETE:
        group.delete("/jobs/{job_id}", needs=record.scope)(handler)
    else:
        handler.__annotations__["body"] = _body(record)
        group.post(f"/jobs/{{job_id}}/{record.slug}", needs=record.scope)(handler)


class Acted(Changed, frozen=True, kw_only=True):
    """The result of an action on one job: `outcome` in a word, and the job as it is now; null where it is gone."""

    outcome: str
    job: Job | None


async def _act(call: Call, job_id: str, record: JobAction, reason: str, **given: Any) -> Acted:
    """Return the action's outcome with the job's current state; the job may be gone."""
    jobs = call.client.jobs
    result = await jobs.aact(record.verb, job_id, actor=call.actor, reason=reason, **given)
    try:
        job = of_job(await jobs.aget(job_id), (), await jobs.ademands(job_id), payload=call.may("payload"))
    except NotFound:
        job = None
    return Acted(changed=result.changes, outcome=result, job=job)


for _record in ACTIONS.values():
    _offer(_record)


class ForkJob(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The step to start from: its name, `name#2` for the second of that name, or its key."""

    from_step: Annotated[str, msgspec.Meta(min_length=1, max_length=512, pattern=STORABLE)]


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    """A new job that continues from a step of another."""

    id: str
    forked_from: str
    from_step: str


@group.post("/jobs/{job_id}/fork", needs="operate", status=201)
async def fork_job(call: Call, job_id: Name, body: ForkJob) -> Forked:
    """Fork a durable job from a step: a new job that keeps the results recorded before it."""
    made = await call.client.jobs.afork(job_id, from_step=body.from_step, actor=call.actor, reason=body.reason)
    return Forked(id=made.id, forked_from=job_id, from_step=body.from_step)


_EVERY: Final = {one.name: one for record in ACTIONS.values() for one in record.parameters}


class Choice(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An action and the jobs: by `filter`, by `ids`, or `all` of them. The parameters are those of the action."""

    action: Action
    filter: Wanted | None = None
    ids: _Many | None = None
    all: bool = False
    dry_run: bool = False


ManyJobs: Final = msgspec.defstruct(
    "ManyJobs",
    [_field(one, required=False) for one in _EVERY.values()],
    bases=(Choice,),
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
)
ManyJobs.__doc__ = Choice.__doc__


async def act_on_jobs(call: Call, body: Choice) -> BulkReport:
    """Act on many jobs.

    The jobs are selected once; then each 500 of them are one transaction with its own audit record. With `dry_run`
    nothing is changed, and the counts are a preview.
    """
    return await call.client.jobs.abulk(
        body.action,
        None if body.filter is None else filter_of(call, body.filter),
        ids=body.ids,
        all=body.all,
        dry_run=body.dry_run,
        actor=call.actor,
        reason=body.reason,
        **{name: getattr(body, name) for name in _EVERY},
    )


act_on_jobs.__annotations__["body"] = ManyJobs
group.post("/jobs/actions", needs="operate", bulk=True)(act_on_jobs)
