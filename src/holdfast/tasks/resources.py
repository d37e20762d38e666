"""Resources: pools, clients and sessions that Holdfast opens for handlers and steps, and closes after them.

A resource is opened and closed on one thread, or in one asyncio task: its own kind's. An async resource of a `def`
handler lives on the event loop, a sync resource of an `async def` handler on a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import logging
import threading
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, Final, Literal, TypeAlias

from ..errors import ConfigError, ResourceFailed
from .annotations import injected, read_hints
from .context import Context, Stop, SyncContext
from .functions import is_async
from .signature import EXACT

logger: Final = logging.getLogger("holdfast.worker")

Scope: TypeAlias = Literal["worker", "run"]
Lifespan: TypeAlias = "Callable[[Any], Any]"
"""Takes the app and returns a context manager, sync or async; or a generator function that yields once."""

_ITERATORS: Final = ("Iterator", "Iterable", "Generator", "AsyncIterator", "AsyncIterable", "AsyncGenerator")
_OF_JSON: Final = (*EXACT, list, dict, tuple, set, frozenset, object)
_NOT_REPLACED: Final = object()
_INLINE_PATIENCE: Final = 10.0


class Resource:
    """A registered resource. Handlers, steps and other resources get it by a parameter with its type."""

    __slots__ = ("fn", "name", "needs", "replacement", "scope", "type")

    def __init__(
        self, fn: Callable[..., Any], name: str, type: Any, scope: Scope, needs: Mapping[str, Resource]
    ) -> None:
        self.fn = fn
        self.name = name
        self.type = type
        self.scope = scope
        self.needs = needs
        self.replacement: Any = _NOT_REPLACED
        """A test's own value instead of it."""

    @property
    def is_replaced(self) -> bool:
        return self.replacement is not _NOT_REPLACED

    @contextmanager
    def replaced(self, value: Any) -> Iterator[None]:
        before, self.replacement = self.replacement, value
        try:
            yield
        finally:
            self.replacement = before

    @property
    def is_async(self) -> bool:
        return inspect.isasyncgenfunction(self.fn) or is_async(self.fn)

    def enter(self, values: Mapping[str, Any]) -> Any:
        """Return a context manager, sync or async, that opens and closes it."""
        if inspect.isasyncgenfunction(self.fn):
            return asynccontextmanager(self.fn)(**values)
        if inspect.isgeneratorfunction(self.fn):
            return contextmanager(self.fn)(**values)
        return _AsyncCall(self.fn, values) if is_async(self.fn) else _Call(self.fn, values)

    def __repr__(self) -> str:
        return f"<Resource {self.name!r}>"


class _Call(AbstractContextManager[Any]):
    """A plain function: nothing is closed."""

    def __init__(self, fn: Callable[..., Any], values: Mapping[str, Any]) -> None:
        self._fn = fn
        self._values = values

    def __enter__(self) -> Any:
        return self._fn(**self._values)

    def __exit__(self, *_: object) -> None: ...


class _AsyncCall(AbstractAsyncContextManager[Any]):
    def __init__(self, fn: Callable[..., Any], values: Mapping[str, Any]) -> None:
        self._fn = fn
        self._values = values

    async def __aenter__(self) -> Any:
        return await self._fn(**self._values)

    async def __aexit__(self, *_: object) -> None: ...


# -- registration


