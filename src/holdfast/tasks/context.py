"""The context of a running handler: facts about its job, and calls on its behalf.

An `async def` task receives a `Context`, a `def` task a `SyncContext`; the parameter is found by its annotation.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..durable.awaiting import AwaitingCalls
from ..durable.blocking import BlockingCalls
from ..durable.options import SharedCalls
from ..errors import NoCurrentJob, NotAwaited
from ..names import check_affinity
from ..outcomes import Throttle
from ..streams.calls import AwaitingStream, BlockingStream, tracked
from ..telemetry import current_run, fields_of
from . import foreign_names
from .foreign_names import find_attribute

if TYPE_CHECKING:
    from ..durable.calls import Durable
    from ..flows.flow import Extension
    from ..model.outcomes import Outcome
    from .resources import RunResources

logger: Final = logging.getLogger("holdfast.job")

_MOST_CALLS: Final = 64


@dataclass(frozen=True, slots=True)
class JobInfo:
    """Facts about a run that do not change while it lasts."""

    id: str
    task: str
    queue: str
    tenant: str
    attempt: int
    max_attempts: int
    generation: int
    epoch: int
    created_at: int
    worker: str = ""
    """Id of the worker that runs it; "" inline."""
    flow: str | None = None
    """The flow that the job belongs to."""


class Stop:
    """Request to end a run, which a thread can wait for."""

    __slots__ = ("_event", "buffer", "calls", "loaded", "outcome", "reason", "resources", "task")

    def __init__(self) -> None:
        self.reason: str | None = None
        self.outcome: Outcome | None = None
        """Outcome set while the handler runs (suspended or failed), whatever it does from now on."""
        self.task: Any = None
        """The asyncio task that runs the handler, if there is one."""
        self.buffer: Any = None
        """Buffer of the frames of the run, once it has written to its stream."""
        self._event: threading.Event | None = None
        self.loaded: tuple[str, ...] | None = None
        """Affinities that the handler reported as loaded."""
        self.calls: list[tuple[str, Coroutine[Any, Any, Any]]] | None = None
        """Calls of the context that may not have been awaited yet."""
        self.resources: RunResources | None = None
        """Resources of the run, if its app has any."""

    def request(self, reason: str) -> None:
        """Ask the run to end; the first reason stays."""
        self.reason = self.reason or reason
        if self._event is not None:
            self._event.set()

    def remember(self, call: str, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Keep a call of an async context, to check at the end of the run whether it was awaited."""
        if self.calls is None or len(self.calls) >= _MOST_CALLS:
            self.calls = list(self._unawaited())
        self.calls.append((call, coroutine))

    def require_awaited(self) -> None:
        """Raise NotAwaited for a call that the handler never awaited: it was not executed."""
        if self.calls is None:
            return
        forgotten = [call for call, coroutine in self._unawaited() if coroutine.close() is None]
        if forgotten:
            raise NotAwaited(forgotten[0])

    def _unawaited(self) -> Iterator[tuple[str, Coroutine[Any, Any, Any]]]:
        for call, coroutine in self.calls or ():
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                yield call, coroutine

    @property
    def requested(self) -> bool:
        return self.reason is not None

    def wait(self, timeout: float | None = None) -> bool:
        """Block a thread until the run is asked to end; True if it was."""
        if self._event is None:
            self._event = threading.Event()
        if self.reason is None:
            self._event.wait(timeout)
        return self.reason is not None


class Suspension(BaseException):
    """Raised to exit the handler of a `def` task whose run is suspended. Not an error, and not to be caught."""


