"""Middleware: functions around each handler, sync ones on a thread and async ones on the event loop.

A `def` layer runs on a thread and receives a `SyncContext`; an `async def` layer runs on the event loop and receives a
`Context`. The `def` layers of a run and the handler of a `def` task share one thread, so thread-locals hold.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, TypeAlias

from ..errors import ConfigError
from .context import Context, JobInfo, Stop, SyncContext
from .functions import is_async

AsyncMiddleware: TypeAlias = "Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]]"
SyncMiddleware: TypeAlias = "Callable[[SyncContext, Callable[[], Any]], Any]"
Middleware: TypeAlias = "AsyncMiddleware | SyncMiddleware"
"""Called around each handler with the context of its kind; it calls its second argument and returns the result."""

Submit: TypeAlias = "Callable[[Callable[[], Any]], Awaitable[Any]]"
Watch: TypeAlias = "Callable[[asyncio.Task[Any] | None], None]"
_Inbox: TypeAlias = "SimpleQueue[Callable[[], None] | None]"

_DANGEROUS: Final = (SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, asyncio.CancelledError)


class HandlerExit(Exception):
    """A call raised something that would end the loop or mimic a cancel (SystemExit and the like); see __cause__."""


def without_exit(error: BaseException) -> BaseException:
    """Return the error in a form that a future can pass to the event loop."""
    if not isinstance(error, _DANGEROUS):
        return error
    wrapped = HandlerExit(f"the call raised {type(error).__name__}({error})")
    wrapped.__cause__ = error
    return wrapped


def names_of(layers: Sequence[Middleware]) -> list[str]:
    """Return the names by which a child process finds the layers: `module:qualname`."""
    return [f"{_origin(layer, '__module__')}:{_origin(layer, '__qualname__')}" for layer in layers]


def _origin(layer: Middleware, attribute: str) -> str:
    layer = layer.func if isinstance(layer, partial) else layer
    return str(getattr(layer, attribute, None) or getattr(type(layer), attribute))


def find_layers(wanted: Sequence[str], layers: Sequence[Middleware], where: str) -> list[Middleware]:
    """Return the layers of those names, in that order; ConfigError if one is missing."""
    left, found = list(zip(names_of(layers), layers, strict=True)), []
    for name in wanted:
        match = next((item for item in left if item[0] == name), None)
        if match is None:
            raise ConfigError(
                f"middleware {name} of the worker is not registered in {where}; "
                "register it in the module of the app, or in one that the task's module imports"
            )
        left.remove(match)
        found.append(match[1])
    return found


def wrap(
    layers: Sequence[Middleware],
    handler: Callable[[], Any],
    crossing: Crossing,
    context: Callable[[type[Any]], Any],
    *,
    handler_is_async: bool,
) -> Callable[[], Any]:
    """Return the handler wrapped in its layers, the first outermost. The result is async if the outermost layer is."""
    contexts = _Contexts(context)
    call, call_is_async = handler, handler_is_async
    for layer in reversed(layers):
        if is_async(layer):
            inner = call if call_is_async else partial(crossing.on_thread, call)
            call, call_is_async = partial(_call_awaiting, layer, contexts.awaiting(), inner), True
        else:
            inner = partial(crossing.on_loop, call) if call_is_async else call
            call, call_is_async = partial(_call_blocking, layer, contexts.blocking(), inner), False
    return call


class _Contexts:
    """An async and a sync context, shared by the layers of a run, so that their durable calls are numbered together."""

    def __init__(self, make: Callable[[type[Any]], Any]) -> None:
        self._make = make
        self._made: dict[type[Any], Any] = {}

    def awaiting(self) -> Any:
        return self._of(Context, "around/")

    def blocking(self) -> Any:
        return self._of(SyncContext, "around-def/")

    def _of(self, kind: type[Any], scope: str) -> Any:
        if kind not in self._made:
            self._made[kind] = self._make(kind)
            self._made[kind]._scope = scope
        return self._made[kind]


def _call_blocking(layer: Any, context: SyncContext, inner: Callable[[], Any]) -> Any:
    call = _Call(layer, inner)
    value = layer(context, call)
    if inspect.iscoroutine(value):
        value.close()
        raise ConfigError(f"middleware {_name(layer)} is a def but returned a coroutine; make it an async def")
    return call.checked(value, "return call()")


async def _call_awaiting(layer: Any, context: Context, inner: Callable[[], Any]) -> Any:
    call = _AwaitedCall(layer, inner)
    value = await layer(context, call)
    if inspect.iscoroutine(value):
        value.close()
        raise ConfigError(f"middleware {_name(layer)} returned a coroutine; write: return await call()")
    return call.checked(value, "return await call()")


class _Call:
    """The `call` argument of a layer: notes whether it was called, and its result."""

    def __init__(self, layer: Any, inner: Callable[[], Any]) -> None:
        self._layer = layer
        self._inner = inner
        self._called = False
        self._value: Any = None

    def __call__(self, *given: Any, **named: Any) -> Any:
        self._begin(given, named)
        self._value = self._inner()
        return self._value

    def checked(self, value: Any, right: str) -> Any:
        """Return the layer's result; ConfigError if it dropped the handler's result, or never called it."""
        if value is None and not self._called:
            raise ConfigError(
                f"middleware {_name(self._layer)} ended without calling call(), so the task did not run;"
                f" write: {right}, or raise to refuse the job"
            )
        if value is None and self._value is not None:
            raise ConfigError(f"middleware {_name(self._layer)} lost the task's result; write: {right}")
        return value

    def _begin(self, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        if given or named:
            raise ConfigError(f"middleware {_name(self._layer)} gave arguments to call(), which takes none")
        self._called = True


class _AwaitedCall(_Call):
    def __call__(self, *given: Any, **named: Any) -> Any:
        self._begin(given, named)
        return self._awaited()

    async def _awaited(self) -> Any:
        self._value = await self._inner()
        return self._value


def _name(layer: Any) -> str:
    return _origin(layer, "__qualname__")


class Crossing:
    """Moves one run between an event loop and one thread.

    While a `def` on the thread waits for a coroutine, the thread runs the blocking calls of that coroutine.
    """

    def __init__(
        self,
        loop: Callable[[], asyncio.AbstractEventLoop],
        stop: Stop,
        *,
        submit: Submit | None = None,
        watch: Watch,
    ) -> None:
        """`submit` starts a thread for a run that began on the loop; `watch` gets the task to cancel with the job."""
        self._loop = loop
        self._stop = stop
        self._submit = submit
        self._watch = watch
        self._inbox: _Inbox | None = None
        """Queue on which the run's thread waits for calls; None while it does not wait."""

    async def on_thread(self, call: Callable[[], Any]) -> Any:
        """Run a blocking call on the run's thread. A cancel does not interrupt its caller meanwhile."""
        self._watch(None)
        try:
            if self._inbox is not None:
                return await self._hand_over(call, self._inbox)
            assert self._submit is not None
            return await self._submit(call)
        finally:
            self._watch(asyncio.current_task())

    def _hand_over(self, call: Callable[[], Any], inbox: _Inbox) -> asyncio.Future[Any]:
        loop = self._loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = copy_context()

        def serve() -> None:
            try:
                value = context.run(call)
            except BaseException as error:
                loop.call_soon_threadsafe(_settle, future, None, error)
            else:
                loop.call_soon_threadsafe(_settle, future, value, None)

        inbox.put(serve)
        return future

    def on_loop(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a coroutine on the loop and return its value; blocks the run's thread."""
        outer, self._inbox = self._inbox, SimpleQueue()
        inbox, end = self._inbox, _End()
        try:
            self._loop().call_soon_threadsafe(self._begin, make, end, inbox, context=copy_context())
            while (serve := inbox.get()) is not None:
                serve()
        finally:
            self._inbox = outer
        return end.value()

    def _begin(self, make: Callable[[], Coroutine[Any, Any, Any]], end: _End, inbox: _Inbox) -> None:
        task = self._loop().create_task(end.of(make))
        task.add_done_callback(lambda _: self._finish(inbox))
        self._watch(task)
        if self._stop.requested:
            # The stop was requested while the run was on its thread, where nothing interrupts it.
            task.cancel()

    def _finish(self, inbox: _Inbox) -> None:
        self._watch(None)
        inbox.put(None)


class _End:
    """Result of a coroutine. No exception leaves its task: SystemExit would end the loop."""

    def __init__(self) -> None:
        self._value: Any = None
        # A task that is cancelled before its first step never runs its coroutine.
        self._error: BaseException | None = asyncio.CancelledError()

    async def of(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        try:
            self._value, self._error = await make(), None
        except BaseException as error:
            self._error = error

    def value(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(without_exit(error))


def context_of(info: JobInfo, app: Any, stop: Stop) -> Callable[[type[Any]], Any]:
    return lambda kind: kind(info, app, stop)
