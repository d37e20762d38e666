"""Sentry: `instrument(app)` reports failed jobs with their context, continues traces, and checks in for schedules.

An exception is captured where it is raised, inside a scope of its own: on the event loop, a thread, or in a child
process. The worker reports what no handler raised: time-outs, crashed processes, unreadable arguments.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from ..errors import MissingExtra

try:
    import sentry_sdk
    from sentry_sdk.tracing_utils import has_tracing_enabled

    from .sentry_crons import check_in
except ModuleNotFoundError as missing:
    if not MissingExtra.explains(missing, "sentry"):
        raise
    raise MissingExtra("holdfast.contrib.sentry", missing, "sentry") from missing

from ..clock import SYSTEM_CLOCK
from ..model.jobs import Claimed
from ..model.outcomes import Cancelled, Done, Expired, Failed, Outcome, Retry
from ..model.webhooks import TASK as DELIVER
from ..outcomes import JobOutcome
from ..rules.failure import outcome_of
from ..telemetry import current_job, in_child
from ..worker.running.outcome import UndecodableJob

if TYPE_CHECKING:
    from ..app import App
    from ..tasks.context import Context
    from ..tasks.task import JobRequest

__all__ = ["instrument"]

_FLUSH: Final = 2.0
_REPORTED: Final = "__holdfast_reported__"
_NOT_RAISED: Final = frozenset({"undecodable", "bad_result", "unrecordable", "worker_lost", "timeout"})
"""Kinds of failures that pass no handler."""


def instrument(app: App, *, every_attempt: bool = False, check_ins: bool = False) -> None:
    """Report what this app's jobs fail with, after `sentry_sdk.init(…)`. Call it once, in the app's module.

    By default a job is reported once it has failed for good; with `every_attempt` each failed run is. `check_ins`
    monitors schedules: each run of one checks in, and creates or updates its monitor in Sentry.
    """
    reporter = _Reporter(app, every_attempt=every_attempt, check_ins=check_ins)
    app.middleware(reporter.run)
    app.around_enqueue(_around_enqueue)
    app._on_run_end.append(reporter.ended)


class _Reporter:
    """Reports the failures of one app."""

    def __init__(self, app: App, *, every_attempt: bool, check_ins: bool) -> None:
        self._app = app
        self._every_attempt = every_attempt
        self._check_ins = check_ins

    async def run(self, ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        """Run a job in a scope of its own; the middleware."""
        job = current_job()
        if job is None or job.task == DELIVER:
            # The jobs of a batch are reported one by one when it ends, and webhooks have a log of their own.
            with sentry_sdk.isolation_scope():
                return await call()
        with sentry_sdk.isolation_scope() as scope, _transaction(job):
            _describe(scope, job)
            if self._check_ins:
                check_in(job, "in_progress")
            try:
                return await call()
            except Exception as error:
                if not (ctx.cancelled or ctx.is_suspended) and self._is_reported(error, job):
                    _capture(error)
                raise

    def ended(self, run: Any, outcome: Outcome) -> None:
        """Report the end of a run that its scope could not: the worker's own verdict, and check-ins."""
        job: Claimed = run.job
        if job.task == DELIVER:
            return
        if self._check_ins:
            if isinstance(outcome, Done):
                check_in(job, "ok")
            elif isinstance(outcome, (Failed, Expired, Cancelled)):
                check_in(job, "error")
        if not (isinstance(outcome, Failed) or (self._every_attempt and isinstance(outcome, Retry))):
            return
        if isinstance(run.error, Exception) and not _is_by_worker(outcome):
            if not hasattr(run.error, _REPORTED):
                with sentry_sdk.isolation_scope() as scope:
                    _describe(scope, job)
                    _capture(run.error)
        elif _is_by_worker(outcome) or (run.batch is not None and run.error is not None):
            with sentry_sdk.isolation_scope() as scope:
                _describe(scope, job)
                sentry_sdk.capture_event(_event_of(outcome))

    def _is_reported(self, error: Exception, job: Claimed) -> bool:
        if isinstance(error, UndecodableJob):
            return False
        task = self._app.all_tasks[job.task].task_options
        now = (self._app._clock or SYSTEM_CLOCK).now()
        outcome = outcome_of(error, job, task.retry, task.no_retry_on, now=now, u=0.5)
        if isinstance(outcome, Retry):
            return self._every_attempt and not isinstance(error, JobOutcome)
        return isinstance(outcome, Failed)


