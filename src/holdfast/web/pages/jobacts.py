"""What operators do to one job. Each act says what it did; done twice, it says that it was done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated, Any

import msgspec

from ...errors import Conflict, InvalidInput
from ...model.answers import CancelResult, DeleteResult
from ...model.bulk import Fate
from ...model.control import Revoked
from ..wire.call import Call
from ..wire.operation import Group
from .addresses import job_path
from .frame import Done, Page

group = Group("Job actions", kind="page")

Act = Callable[..., Awaitable[Done | Page]]


class ActForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An act, why, and whether the one who acts was asked."""

    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""
    confirmed: str = ""


class CancelForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With `force` a running job ends at once."""

    force: str = ""


class RetryForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With `fresh` its steps are done again too."""

    fresh: str = ""


class PriorityForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    priority: int


class MoveForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    to_queue: str


class ForkForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The step from which all is done again."""

    step: str


def told(act: Act) -> Act:
    """What the job's state does not allow is said on its page: it has moved on since that page was drawn."""

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
    """End it, or ask it to stop."""
    if not form.confirmed:
        return _asks(job_id, "cancel", "Cancel this job?", "If it runs, it is asked to stop.", "Cancel the job", form)
    reason = form.reason or "cancelled"
    answer = await call.client.jobs.acancel(job_id, reason=reason, force=bool(form.force), actor=call.actor)
    say = {
        CancelResult.CANCELLED: "Cancelled.",
        CancelResult.REQUESTED: "It runs, and was asked to stop. A success within its grace still counts.",
        CancelResult.FINISHED: "It had ended already; nothing was changed.",
        CancelResult.MOVED: "It is in other hands now; nothing was changed.",
    }[answer]
    return Done(job_path(job_id), say, ok=answer in (CancelResult.CANCELLED, CancelResult.REQUESTED))


@group.post("/jobs/{job_id}/retry", needs="operate")
@told
async def retry(call: Call, job_id: str, form: RetryForm) -> Done | Page:
    """Run a finished job again."""
    again = await call.client.jobs.aretry(job_id, fresh=bool(form.fresh), actor=call.actor, reason=form.reason)
    if not again:
        return Done(job_path(job_id), "Nothing was changed: a live job holds its dedupe key.", ok=False)
    return Done(job_path(job_id), "It runs again, attempts from zero." + (" All its steps too." if form.fresh else ""))


@group.post("/jobs/{job_id}/run-now", needs="operate")
@told
async def run_now(call: Call, job_id: str, form: ActForm) -> Done | Page:
    """Make it due."""
    done = await call.client.jobs.arun_now(job_id, actor=call.actor, reason=form.reason)
    return _said(job_id, done, "It is due, and starts as soon as a worker is free.", "It was due already.")


@group.post("/jobs/{job_id}/hold", needs="operate")
@told
async def hold(call: Call, job_id: str, form: ActForm) -> Done | Page:
    """Keep it from starting."""
    done = await call.client.jobs.ahold(job_id, actor=call.actor, reason=form.reason)
    return _said(job_id, done, "Held: it does not start until it is released.", "It was held already.")


@group.post("/jobs/{job_id}/release", needs="operate")
@told
async def release(call: Call, job_id: str, form: ActForm) -> Done | Page:
    """Let a held one go on."""
    done = await call.client.jobs.arelease(job_id, actor=call.actor, reason=form.reason)
    return _said(job_id, done, "Released.", "Nobody held it; nothing was changed.")


@group.post("/jobs/{job_id}/delete", needs="operate")
@told
async def delete(call: Call, job_id: str, form: ActForm) -> Done | Page:
    """Remove it with its history."""
    if not form.confirmed:
        text = "It and its history are removed. This cannot be undone."
        return _asks(job_id, "delete", "Delete this job?", text, "Delete the job", form, danger=True)
    answer = await call.client.jobs.adelete(job_id, actor=call.actor, reason=form.reason)
    if answer is DeleteResult.DELETED:
        return Done("/jobs", f"Job {job_id} is deleted.")
    if answer is DeleteResult.REQUESTED:
        return Done(job_path(job_id), "It was cancelled, or asked to stop, instead: delete it when it has ended.")
    return Done(job_path(job_id), "Others wait for it, so it stays until its flow has ended.", ok=False)


@group.post("/jobs/{job_id}/priority", needs="operate")
@told
async def priority(call: Call, job_id: str, form: PriorityForm) -> Done | Page:
    """Change its priority."""
    done = await call.client.jobs.aset_priority(job_id, form.priority, actor=call.actor, reason=form.reason)
    return _said(job_id, done, f"Its priority is {form.priority} now.", "It had that priority already.")


@group.post("/jobs/{job_id}/move", needs="operate")
@told
async def move(call: Call, job_id: str, form: MoveForm) -> Done | Page:
    """Put it into another queue."""
    job = await call.client.jobs.aget(job_id, whole=False)
    if job.queue == form.to_queue:
        return _said(job_id, False, "", "It was in that queue already.")
    report = await call.client.jobs.abulk(
        "move", ids=[job_id], to_queue=form.to_queue, actor=call.actor, reason=form.reason
    )
    done = report.by_id.get(job_id) is Fate.MOVED
    return _said(job_id, done, f"Moved to {form.to_queue}.", f"It is {job.state}, and cannot be moved any more.")


@group.post("/jobs/{job_id}/revoke", needs="operate")
@told
async def revoke(call: Call, job_id: str, form: ActForm) -> Done | Page:
    """Take it from its worker."""
    if not form.confirmed:
        text = "What its worker still does no longer counts. It is ready again for another, at no attempt's cost."
        return _asks(job_id, "revoke", "Take it from its worker?", text, "Revoke the lease", form)
    answer = await call.client.jobs.arevoke(job_id, actor=call.actor, reason=form.reason)
    done = isinstance(answer, Revoked)
    return _said(job_id, done, "Its lease is revoked.", "No worker has it; nothing was changed.")


@group.post("/jobs/{job_id}/fork", needs="operate")
@told
async def fork(call: Call, job_id: str, form: ForkForm) -> Done | Page:
    """A new job that does the rest again, from a step on."""
    made = await call.client.jobs.afork(job_id, from_step=form.step, actor=call.actor, reason=form.reason)
    return Done(job_path(made.id), f"This job has what {job_id} did before {form.step}, and does the rest again.")


def _said(job_id: str, done: bool, say: str, otherwise: str) -> Done:
    return Done(job_path(job_id), say if done else otherwise, ok=done)


def _asks(job_id: str, act: str, title: str, text: str, go: str, form: ActForm, *, danger: bool = False) -> Page:
    """The question, where no script could ask it."""
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
