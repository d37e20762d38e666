"""Input and output of durable calls: awaiting on the event loop of an `async def` task, blocking in a `def` task.

The calls themselves are written once, as coroutines. With `BlockingStepIO` such a coroutine never suspends.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Final, NoReturn, Protocol, TypeVar

from ..errors import InvalidInput
from ..storage.blobs import Awaiting, Blocking, Reach
from ..storage.port import Op, Store
from ..tasks.context import Stop, Suspension
from ..tasks.django_connections import close_all_connections
from ..tasks.job import Job

T = TypeVar("T")
_MOST_AT_ONCE: Final = 32


class StepIO(Protocol):
    """The input and output that a durable call needs."""

    async def read(self, op: Op[T]) -> T: ...

    async def write(self, op: Op[T]) -> T: ...

    async def enqueue(self, request: Any, tenant: str, record: Any) -> Job[Any]:
        """Enqueue by `record(tx, spec)`, or where it is None without a record."""
        ...

    async def call(self, fn: Callable[..., Any], is_async: bool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a step's function."""
        ...

    async def open(self, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the resources that a step takes, by parameter."""
        ...

    async def rest(self, seconds: float) -> None:
        """Wait between two tries of a step."""
        ...

    async def unwind(self, task: Any) -> NoReturn:
        """Stop the handler, or the branch that `task` runs, so that the run can pause."""
        ...

    def again(self) -> NoReturn:
        """Stop the handler once more: it ignored the first time."""
        ...

    def caller(self) -> object:
        """Return the task or thread that makes the call."""
        ...

    def in_flight(self, scope: str) -> AbstractContextManager[None]:
        """Mark a step as running in this block, at whose end it is recorded."""
        ...

    async def let_others_end(self, scope: str) -> None:
        """Wait for the steps that run in other tasks, before those are stopped; not for those around this scope."""
        ...

    def reach(self) -> Reach:
        """Return access to the store and the disk."""
        ...


class AsyncStepIO:
    """For an `async def` task."""

    def __init__(self, app: Any, stop: Stop) -> None:
        self._app = app
        self._stop = stop
        self._running: set[str] = set()
        self._waiters: list[asyncio.Future[None]] = []

    async def read(self, op: Op[T]) -> T:
        store: Store = self._app.open()
        return await store.aread(op)

    async def write(self, op: Op[T]) -> T:
        store: Store = self._app.open()
        return await store.awrite(op)

    async def enqueue(self, request: Any, tenant: str, record: Any) -> Job[Any]:
        job: Job[Any]
        if record is None:
            job = await self._app.aenqueue(request, tenant=tenant)
        else:
            self._app._check(request)
            job = await self._app._enqueuer.arecorded(request, tenant, record)
        return job

    async def call(self, fn: Callable[..., Any], is_async: bool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        # A plain function would block the event loop, and every other job on it.
        call = partial(fn, *args, **kwargs)
        value = call() if is_async else await asyncio.wrap_future(on_thread(call))
        return await value if inspect.isawaitable(value) else value

    async def open(self, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        assert self._stop.resources is not None
        return await self._stop.resources.aopen(wanted)

    async def rest(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def unwind(self, task: asyncio.Task[Any]) -> NoReturn:
        task.cancel()
        if asyncio.current_task() is task:
            # The cancellation arrives here, once: it does not interrupt what the handler awaits in its `finally`.
            await asyncio.get_running_loop().create_future()
        raise asyncio.CancelledError

    def again(self) -> NoReturn:
        raise asyncio.CancelledError

    def caller(self) -> object:
        return asyncio.current_task()

    @contextmanager
    def in_flight(self, scope: str) -> Iterator[None]:
        self._running.add(scope)
        try:
            yield
        finally:
            self._ended({scope})

    async def let_others_end(self, scope: str) -> None:
        # Two steps that both wait must not wait for each other.
        self._ended({around for around in self._running if scope.startswith(around)})
        while self._running:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _ended(self, scopes: set[str]) -> None:
        self._running -= scopes
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def reach(self) -> Reach:
        return Awaiting(self._app.open)


class BlockingStepIO:
    """For a `def` task."""

    def __init__(self, app: Any, stop: Stop) -> None:
        self._app = app
        self._stop = stop

    async def read(self, op: Op[T]) -> T:
        store: Store = self._app.open()
        return store.read(op)

    async def write(self, op: Op[T]) -> T:
        store: Store = self._app.open()
        return store.write(op)

    async def enqueue(self, request: Any, tenant: str, record: Any) -> Job[Any]:
        job: Job[Any]
        if record is None:
            job = self._app.enqueue(request, tenant=tenant)
        else:
            self._app._check(request)
            job = self._app._enqueuer.recorded(request, tenant, record)
        return job

    async def call(self, fn: Callable[..., Any], is_async: bool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        value = None if is_async else fn(*args, **kwargs)
        if is_async or inspect.iscoroutine(value):
            if value is not None:
                value.close()
            raise InvalidInput(f"{fn!r} is async; a step of a def task must be a def, or make the task an async def")
        return value

    async def open(self, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        assert self._stop.resources is not None
        return self._stop.resources.open(wanted)

    async def rest(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            self.again()

    async def unwind(self, task: Any) -> NoReturn:
        raise Suspension

    def again(self) -> NoReturn:
        raise Suspension

    def caller(self) -> object:
        return threading.current_thread()

    def in_flight(self, scope: str) -> AbstractContextManager[None]:
        return nullcontext()

    async def let_others_end(self, scope: str) -> None:
        """Return at once: threads are not stopped."""

    def reach(self) -> Reach:
        return Blocking(self._app.open)


def on_thread(call: Callable[[], T]) -> Future[T]:
    """Run a call on a thread of its own, in a copy of the caller's context. Cancelling it does not stop it.

    It is a daemon thread: the interpreter must be able to exit while a call hangs.
    """
    future: Future[T] = Future()
    # From now on the future cannot be cancelled.
    future.set_running_or_notify_cancel()
    context = contextvars.copy_context()
    threading.Thread(target=_run_last, args=(future, context, call), name="holdfast-step", daemon=True).start()
    return future


def all_on_threads(calls: Sequence[Callable[[], Any]]) -> list[Future[Any]]:
    """Run calls on threads, some at once, and wait until all have ended."""
    futures: list[Future[Any]] = [Future() for _ in calls]
    waiting = deque(zip(futures, [contextvars.copy_context() for _ in calls], calls, strict=True))

    def work() -> None:
        while waiting:
            try:
                item = waiting.popleft()
            except IndexError:
                return
            _run(*item)

    for worker in [on_thread(work) for _ in range(min(len(calls), _MOST_AT_ONCE))]:
        worker.result()
    return futures


def _run_last(future: Future[T], context: contextvars.Context, call: Callable[[], T]) -> None:
    _run(future, context, call)
    close_all_connections()


def _run(future: Future[T], context: contextvars.Context, call: Callable[[], T]) -> None:
    try:
        value = context.run(call)
    except StopIteration as error:
        # A future would take that exception for its own cancellation.
        future.set_exception(RuntimeError(f"the call raised {error!r}"))
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(value)
