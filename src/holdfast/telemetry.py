"""The current run, the job that a log record belongs to, what a tracer is told, and counts of this process's runs."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

from . import importing
from .errors import BlockingCall
from .model.jobs import Claimed
from .rules.redaction import redact
from .values.printable import printable_json

if TYPE_CHECKING:
    from .model.outcomes import Outcome


class Subject(Protocol):
    """The facts about a job that log records carry."""

    @property
    def id(self) -> str: ...

    @property
    def task(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def tenant(self) -> str: ...

    @property
    def attempt(self) -> int: ...


class CurrentRun:
    """The run that code belongs to: set around each handler, and inherited by the tasks and threads that it starts."""

    __slots__ = ("_context", "_make", "app", "batch", "job", "subject")

    def __init__(
        self,
        app: Any,
        job: Claimed | None,
        make: Callable[[], Any],
        *,
        subject: Subject | None = None,
        batch: Sequence[Claimed] = (),
    ) -> None:
        self.app = app
        """The app whose worker runs the job; None inline."""
        self.job = job
        """The job as it was claimed; None inline, in a batch, and in a child process without middleware."""
        self.subject: Subject | None = subject or job
        """The job that log records name; None in a batch."""
        self.batch = batch
        """The jobs of a batch, as they were claimed."""
        self._make: Callable[[], Any] | None = make
        self._context: Any = None

    @property
    def context(self) -> Any:
        """The context of the handler, made at first use; None when the handler has ended."""
        if self._context is None and self._make is not None:
            self._context = self._make()
        return self._context

    def end(self) -> None:
        """Drop the context, which would otherwise form a reference cycle with an ended task."""
        self._context = self._make = None


current_run: Final[ContextVar[CurrentRun | None]] = ContextVar("holdfast_run", default=None)


def current_job() -> Claimed | None:
    """Return the job that is running here, as it was claimed."""
    run = current_run.get()
    return None if run is None else run.job


@contextmanager
def running(run: CurrentRun) -> Iterator[None]:
    """Make `run` the current run of this block, in the caller's own context."""
    before = current_run.set(run)
    try:
        yield
    finally:
        current_run.reset(before)
        run.end()


def in_child() -> bool:
    """Return whether this is the process of an isolated job."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == "holdfast.worker.processes.child"


def is_run_of(store: object) -> bool:
    """Return whether this code runs in a task whose worker works for that store."""
    run = current_run.get()
    # A thread that a handler started in a child process has no current run.
    return in_child() if run is None or run.app is None else run.app.open() is store


def refuse_in_import(what: str) -> None:
    """Raise BlockingCall while a command or a child process imports the caller's module."""
    if importing.module is not None:
        raise BlockingCall(
            f"{what} is refused while holdfast imports module {importing.module!r}: its jobs run only after the import;"
            f" {importing.GUARD}"
        )


def refuse_wait_in_task(kind: str, store: object) -> None:
    """Raise BlockingCall in a task: it would occupy a slot that the awaited job may need."""
    refuse_in_import(f"waiting for a {kind}")
    if is_run_of(store):
        raise BlockingCall(
            f"waiting for a {kind} inside a task holds its worker's slot and may never end;"
            " use ctx.wait_for(job), which suspends the task, or a flow, which passes results on (timeout=0 only looks)"
        )


def refuse_on_event_loop(what: str, instead: str) -> None:
    """Raise BlockingCall where a blocking call would stop the event loop of this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise BlockingCall(f"{what} stops the event loop that runs here; use: {instead} (timeout=0 only looks)")


class Sending(Protocol):
    """A request to another system, or a delivery of outbox events, that is traced."""

    headers: dict[str, str]
    """The headers that pass the trace on."""

    def ended(self, *, status: int | None = None, error: str = "") -> None:
        """Note the status of the answer, or the first error."""


class Tracing(Protocol):
    """Is told what happens inside runs and deliveries: `app.tracing`, None unless the app is traced."""

    def step(self, name: str, attempt: int) -> AbstractContextManager[object]:
        """Return the context to enter around one try of a step."""
        ...

    def suspended(self, outcome: Outcome) -> str | None:
        """Return a note for the journal of a run that is being suspended; None for no note."""
        ...

    def resumed(self, note: str, since: int, *, first: bool) -> None:
        """Take the note of the last suspension, at `since` µs. `first`: no run has resumed it before this one."""

    def delivery(self, destination: str, jobs: Sequence[Claimed]) -> AbstractContextManager[Sending]:
        """Return the context to enter around a delivery of outbox events."""
        ...

    def request(self, url: str) -> AbstractContextManager[Sending]:
        """Return the context to enter around the request of a webhook."""
        ...


BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Upper bounds of run times, in seconds."""


class TaskTally:
    """Counts and durations of the runs of one task in one queue, by outcome."""

    __slots__ = ("counts", "outcomes", "sum")

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.counts = [0] * (len(BUCKETS) + 1)
        """One for each bound of `BUCKETS`, and one for those beyond."""
        self.sum = 0.0


class RunTally:
    """Counts of the runs of this process since it started. Written on the worker's loop, read from any thread."""

    def __init__(self) -> None:
        self.tasks: dict[tuple[str, str], TaskTally] = {}
        """By queue and task."""

    def count(self, queue: str, task: str, outcome: str, seconds: float, n: int = 1) -> None:
        found = self.tasks.get((queue, task))
        if found is None:
            found = self.tasks[queue, task] = TaskTally()
        outcomes = found.outcomes
        outcomes[outcome] = outcomes.get(outcome, 0) + n
        found.counts[bisect_left(BUCKETS, seconds)] += n
        found.sum += seconds * n


JOB_FIELDS: Final = ("job", "task", "attempt", "queue", "tenant")


def job_fields() -> dict[str, str | int]:
    """Return `job`, `task`, `attempt`, `queue` and `tenant` of the job that is running here; empty outside a job."""
    run = current_run.get()
    return {} if run is None or run.subject is None else fields_of(run.subject)


def fields_of(job: Subject) -> dict[str, str | int]:
    """Return the fields of log records about a job."""
    fields: dict[str, str | int] = {"job": job.id, "task": job.task, "attempt": job.attempt, "queue": job.queue}
    return {**fields, "tenant": job.tenant} if job.tenant else fields


class JobLogFilter(logging.Filter):
    """Gives each record the fields `job`, `task`, `attempt`, `queue` and `tenant`; empty outside a job."""

    def filter(self, record: logging.LogRecord) -> bool:
        fields = job_fields()
        for name in JOB_FIELDS:
            if not hasattr(record, name):
                setattr(record, name, fields.get(name, ""))
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object per line, its time in UTC."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: value for name in JOB_FIELDS if (value := getattr(record, name, ""))}
        if record.exc_info:
            entry["error"] = record.exc_text or redact(self.formatException(record.exc_info))
        return printable_json(json.dumps(entry, ensure_ascii=False, default=str))
