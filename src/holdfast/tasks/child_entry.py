"""Runs a task's function inside a child process, and describes its outcome as plain data."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from ..errors import HoldfastError, InvalidArguments
from ..telemetry import CurrentRun, running
from .context import Context, JobInfo, Stop, SyncContext
from .django_connections import close_stale_async_connections, close_stale_connections
from .tenants import working_for

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Sequence
    from contextlib import AbstractContextManager

    from ..model.outcomes import Outcome
    from ..rules.failure import Failure
    from ..streams.writer import FrameBuffer
    from .middleware import Middleware
    from .resources import ResourceHost
    from .task import Task

_CLOSING_TIME: Final = 1.5
_hosts: Final[dict[Any, ResourceHost]] = {}


class Control(Protocol):
    """The worker's control over a run in a child."""

    @property
    def cancelled(self) -> bool: ...

    def wait_cancelled(self, timeout: float | None = None) -> bool: ...

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any: ...

    def watch(self, task: asyncio.Task[Any] | None) -> None: ...

    def interruptible(self) -> AbstractContextManager[None]: ...


class _RemoteStop(Stop):
    """The stop that the worker requests over the channel."""

    __slots__ = ("_control",)

    def __init__(self, control: Control) -> None:
        super().__init__()
        self._control = control

    @property
    def requested(self) -> bool:
        return self._control.cancelled

    def wait(self, timeout: float | None = None) -> bool:
        return self._control.wait_cancelled(timeout)


def run_isolated(task: Task[Any, Any], header: dict[str, Any], payload: str, control: Control) -> dict[str, Any]:
    """Return the outcome of one run: its `kind`, and a result or an error. The worker decides what follows."""
    stop = _RemoteStop(control)
    close_stale_connections()
    close_stale_async_connections()
    try:
        answer = _run(task, header, payload, control, stop)
    finally:
        failure = _finish_stream(stop)
        close_stale_connections()
        close_stale_async_connections()
    if failure is not None and answer["kind"] == "done":
        answer = failure
    return answer if stop.loaded is None else {**answer, "loaded": stop.loaded}


def _finish_stream(stop: Stop) -> dict[str, Any] | None:
    """Store the run's stream before its outcome; return a failure if that was not possible."""
    buffer: FrameBuffer | None = stop.buffer
    if buffer is None:
        return None
    if (rest := buffer.finish()) is not None:
        rest.result()
    if (error := buffer.failure) is None:
        return None
    from ..rules.failure import Failure, classify

    failure = classify(error)
    assert isinstance(failure, Failure)
    return _failed(failure)


def _run(
    task: Task[Any, Any], header: dict[str, Any], payload: str, control: Control, stop: _RemoteStop
) -> dict[str, Any]:
    kind = Context if task.is_async else SyncContext
    middleware, claimed = header.pop("middleware", None), header.pop("claimed", None)
    if (items := header.pop("items", None)) is not None:
        from .batches import no_current_job

        batch = [_claimed(one) for one in claimed or ()]
        with running(CurrentRun(task.app, None, lambda: no_current_job(task.name), batch=batch)):
            return _run_batch(task, items, header, payload, control, stop, middleware)
    job, info = _claimed(claimed[0], payload) if claimed else None, JobInfo(**header)
    run = CurrentRun(task.app, job, lambda: kind(info, task.app, stop), subject=info)
    with running(run):
        return _run_as(run, task, header, payload, control, stop, middleware)


def _run_as(
    run: CurrentRun,
    task: Task[Any, Any],
    header: dict[str, Any],
    payload: str,
    control: Control,
    stop: _RemoteStop,
    middleware: Any,
) -> dict[str, Any]:
    try:
        args, kwargs = task.arguments(payload, lambda: run.context)
    except HoldfastError as error:
        return _undecodable(error)
    assert task.fn is not None
    if wanted := task.task_options.capture:
        from ..streams.capture import capture

        capture(JobInfo(**header), task.app, stop, wanted)
    handler = partial(task.fn, *args, **kwargs)
    try:
        with working_for(task.app, header["tenant"], header["id"]):
            value = _call(task, middleware, handler, header, control, stop)
    except BaseException as error:
        if stop.outcome is not None:
            return _decided(stop.outcome)
        if not isinstance(error, Exception):
            raise
        return _raised(task, error)
    return _returned(task, value) if stop.outcome is None else _decided(stop.outcome)


