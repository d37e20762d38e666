"""Runs one job in the way its task asks for: as a coroutine, on a thread, or in a process of its own.

Nothing that a handler does may escape from here: exceptions, exits and undecodable payloads become outcomes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec

from ..context import Context, JobInfo, SyncContext
from ..errors import HoldfastError
from ..model.outcome import Outcome
from ..tasks import Task
from ..telemetry import current_job
from .children import ChildDied, ChildPool, importable
from .judge import Judge
from .runs import Run
from .threads import ThreadPool, ThreadTicket

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
    ) -> None:
        self._app = app
        self._judge = judge
        self._threads = threads
        self._children = children
        self._finished = finished
        self._middleware = tuple(reversed(middleware))
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, run: Run) -> None:
        """Start a job's handler."""
        if runs_apart(run):
            self._start_child(run)
        elif run.task.is_async or self._middleware:
            self._spawn(run)
        else:
            self._start_thread(run).future.add_done_callback(partial(self._thread_ended, run))

    def give_up(self, run: Run) -> None:
        """Stop waiting for a handler that was told to end and did not."""
        run.abandon()
        self._finished(run, self._judge.stopped(run))

    # -- coroutines

    def _spawn(self, run: Run) -> None:
        task = asyncio.create_task(self._conclude(run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        run.interrupt = task.cancel

    async def _conclude(self, run: Run) -> None:
        current_job.set(run.job)
        try:
            outcome: Outcome | None = await self._run_here(run)
        except asyncio.CancelledError:
            outcome = self._judge.stopped(run)
        except BaseException as error:  # SystemExit and KeyboardInterrupt of a handler must not end the worker
            outcome = self._judge.raised(run, error)
        self._finished(run, outcome)

    async def _run_here(self, run: Run) -> Outcome:
        if not run.task.is_async:
            return self._judge.returned(run, await self._around(run, self._thread_call(run)))
        try:
            args, kwargs = run.task.arguments(run.job.payload, lambda: self._context(run, Context))
        except HoldfastError as error:
            return self._judge.undecodable(error)
        assert run.task.fn is not None
        if not self._middleware:
            return self._judge.returned(run, await run.task.fn(*args, **kwargs))
        return self._judge.returned(run, await self._around(run, partial(run.task.fn, *args, **kwargs)))

    async def _around(self, run: Run, call: Callable[[], Awaitable[Any]]) -> Any:
        context = Context(info_of(run), self._app, run.stop)
        for layer in self._middleware:
            call = partial(layer, context, call)
        return await call()

    # -- threads

    def _start_thread(self, run: Run) -> ThreadTicket:
        ticket = self._threads.submit(self._call, run)
        run.abandon = partial(self._threads.abandon, ticket)
        return ticket

    def _thread_call(self, run: Run) -> Callable[[], Awaitable[Any]]:
        async def call() -> Any:
            return await self._start_thread(run).future

        return call

    def _call(self, run: Run) -> Any:
        """On the thread: decode, call, and leave the result to the loop."""
        current_job.set(run.job)
        try:
            args, kwargs = run.task.arguments(run.job.payload, lambda: self._context(run, SyncContext))
        except HoldfastError as error:
            raise _Undecodable from error
        assert run.task.fn is not None
        return run.task.fn(*args, **kwargs)

    def _thread_ended(self, run: Run, future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            return
        if (error := future.exception()) is None:
            self._finished(run, self._judge.returned(run, future.result()))
        elif isinstance(error, _Undecodable) and error.__cause__:
            self._finished(run, self._judge.undecodable(error.__cause__))
        else:
            self._finished(run, self._judge.raised(run, error))

    # -- child processes

    def _start_child(self, run: Run) -> None:
        module, qualname = run.task.address
        ticket = self._children.submit(module, qualname, msgspec.to_builtins(info_of(run)), run.job.payload)
        run.interrupt = partial(self._children.cancel, ticket)
        run.abandon = partial(self._children.kill, ticket)
        ticket.future.add_done_callback(partial(self._child_ended, run))

    def _child_ended(self, run: Run, future: asyncio.Future[dict[str, Any]]) -> None:
        if future.cancelled():
            self._finished(run, self._judge.stopped(run))
        elif (error := future.exception()) is None:
            self._finished(run, self._judge.answered(run, future.result()))
        elif isinstance(error, ChildDied):
            self._finished(run, self._judge.died(run, error))
        else:
            self._finished(run, self._judge.raised(run, error))

    def _context(self, run: Run, kind: type[Any]) -> Any:
        return kind(info_of(run), self._app, run.stop)


class _Undecodable(Exception):
    """Carries a decoding error from a thread."""


def runs_apart(run: Run) -> bool:
    """A suspect runs in a process of its own where that can be, so that only it dies of what it does."""
    return run.task.task_options.isolate == "process" or (bool(run.job.suspect) and is_importable(run.task))


def is_importable(task: Task[Any, Any]) -> bool:
    """Whether a child process could find the task; one in `__main__` it could not."""
    return importable(*task.address)


def info_of(run: Run) -> JobInfo:
    job = run.job
    return JobInfo(
        job.id, job.task, job.queue, job.tenant, job.attempt, job.max_attempts, job.generation, job.epoch, job.created_at
    )