@contextmanager
def _around_enqueue(requests: Sequence[JobRequest[Any]]) -> Iterator[str | None]:
    """Store the current trace with the jobs."""
    with _publishing(requests):
        carrier = {"sentry-trace": sentry_sdk.get_traceparent(), "baggage": sentry_sdk.get_baggage()}
        carrier = {name: value for name, value in carrier.items() if value}
        yield json.dumps(carrier) if carrier else None


def _publishing(requests: Sequence[JobRequest[Any]]) -> AbstractContextManager[Any]:
    if not _traces() or sentry_sdk.get_current_span() is None:
        return nullcontext()
    names = sorted({request.task.name for request in requests})
    return sentry_sdk.start_span(op="queue.publish", name=", ".join(names), origin="auto.queue.holdfast")


def _transaction(job: Claimed) -> AbstractContextManager[Any]:
    """Continue the stored trace: with a transaction if traces are on, else for errors only."""
    about = {"op": "queue.process", "name": job.task, "source": "task", "origin": "auto.queue.holdfast"}
    transaction = sentry_sdk.continue_trace(_stored(job), **about)
    return sentry_sdk.start_transaction(transaction) if _traces() else nullcontext()


def _traces() -> bool:
    return has_tracing_enabled(sentry_sdk.get_client().options)


def _describe(scope: sentry_sdk.Scope, job: Claimed) -> None:
    """Add the job to all that is reported in this scope; its arguments only if personal data may be sent."""
    about: dict[str, Any] = {"id": job.id, "task": job.task, "queue": job.queue, "attempt": job.attempt,
             "max_attempts": job.max_attempts, "tenant": job.tenant or None, "flow": job.flow}  # fmt: skip
    if _sends_arguments():
        about["arguments"] = job.payload
    scope.set_context("holdfast", {name: value for name, value in about.items() if value is not None})
    for name in ("id", "task", "queue", "tenant"):
        if about[name]:
            scope.set_tag(f"holdfast.{name}", about[name])
    scope.set_transaction_name(job.task, source="task")
    scope.clear_breadcrumbs()


def _sends_arguments() -> bool:
    """Return whether arguments may be sent: by `data_collection`, or by `send_default_pii`, which it replaces."""
    client = sentry_sdk.get_client()
    chosen: Any = client.options.get("data_collection")
    if chosen and chosen.get("provided_by_user"):
        return bool(chosen.get("queues"))
    return client.should_send_default_pii()


def _capture(error: Exception) -> None:
    sentry_sdk.capture_exception(error)
    try:
        setattr(error, _REPORTED, True)
    except AttributeError:  # an exception with slots may be reported twice
        return
    finally:
        if in_child():
            # This process may be killed soon.
            sentry_sdk.flush(_FLUSH)


def _is_by_worker(outcome: Failed | Retry) -> bool:
    """Return True for an end that no handler raised: a time-out, a crash, or an unusable argument or result."""
    if isinstance(outcome, Retry):
        return outcome.outcome in ("timeout", "crashed")
    return outcome.kind in _NOT_RAISED or _error_of(outcome)["type"] in ("Timeout", "WorkerLost")


def _event_of(outcome: Failed | Retry) -> Any:
    error = _error_of(outcome)
    value = {"type": error["type"], "value": error["message"], "mechanism": {"type": "holdfast", "handled": False}}
    return {"level": "error", "exception": {"values": [value]}}


def _error_of(outcome: Failed | Retry) -> dict[str, str]:
    error: dict[str, str] = json.loads(outcome.error)
    return error


def _stored(job: Claimed) -> dict[str, Any]:
    try:
        stored = json.loads(job.trace or "{}")
    except ValueError:
        return {}
    return stored if isinstance(stored, dict) else {}