def _run_batch(
    task: Task[Any, Any],
    infos: list[dict[str, Any]],
    header: dict[str, Any],
    payload: str,
    control: Control,
    stop: _RemoteStop,
    middleware: Any,
) -> dict[str, Any]:
    """Run the handler of a batch; return the outcome of each job in it."""
    from .batches import Item, answers_of
    from .tenants import working_for_none

    assert task.fn is not None
    items: list[Item[Any]] = []
    found: list[dict[str, Any] | None] = []
    for info, text in zip(infos, msgspec.json.decode(payload), strict=True):
        try:
            items.append(Item(task.item(text), JobInfo(**info), stop))
            found.append(None)
        except HoldfastError as error:
            found.append(_undecodable(error))
    answers: list[dict[str, Any]] = []
    try:
        if items:
            with working_for_none():
                value = _call(task, middleware, partial(task.fn, items), header, control, stop)
            answers = [_answered(task, answer) for answer in answers_of(task.name, value, len(items))]
    except InvalidArguments as error:
        answers = [_bad_result(error)] * len(items)
    except Exception as error:
        answers = [_raised(task, error)] * len(items)
    rest = iter(answers)
    return {"kind": "batch", "answers": [next(rest) if answer is None else answer for answer in found]}


def _answered(task: Task[Any, Any], answer: Any) -> dict[str, Any]:
    return _raised(task, answer) if isinstance(answer, Exception) else _returned(task, answer)


def _raised(task: Task[Any, Any], error: Exception) -> dict[str, Any]:
    # Imported here: a child must start fast, and most runs need neither.
    from ..model.outcomes import Cancelled, Snoozed
    from ..outcomes import JobOutcome
    from ..rules.failure import classify

    failure = classify(error, task.task_options.no_retry_on)
    if isinstance(failure, Snoozed):
        return {"kind": "snoozed", "delay": failure.delay}
    if isinstance(failure, Cancelled):
        return {"kind": "gave_up", "reason": failure.reason}
    return _failed(failure, on_purpose=isinstance(error, JobOutcome))


def _returned(task: Task[Any, Any], value: Any) -> dict[str, Any]:
    try:
        return {"kind": "done", "result": task.signature.encode_result(value)}
    except HoldfastError as error:
        return _bad_result(error)


def _bad_result(error: HoldfastError) -> dict[str, Any]:
    from ..rules.failure import error_text

    return {"kind": "bad_result", "error": error_text(error)}


def _undecodable(error: HoldfastError) -> dict[str, Any]:
    from ..rules.failure import error_text

    return {"kind": "undecodable", "error": error_text(error), "unknown": getattr(error, "unknown", ())}


def _call(
    task: Task[Any, Any],
    middleware: Any,
    handler: Callable[[], Any],
    header: dict[str, Any],
    control: Control,
    stop: _RemoteStop,
) -> Any:
    if _has_resources(task):
        value = _call_with_resources(task, middleware, handler, header, control, stop)
    elif middleware is not None:
        value = _run_wrapped(task, middleware, handler, JobInfo(**header), control, stop)
    else:
        value = control.run(_awaited(stop, handler())) if task.is_async else handler()
    if stop.outcome is None:
        stop.require_awaited()
    return value


def _has_resources(task: Task[Any, Any]) -> bool:
    return bool(task.injected or getattr(task.app, "_resources", None) or getattr(task.app, "_lifespan", None))


