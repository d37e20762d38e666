"""The backend of Django's tasks framework that stores tasks as jobs of Holdfast."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Final

from django.apps import apps
from django.core import checks
from django.utils import timezone

from ...client.transactions import joined
from ...errors import ConfigError, HoldfastError, InvalidInput, NotFound
from ...model.jobs import Attempt, JobRecord, JobState
from ...names import check_name, check_queue
from ...storage.ops.jobs import queries
from ...storage.port import Op, Tx
from ...tasks.options import CALL_OPTIONS, TASK_OPTIONS, TaskOptions, unknown_option
from ...tasks.task import Task as HoldfastTask
from .project import DjangoApp, shared_app
from .results import Call, call_of, changed_task, new_result, stored_result
from .runs import django_task, handler_of
from .tasks_api import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResultDoesNotExist,
    normalize_json,
    task_backends,
    task_enqueued,
)

_APP: Final = "holdfast.contrib.django"
_DJANGOS: Final = ("priority", "queue_name", "run_after", "backend")
# What Django says in its own way, and what follows from the project.
_SAID: Final = frozenset({"name", "queue", "priority", "at", "delay", "connection", "limits_tenant"})
DECLARED: Final = tuple(name for name in TASK_OPTIONS if name not in _SAID)
"""Options of a task, in OPTIONS and in its decorator."""
CALLED: Final = tuple(name for name in CALL_OPTIONS if name not in _SAID)
"""Options of one call, which `task.using(…)` takes besides Django's own."""
_TASKS: Final = "tasks"
_DEFAULTS: Final = {"max_attempts": 1}
"""Code that was written for Django's tasks framework expects no second run after an exception."""


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class DurableTask(Task):
    """A task of Django whose decorator and `using` also take options of Holdfast."""

    declared: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    called: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __init__(self, **given: Any) -> None:
        own = {name: given.pop(name) for name in [*given] if name not in _FIELDS}
        _refuse_unknown("@task", own, DECLARED)
        known = {**_FIELDS, **given}
        for name, value in (known | {"declared": {**known["declared"], **own}}).items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    def using(self, **given: Any) -> DurableTask:
        """Return this task with other options: those of Django, and those of one call of Holdfast."""
        changes = {name: given.pop(name, None) for name in _DJANGOS}
        _refuse_unknown("using", given, CALLED)
        said = {name: value for name, value in changes.items() if value is not None}
        return replace(self, **said, called={**self.called, **given})

    def run_in_child(self, header: dict[str, Any], payload: str, control: Any) -> dict[str, Any]:
        """Run a job in a child process of the worker, which finds this object by the name of its function."""
        made: HoldfastTask[Any, Any] = self.get_backend().registered(self)
        return made.run_in_child(header, payload, control)


_FIELDS: Final[dict[str, Any]] = {
    "func": None, "priority": 0, "backend": "default", "queue_name": "default", "run_after": None,
    "takes_context": False, "declared": {}, "called": {},
}  # fmt: skip