class Resources:
    """The resources of one app, by their types."""

    def __init__(self) -> None:
        self._by_type: dict[Any, Resource] = {}

    def __bool__(self) -> bool:
        return bool(self._by_type)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_type.values())

    def get(self, type: Any) -> Resource | None:
        """Return the resource of that type; None if there is none."""
        try:
            return self._by_type.get(type)
        except TypeError:  # Not hashable, such as Annotated with a mutable extra.
            return None

    def find(self, wanted: Any) -> Resource:
        """Return the resource of that type, or that this function opens."""
        found = self.get(wanted) or next((its for its in self if its.fn is wanted), None)
        if found is None:
            known = ", ".join(sorted(its.name for its in self)) or "none"
            raise ConfigError(f"there is no resource {_text(wanted)}; give its type or its function; there is {known}")
        return found

    def add(self, fn: Callable[..., Any], scope: Scope) -> Resource:
        """Register a function as a resource; ConfigError if it cannot be one."""
        if scope not in ("worker", "run"):
            raise ConfigError(f"the scope of a resource is {scope!r}; use 'worker' or 'run'")
        resource = self._read(fn, scope)
        if (other := self.get(resource.type)) is not None and not _redefines(fn, other.fn):
            raise ConfigError(
                f"resources {other.name!r} and {resource.name!r} are both of type {_text(resource.type)}; "
                "tell them apart by a type of their own, such as typing.NewType('Replica', Pool)"
            )
        self._by_type[resource.type] = resource
        return resource

    def _read(self, fn: Any, scope: Scope) -> Resource:
        _check_function(fn)
        name: str = fn.__qualname__.rpartition("<locals>.")[2]
        hints = read_hints(fn, (Context, SyncContext))
        if hints.context is not None:
            raise ConfigError(f"resource {name!r} takes a context; call holdfast.current() in it instead")
        type = _opened_type(name, fn, hints.result)
        needs: dict[str, Resource] = {}
        for parameter in hints.parameters.parameters.values():
            found = self.get(hints.types[parameter.name])
            if found is not None:
                needs[parameter.name] = found
            elif parameter.default is parameter.empty or parameter.default is injected:
                raise ConfigError(
                    f"resource {name!r} takes {parameter.name}, for which there is no resource; "
                    "register one of that type above it, or give it a default"
                )
        for need in needs.values():
            if scope == "worker" and need.scope == "run":
                raise ConfigError(
                    f"resource {name!r} lives as long as the worker and cannot need {need.name!r}, which each run has "
                    "of its own; give it scope='run' too"
                )
        return Resource(fn, name, type, scope, needs)


def _check_function(fn: Any) -> None:
    how = "write a def, or async def, that yields it and closes it afterwards"
    if isinstance(fn, type) or not callable(fn) or not hasattr(fn, "__qualname__"):
        raise ConfigError(f"app.resource takes a function, not {_text(fn)}; {how}")
    inner = inspect.unwrap(fn)
    if inner is not fn and (inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner)):
        raise ConfigError(f"resource {fn.__qualname__} is wrapped already; leave @contextmanager out")


def _opened_type(name: str, fn: Any, result: Any) -> Any:
    """Return the type of what the function opens, from its return annotation."""
    generates = inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn)
    if generates and getattr(typing.get_origin(result), "__name__", "") in _ITERATORS:
        result = typing.get_args(result)[0]
    elif generates:
        result = Any
    if result is Any or result is type(None):
        which = "AsyncIterator" if inspect.isasyncgenfunction(fn) else "Iterator"
        example = f"{which}[Pool]" if generates else "Pool"
        raise ConfigError(
            f"resource {name!r} does not say what it opens; annotate its result with a type that can be imported "
            f"where it is, such as: -> {example}"
        )
    if (typing.get_origin(result) or result) in _OF_JSON or isinstance(result, types.UnionType):
        raise ConfigError(
            f"resource {name!r} is of type {_text(result)}, which arguments of jobs have too; "
            f"give it a type of its own, such as typing.NewType('{name.title()}', {_text(result)})"
        )
    return result


def _redefines(fn: Any, other: Any) -> bool:
    """Return True if a notebook cell or a reloaded module defines the same function again."""
    return fn.__module__ == "__main__" and (fn.__module__, fn.__qualname__) == (other.__module__, other.__qualname__)


def _text(thing: Any) -> str:
    return getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None) or repr(thing)


# -- opening and closing


class Held:
    """A resource that lives on a thread or in a task of its own, where it is opened and closed."""

    __slots__ = ("_end", "closed", "opened", "resource")

    def __init__(self, resource: Resource, end: Callable[[BaseException | None], None]) -> None:
        self.resource = resource
        self.opened: Future[Any] = Future()
        self.closed: Future[None] = Future()
        self._end = end
        for future in (self.opened, self.closed):
            # From now on it cannot be cancelled by a run that waits for it.
            future.set_running_or_notify_cancel()

    def end(self, error: BaseException | None) -> None:
        """Close it, with the error of its run if there is one. `closed` says when that is over."""
        self._end(error)


