"""Operator actions on one job. Repeating an action changes nothing and says so."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec

from ...errors import Conflict, HoldfastError, InvalidInput
from ...model.actions import ActionResult
from ...rules.actions import ACTIONS, Confirm, JobAction
from ...tasks.options import CallOptions
from ..api.enqueue import task_of
from ..search.meaning import tags_of
from ..wire.call import Call
from ..wire.operation import Group
from .forms import ActForm, Word, refusals_at, values_of
from .frame import Done, Page
from .job import JobQuery, shows
from .templates import job_path

group = Group("Job actions", kind="page")


class ForkForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The step to start again from."""

    step: str


on_its_page = refusals_at(lambda job_id, **_: job_path(job_id))
"""Shows conflicts with the job's state on its page: it has changed since the page was rendered."""


def _offer(record: JobAction) -> None:
    """Add the page of an action: it asks, if the action has a question, and then acts."""

    async def act(call: Call, job_id: str, form: ActForm) -> Done | Page:
        asked = next((one.confirm for one in record.parameters if one.confirm and getattr(form, one.name)), None)
        if (confirm := asked or record.confirm) and not form.confirmed:
            return _asks(job_id, record, confirm, form)
        given = values_of(record, form)
        result = await call.client.jobs.aact(record.verb, job_id, actor=call.actor, reason=form.reason, **given)
        say = f"The job {record.outcome(result).text}."
        if result is ActionResult.DELETED:
            return Done("/jobs", f"{say[:-1]}: {job_id}.")
        return Done(job_path(job_id), say, ok=result.changes)

    act.__name__ = record.verb
    act.__doc__ = record.about
    form = msgspec.defstruct(
        f"{record.label.replace(' ', '')}Form",
        [(one.name, Word, "") for one in record.parameters],
        bases=(ActForm,),
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
    )
    act.__annotations__["form"] = form
    group.post(f"/jobs/{{job_id}}/{record.slug}", needs=record.scope)(on_its_page(act))


for _record in ACTIONS.values():
    if _record.place != "nowhere":
        _offer(_record)


@group.post("/jobs/{job_id}/fork", needs="operate")
@on_its_page
async def fork(call: Call, job_id: str, form: ForkForm) -> Done | Page:
    """Create a new job that runs again from a step."""
    made = await call.client.jobs.afork(job_id, from_step=form.step, actor=call.actor, reason=form.reason)
    return Done(
        job_path(made.id), f"Forked from {job_id}: keeps the results before {form.step} and runs the rest again."
    )


def _asks(job_id: str, record: JobAction, confirm: Confirm, form: ActForm) -> Page:
    """Return the confirmation page for browsers without script."""
    given = [(name, value) for name, value in msgspec.structs.asdict(form).items() if value and name != "reason"]
    return Page(
        "confirm_job.html",
        {
            "page": "jobs",
            "job_id": job_id,
            "title": confirm.title,
            "text": confirm.text,
            "to": job_path(job_id, record.slug),
            "fields": given,
            "go": record.label,
            "reason": "optional",
            "danger": confirm.danger,
            "back": job_path(job_id),
        },
    )


_Text = Annotated[str, msgspec.Meta(max_length=900_000)]


class SignalForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A signal by name. `kind` is the type of the form field, needed to parse the answer."""

    name: str
    answer: _Text = ""
    kind: str = "json"


class ResumeForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    answer: _Text = ""


class AgainForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The arguments of a new job of the same task, as JSON."""

    arguments: _Text
    queue: str = ""
    priority: str = ""
    delay: str = ""


@group.post("/jobs/{job_id}/signal", needs="signal")
@on_its_page
async def signal(call: Call, job_id: str, form: SignalForm) -> Done | Page:
    """Send a signal; an open waitpoint of that name receives it."""
    there = f"{job_path(job_id)}?tab=signals"
    try:
        payload = read_answer(form.kind, form.answer)
        target = call.client.job(job_id)
        sent = await call.client.signals.asend(target, form.name, payload, source=call.actor)
    except (Conflict, InvalidInput) as refused:
        return Done(there, f"Not sent: {refused}.", ok=False)
    return Done(
        there, f"Resumed by signal {sent.seq}." if sent.effect == "resumed" else f"Stored as signal {sent.seq}."
    )


@group.post("/jobs/{job_id}/resume", needs="operate")
@on_its_page
async def resume(call: Call, job_id: str, form: ResumeForm) -> Done | Page:
    """Resume the job, whatever it waits for."""
    payload = read_answer("json", form.answer)
    await call.client.signals.aresume(job_id, payload, actor=call.actor, reason=form.reason)
    return Done(job_path(job_id), "Resumed.")


@group.post("/jobs/{job_id}/again", needs="enqueue")
async def again(call: Call, job_id: str, form: AgainForm) -> Done | Page:
    """Enqueue a new job of the same task with these arguments."""
    job = await call.client.jobs.aget(job_id, whole=False)
    try:
        options = CallOptions(
            queue=form.queue or None,
            priority=_number("the priority", form.priority, int),
            delay=_number("the delay", form.delay, float),
            tenant=job.tenant or None,
            tags=tuple(tags_of(job)),
        )
        made = await call.client.aenqueue(task_of(call, job.task).read(arguments_of(form.arguments), options))
    except HoldfastError as wrong:
        asked = {"queue": form.queue, "priority": form.priority, "delay": form.delay}
        more = {"given": form.arguments, "asked": asked, "wrong": str(wrong)}
        return Page("job.html", await shows(call, job_id, JobQuery(tab="again"), **more), 422)
    return Done(job_path(made.id), f"New job, created from {job_id}.")


def read_answer(kind: str, text: str) -> Any:
    """Parse the input as the value to send."""
    if kind == "string":
        return text
    if kind == "boolean" and text in ("yes", "no"):
        return text == "yes"
    return _json("the answer", text) if text.strip() else None


def arguments_of(text: str) -> Any:
    """Parse arguments entered in a form: an object by name, or a list in order."""
    value = _json("the arguments", text)
    if not isinstance(value, (dict, list)):
        raise InvalidInput('the arguments must be an object by name, such as {"n": 1}, or a list in order')
    return value


def _json(what: str, text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as wrong:
        raise InvalidInput(f"{what}: not valid JSON: {wrong}") from None


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _number(what: str, text: str, kind: type[int] | type[float]) -> Any:
    try:
        return kind(text) if text.strip() else None
    except ValueError:
        raise InvalidInput(f"{what} is {text!r}; give a number") from None
