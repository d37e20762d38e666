"""The run of a Django task in a Holdfast worker: its arguments, its context and its signals."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from ... import Context, SyncContext
from ...clock import SYSTEM_CLOCK
from ...model.jobs import Attempt
from ...model.outcomes import Cancelled, Failed
from ...rules import retry
from ...rules.failure import Failure, classify, decide
from ...tasks.task import Task
from ...telemetry import current_job
from .results import Call, changed_task, finish, running_result
from .tasks_api import TaskContext, normalize_json, task_finished, task_started


def handler_of(task: Any) -> Callable[..., Any]:
    """Return the function that workers call for a Django task, under the name of the task's own function."""
    run = _async_handler(task) if iscoroutinefunction(task.func) else _handler(task)
    # Not functools.wraps: the arguments of a job are not those of the function.
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(run, name, getattr(task.func, name))
    run.django_task = task  # type: ignore[attr-defined]
    return run


def django_task(made: Task[Any, Any]) -> Any:
    """Return the Django task that a task of the app runs; None for any other."""
    return getattr(made.fn, "django_task", None)


def _handler(task: Any) -> Callable[..., Any]:
    def run(ctx: SyncContext, args: list[Any], kwargs: dict[str, Any], using: dict[str, Any] = {}) -> Any:  # noqa: B006
        past = ctx._app.jobs.attempts(ctx.id) if ctx.attempt > 1 else []
        run = _Run(task, ctx, Call(args, kwargs, using), past)
        task_started.send_robust(run.sender, task_result=run.result)
        try:
            value = normalize_json(task.func(*run.args, **kwargs))
        except (Exception, SystemExit) as error:
            if run.is_last(error):
                task_finished.send_robust(run.sender, task_result=finish(run.result, error))
            raise
        task_finished.send_robust(run.sender, task_result=finish(run.result, None, value))
        return value

    return run


def _async_handler(task: Any) -> Callable[..., Any]:
    async def run(ctx: Context, args: list[Any], kwargs: dict[str, Any], using: dict[str, Any] = {}) -> Any:  # noqa: B006
        past = await ctx._app.jobs.aattempts(ctx.id) if ctx.attempt > 1 else []
        run = _Run(task, ctx, Call(args, kwargs, using), past)
        await task_started.asend_robust(run.sender, task_result=run.result)
        try:
            value = normalize_json(await task.func(*run.args, **kwargs))
        except (Exception, SystemExit) as error:
            if run.is_last(error):
                await task_finished.asend_robust(run.sender, task_result=finish(run.result, error))
            raise
        await task_finished.asend_robust(run.sender, task_result=finish(run.result, None, value))
        return value

    return run


class _Run:
    """One run: its result as far as it is known, and the arguments of the function."""

    def __init__(self, task: Any, ctx: Context | SyncContext, call: Call, past: list[Attempt]) -> None:
        self._ctx = ctx
        enqueued = changed_task(task, call.using)
        self.sender = type(enqueued.get_backend())
        self.result = running_result(enqueued, ctx.id, call, enqueued.backend, ctx.job.worker, past)
        self.args = [TaskContext(task_result=self.result), *call.args] if task.takes_context else call.args

    def is_last(self, error: BaseException) -> bool:
        """Return whether the job fails with this error, rather than being retried, snoozed or handed back."""
        if self._ctx.cancelled or self._ctx.is_suspended:
            return False
        options = self._ctx._app.tasks[self._ctx.job.task].task_options
        failure = classify(error, options.no_retry_on)
        if not isinstance(failure, Failure):
            return isinstance(failure, Cancelled)
        job = current_job()
        policy = retry.decode(job.retry) if job is not None and job.retry else options.retry or retry.DEFAULT
        tried: Any = job or self._ctx.job
        return isinstance(decide(failure, tried, policy, now=SYSTEM_CLOCK.now(), u=0.5), Failed)