class HoldfastBackend(BaseTaskBackend):
    """Stores tasks as jobs: `TASKS = {"default": {"BACKEND": "holdfast.contrib.django.HoldfastBackend"}}`.

    `OPTIONS` are options of Holdfast for all tasks of the backend, and in "tasks" for some, by their path or a prefix
    of it: {"max_attempts": 3, "tasks": {"shop.tasks.*": {"timeout": 60}}}.
    """

    task_class: ClassVar[type] = DurableTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Any) -> None:
        """Refuse a task that cannot be stored or run, and make it known to workers."""
        super().validate_task(task)
        try:
            check_queue(task.queue_name)
            check_name("the task's path", task.module_path)
            self.registered(task)
        except InvalidInput as wrong:
            raise InvalidTask(str(wrong)) from wrong

    def registered(self, task: Any) -> HoldfastTask[Any, Any]:
        """Return the task of the project's app under which workers find the jobs of a Django task."""
        app, name = shared_app(), task.module_path
        made = app.tasks.get(name)
        if made is not None and django_task(made) is None:
            raise InvalidTask(f"the app has a task of its own named {name!r}; give that another name=")
        if made is None or django_task(made).func is not task.func:
            app._tasks.pop(name, None)
            declared = self._declared(task)
            made = app.task(name=name, queue=task.queue_name, priority=task.priority, **declared)(handler_of(task))
            # Calls may name any of these queues, so that workers serve them all.
            made.queues = tuple(dict.fromkeys((task.queue_name, *sorted(self.queues))))
        return made

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Store a job: in the transaction that is open on the jobs' database, or on its own."""
        self.validate_task(task)
        made = self.registered(task)
        call = Call(normalize_json([*args]), normalize_json(kwargs), _using(task, django_task(made)))
        options = _call_options(task, made.task_options)
        given = {"args": call.args, "kwargs": call.kwargs} | ({"using": call.using} if call.using else {})
        job = (made.options(**options) if options else made).enqueue(**given)
        if not job.created:
            return self.get_result(job.id)
        result = new_result(task, job.id, call, self.alias)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return the result of a task by its id. TaskResultDoesNotExist if there is none, or it has been pruned."""
        app = shared_app()
        try:
            job, past = _read(app, str(result_id))
        except (NotFound, InvalidInput):
            raise TaskResultDoesNotExist(result_id) from None
        made, call = app.tasks.get(job.task), call_of(job.payload)
        task = None if made is None else django_task(made)
        if task is None or call is None:
            raise TaskResultDoesNotExist(
                f"job {result_id} is of {job.task!r}, which is not a Django task of this process"
            )
        return stored_result(changed_task(task, call.using), job, call, self.alias, past)

    def check(self, **kwargs: Any) -> Iterator[Any]:
        """Report options that do not exist, and a project without Holdfast's app."""
        where = f"TASKS[{self.alias!r}]"
        if not apps.is_installed(_APP):
            hint = f"Add {_APP!r} to INSTALLED_APPS."
            yield checks.Error(
                f"{where} is Holdfast's backend, and its app is not installed", hint=hint, id="holdfast.E020"
            )
        for place, options in self._said():
            try:
                _refuse_unknown(f"{where}['OPTIONS']{place}", options, DECLARED)
                TaskOptions(**options)
            except (HoldfastError, TypeError) as wrong:
                what, _, advice = str(wrong).partition("; ")
                yield checks.Error(what, hint=f"{advice[:1].upper()}{advice[1:]}.", id="holdfast.E021")

    def _said(self) -> Iterable[tuple[str, Mapping[str, Any]]]:
        yield "", {name: value for name, value in self.options.items() if name != _TASKS}
        for path, options in self.options.get(_TASKS, {}).items():
            yield f"['{_TASKS}'][{path!r}]", options

    def _declared(self, task: Any) -> dict[str, Any]:
        """Return the options of a task: of the backend, of prefixes of its path, of its path, of its decorator."""
        common = {name: value for name, value in self.options.items() if name != _TASKS}
        paths = self.options.get(_TASKS, {})
        fitting = [path for path in paths if _fits(path, task.module_path)]
        found = {**_DEFAULTS, **common}
        for path in sorted(fitting, key=lambda path: (not path.endswith("*"), len(path))):
            found |= paths[path]
        found |= getattr(task, "declared", {})
        _refuse_unknown(f"TASKS[{self.alias!r}]['OPTIONS']", found, DECLARED)
        return found


def register_found(apps: Iterable[Any]) -> None:
    """Make the Django tasks in the `tasks.py` of these apps known to workers, also those of another backend.

    Their jobs come from calls such as `task.using(backend="durable").enqueue()`.
    """
    backend = next((one for one in task_backends.all() if isinstance(one, HoldfastBackend)), None)
    modules = [sys.modules.get(f"{app.name}.tasks") for app in apps]
    for found in [value for module in modules if module for value in vars(module).values()]:
        if backend is not None and isinstance(found, Task):
            backend.registered(found)


def _fits(path: str, name: str) -> bool:
    return name.startswith(path[:-1]) if path.endswith("*") else name == path


def _refuse_unknown(where: str, given: Iterable[str], known: tuple[str, ...]) -> None:
    if unknown := [name for name in given if name not in known]:
        raise unknown_option(where, unknown, known)


def _using(task: Any, known: Any) -> dict[str, Any]:
    """Return what a call changed with `task.using(…)`, to find it again in the stored job."""
    changed = {name: getattr(task, name) for name in _DJANGOS if getattr(task, name) != getattr(known, name)}
    if task.run_after is not None:
        changed["run_after"] = _aware(task.run_after).isoformat()
    return changed


def _call_options(task: Any, declared: TaskOptions) -> dict[str, Any]:
    options = dict(getattr(task, "called", {}))
    if task.queue_name != declared.queue:
        options["queue"] = task.queue_name
    if task.priority != declared.priority:
        options["priority"] = task.priority
    if task.run_after is not None:
        options["at"] = _aware(task.run_after)
    return options


def _aware(at: datetime) -> datetime:
    return timezone.make_aware(at) if timezone.is_naive(at) else at


def _read(app: DjangoApp, job_id: str) -> tuple[JobRecord, list[Attempt]]:
    """Read a job and its runs that did not succeed: in the caller's open transaction, if it has one."""

    async def read(tx: Tx) -> tuple[JobRecord, list[Attempt]]:
        job = await queries.get_job(tx, job_id)
        if job.total_attempts == 0 or (job.total_attempts == 1 and job.state is JobState.SUCCEEDED):
            return job, []
        return job, await queries.attempts_of(tx, job_id)

    try:
        connection = joined(app.open, None)
    except ConfigError:
        connection = None  # Another database is in a transaction, which is no reason not to read.
    return app.open().read(Op(read)) if connection is None else app.open().within(connection, Op(read))
