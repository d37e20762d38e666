"""OpenTelemetry: `instrument(app)` gives every enqueue and every run a span, both in one trace, and counts runs.

The trace context is stored with the job, so that it reaches the run in any process at any time.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from ..errors import MissingExtra

try:
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context as TraceContext
    from opentelemetry.trace import SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as missing:
    if not MissingExtra.explains(missing, "otel"):
        raise
    raise MissingExtra("holdfast.contrib.otel", missing, "otel") from missing

from ..clock import SECOND
from ..outcomes import Cancel, Snooze, Throttle
from ..rules.redaction import redact
from ..telemetry import current_job
from ..version import VERSION

if TYPE_CHECKING:
    from ..app import App
    from ..tasks.context import Context
    from ..tasks.task import JobRequest

__all__ = ["instrument"]

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_NAME: Final = "holdfast"


def instrument(
    app: App,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> None:
    """Trace and count what this app enqueues and runs. Without providers the global ones are used. Call it once."""
    tracer = trace.get_tracer(_NAME, VERSION, tracer_provider)
    meter = metrics.get_meter(_NAME, VERSION, meter_provider)
    app.around_enqueue(_Producer(tracer, meter).around)
    app.middleware(_Consumer(tracer, meter).run)


class _Producer:
    """A span around each enqueue, whose context is stored with the jobs."""

    def __init__(self, tracer: trace.Tracer, meter: metrics.Meter) -> None:
        self._tracer = tracer
        self._sent = meter.create_counter("holdfast.enqueued", "{job}", "Jobs that were enqueued here.")

    def around(self, requests: Sequence[JobRequest[Any]]) -> AbstractContextManager[str | None]:
        return self._around(requests)

    @contextmanager
    def _around(self, requests: Sequence[JobRequest[Any]]) -> Iterator[str | None]:
        tasks = sorted({request.task.name for request in requests})
        name = f"enqueue {tasks[0]}" if len(tasks) == 1 else "enqueue"
        attributes = {**_about(requests), "holdfast.tasks": tasks, "messaging.batch.message_count": len(requests)}
        with self._tracer.start_as_current_span(name, kind=SpanKind.PRODUCER, attributes=attributes):
            carrier: dict[str, str] = {}
            _PROPAGATOR.inject(carrier)
            yield json.dumps(carrier) if carrier else None
        for request in requests:
            self._sent.add(1, {"task": request.task.name, "queue": _queue(request)})


class _Consumer:
    """A span around each run, a child of the span that enqueued it."""

    def __init__(self, tracer: trace.Tracer, meter: metrics.Meter) -> None:
        self._tracer = tracer
        self._runs = meter.create_counter("holdfast.runs", "{run}", "Runs that ended here.")
        self._seconds = meter.create_histogram("holdfast.run.duration", "s", "How long runs took.")
        self._age = meter.create_histogram("holdfast.job.age", "s", "From a job's enqueue to its start.")

    async def run(self, ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        job, began = ctx.job, time.monotonic()
        labels = {"task": job.task, "queue": job.queue}
        self._age.record(max(0.0, time.time() - job.created_at / SECOND), labels)
        outcome = "raised"
        attributes: dict[str, Any] = {
            "messaging.system": "holdfast", "messaging.operation.type": "process",
            "messaging.destination.name": job.queue, "messaging.message.id": job.id, "holdfast.task": job.task,
            "holdfast.attempt": job.attempt, "holdfast.tenant": job.tenant,
        }  # fmt: skip
        span = self._tracer.start_as_current_span(
            f"run {job.task}",
            context=_stored_context(),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        )
        with span as current:
            try:
                value = await call()
                outcome = "succeeded"
                return value
            except BaseException as error:
                outcome = "suspended" if ctx.is_suspended else _tell(current, error)
                raise
            finally:
                self._runs.add(1, {**labels, "outcome": outcome})
                self._seconds.record(time.monotonic() - began, labels)


def _tell(span: trace.Span, error: BaseException) -> str:
    """Record an exception on the span; return the outcome. A request for a later run is not an error."""
    if isinstance(error, Cancel | Snooze | Throttle):
        return type(error).__name__.lower()
    stack = redact("".join(traceback.format_exception(error)))
    span.record_exception(error, {"exception.message": redact(str(error)), "exception.stacktrace": stack})
    span.set_status(Status(StatusCode.ERROR, redact(f"{type(error).__name__}: {error}")))
    return "raised" if isinstance(error, Exception) else "stopped"


def _stored_context() -> TraceContext | None:
    """Return the trace in which this job was enqueued; an unreadable one starts a new trace."""
    job = current_job()
    if job is None or not job.trace:
        return None
    try:
        carrier = json.loads(job.trace)
    except ValueError:
        return None
    return _PROPAGATOR.extract(carrier) if isinstance(carrier, dict) else None


def _about(requests: Sequence[JobRequest[Any]]) -> dict[str, Any]:
    about: dict[str, Any] = {"messaging.system": "holdfast", "messaging.operation.type": "send"}
    queues = {_queue(request) for request in requests}
    return {**about, "messaging.destination.name": queues.pop()} if len(queues) == 1 else about


def _queue(request: JobRequest[Any]) -> str:
    return request.options.queue or request.task.task_options.queue
