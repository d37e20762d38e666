"""OpenTelemetry: `instrument(app)` gives every enqueue and every run a span, both in one trace, and counts runs.

The trace context is stored with the job, so that it reaches the run in any process at any time. Steps, waits, outboxes
and webhooks have spans too (`otel_spans`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from ..errors import MissingExtra

try:
    from opentelemetry import metrics, trace

    from . import otel_spans as spans
except ModuleNotFoundError as missing:
    if not MissingExtra.explains(missing, "otel"):
        raise
    raise MissingExtra("holdfast.contrib.otel", missing, "otel") from missing

from ..clock import SECOND
from ..model.jobs import Claimed
from ..tasks.destinations import Destination
from ..telemetry import current_run
from ..version import VERSION

if TYPE_CHECKING:
    from ..app import App
    from ..tasks.context import Context
    from ..tasks.task import JobRequest

__all__ = ["instrument"]

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
    app.tracing = spans.Spans(tracer)


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
        # An event is only created here. It is sent when its outbox is delivered.
        put = isinstance(requests[0].task, Destination) if requests else False
        operation, kind = ("put" if put else "enqueue"), ("create" if put and len(requests) == 1 else "send")
        queues = {_queue(request) for request in requests}
        attributes = {
            **spans.messaging(operation, kind, queues.pop() if len(queues) == 1 else ""),
            "holdfast.tasks": tasks,
            "messaging.batch.message_count": len(requests),
        }
        name = f"{operation} {tasks[0]}" if len(tasks) == 1 else operation
        with self._tracer.start_as_current_span(name, kind=trace.SpanKind.PRODUCER, attributes=attributes):
            carrier: dict[str, str] = {}
            spans.PROPAGATOR.inject(carrier)
            yield json.dumps(carrier) if carrier else None
        for request in requests:
            self._sent.add(1, {"task": request.task.name, "queue": _queue(request)})


class _Consumer:
    """A span around each run: a child of the span that enqueued its job, or with a link to each for a batch."""

    def __init__(self, tracer: trace.Tracer, meter: metrics.Meter) -> None:
        self._tracer = tracer
        self._runs = meter.create_counter("holdfast.runs", "{run}", "Runs that ended here.")
        self._seconds = meter.create_histogram("holdfast.run.duration", "s", "How long runs took.")
        self._age = meter.create_histogram("holdfast.job.age", "s", "From a job's enqueue to its start.")

    async def run(self, ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        job, began = ctx.job, time.monotonic()
        claimed = _claimed()
        labels = {"task": job.task, "queue": job.queue}
        self._age.record(max(0.0, time.time() - job.created_at / SECOND), labels)
        outcome = "raised"
        attributes = {**spans.of_jobs("run", "process", job.queue, claimed), "holdfast.task": job.task}
        span = self._tracer.start_as_current_span(
            f"run {job.task}",
            context=spans.parent_of(claimed),
            kind=trace.SpanKind.CONSUMER,
            links=spans.links_to(claimed),
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        )
        with span as current, spans.run_of(current):
            try:
                value = await call()
                outcome = "succeeded"
                return value
            except BaseException as error:
                outcome = "suspended" if ctx.is_suspended else spans.tell(current, error)
                raise
            finally:
                self._runs.add(1, {**labels, "outcome": outcome})
                self._seconds.record(time.monotonic() - began, labels)


def _claimed() -> Sequence[Claimed]:
    """Return the job that is running here, or the jobs of the batch."""
    run = current_run.get()
    if run is None:
        return ()
    return run.batch if run.job is None else (run.job,)


def _queue(request: JobRequest[Any]) -> str:
    return request.options.queue or request.task.task_options.queue
