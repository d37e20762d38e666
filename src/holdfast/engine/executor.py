"""Runs one job in the way its task asks for: as a coroutine, on a thread, or in a process of its own.

Nothing that a handler does may escape from here: exceptions, exits and undecodable payloads become outcomes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from ..context import Context, JobInfo, SyncContext
from ..errors import HoldfastError
from ..model.outcome import Done, Failed, Outcome
from ..rules.failure import error_text
from ..streams.capture import capture
from ..streams.outlet import Outlet
from ..tasks import Task
from ..telemetry import current_job
from ..tenancy import work_for
from .admission import Doorkeeper, is_limited
from .children import ChildPool, ChildTicket, importable
from .inputs import Inputs
from .judge import Judge, UndecodableJob
from .runs import Run
from .threads import ThreadPool, ThreadTicket

logger: Final = logging.getLogger("holdfast.engine")

Finished: TypeAlias = "Callable[[Run, Outcome | None], None]"
"""Told once per run. None: there is nothing to record, the job is somebody else's."""

Middleware: TypeAlias = "Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]]"
"""Called around each handler with its context; it awaits the second argument and returns the result."""


class Executor:
    """Starts handlers. Make and use it on the loop's thread; `finished` is called there, once per run."""

    def __init__(
        self,
        app: Any,
        judge: Judge,
        threads: ThreadPool,
        children: ChildPool,
        finished: Finished,
        middleware: Sequence[Middleware] = (),
        *,
        inputs: Inputs,
        doorkeeper: Doorkeeper,
        is_leased: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_leased`: whether the worker's lease holds, by its own clock."""
        self._app = app
        self._is_leased = is_leased
        self._inputs = inputs
        self._doorkeeper = doorkeeper
        self._judge = judge
        self._threads = threads
        self._children = children
        self._finished = finished
        self._middleware = tuple(reversed(middleware))
        self._abandoned: set[asyncio.Task[Any]] = set()

    def start(self, run: Run) -> None:
        """Start a job's handler, once its arguments are complete."""
        if run.job.inputs is not None or is_limited(run.job):
            self._keep(run, asyncio.create_task(self._complete(run)))
        else:
            self._start(run)

    async def _complete(self, run: Run) -> None:
        try:
            run.job = await self._inputs.fill(run.job)
            refused = await self._doorkeeper.admit(run) if is_limited(run.job) else None
        except asyncio.CancelledError:
            self._end(run, self._judge.stopped)
        except Exception as error:
            self._end(run, self._judge.raised, error)
        else:
            if refused is None:
                self._start(run)
            else:
                self._finished(run, refused)

    def _start(self, run: Run) -> None:
        try:
            if self._middleware or (run.task.is_async and not runs_apart(run)):
                self._spawn(run)
            elif self._is_too_late(run):
                return
            elif runs_apart(run):
                self._start_child(run).future.add_done_callback(partial(self._ended, run))
            else:
                self._start_thread(run).future.add_done_callback(partial(self._ended, run))
        except Exception as error:
            self._end(run, self._judge.raised, error)

    def _is_too_late(self, run: Run) -> bool:
        """Whether the worker stood still since the claim: others may have the job by now, and may have ended it."""
        if self._is_leased():
            return False
        run.stop.request("fenced")
        self._end(run, self._judge.stopped)
        return True

    def give_up(self, run: Run) -> None:
        """Stop waiting for a handler that was told to end and did not."""
        run.abandon()
        if (task := run.stop.task) is not None:
            # Until now its run kept it; a task that nobody keeps may vanish in the middle of its work.
            self._abandoned.add(task)
            task.add_done_callback(self._abandoned.discard)
        if run.stop.outlet is not None and run.stop.outlet.is_closed:
            # It has ended, and only its last words do not get to the store.
            run.stop.outlet.abandon()
        else:
            self._end(run, self._judge.stopped)

    def _end(self, run: Run, judge: Callable[..., Outcome | None], *what: Any) -> None:
        """Whatever happens here, the run ends: a run without an end would hold its slot for ever."""
        try:
            outcome = judge(run, *what)
        except Exception as error:
            logger.exception("what became of job %s (%s) could not be told", run.job.id, run.job.task)
            outcome = Failed("unrecordable", error_text(error))
        if run.stop.outlet is None:
            self._finished(run, outcome)
        else:
            self._hear_out(run, outcome)

    def _hear_out(self, run: Run, outcome: Outcome | None) -> None:
        """What the run said comes into its stream before its outcome: that closes it."""
        outlet: Outlet = run.stop.outlet
        if outlet.is_closed:
            return
        if outcome is None:
            outlet.abandon()
        if (rest := outlet.finish()) is None:
            self._conclude_stream(run, outcome)
        else:
            loop = asyncio.get_running_loop()
            rest.add_done_callback(lambda _: loop.call_soon_threadsafe(self._conclude_stream, run, outcome))

    def _conclude_stream(self, run: Run, outcome: Outcome | None) -> None:
        failure = run.stop.outlet.failure
        if failure is not None and isinstance(outcome, Done):
            outcome = self._judge.raised(run, failure)
        self._finished(run, outcome)

    def _ended(self, run: Run, future: asyncio.Future[Any]) -> None:
        """A thread or a child is done with its run."""
        if future.cancelled():
            self._end(run, self._judge.stopped)
        elif (error := future.exception()) is not None:
            self._end(run, self._judge.raised, error)
        elif runs_apart(run):
            self._end(run, self._judge.answered, _heard(run, future.result()))
        else:
            self._end(run, self._judge.returned, future.result())

    # -- coroutines

    def _spawn(self, run: Run) -> None:
        self._keep(run, asyncio.create_task(self._conclude(run)))

    def _keep(self, run: Run, task: asyncio.Task[None]) -> None:
        run.interrupt = run.abandon = partial(self._cancel, run, task)
        run.stop.task = task

    def _cancel(self, run: Run, task: asyncio.Task[None]) -> None:
        # Only now: a callback for each task, which hardly ever has something to do, took 1.3 µs a job.
        task.add_done_callback(partial(self._ended_unbegun, run))
        task.cancel()

    def _ended_unbegun(self, run: Run, task: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step ends without a line of its coroutine having run."""
        if task.cancelled():
            self._end(run, self._judge.stopped)

    async def _conclude(self, run: Run) -> None:
        if self._is_too_late(run):
            return
        current_job.set(run.job)
        try:
            work_for(self._app, run.job.tenant)
            self._capture(run)
            if self._middleware:
                value = await self._around(run)
            else:
                args, kwargs = self._arguments(run, Context)
                value = await run.task.fn(*args, **kwargs)  # type: ignore[misc]
        except asyncio.CancelledError:
            self._end(run, self._judge.stopped)
        except BaseException as error:  # SystemExit and KeyboardInterrupt of a handler must not end the worker
            self._end(run, self._judge.raised, error)
        else:
            self._end(run, self._judge.returned, value)

    async def _around(self, run: Run) -> Any:
        context = Context(info_of(run), self._app, run.stop)
        context._scope = "around/"
        is_here = run.task.is_async and not runs_apart(run)
        call: Callable[[], Awaitable[Any]] = partial(self._call_here if is_here else self._call_elsewhere, run)
        for layer in self._middleware:
            call = partial(layer, context, call)
        return await call()

    async def _call_here(self, run: Run) -> Any:
        args, kwargs = self._arguments(run, Context)
        assert run.task.fn is not None
        return await run.task.fn(*args, **kwargs)

    async def _call_elsewhere(self, run: Run) -> Any:
        """On a thread or in a child. Meanwhile it is asked to end, and its middleware is not torn away from it."""
        interrupt, run.interrupt = run.interrupt, _nothing
        abandon = run.abandon
        try:
            if not runs_apart(run):
                return await self._start_thread(run).future
            return self._judge.value_of(run, _heard(run, await self._start_child(run).future))
        finally:
            run.interrupt, run.abandon = interrupt, abandon

    # -- threads

    def _start_thread(self, run: Run) -> ThreadTicket:
        ticket = self._threads.submit(self._call, run)
        run.abandon = partial(self._threads.abandon, ticket)
        return ticket

    def _call(self, run: Run) -> Any:
        """On the thread: decode, call, and leave the result to the loop."""
        current_job.set(run.job)
        work_for(self._app, run.job.tenant)
        self._capture(run)
        args, kwargs = self._arguments(run, SyncContext)
        assert run.task.fn is not None
        return run.task.fn(*args, **kwargs)

    def _capture(self, run: Run) -> None:
        if wanted := run.task.task_options.capture:
            capture(info_of(run), self._app, run.stop, wanted)

    def _arguments(self, run: Run, kind: type[Any]) -> tuple[list[Any], dict[str, Any]]:
        try:
            return run.task.arguments(run.job.payload, lambda: kind(info_of(run), self._app, run.stop))
        except HoldfastError as error:
            raise UndecodableJob from error

    # -- child processes

    def _start_child(self, run: Run) -> ChildTicket:
        module, qualname = run.task.address
        ticket = self._children.submit(module, qualname, msgspec.to_builtins(info_of(run)), run.job.payload)
        run.interrupt = partial(self._children.cancel, ticket)
        run.abandon = partial(self._children.kill, ticket)
        return ticket


def runs_apart(run: Run) -> bool:
    """A suspect runs in a process of its own where that can be, so that only it dies of what it does."""
    return run.task.task_options.isolate == "process" or (bool(run.job.suspect) and is_importable(run.task))


def is_importable(task: Task[Any, Any]) -> bool:
    """Whether a child process could find the task; one in `__main__` it could not."""
    return importable(*task.address)


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


def _heard(run: Run, answer: Any) -> Any:
    """A child's answer; what it says is loaded there is kept for the end of the run."""
    if isinstance(answer, dict) and (said := answer.get("loaded")) is not None:
        run.stop.loaded = tuple(said)
    return answer


def _nothing() -> None:
    """For what cannot be interrupted."""
