"""A stored job as the `TaskResult` of Django's tasks framework."""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from django.conf import settings
from django.utils import timezone

from ... import errors
from ...ids import made_at
from ...model.jobs import Attempt, JobRecord, JobState
from ...model.values import instant_of
from ...rules.failure import error_text
from .tasks_api import TaskError, TaskResult, TaskResultStatus

UNKNOWN_WORKER: Final = "unknown"
"""Stands for the worker of a successful run, which the store does not keep, and of runs that it has forgotten."""

_STATUSES: Final = {
    JobState.RUNNING: TaskResultStatus.RUNNING,
    JobState.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    JobState.FAILED: TaskResultStatus.FAILED,
    JobState.CANCELLED: TaskResultStatus.FAILED,
    JobState.EXPIRED: TaskResultStatus.FAILED,
    JobState.SKIPPED: TaskResultStatus.FAILED,
}
_WITHOUT_RUN: Final = {
    JobState.CANCELLED: errors.JobCancelled,
    JobState.EXPIRED: errors.JobExpired,
    JobState.SKIPPED: errors.JobSkipped,
}
_ENGINE: Final = {"Timeout": "builtins.TimeoutError"}
"""The classes of errors that the engine records under a name of its own; others that are no exception are JobFailed."""


_EXIT: Final = re.compile(r"the call raised (SystemExit|KeyboardInterrupt|GeneratorExit)\((.*)\)", re.DOTALL)
"""The message of the error that a worker records instead of an exception that would end the worker."""


class Call(msgspec.Struct, frozen=True):
    """The stored arguments of a job of a Django task: `using` is what its call changed with `task.using(…)`."""

    args: list[Any]
    kwargs: dict[str, Any]
    using: dict[str, Any] = {}


def call_of(payload: str) -> Call | None:
    """Return the call in a job's payload; None if it is the job of another kind of task."""
    try:
        return msgspec.json.decode(payload, type=Call)
    except msgspec.MsgspecError:
        return None


def changed_task(task: Any, using: dict[str, Any]) -> Any:
    """Return the task as it was enqueued: the one of the module with the changes of its call."""
    run_after = using.get("run_after")
    changes = using if run_after is None else {**using, "run_after": shown(datetime.fromisoformat(run_after))}
    return task.using(**changes) if changes else task


def new_result(task: Any, id: str, call: Call, backend: str) -> Any:
    """Return the result of a job that has just been enqueued."""
    return _result(task, id, call, backend, enqueued_at=shown(instant_of(made_at(id))))


def running_result(task: Any, id: str, call: Call, backend: str, worker: str, past: Sequence[Attempt]) -> Any:
    """Return the result of a job whose run begins now. `past` are its earlier runs."""
    now = timezone.now()
    begun = [one.started_at for one in past if one.started_at is not None]
    return _result(
        task,
        id,
        call,
        backend,
        enqueued_at=shown(instant_of(made_at(id))),
        started_at=shown(instant_of(min(begun))) if begun else now,
        last_attempted_at=now,
        status=TaskResultStatus.RUNNING,
        errors=_errors(past),
        worker_ids=[*_workers(past), worker or UNKNOWN_WORKER],
    )


def stored_result(task: Any, job: JobRecord, call: Call, backend: str, past: Sequence[Attempt]) -> Any:
    """Return the result of a job as it is stored. `past` are its runs that did not succeed."""
    result = _result(
        task,
        job.id,
        call,
        backend,
        status=_STATUSES.get(job.state, TaskResultStatus.READY),
        enqueued_at=shown(instant_of(made_at(job.id) or job.created_at)),
        started_at=shown(instant_of(job.started_at)),
        last_attempted_at=shown(instant_of(job.claimed_at)) or shown(instant_of(job.started_at)),
        finished_at=shown(instant_of(job.finished_at)),
        errors=[*_errors(past), *_end_without_run(job)],
        worker_ids=_worker_ids(job, past),
    )
    if job.state is JobState.SUCCEEDED and job.result is not None:
        object.__setattr__(result, "_return_value", msgspec.json.decode(job.result))
    return result


def finish(result: Any, error: BaseException | None, value: Any = None) -> Any:
    """Record on a running result how its last run ended, for the signal that announces it."""
    now = timezone.now()
    status = TaskResultStatus.SUCCESSFUL if error is None else TaskResultStatus.FAILED
    if error is not None:
        result.errors.append(_error(error_text(error)))
    for name, said in (("finished_at", now), ("status", status), ("_return_value", value)):
        object.__setattr__(result, name, said)
    return result


def shown(at: datetime | None) -> datetime | None:
    """Return an instant as the project's code expects it: naive and local if USE_TZ is off."""
    return at if at is None or settings.USE_TZ else timezone.make_naive(at)


def _result(task: Any, id: str, call: Call, backend: str, **known: Any) -> Any:
    given: dict[str, Any] = {
        "status": TaskResultStatus.READY, "enqueued_at": None, "started_at": None, "last_attempted_at": None,
        "finished_at": None, "errors": [], "worker_ids": [], **known,
    }  # fmt: skip
    return TaskResult(task=task, id=id, args=call.args, kwargs=call.kwargs, backend=backend, **given)


def _errors(past: Sequence[Attempt]) -> list[Any]:
    return [_error(one.error) for one in past if one.error is not None]


def _error(text: str) -> Any:
    """Return a stored error with the path of its class, which only its traceback has."""
    error = msgspec.json.decode(text, type=dict[str, str])
    name, message, frames = error["type"], error["message"], error.get("traceback")
    if frames is None and (ended := _EXIT.fullmatch(message)) is not None:
        return TaskError(exception_class_path=f"builtins.{ended[1]}", traceback=f"{ended[1]}: {ended[2]}\n")
    if frames is None:
        path = _ENGINE.get(name) or f"{errors.__name__}.{name if hasattr(errors, name) else 'JobFailed'}"
        return TaskError(exception_class_path=path, traceback=f"{name}: {message}\n")
    return TaskError(exception_class_path=_class_path(name, frames), traceback=frames)


def _class_path(name: str, frames: str) -> str:
    found = re.findall(rf"^((?:[\w.<>]+\.)?{re.escape(name)})(?::|$)", frames, re.MULTILINE)
    path = str(found[-1]) if found else name
    if "." in path:
        return path
    return f"builtins.{name}" if hasattr(builtins, name) else f"__main__.{name}"


def _end_without_run(job: JobRecord) -> list[Any]:
    """Return an error for a job that ended without one: because it was cancelled, expired or skipped."""
    kind = _WITHOUT_RUN.get(job.state)
    if kind is None:
        return []
    path = f"{kind.__module__}.{kind.__qualname__}"
    return [TaskError(exception_class_path=path, traceback=f"{kind.__name__}: {job.cancel_reason or job.reason}\n")]


def _workers(past: Sequence[Attempt]) -> list[str]:
    # A run that was handed back used no attempt: the next one has its number.
    return list({(one.generation, one.attempt): one.worker or UNKNOWN_WORKER for one in past}.values())


def _worker_ids(job: JobRecord, past: Sequence[Attempt]) -> list[str]:
    """Return a worker for each attempt, so that their number is that of the attempts."""
    known = _workers(past)
    if job.state in (JobState.RUNNING, JobState.SUCCEEDED):
        known.append(job.owner or UNKNOWN_WORKER)
    missing = job.total_attempts - len(known)
    return [UNKNOWN_WORKER] * missing + known if missing > 0 else known[-job.total_attempts or len(known) :]