def _hold_on_thread(resource: Resource, values: Mapping[str, Any]) -> Held:
    ended, why = threading.Event(), list[BaseException | None]()

    def end(error: BaseException | None) -> None:
        why.append(error)
        ended.set()

    held = Held(resource, end)

    def live() -> None:
        with _reporting(held) as report:
            context = resource.enter(values)
            value = context.__enter__()
            report(value)
            ended.wait()
            _exit(context, why[0])

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(live,), name=f"holdfast-{resource.name}", daemon=True).start()
    return held


def _hold_on_loop(resource: Resource, values: Mapping[str, Any], loop: asyncio.AbstractEventLoop) -> Held:
    ended = asyncio.Event()
    why: list[BaseException | None] = []

    def end(error: BaseException | None) -> None:
        why.append(error)
        loop.call_soon_threadsafe(ended.set)

    held = Held(resource, end)

    async def live() -> None:
        with _reporting(held) as report:
            context: Any = resource.enter(values)
            value = await context.__aenter__()
            report(value)
            await ended.wait()
            await _aexit(context, why[0])

    def start() -> None:
        # The loop keeps only a weak reference to its tasks.
        task = loop.create_task(live())
        held.closed.add_done_callback(lambda _, task=task: None)  # type: ignore[misc]

    loop.call_soon_threadsafe(start, context=contextvars.copy_context())
    return held


@contextmanager
def _reporting(held: Held) -> Iterator[Callable[[Any], None]]:
    """Report what happens to the two futures; an error after the opening is one of closing."""
    try:
        yield held.opened.set_result
    except BaseException as error:
        if held.opened.done():
            held.closed.set_exception(_portable(error))
        else:
            held.opened.set_exception(_portable(error))
            held.closed.set_result(None)
    else:
        held.closed.set_result(None)


def _portable(error: BaseException) -> BaseException:
    """Return the error in a form that a future can pass on: these would be taken for the future's own."""
    if isinstance(error, (StopIteration, asyncio.CancelledError, GeneratorExit)):
        wrapped = RuntimeError(f"it raised {type(error).__name__}")
        wrapped.__cause__ = error
        return wrapped
    return error


def _exit(context: Any, error: BaseException | None) -> None:
    try:
        context.__exit__(*_details(error))
    except BaseException as raised:
        if raised is not error:
            raise


async def _aexit(context: Any, error: BaseException | None) -> None:
    try:
        await context.__aexit__(*_details(error))
    except BaseException as raised:
        if raised is not error:
            raise


def _details(error: BaseException | None) -> tuple[Any, Any, Any]:
    return (None, None, None) if error is None else (type(error), error, error.__traceback__)


class ResourceHost:
    """The resources with scope "worker" of one worker or child process, each opened at its first use."""

    def __init__(self, loop: Callable[[], asyncio.AbstractEventLoop], app: Any = None) -> None:
        """`loop` returns the event loop on which async resources live; `app` is the one whose lifespan is entered."""
        self.loop = loop
        lifespan = getattr(app, "_lifespan", None)
        self._lifespan = None if lifespan is None else _LifespanResource(lifespan, app)
        self._lock = threading.Lock()
        self._held: dict[Resource, Held] = {}
        self._is_closed = False

    @classmethod
    def here(cls, app: Any) -> ResourceHost:
        """Return a host for the event loop that runs here."""
        loop = asyncio.get_running_loop()
        return cls(lambda: loop, app)

    def get(self, resource: Resource) -> Any:
        """Return a worker's resource, opened if it is not. An opening that failed is tried again."""
        if (held := self._held.get(resource)) is None or not _is_open(held):
            held = self._hold(resource, {name: self._get_need(need) for name, need in resource.needs.items()})
        return _opened(held)

    async def aget(self, resource: Resource) -> Any:
        """The async version of `get`."""
        if (held := self._held.get(resource)) is None or not _is_open(held):
            values = {name: await self._aget_need(need) for name, need in resource.needs.items()}
            held = self._hold(resource, values)
        return await _aopened(held)

    def _get_need(self, need: Resource) -> Any:
        return need.replacement if need.is_replaced else self.get(need)

    async def _aget_need(self, need: Resource) -> Any:
        return need.replacement if need.is_replaced else await self.aget(need)

    def _hold(self, resource: Resource, values: Mapping[str, Any]) -> Held:
        with self._lock:
            held = self._held.get(resource)
            if held is not None and (not held.opened.done() or _is_open(held)):
                return held
            if self._is_closed:
                raise ResourceFailed(resource.name, "the worker has stopped")
            # Else its context would be that of the job that asked first, with its tenant.
            held = contextvars.Context().run(_hold, resource, values, self.loop)
            self._held.pop(resource, None)
            self._held[resource] = held
            return held

    def begin(self) -> None:
        """Enter the app's lifespan, if it has one and is not in it. It is exited after all resources."""
        if self._lifespan is not None:
            self.get(self._lifespan)

    async def abegin(self) -> None:
        """The async version of `begin`."""
        if self._lifespan is not None:
            await self.aget(self._lifespan)

    def close(self, timeout: float) -> None:
        """Close all, the last opened first, each within `timeout` seconds."""
        for held in self._take_all():
            held.end(None)
            try:
                held.closed.result(timeout)
            except BaseException as error:
                _log_closing(held, error, timeout)

    async def aclose(self, timeout: float) -> None:
        """The async version of `close`."""
        for held in self._take_all():
            held.end(None)
            try:
                await asyncio.wait_for(asyncio.wrap_future(held.closed), timeout)
            except Exception as error:
                _log_closing(held, error, timeout)

    def _take_all(self) -> list[Held]:
        with self._lock:
            self._is_closed = True
            held = list(self._held.values())
            self._held.clear()
        return held[::-1]