def _call_with_resources(
    task: Task[Any, Any],
    middleware: Any,
    handler: Callable[..., Any],
    header: dict[str, Any],
    control: Control,
    stop: _RemoteStop,
) -> Any:
    """Run the handler with its resources. Async ones live on one loop, on which async handlers run then too."""
    import threading

    from .resources import RunResources

    host = _host(task.app)
    host.begin()
    stop.resources = resources = RunResources(host, threading.get_ident())

    async def call_async() -> Any:
        return await handler(**await resources.aopen(task.injected))

    def call() -> Any:
        with control.interruptible():
            return handler(**resources.open(task.injected))

    made = call_async if task.is_async else call
    try:
        value = _run_wrapped(task, middleware or [], made, JobInfo(**header), control, stop)
    except BaseException as error:
        resources.close(error)
        raise
    resources.close(None)
    return value


def _host(app: Any) -> ResourceHost:
    """Return the resources of an app in this process, which are closed when the worker ends it."""
    import atexit

    from .resources import ResourceHost, private_loop

    if app not in _hosts:
        _hosts[app] = ResourceHost(private_loop, app)
        atexit.register(_hosts[app].close, _CLOSING_TIME)
    return _hosts[app]


def _run_wrapped(
    task: Task[Any, Any],
    names: list[str],
    handler: Callable[[], Any],
    info: JobInfo,
    control: Control,
    stop: Stop,
) -> Any:
    """Run the handler inside the middleware of those names. Blocking code runs on this thread, the main one."""
    from .batches import batch_context_of
    from .functions import is_async
    from .middleware import Crossing, context_of, wrap
    from .resources import private_loop

    layers = _layers(task, names)
    kinds = {task.is_async, *map(is_async, layers)}

    def watch(running: asyncio.Task[Any] | None) -> None:
        stop.task = running or stop.task
        control.watch(running)

    crossing = Crossing(private_loop, stop, watch=watch)
    contexts = (context_of if task.task_options.batch is None else batch_context_of)(info, task.app, stop)
    call = wrap(layers, handler, crossing, contexts, handler_is_async=task.is_async)
    if not (is_async(layers[0]) if layers else task.is_async):
        return call()
    if len(kinds) == 1 and stop.resources is None:
        return control.run(_awaited(stop, call()))
    return crossing.on_loop(call)


def _claimed(data: dict[str, Any], payload: str = "") -> Any:
    from ..model.jobs import Claimed

    return msgspec.convert({**data, "payload": payload}, Claimed)


def _layers(task: Task[Any, Any], names: list[str]) -> Sequence[Middleware]:
    """Return the worker's middleware, in its order, importing modules that the task's module does not import."""
    import importlib

    from .middleware import find_layers, names_of

    registered: list[Middleware] = task.app._middleware  # type: ignore[attr-defined]
    for name in names:
        module = name.partition(":")[0]
        if name not in names_of(registered) and module != "__main__":
            importlib.import_module(module)
    return find_layers(names, registered, "the child process that runs the job")


def _failed(failure: Failure, *, on_purpose: bool = False) -> dict[str, Any]:
    return {
        "kind": failure.kind,
        "error": failure.error,
        "after": failure.after,
        "reason": failure.reason,
        "cools": failure.cools,
        "on_purpose": on_purpose,
    }


async def _awaited(stop: Stop, coroutine: Coroutine[Any, Any, Any]) -> Any:
    import asyncio

    stop.task = asyncio.current_task()
    return await coroutine


def _decided(outcome: Outcome) -> dict[str, Any]:
    """Describe the outcome set while the handler ran (suspended or failed), whatever it did then."""
    return {"kind": "decided", "as": type(outcome).__name__, "outcome": msgspec.to_builtins(outcome)}


def decode_decided(answer: dict[str, Any]) -> Outcome:
    from ..model import outcomes

    decided: Outcome = msgspec.convert(answer["outcome"], getattr(outcomes, answer["as"]))
    return decided
