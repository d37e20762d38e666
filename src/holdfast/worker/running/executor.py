"""Runs one job as its task asks for: as a coroutine, on a thread, or in a process of its own.

Exceptions, exits and undecodable payloads become outcomes; none escapes from here.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from ...errors import ConfigError, HoldfastError
from ...model.outcomes import Done, Failed, Outcome
from ...model.values import is_reference
from ...rules.failure import error_text
from ...streams.capture import capture
from ...streams.writer import FrameBuffer
from ...tasks.batches import Item, answers_of, batch_context_of, no_current_job
from ...tasks.context import Context, JobInfo, SyncContext
from ...tasks.django_connections import DJANGO, close_stale_async_connections
from ...tasks.functions import is_async
from ...tasks.middleware import Crossing, Middleware, context_of, names_of, wrap
from ...tasks.resources import ResourceHost, RunResources
from ...tasks.task import Task
from ...tasks.tenants import work_for, work_for_none
from ...telemetry import CurrentRun, current_run
from ..processes.pool import ChildDied, ChildPool, ChildTicket, importable
from .admission import AdmissionCheck, is_limited
from .batches import Batch
from .inputs import Inputs
from .outcome import OutcomeRules, UndecodableJob
from .runs import Run
from .threads import ThreadPool, ThreadTicket

logger: Final = logging.getLogger("holdfast.worker")

_MODULES: Final = sys.modules


class RunStopped(BaseException):
    """The run was asked to end before its handler began."""


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
        resources: ResourceHost,
        is_leased: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_leased` says whether the worker's lease is valid by its own clock."""
        self._app = app
        self._is_leased = is_leased
        self._inputs = inputs
        self._admission = admission
        self._resources = resources
        self._has_resources = bool(getattr(app, "_resources", None))
        self.on_run_end: Sequence[Callable[[Run, Outcome], object]] = tuple(getattr(app, "_on_run_end", ()))
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
        if isinstance(run, Batch):
            self._start_batch(run)
        elif _is_incomplete(run):
            self._keep(run, asyncio.create_task(self._complete(run)))
        else:
            self._start(run)

    async def _complete(self, run: Run) -> None:
        if await self._is_complete(run):
            self._start(run)

    async def _is_complete(self, run: Run) -> bool:
        """Complete a job's arguments, and return True; end the run and return False if it must not start."""
        try:
            run.job = await self._inputs.fill(run.job, run.task.signature.limit)
            refused = await self._admission.admit(run) if is_limited(run.job) else None
        except asyncio.CancelledError:
            self._end(run, self._outcome_rules.stopped)
        except Exception as error:
            self._end(run, self._outcome_rules.raised, error)
        else:
            if refused is None:
                return True
            self._finished(run, refused)
        return False

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
        for each in run.open if isinstance(run, Batch) else (run,):
            each.stop.request("fenced")
        self._end(run, self._outcome_rules.stopped)
        return True

    def drop(self, run: Run) -> None:
        """End a run that was asked to end before it began."""
        self._end(run, self._outcome_rules.stopped)

    def give_up(self, run: Run) -> None:
        """Stop waiting for a handler that did not end when asked."""
        run.abandon()
        self._keep_abandoned(run)
        if run.stop.buffer is not None and run.stop.buffer.is_closed:
            # The handler has ended; only the rest of its stream does not reach the store.
            run.stop.buffer.abandon()
        else:
            self._end(run, self._outcome_rules.stopped)

    def _keep_abandoned(self, run: Run) -> None:
        if (task := run.stop.task) is not None:
            # Until now its run referred to it; a task without a reference may be garbage-collected while it runs.
            self._abandoned.add(task)
            task.add_done_callback(self._abandoned.discard)

    def _end(self, run: Run, outcome_rules: Callable[..., Outcome | None], *what: Any) -> None:
        """End the run, whatever is raised here: otherwise it would hold its slot for ever."""
        if isinstance(run, Batch):
            self._end_batch(run, outcome_rules, *what)
            return
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

    # -- batches

    def _start_batch(self, batch: Batch) -> None:
        """Start one call for the jobs of a batch, once the arguments of each are complete."""
        for run in batch.open:
            run.interrupt = partial(self._interrupt_item, batch)
            run.abandon = partial(self._abandon_item, batch, run)
        if any(_is_incomplete(run) for run in batch.open):
            self._keep(batch, asyncio.create_task(self._complete_batch(batch)))
        else:
            self._start(batch)

    async def _complete_batch(self, batch: Batch) -> None:
        try:
            await asyncio.gather(*(self._is_complete(run) for run in batch.open if _is_incomplete(run)))
        except asyncio.CancelledError:
            self._end(batch, self._outcome_rules.stopped)
        if batch.open:
            self._start(batch)

    def _interrupt_item(self, batch: Batch) -> None:
        """Interrupt the call once all of its jobs were asked to end; until then the handler sees `item.cancelled`."""
        if batch.is_to_end and not batch.stop.requested:
            batch.stop.request("batch")
            batch.interrupt()

    def _abandon_item(self, batch: Batch, run: Run) -> None:
        if batch.give_up(run):
            batch.stop.request("batch")
            batch.abandon()
            self._keep_abandoned(batch)

    def _items(self, batch: Batch) -> list[Item[Any]]:
        """Decode the items for the handler; a job that cannot be decoded ends alone."""
        items: list[Item[Any]] = []
        for run in list(batch.open):
            try:
                items.append(Item(run.task.item(run.job.payload), info_of(run), run.stop))
                batch.sent.append(run)
            except HoldfastError as error:
                batch.undecodable.append((run, error))
        if not items:
            raise UndecodableJob
        return items

    def _end_batch(self, batch: Batch, outcome_rules: Callable[..., Outcome | None], *what: Any) -> None:
        """End each job of a batch by its own answer, or all by what became of the call."""
        rules = self._outcome_rules
        for run, error in batch.undecodable:
            self._end(run, rules.raised, _caused(UndecodableJob(), error))
        if outcome_rules == rules.returned:
            try:
                answers = answers_of(batch.task.name, what[0], len(batch.sent))
            except HoldfastError as wrong:
                for run in list(batch.open):
                    self._finished(run, Failed("bad_result", error_text(wrong)))
                return
            for run, answer in zip(batch.sent, answers, strict=True):
                self._end(run, rules.raised if isinstance(answer, BaseException) else rules.returned, answer)
        elif outcome_rules == rules.answered and what[0]["kind"] == "batch":
            for run, answer in zip(batch.sent, what[0]["answers"], strict=True):
                self._end(run, rules.answered, answer)
        else:
            if what and isinstance(what[0], ChildDied):
                what[0].shared = len(batch.sent) > 1
            for run in list(batch.open):
                self._end(run, outcome_rules, *what)

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
            if self._has_resources or run.task.injected:
                value = await self._run_with_resources(run)
            elif self._middleware:
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
        if isinstance(run, Batch):
            jobs = [item.job for item in run.open]
            current_run.set(CurrentRun(self._app, None, partial(no_current_job, run.task.name), batch=jobs))
            work_for_none()
            return
        current_run.set(CurrentRun(self._app, run.job, partial(self._context, run)))
        work_for(self._app, run.job.tenant, run.job.id)
        if wanted := run.task.task_options.capture:
            capture(info_of(run), self._app, run.stop, wanted)

    async def _run_with_resources(self, run: Run) -> Any:
        """Run the handler, and close the resources of the run before its outcome is recorded."""
        run.stop.resources = resources = RunResources(self._resources, asyncio.current_task())
        try:
            value = await (self._wrapped(run)() if self._middleware else self._call_here(run))
        except BaseException as error:
            await resources.aclose(error)
            raise
        await resources.aclose(None)
        return value

    async def _call_here(self, run: Run) -> Any:
        args, kwargs = self._arguments(run)
        if run.task.injected:
            assert run.stop.resources is not None
            kwargs |= await run.stop.resources.aopen(run.task.injected)
        assert run.task.fn is not None
        return await run.task.fn(*args, **kwargs)

    def _wrapped(self, run: Run) -> Callable[[], Any]:
        """Return the handler wrapped in the middleware, async if the outermost layer is."""
        handler = partial(self._call_here if run.task.is_async else self._call_there, run)
        submit, watch = partial(self._submit, run), partial(self._watch, run)
        crossing = Crossing(lambda: self._loop, run.stop, submit=submit, watch=watch)
        contexts = (batch_context_of if isinstance(run, Batch) else context_of)(info_of(run), self._app, run.stop)
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
            if self._has_resources or run.task.injected:
                return self._call_with_resources(run)
            return self._wrapped(run)() if self._middleware else self._call_there(run)
        finally:
            _end_current()

    def _call_with_resources(self, run: Run) -> Any:
        run.stop.resources = resources = RunResources(self._resources, threading.get_ident())
        try:
            value = self._wrapped(run)() if self._middleware else self._call_there(run)
        except BaseException as error:
            resources.close(error)
            raise
        resources.close(None)
        return value

    def _call_there(self, run: Run) -> Any:
        args, kwargs = self._arguments(run)
        if run.task.injected:
            assert run.stop.resources is not None
            kwargs |= run.stop.resources.open(run.task.injected)
            if run.stop.requested:
                raise RunStopped
        assert run.task.fn is not None
        return run.task.fn(*args, **kwargs)

    def _arguments(self, run: Run) -> tuple[list[Any], dict[str, Any]]:
        if isinstance(run, Batch):
            return [self._items(run)], {}
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
        for resource in run.task.injected.values():
            if resource.is_replaced:
                raise ConfigError(
                    f"resource {resource.name!r} is replaced here, which a child process cannot see; "
                    "register the task without isolate='process' in this test"
                )
        header, payload = msgspec.to_builtins(info_of(run)), run.job.payload
        if isinstance(run, Batch):
            run.sent = list(run.open)
            header["items"] = [msgspec.to_builtins(info_of(item)) for item in run.sent]
            payload = msgspec.json.encode([item.job.payload for item in run.sent]).decode()
        if (setup := getattr(self._app, "child_setup", None)) is not None:
            header["setup"] = setup
        if self._middleware:
            # The child finds the layers by their names, and needs the job that they ask for.
            header["middleware"] = names_of(self._middleware)
            claimed = [item.job for item in run.sent] if isinstance(run, Batch) else [run.job]
            # Its arguments are sent once.
            header["claimed"] = [msgspec.to_builtins(msgspec.structs.replace(job, payload="")) for job in claimed]
        ticket = self._children.submit(module, qualname, header, payload, partial(self._may_begin, run))
        run.interrupt = partial(self._children.cancel, ticket)
        ends = self._children.end if self._has_resources or run.task.injected else self._children.kill
        run.abandon = partial(ends, ticket)
        return ticket

    async def _may_begin(self, run: Run) -> bool:
        """Check again: the job may have been cancelled, or lost, while its process was starting."""
        if isinstance(run, Batch):
            return not run.stop.requested
        if run.stop.reason is None and (reason := await self._admission.refusal(run)) is not None:
            run.stop.request(reason)
        return run.stop.reason is None


def _is_incomplete(run: Run) -> bool:
    job = run.job
    return job.inputs is not None or is_reference(job.payload) or is_limited(job)


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


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