class RunFacts:
    """Facts about one run of a job."""

    def __init__(self, info: JobInfo, stop: Stop) -> None:
        self.job: Final = info
        self._stop = stop

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    @property
    def attempt(self) -> int:
        """Number of this run; the first is 1."""
        return self.job.attempt

    @property
    def tenant(self) -> str:
        """The tenant that the job belongs to; "" if it has none."""
        return self.job.tenant

    @property
    def fence(self) -> str:
        """A token that grows with each owner of this job: give it to systems that must refuse a stale run."""
        return f"{self.job.id}:{self.job.epoch}"

    @property
    def cancelled(self) -> bool:
        """True if this run should end: it was cancelled, timed out, lost its lease, or the worker stops."""
        return self._stop.requested

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """Logger that adds the job to each record."""
        return logging.LoggerAdapter(logger, fields_of(self.job))


class _BaseContext(SharedCalls, RunFacts):
    """Shared by `Context` and `SyncContext`."""

    _scope = ""
    """Separates the durable calls of middleware from those of the handler."""

    def __init__(self, info: JobInfo, app: Any, stop: Stop) -> None:
        RunFacts.__init__(self, info, stop)
        self._app = app

    @property
    def is_suspended(self) -> bool:
        """True if the handler is being exited because its job waits for a signal, a job, a budget, or a sleep."""
        from ..model.outcomes import Parked, Snoozed, Suspended

        return isinstance(self._stop.outcome, (Parked, Suspended, Snoozed))

    def loaded(self, *affinities: str) -> None:
        """Report which affinities are loaded when this job ends, the most recently used first; may be empty.

        Without it, a worker assumes that the affinities of its most recent jobs are still loaded.
        """
        self._stop.loaded = tuple(check_affinity(affinity) for affinity in affinities)

    def flow(self) -> Extension:
        """Add members to the flow of this job: `async with ctx.flow() as flow:`, or `with` in a `def` task.

        They are stored at the end of the block. A job that runs again adds nothing twice.
        """
        from ..flows.flow import extension_of

        self._check()
        return extension_of(self._app.flows, self.job, lambda: self._calls().number("flow", "", ""))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return find_attribute(self, "a context", name, foreign_names.CONTEXT)


class Context(AwaitingStream, AwaitingCalls, _BaseContext):
    """The context of an `async def` task."""

    def _calls(self) -> Durable:
        if self._durable is None:
            from ..durable.calls import async_calls

            self._durable = async_calls(self.job, self._app, self._stop, self._scope)
        return self._durable

    @tracked
    async def acquire(self, scope: str) -> None:
        """Take a token of a rate. If there is none, the job is retried when there is, without using an attempt."""
        self._check()
        if wait := await self._app.limits.aacquire(scope):
            raise Throttle(f"no token of rate {scope!r}", after=wait, cool_queue=False)

    @tracked
    async def drain(self, scope: str) -> None:
        """Empty the bucket of a rate, after the service has just refused a request."""
        await self._app.limits.adrain(scope, actor=None)


class SyncContext(BlockingStream, BlockingCalls, _BaseContext):
    """The context of a `def` task. A thread cannot be stopped: check `cancelled` regularly."""

    def _calls(self) -> Durable:
        if self._durable is None:
            from ..durable.calls import blocking_calls

            self._durable = blocking_calls(self.job, self._app, self._stop, self._scope)
        return self._durable

    def acquire(self, scope: str) -> None:
        """Take a token of a rate. If there is none, the job is retried when there is, without using an attempt."""
        self._check()
        if wait := self._app.limits.acquire(scope):
            raise Throttle(f"no token of rate {scope!r}", after=wait, cool_queue=False)

    def drain(self, scope: str) -> None:
        """Empty the bucket of a rate, after the service has just refused a request."""
        self._app.limits.drain(scope, actor=None)

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Sleep for at most `timeout` seconds, less if the run should end; return True if it should."""
        return self._stop.wait(timeout)


def current() -> Context | SyncContext:
    """Return the context of the job that runs here, as its handler gets it; NoCurrentJob outside of a run.

    It works in everything that the handler calls, in the asyncio tasks that it starts and in `asyncio.to_thread`.
    """
    run = current_run.get()
    context: Context | SyncContext | None = None if run is None else run.context
    if context is None:
        raise NoCurrentJob(ended=run is not None)
    return context
