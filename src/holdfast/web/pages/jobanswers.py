"""Signals, answers to waitpoints, and re-runs with other arguments, sent from a job's page."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec

from ...errors import Conflict, HoldfastError, InvalidInput
from ...tasks.options import CallOptions
from ..api.newjobs import task_of
from ..search.meaning import tags_of
from ..wire.call import Call
from ..wire.operation import Group
from .addresses import job_path
from .frame import Done, Page
from .job import JobQuery, shows
from .jobacts import ActForm, told

group = Group("Job answers", kind="page")

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
