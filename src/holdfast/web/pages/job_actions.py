"""Operator actions on one job. Repeating an action changes nothing and says so."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated, Any

import msgspec

from ...errors import Conflict, HoldfastError, InvalidInput
from ...model.actions import ActionResult, Revoked
from ...model.answers import CancelResult, DeleteResult
from ...tasks.options import CallOptions
from ..api.enqueue import task_of
from ..search.meaning import tags_of
from ..wire.call import Call
from ..wire.operation import Group
from .frame import Done, Page
from .job import JobQuery, shows
from .templates import job_path

group = Group("Job actions", kind="page")

Act = Callable[..., Awaitable[Done | Page]]


class ActForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An action with its reason, and whether the user has confirmed it."""

    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""
    confirmed: str = ""


class CancelForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With `force` a running job ends immediately."""

    force: str = ""


class RetryForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With `fresh` its recorded steps run again too."""

    fresh: str = ""


class PriorityForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    priority: int


class MoveForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    to_queue: str


class ForkForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The step to start again from."""

    step: str


def told(act: Act) -> Act:
    """Show conflicts with the job's state on its page: it has changed since the page was rendered."""

    @wraps(act)
    async def telling(call: Call, job_id: str, **given: Any) -> Done | Page:
        try:
            return await act(call, job_id, **given)
        except (Conflict, InvalidInput) as refused:
            return Done(job_path(job_id), _sentence(str(refused)), ok=False)

    return telling


@group.post("/jobs/{job_id}/cancel", needs="operate")
@told
async def cancel(call: Call, job_id: str, form: CancelForm) -> Done | Page:
    """Cancel the job, or ask it to stop."""
    if not form.confirmed:
        return _asks(job_id, "cancel", "Cancel this job?", "A running job is asked to stop.", "Cancel the job", form)
    reason = form.reason or "cancelled"
    answer = await call.client.jobs.acancel(job_id, reason=reason, force=bool(form.force), actor=call.actor)
    say = {
        CancelResult.CANCELLED: "Cancelled.",
        CancelResult.REQUESTED: "Asked to stop. If it succeeds within its grace period, that still counts.",
        CancelResult.FINISHED: "The job had already finished; nothing changed.",
        CancelResult.MOVED: "Another worker runs it now; nothing changed.",
    }[answer]
    return Done(job_path(job_id), say, ok=answer in (CancelResult.CANCELLED, CancelResult.REQUESTED))


@group.post("/jobs/{job_id}/retry", needs="operate")
@told
async def retry(call: Call, job_id: str, form: RetryForm) -> Done | Page:
    """Run a finished job again."""
    again = await call.client.jobs.aretry(job_id, fresh=bool(form.fresh), actor=call.actor, reason=form.reason)
    if not again:
        return Done(job_path(job_id), "Not retried: an unfinished job has the same dedupe key.", ok=False)
    return Done(
        job_path(job_id),
        "The job runs again, with its attempts reset." + (" All its steps run again." if form.fresh else ""),
    )


@group.post("/jobs/{job_id}/run-now", needs="operate")
@told
async def run_now(call: Call, job_id: str, form: ActForm) -> Done | Page:
    """Make the job due now."""
    done = await call.client.jobs.arun_now(job_id, actor=call.actor, reason=form.reason)
    return _said(job_id, done, "The job is due and starts as soon as a worker is free.", "The job was already due.")


@group.post("/jobs/{job_id}/hold", needs="operate")
@told
async def hold(call: Call, job_id: str, form: ActForm) -> Done | Page:
    """Keep the job from starting."""
    done = await call.client.jobs.ahold(job_id, actor=call.actor, reason=form.reason)
    return _said(job_id, done, "Held: the job does not start until it is released.", "The job was already held.")


@group.post("/jobs/{job_id}/release", needs="operate")
@told
async def release(call: Call, job_id: str, form: ActForm) -> Done | Page:
    """Release a held job."""
    done = await call.client.jobs.arelease(job_id, actor=call.actor, reason=form.reason)
    return _said(job_id, done, "Released.", "The job was not held; nothing changed.")