class RunResources:
    """The resources of one run: its own ones, opened at their first use, and those of its worker.

    Made and closed by the thread or the task that runs the handler. What that opens itself, it closes itself.
    """

    __slots__ = ("_alock", "_home", "_host", "_lock", "_open", "_values")

    def __init__(self, host: ResourceHost, home: object) -> None:
        """`home` is the asyncio task of the run, or the ident of its thread."""
        self._host = host
        self._home = home
        self._values: dict[Resource, Any] = {}
        self._open: list[Held | tuple[Resource, Any]] = []
        self._lock = threading.RLock()
        self._alock: asyncio.Lock | None = None

    def open(self, wanted: Mapping[str, Resource]) -> dict[str, Any]:
        """Return the resources by parameter, opened if they are not. Blocks; call it on a thread."""
        with self._lock:
            return {name: self._get(resource) for name, resource in wanted.items()}

    async def aopen(self, wanted: Mapping[str, Resource]) -> dict[str, Any]:
        """The async version of `open`."""
        if self._alock is None:
            self._alock = asyncio.Lock()
        async with self._alock:
            return {name: await self._aget(resource) for name, resource in wanted.items()}

    def _get(self, resource: Resource) -> Any:
        if resource.is_replaced:
            return resource.replacement
        if resource.scope == "worker":
            return self._host.get(resource)
        if resource not in self._values:
            values = {name: self._get(need) for name, need in resource.needs.items()}
            if resource.is_async or threading.get_ident() != self._home:
                self._values[resource] = _opened(self._keep(_hold(resource, values, self._host.loop)))
            else:
                context = resource.enter(values)
                try:
                    self._values[resource] = context.__enter__()
                except Exception as error:
                    raise _failed(resource, error) from error
                self._open.append((resource, context))
        return self._values[resource]

    async def _aget(self, resource: Resource) -> Any:
        if resource.is_replaced:
            return resource.replacement
        if resource.scope == "worker":
            return await self._host.aget(resource)
        if resource not in self._values:
            values = {name: await self._aget(need) for name, need in resource.needs.items()}
            if not resource.is_async or asyncio.current_task() is not self._home:
                self._values[resource] = await _aopened(self._keep(_hold(resource, values, self._host.loop)))
            else:
                context = resource.enter(values)
                try:
                    self._values[resource] = await context.__aenter__()
                except Exception as error:
                    raise _failed(resource, error) from error
                self._open.append((resource, context))
        return self._values[resource]

    def _keep(self, held: Held) -> Held:
        # Before it is opened: a run that is cancelled meanwhile closes it too.
        self._open.append(held)
        return held

    def close(self, error: BaseException | None) -> None:
        """Close all, the last opened first. `error` is what the handler raised. Errors of closing are logged."""
        while self._open:
            opened = self._open.pop()
            try:
                if isinstance(opened, Held):
                    opened.end(error)
                    opened.closed.result()
                else:
                    _exit(opened[1], error)
            except BaseException as wrong:
                _log_closing(opened, wrong)

    async def aclose(self, error: BaseException | None) -> None:
        """The async version of `close`."""
        while self._open:
            opened = self._open.pop()
            try:
                if isinstance(opened, Held):
                    opened.end(error)
                    await asyncio.wrap_future(opened.closed)
                else:
                    await _aexit(opened[1], error)
            except BaseException as wrong:  # A second cancel too: the others must still be closed.
                _log_closing(opened, wrong)


