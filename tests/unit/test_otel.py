"""Spans and metrics through OpenTelemetry's own kit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import holdfast
from holdfast.contrib.otel import instrument


class Kit:
    """An app whose spans and metrics stay here."""

    def __init__(self, store: Path | str) -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider()
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self._meters = MeterProvider([self._reader])
        self.app = holdfast.App(store)
        self.tracer = self._provider.get_tracer("test")
        instrument(self.app, tracer_provider=self._provider, meter_provider=self._meters)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def span(self, name: str) -> ReadableSpan:
        (found,) = self.spans(name)
        return found

    def counted(self, name: str) -> dict[tuple[tuple[str, Any], ...], float]:
        data: Any = self._reader.get_metrics_data()
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics if m.name == name]
        points = [point for metric in metrics for point in metric.data.data_points]
        return {
            tuple(sorted(p.attributes.items())): getattr(p, "value", None) or getattr(p, "count", 0) for p in points
        }

    def close(self) -> None:
        self.app.close()
        self._provider.shutdown()
        self._meters.shutdown()


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    kit = Kit(tmp_path / "jobs.db")
    yield kit
    kit.close()


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


@pytest.mark.parametrize("colour", ["async", "sync"])
def test_an_enqueue_and_its_run_share_a_trace(kit: Kit, colour: str) -> None:
    def work() -> None:
        kit.tracer.start_span("inside").end()

    async def awork() -> None:
        work()

    task = kit.app.task(awork) if colour == "async" else kit.app.task(work)  # type: ignore[arg-type]
    with kit.tracer.start_as_current_span("request"):
        task.enqueue()  # type: ignore[union-attr]
    kit.app.drain()
    request, sent, run, inside = (
        kit.span(name) for name in ("request", f"enqueue {task.name}", f"run {task.name}", "inside")
    )
    assert {trace_of(span) for span in (request, sent, run, inside)} == {trace_of(request)}
    assert sent.context is not None
    assert run.context is not None
    assert parent_of(sent) == request.context.span_id  # type: ignore[union-attr]
    assert (parent_of(run), parent_of(inside)) == (sent.context.span_id, run.context.span_id)
    assert (sent.kind, run.kind) == (trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)


def test_a_bulk_has_one_span_and_its_runs_are_its_children(kit: Kit) -> None:
    @kit.app.task
    def work(n: int) -> None: ...

    kit.app.enqueue_many([work.job(n) for n in range(3)])
    kit.app.drain()
    sent = kit.span("enqueue work")
    assert sent.context is not None
    assert [parent_of(span) for span in kit.spans("run work")] == [sent.context.span_id] * 3


def test_every_run_of_a_retried_job_is_in_its_trace_and_a_failure_is_an_error(kit: Kit) -> None:
    @kit.app.task(max_attempts=2, retry=holdfast.RetryPolicy(kind="none"))
    def refuse() -> None:
        raise ValueError("no such card")

    refuse.enqueue()
    kit.app.drain()
    first, second = kit.spans("run refuse")
    assert trace_of(first) == trace_of(second) == trace_of(kit.span("enqueue refuse"))
    assert first.status.status_code is trace.StatusCode.ERROR
    assert first.events[0].name == "exception"
    assert [dict(span.attributes or {})["holdfast.attempt"] for span in (first, second)] == [1, 2]


def test_a_snooze_is_no_error(kit: Kit) -> None:
    @kit.app.task
    def later() -> None:
        raise holdfast.Snooze(60)

    later.enqueue()
    kit.app.drain()
    assert kit.span("run later").status.status_code is not trace.StatusCode.ERROR


def test_runs_and_enqueues_are_counted_by_task_and_queue(kit: Kit) -> None:
    @kit.app.task(queue="mail", max_attempts=1)
    def send(n: int) -> None:
        if n == 0:
            raise ValueError("no")

    kit.app.enqueue_many([send.job(n) for n in range(3)])
    kit.app.drain()
    labels = (("queue", "mail"), ("task", "send"))
    assert kit.counted("holdfast.enqueued") == {labels: 3}
    assert kit.counted("holdfast.run.duration") == {labels: 3}
    runs = {dict(key)["outcome"]: count for key, count in kit.counted("holdfast.runs").items()}
    assert runs == {"succeeded": 2, "raised": 1}


@pytest.mark.parametrize("stored", ["not json", "[1]", '{"traceparent": "nonsense"}', None])
def test_a_trace_that_cannot_be_read_starts_a_new_one(kit: Kit, stored: str | None) -> None:
    @kit.app.task
    def work() -> None: ...

    job = work.enqueue()
    connection = kit.app.connect()
    with connection:
        connection.execute("update holdfast_job set trace = ? where id = ?", (stored, job.id))
    connection.close()
    kit.app.drain()
    assert parent_of(kit.span("run work")) is None
    assert job.status().state == "succeeded"


async def _nothing() -> None: ...


def test_an_app_that_is_not_instrumented_stores_no_trace(tmp_path: Path) -> None:
    app = holdfast.App(tmp_path / "jobs.db")
    job = app.task(_nothing).enqueue()
    assert job.status().trace is None
    app.close()