@group.post("/jobs/{job_id}/delete", needs="operate")
@told
async def delete(call: Call, job_id: str, form: ActForm) -> Done | Page:
    """Delete the job and its history."""
    if not form.confirmed:
        text = "The job and its history are removed. This cannot be undone."
        return _asks(job_id, "delete", "Delete this job?", text, "Delete the job", form, danger=True)
    answer = await call.client.jobs.adelete(job_id, actor=call.actor, reason=form.reason)
    if answer is DeleteResult.DELETED:
        return Done("/jobs", f"Job {job_id} deleted.")
    if answer is DeleteResult.REQUESTED:
        return Done(
            job_path(job_id), "The job was cancelled or asked to stop instead. Delete it after it has finished."
        )
    return Done(job_path(job_id), "Other jobs depend on it, so it is kept until its flow has finished.", ok=False)


@group.post("/jobs/{job_id}/priority", needs="operate")
@told
async def priority(call: Call, job_id: str, form: PriorityForm) -> Done | Page:
    """Change its priority."""
    done = await call.client.jobs.aset_priority(job_id, form.priority, actor=call.actor, reason=form.reason)
    return _said(job_id, done, f"Priority set to {form.priority}.", "The job already has that priority.")


@group.post("/jobs/{job_id}/move", needs="operate")
@told
async def move(call: Call, job_id: str, form: MoveForm) -> Done | Page:
    """Move the job to another queue."""
    job = await call.client.jobs.aget(job_id, whole=False)
    if job.queue == form.to_queue:
        return _said(job_id, False, "", "The job is already in that queue.")
    report = await call.client.jobs.abulk(
        "move", ids=[job_id], to_queue=form.to_queue, actor=call.actor, reason=form.reason
    )
    done = report.by_id.get(job_id) is ActionResult.MOVED
    return _said(job_id, done, f"Moved to {form.to_queue}.", f"The job is {job.state} and can no longer be moved.")


@group.post("/jobs/{job_id}/revoke", needs="operate")
@told
async def revoke(call: Call, job_id: str, form: ActForm) -> Done | Page:
    """Revoke the lease of its worker."""
    if not form.confirmed:
        text = "Whatever its worker still does is ignored. The job is ready again, without using an attempt."
        return _asks(job_id, "revoke", "Revoke the lease?", text, "Revoke the lease", form)
    answer = await call.client.jobs.arevoke(job_id, actor=call.actor, reason=form.reason)
    done = isinstance(answer, Revoked)
    return _said(job_id, done, "Lease revoked.", "No worker holds a lease on it; nothing changed.")


@group.post("/jobs/{job_id}/fork", needs="operate")
@told
async def fork(call: Call, job_id: str, form: ForkForm) -> Done | Page:
    """Create a new job that runs again from a step."""
    made = await call.client.jobs.afork(job_id, from_step=form.step, actor=call.actor, reason=form.reason)
    return Done(
        job_path(made.id), f"Forked from {job_id}: keeps the results before {form.step} and runs the rest again."
    )


def _said(job_id: str, done: bool, say: str, otherwise: str) -> Done:
    return Done(job_path(job_id), say if done else otherwise, ok=done)


def _asks(job_id: str, act: str, title: str, text: str, go: str, form: ActForm, *, danger: bool = False) -> Page:
    """Return the confirmation page for browsers without script."""
    given = [(name, value) for name, value in msgspec.structs.asdict(form).items() if value and name != "reason"]
    return Page(
        "confirm_job.html",
        {
            "page": "jobs",
            "job_id": job_id,
            "title": title,
            "text": text,
            "to": job_path(job_id, act),
            "fields": given,
            "go": go,
            "reason": "optional",
            "danger": danger,
            "back": job_path(job_id),
        },
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


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
@told
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
@told
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
