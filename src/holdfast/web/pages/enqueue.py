"""The form that enqueues a job of any task the app knows."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ...errors import HoldfastError
from ...tasks.options import CallOptions
from ...tasks.task import Task
from ..api.enqueue import task_of
from ..wire.call import Call
from ..wire.operation import Group
from .forms import number_of, span_of
from .frame import Done, Page
from .job_actions import arguments_of
from .templates import job_path

group = Group("Enqueue", kind="page")

_Short = Annotated[str, msgspec.Meta(max_length=256)]


class EnqueueQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The task selected first."""

    task: _Short = ""


class EnqueueForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new job as entered in the form."""

    task: _Short
    arguments: Annotated[str, msgspec.Meta(max_length=900_000)] = "{}"
    queue: _Short = ""
    priority: _Short = ""
    delay: _Short = ""
    dedupe_key: _Short = ""


@group.get("/enqueue", needs="enqueue")
async def show(call: Call, query: EnqueueQuery) -> Page:
    """Show the form."""
    return _form(call, EnqueueForm(task=query.task))


@group.post("/enqueue", needs="enqueue")
async def enqueue(call: Call, form: EnqueueForm) -> Done | Page:
    """Enqueue the job, or show the form again with the error."""
    try:
        options = CallOptions(
            queue=form.queue.strip() or None,
            priority=number_of("the priority", form.priority),
            delay=span_of("the delay", form.delay),
            dedupe_key=form.dedupe_key.strip() or None,
        )
        job = await call.client.aenqueue(task_of(call, form.task.strip()).read(arguments_of(form.arguments), options))
    except HoldfastError as wrong:
        return _form(call, form, status=422, wrong=str(wrong))
    said = "Enqueued." if job.created else "Not enqueued: this job already has that dedupe key."
    return Done(job_path(job.id), said, ok=job.created)


def _form(call: Call, form: EnqueueForm, *, status: int = 200, wrong: str = "") -> Page:
    tasks = sorted(call.app.tasks)
    task = call.app.tasks.get(form.task) or (call.app.tasks[tasks[0]] if tasks else None)
    shows = {
        "page": "jobs",
        "form": form,
        "tasks": tasks,
        "takes": _takes(task),
        "any_task": call.settings.any_task,
        "wrong": wrong,
    }
    return Page("enqueue.html", shows, status)


def _takes(task: Task[..., Any] | None) -> str:
    return "" if task is None or task.fn is None else str(task.signature)
