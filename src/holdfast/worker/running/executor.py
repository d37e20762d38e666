"""Runs one job as its task asks for: as a coroutine, on a thread, or in a process of its own.

Exceptions, exits and undecodable payloads become outcomes; none escapes from here.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from ...errors import HoldfastError
from ...model.outcomes import Done, Failed, Outcome
from ...model.values import is_reference
from ...rules.failure import error_text
from ...streams.capture import capture
from ...streams.writer import FrameBuffer
from ...tasks.context import Context, JobInfo, SyncContext
from ...tasks.django_connections import DJANGO, close_stale_async_connections
from ...tasks.functions import is_async
from ...tasks.middleware import Crossing, Middleware, context_of, names_of, wrap
from ...tasks.task import Task
from ...tasks.tenants import work_for
from ...telemetry import CurrentRun, current_run
from ..processes.pool import ChildPool, ChildTicket, importable
from .admission import AdmissionCheck, is_limited
from .inputs import Inputs
from .outcome import OutcomeRules, UndecodableJob
from .runs import Run
from .threads import ThreadPool, ThreadTicket

logger: Final = logging.getLogger("holdfast.worker")

_MODULES: Final = sys.modules

Finished: TypeAlias = "Callable[[Run, Outcome | None], None]"
"""Called once per run. None: there is nothing to record, the job belongs to another worker."""


class Executor:
    """Starts handlers. Create and use it on the loop's thread; `finished` is called there, once per run."""

    def __init__(
        self,
        app: Any,
        outcome_rules: OutcomeRules,
        threads: ThreadPool,
        children: ChildPool,
        finished: Finished,
        middleware: Sequence[Middleware] = (),
        *,
        inputs: Inputs,
        admission: AdmissionCheck,
        is_leased: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_leased` says whether the worker's lease is valid by its own clock."""
        self._app = app
        self._is_leased = is_leased
        self._inputs = inputs
        self._admission = admission
        self._outcome_rules = outcome_rules
        self._threads = threads
        self._children = children
        self._finished = finished
        self._middleware = tuple(middleware)
        self._begins_on_loop = is_async(self._middleware[0]) if self._middleware else None
        """True if runs begin as coroutines; None: as their tasks do."""
        self._loop = asyncio.get_running_loop()
        self._abandoned: set[asyncio.Task[Any]] = set()

    def start(self, run: Run) -> None:
        """Start a job's handler, once its arguments are complete."""
        if run.job.inputs is not None or is_reference(run.job.payload) or is_limited(run.job):
            self._keep(run, asyncio.create_task(self._complete(run)))
        else:
            self._start(run)

    async def _complete(self, run: Run) -> None:
        try:
            run.job = await self._inputs.fill(run.job, run.task.signature.limit)
            refused = await self._admission.admit(run) if is_limited(run.job) else None
        except asyncio.CancelledError:
            self._end(run, self._outcome_rules.stopped)
        except Exception as error:
            self._end(run, self._outcome_rules.raised, error)
        else:
            if refused is None:
                self._start(run)
            else:
                self._finished(run, refused)

    def _start(self, run: Run) -> None:
        try:
            isolated = is_isolated(run)
            if not isolated and (run.task.is_async if self._begins_on_loop is None else self._begins_on_loop):
                # Not `asyncio.create_task`: it names every task, in two more calls.
                self._keep(run, self._loop.create_task(self._conclude(run)))
            elif self._is_too_late(run):
                return
            elif isolated:
                self._start_child(run).future.add_done_callback(partial(self._ended, run))
            else:
                self._start_thread(run, partial(self._call, run)).future.add_done_callback(partial(self._ended, run))
        except Exception as error:
            self._end(run, self._outcome_rules.raised, error)

    def _is_too_late(self, run: Run) -> bool:
        """End the run and return True if the lease has expired since the claim: another worker may have the job."""
        if self._is_leased():
            return False
        run.stop.request("fenced")
        self._end(run, self._outcome_rules.stopped)
        return True

    def give_up(self, run: Run) -> None:
        """Stop waiting for a handler that did not end when asked."""
        run.abandon()
        if (task := run.stop.task) is not None:
            # Until now its run referred to it; a task without a reference may be garbage-collected while it runs.
            self._abandoned.add(task)
            task.add_done_callback(self._abandoned.discard)
        if run.stop.buffer is not None and run.stop.buffer.is_closed:
            # The handler has ended; only the rest of its stream does not reach the store.
            run.stop.buffer.abandon()
        else:
            self._end(run, self._outcome_rules.stopped)

    def _end(self, run: Run, outcome_rules: Callable[..., Outcome | None], *what: Any) -> None:
        """End the run, whatever is raised here: otherwise it would hold its slot for ever."""
        try:
            outcome = outcome_rules(run, *what)
        except Exception as error:
            logger.exception("the outcome of job %s (%s) could not be determined", run.job.id, run.job.task)
            outcome = Failed("unrecordable", error_text(error))
        if run.stop.buffer is None:
            self._finished(run, outcome)
        else:
            self._finish_stream(run, outcome)

    def _finish_stream(self, run: Run, outcome: Outcome | None) -> None:
        """Store the run's stream before its outcome, which closes the stream."""
        buffer: FrameBuffer = run.stop.buffer
        if buffer.is_closed:
            return
        if outcome is None:
            buffer.abandon()
        if (rest := buffer.finish()) is None:
            self._conclude_stream(run, outcome)
        else:
            loop = asyncio.get_running_loop()
            rest.add_done_callback(lambda _: loop.call_soon_threadsafe(self._conclude_stream, run, outcome))

    def _conclude_stream(self, run: Run, outcome: Outcome | None) -> None:
        failure = run.stop.buffer.failure
        if failure is not None and isinstance(outcome, Done):
            outcome = self._outcome_rules.raised(run, failure)
        self._finished(run, outcome)

    def _ended(self, run: Run, future: asyncio.Future[Any]) -> None:
        """Handle the end of a run on a thread or in a child."""
        if future.cancelled():
            self._end(run, self._outcome_rules.stopped)
        elif (error := future.exception()) is not None:
            self._end(run, self._outcome_rules.raised, error)
        elif is_isolated(run):
            self._end(run, self._outcome_rules.answered, _note_loaded(run, future.result()))
        else:
            self._end(run, self._outcome_rules.returned, future.result())

    # -- coroutines

    def _keep(self, run: Run, task: asyncio.Task[None]) -> None:
        run.interrupt = run.abandon = partial(self._cancel, run, task)
        run.stop.task = task

    def _cancel(self, run: Run, task: asyncio.Task[None]) -> None:
        # Added only here: a callback on every task, hardly ever needed, took 1.3 µs a job.
        task.add_done_callback(partial(self._ended_unbegun, run))
        task.cancel()

    def _ended_unbegun(self, run: Run, task: asyncio.Task[None]) -> None:
        """End the run of a task that was cancelled before its first step: its coroutine has not run at all."""
        if task.cancelled():
            self._end(run, self._outcome_rules.stopped)

    async def _conclude(self, run: Run) -> None:
        if self._is_too_late(run):
            return
        if DJANGO in _MODULES:
            close_stale_async_connections()
        try:
            self._prepare(run)
            if self._middleware:
                value = await self._wrapped(run)()
            else:
                args, kwargs = self._arguments(run)
                value = await run.task.fn(*args, **kwargs)  # type: ignore[misc]
        except asyncio.CancelledError:
            self._end(run, self._outcome_rules.stopped)
        except BaseException as error:  # SystemExit and KeyboardInterrupt of a handler must not end the worker
            self._end(run, self._outcome_rules.raised, error)
        else:
            self._end(run, self._outcome_rules.returned, value)
        _end_current()
        if DJANGO in _MODULES:
            close_stale_async_connections()

    def _prepare(self, run: Run) -> None:
        """Set the context variables of a run, which its threads and tasks inherit."""
        current_run.set(CurrentRun(self._app, run.job, partial(self._context, run)))
        work_for(self._app, run.job.tenant, run.job.id)
        if wanted := run.task.task_options.capture:
            capture(info_of(run), self._app, run.stop, wanted)

    async def _call_here(self, run: Run) -> Any:
        args, kwargs = self._arguments(run)
        assert run.task.fn is not None
        return await run.task.fn(*args, **kwargs)

    def _wrapped(self, run: Run) -> Callable[[], Any]:
        """Return the handler wrapped in the middleware, async if the outermost layer is."""
        handler = partial(self._call_here if run.task.is_async else self._call_there, run)
        submit, watch = partial(self._submit, run), partial(self._watch, run)
        crossing = Crossing(lambda: self._loop, run.stop, submit=submit, watch=watch)
        contexts = context_of(info_of(run), self._app, run.stop)
        return wrap(self._middleware, handler, crossing, contexts, handler_is_async=run.task.is_async)

    async def _submit(self, run: Run, call: Callable[[], Any]) -> Any:
        abandon = run.abandon
        try:
            return await self._start_thread(run, call).future
        finally:
            run.abandon = abandon

    def _watch(self, run: Run, task: asyncio.Task[Any] | None) -> None:
        """Cancel that task when the run is cancelled; None: the run is on its thread, which is only asked to end."""
        run.interrupt = _nothing if task is None else task.cancel
        run.stop.task = task or run.stop.task

    # -- threads

    def _start_thread(self, run: Run, call: Callable[[], Any]) -> ThreadTicket:
        ticket = self._threads.submit(call)
        run.abandon = partial(self._threads.abandon, ticket)
        return ticket

    def _call(self, run: Run) -> Any:
        """Decode and call on the thread; the loop handles the result."""
        try:
            self._prepare(run)
            return self._wrapped(run)() if self._middleware else self._call_there(run)
        finally:
            _end_current()

    def _call_there(self, run: Run) -> Any:
        args, kwargs = self._arguments(run)
        assert run.task.fn is not None
        return run.task.fn(*args, **kwargs)

    def _arguments(self, run: Run) -> tuple[list[Any], dict[str, Any]]:
        try:
            return run.task.arguments(run.job.payload, _current_context)
        except HoldfastError as error:
            raise UndecodableJob from error

    def _context(self, run: Run) -> Context | SyncContext:
        kind = Context if run.task.is_async else SyncContext
        return kind(info_of(run), self._app, run.stop)

    # -- child processes

    def _start_child(self, run: Run) -> ChildTicket:
        module, qualname = run.task.address
        header = msgspec.to_builtins(info_of(run))
        if (setup := getattr(self._app, "child_setup", None)) is not None:
            header["setup"] = setup
        if self._middleware:
            # The child finds the layers by their names, and needs the job that they ask for.
            header["middleware"] = names_of(self._middleware)
            header["claimed"] = msgspec.to_builtins(msgspec.structs.replace(run.job, payload=""))
        ticket = self._children.submit(module, qualname, header, run.job.payload, partial(self._may_begin, run))
        run.interrupt = partial(self._children.cancel, ticket)
        run.abandon = partial(self._children.kill, ticket)
        return ticket

    async def _may_begin(self, run: Run) -> bool:
        """Check again: the job may have been cancelled, or lost, while its process was starting."""
        if run.stop.reason is None and (reason := await self._admission.refusal(run)) is not None:
            run.stop.request(reason)
        return run.stop.reason is None


def is_isolated(run: Run) -> bool:
    """Return True if the run gets a process of its own. Suspects do where possible, so that a crash ends only them."""
    return run.task.task_options.isolate == "process" or (bool(run.job.suspect) and is_importable(run.task))


def is_importable(task: Task[Any, Any]) -> bool:
    """Return True if a child process can import the task and its middleware; not from `__main__`."""
    layers = names_of(getattr(task.app, "_middleware", ()))
    return importable(*task.address) and not any(name.startswith("__main__:") for name in layers)


def info_of(run: Run) -> JobInfo:
    job = run.job
    return JobInfo(
        id=job.id,
        task=job.task,
        queue=job.queue,
        tenant=job.tenant,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        generation=job.generation,
        epoch=job.epoch,
        created_at=job.created_at,
        worker=run.owner,
        flow=job.flow,
    )


def _note_loaded(run: Run, answer: Any) -> Any:
    """Keep the affinities that a child reports as loaded for the end of the run; return its answer."""
    if isinstance(answer, dict) and (loaded := answer.get("loaded")) is not None:
        run.stop.loaded = tuple(loaded)
    return answer


def _current_context() -> Any:
    run = current_run.get()
    assert run is not None, "prepared"
    return run.context


def _end_current() -> None:
    if (run := current_run.get()) is not None:
        run.end()


def _nothing() -> None:
    """Do nothing, for runs that cannot be interrupted."""
