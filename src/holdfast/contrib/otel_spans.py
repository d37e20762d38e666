"""Spans inside runs and deliveries, and what all spans share: their attributes, parents, links and errors.

They follow OpenTelemetry's conventions for messaging: an enqueue is `send`, a run is `process`, an event that is put
into an outbox is `create` and its delivery `send`, and a wait for signals or jobs is `receive`.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import urlsplit

from opentelemetry.context import Context as TraceContext
from opentelemetry.trace import INVALID_SPAN, Link, Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace import get_current_span as span_in
from opentelemetry.trace import set_span_in_context as context_of
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ..model.jobs import Claimed
from ..model.outcomes import Outcome, Snoozed, Suspended
from ..outcomes import Cancel, Snooze, Throttle
from ..rules.redaction import redact
from ..telemetry import current_job

PROPAGATOR: Final = TraceContextTextMapPropagator()
_MOST_LINKS: Final = 128
_run: Final[ContextVar[Span]] = ContextVar("holdfast_run_span", default=INVALID_SPAN)


class Spans:
    """The spans of one app's steps, waits, outboxes and webhooks: its `holdfast.telemetry.Tracing`."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def step(self, name: str, attempt: int) -> AbstractContextManager[object]:
        return self._step(name, {"holdfast.step": name, "holdfast.step.attempt": attempt})

    @contextmanager
    def _step(self, name: str, attributes: dict[str, Any]) -> Iterator[None]:
        with self._start(f"step {name}", attributes) as span:
            try:
                yield
            except Exception as error:
                tell(span, error)
                raise

    def suspended(self, outcome: Outcome) -> str | None:
        """Return the context of the suspended run, and what it waits for."""
        if not (run := _run.get()).is_recording():
            return None
        note: dict[str, Any] = {}
        PROPAGATOR.inject(note, context_of(run))
        match outcome:
            case Suspended(wait=wait):
                note |= {"wait": wait.reason, "names": wait.condition.names}
            case Snoozed(reason=reason):
                note |= {"wait": reason}
            case _:
                note |= {"wait": type(outcome).__name__.lower()}
        return json.dumps(note)

    def resumed(self, note: str, since: int, *, first: bool) -> None:
        """Link this run to the one that was suspended; the first to resume it also gives the wait its span."""
        known, before = json.loads(note), span_in(_extracted(note)).get_span_context()
        _run.get().add_link(before, {"holdfast.link": "suspended"})
        if not first or (job := current_job()) is None:
            return
        kind, names = known["wait"], known.get("names", [])
        attributes: dict[str, Any] = {"holdfast.wait": kind, "messaging.message.id": job.id}
        if kind in ("signal", "jobs"):
            attributes |= messaging("wait", "receive", ",".join(names))
        span = self._tracer.start_span(
            f"wait {names[0] if names else kind}",
            context=parent_of((job,)),
            kind=SpanKind.CLIENT if "messaging.system" in attributes else SpanKind.INTERNAL,
            links=[Link(before)],
            attributes=attributes,
            start_time=since * 1_000,
        )
        span.end()

    @contextmanager
    def delivery(self, destination: str, jobs: Sequence[Claimed]) -> Iterator[_Sending]:
        attributes = of_jobs("deliver", "send", destination, jobs)
        where = {"context": parent_of(jobs), "links": links_to(jobs), "kind": SpanKind.CLIENT}
        with self._start(f"deliver {destination}", attributes, **where) as span:
            yield _Sending(span)

    @contextmanager
    def request(self, url: str) -> Iterator[_Sending]:
        target = urlsplit(url)
        attributes = {
            **messaging("request", "send", "webhooks"), "http.request.method": "POST", "url.scheme": target.scheme,
            "server.address": target.hostname or "",
        }  # fmt: skip
        with self._start("request webhooks", attributes, kind=SpanKind.CLIENT) as span:
            yield _Sending(span)

    def _start(self, name: str, attributes: dict[str, Any], **where: Any) -> AbstractContextManager[Span]:
        where |= {"record_exception": False, "set_status_on_exception": False}
        return self._tracer.start_as_current_span(name, attributes=attributes, **where)


class _Sending:
    """A request or delivery under way."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self.headers: dict[str, str] = {}
        PROPAGATOR.inject(self.headers, context_of(span))

    def ended(self, *, status: int | None = None, error: str = "") -> None:
        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
        if error or (status is not None and not 200 <= status < 300):
            kind, message = _described(error)
            self._span.set_attribute("error.type", kind if status is None else str(status))
            self._span.set_status(Status(StatusCode.ERROR, redact(message)))


@contextmanager
def run_of(span: Span) -> Iterator[None]:
    """Make this the span of the run in this context."""
    token = _run.set(span)
    try:
        yield
    finally:
        _run.reset(token)


def messaging(operation: str, kind: str, destination: str) -> dict[str, Any]:
    """Return the attributes that every messaging span has."""
    attributes = {
        "messaging.system": "holdfast", "messaging.operation.name": operation, "messaging.operation.type": kind
    }  # fmt: skip
    return {**attributes, "messaging.destination.name": destination} if destination else attributes


def of_jobs(operation: str, kind: str, destination: str, jobs: Sequence[Claimed]) -> dict[str, Any]:
    """Return the attributes of a span for one job, or for several at once."""
    attributes = messaging(operation, kind, destination)
    if len(jobs) != 1:
        return {**attributes, "messaging.batch.message_count": len(jobs)}
    (job,) = jobs
    own = {"messaging.message.id": job.id, "holdfast.attempt": job.attempt, "holdfast.tenant": job.tenant}
    return {**attributes, **own}


def parent_of(jobs: Sequence[Claimed]) -> TraceContext:
    """Return the context in which a job was enqueued; empty for several jobs, or for an unreadable trace."""
    return _extracted(jobs[0].trace) if len(jobs) == 1 else TraceContext()


def links_to(jobs: Sequence[Claimed]) -> list[Link]:
    """Return links to where each of several jobs was enqueued; one job has a parent instead."""
    if len(jobs) == 1:
        return []
    traces = dict.fromkeys(job.trace for job in jobs if job.trace)
    contexts = [span_in(_extracted(trace)).get_span_context() for trace in list(traces)[:_MOST_LINKS]]
    return [Link(context) for context in contexts if context.is_valid]


def tell(span: Span, error: BaseException) -> str:
    """Record an exception on the span; return the outcome. A request for a later run is not an error."""
    if isinstance(error, Cancel | Snooze | Throttle):
        return type(error).__name__.lower()
    stack = redact("".join(traceback.format_exception(error)))
    span.record_exception(error, {"exception.message": redact(str(error)), "exception.stacktrace": stack})
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, redact(f"{type(error).__name__}: {error}")))
    return "raised" if isinstance(error, Exception) else "stopped"


def _extracted(text: str | None) -> TraceContext:
    """Return the stored context; empty, for a new trace, if there is none or it cannot be read."""
    if not text:
        return TraceContext()
    try:
        carrier = json.loads(text)
    except ValueError:
        return TraceContext()
    return PROPAGATOR.extract(carrier, TraceContext()) if isinstance(carrier, dict) else TraceContext()


def _described(error: str) -> tuple[str, str]:
    """Return the type and message of a stored error, or of a plain text."""
    try:
        stored = json.loads(error)
        return str(stored["type"]), str(stored["message"])
    except (ValueError, TypeError, KeyError):
        return "_OTHER", error