class LoneResources:
    """`with` or `async with`: the resources of a run without a worker, whose own ones are closed with it too."""

    def __init__(self, stop: Stop, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._stop = stop
        self._host = ResourceHost(loop)

    def __enter__(self) -> RunResources:
        self._stop.resources = RunResources(self._host, threading.get_ident())
        return self._stop.resources

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        assert self._stop.resources is not None
        self._stop.resources.close(error)
        self._host.close(_INLINE_PATIENCE)

    async def __aenter__(self) -> RunResources:
        self._stop.resources = RunResources(self._host, asyncio.current_task())
        return self._stop.resources

    async def __aexit__(self, _: object, error: BaseException | None, trace: object) -> None:
        assert self._stop.resources is not None
        await self._stop.resources.aclose(error)
        await self._host.aclose(_INLINE_PATIENCE)


class _LifespanResource(Resource):
    """The app's lifespan: opened first, closed last, and injected nowhere."""

    __slots__ = ("_context", "_make")

    def __init__(self, lifespan: Lifespan, app: Any) -> None:
        if inspect.isasyncgenfunction(lifespan):
            lifespan = asynccontextmanager(lifespan)
        elif inspect.isgeneratorfunction(lifespan):
            lifespan = contextmanager(lifespan)
        self._make = functools.partial(lifespan, app)
        self._context = self._make()
        if not hasattr(self._context, "__aenter__") and not hasattr(self._context, "__enter__"):
            raise ConfigError(
                f"App(lifespan=…) returned {self._context!r}; give a generator function that takes the app and yields "
                "once, such as: async def lifespan(app): … yield …"
            )
        super().__init__(lifespan, "lifespan", None, "worker", {})

    @property
    def is_async(self) -> bool:
        return hasattr(self._context, "__aenter__")

    def enter(self, values: Mapping[str, Any]) -> Any:
        # A context manager can be entered once; the next try after a failure needs another.
        context, self._context = self._context, self._make()
        return context


@functools.cache
def private_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop on a thread of its own, for code on a thread where none runs."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="holdfast-loop", daemon=True).start()
    return loop


def _hold(resource: Resource, values: Mapping[str, Any], loop: Callable[[], asyncio.AbstractEventLoop]) -> Held:
    return _hold_on_loop(resource, values, loop()) if resource.is_async else _hold_on_thread(resource, values)


def _is_open(held: Held) -> bool:
    return held.opened.done() and held.opened.exception() is None


def _opened(held: Held) -> Any:
    try:
        return held.opened.result()
    except Exception as error:
        raise _failed(held.resource, error) from error


async def _aopened(held: Held) -> Any:
    if held.opened.done():
        return _opened(held)
    try:
        return await asyncio.wrap_future(held.opened)
    except Exception as error:
        raise _failed(held.resource, error) from error


def _failed(resource: Resource, error: BaseException) -> ResourceFailed:
    # That of a resource which it needs says it already.
    return (
        error
        if isinstance(error, ResourceFailed)
        else ResourceFailed(resource.name, f"{type(error).__name__}: {error}")
    )


def _log_closing(opened: Held | tuple[Resource, Any], error: BaseException, timeout: float | None = None) -> None:
    name = opened.resource.name if isinstance(opened, Held) else opened[0].name
    if timeout is not None and isinstance(opened, Held) and not opened.closed.done():
        logger.error("resource %r did not close within %g s; the worker stops without it", name, timeout)
    else:
        logger.error("resource %r failed while it was closed; the job's outcome stays", name, exc_info=error)
