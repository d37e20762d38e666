"""Runs a task's function inside a child process, and describes its outcome as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from .context import Context, JobInfo, Stop, SyncContext
from .errors import HoldfastError
from .tenancy import working_for

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from .model.outcome import Outcome
    from .rules.failure import Failure
    from .streams.outlet import Outlet
    from .tasks import Task


class Control(Protocol):
    """How a run in a child learns that it should stop."""

    @property
    def cancelled(self) -> bool: ...

    def wait_cancelled(self, timeout: float | None = None) -> bool: ...

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any: ...


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


def run_apart(task: Task[Any, Any], header: dict[str, Any], payload: str, control: Control) -> dict[str, Any]:
    """The outcome of one run: its `kind`, and a result or an error. The worker decides what follows from it."""
    stop = _RemoteStop(control)
    try:
        answer = _run(task, header, payload, control, stop)
    finally:
        failure = _hear_out(stop)
    if failure is not None and answer["kind"] == "done":
        answer = failure
    return answer if stop.loaded is None else {**answer, "loaded": stop.loaded}


def _hear_out(stop: Stop) -> dict[str, Any] | None:
    """What the run said comes into its stream before its outcome; a failure where that was not possible."""
    outlet: Outlet | None = stop.outlet
    if outlet is None:
        return None
    if (rest := outlet.finish()) is not None:
        rest.result()
    if (error := outlet.failure) is None:
        return None
    from .rules.failure import Failure, classify

    failure = classify(error)
    assert isinstance(failure, Failure)
    return _failed(failure)


def _run(
    task: Task[Any, Any], header: dict[str, Any], payload: str, control: Control, stop: _RemoteStop
) -> dict[str, Any]:
    # Imported here: a child must start fast, and most runs need neither.
    from .model.outcome import Snoozed
    from .outcomes import JobSignal
    from .rules.failure import classify, error_text

    kind = Context if task.is_async else SyncContext
    try:
        args, kwargs = task.arguments(payload, lambda: kind(JobInfo(**header), task.app, stop))
    except HoldfastError as error:
        return {"kind": "undecodable", "error": error_text(error)}
    assert task.fn is not None
    if wanted := task.task_options.capture:
        from .streams.capture import capture

        capture(JobInfo(**header), task.app, stop, wanted)
    try:
        with working_for(task.app, header["tenant"]):
            value = control.run(_awaited(stop, task.fn(*args, **kwargs))) if task.is_async else task.fn(*args, **kwargs)
    except BaseException as error:
        if stop.outcome is not None:
            return _decided(stop.outcome)
        if not isinstance(error, Exception):
            raise
        failure = classify(error, task.task_options.permanent_on)
        if isinstance(failure, Snoozed):
            return {"kind": "snoozed", "delay": failure.delay}
        return _failed(failure, on_purpose=isinstance(error, JobSignal))
    if stop.outcome is not None:
        return _decided(stop.outcome)
    try:
        return {"kind": "done", "result": task.signature.encode_result(value)}
    except HoldfastError as error:
        return {"kind": "bad_result", "error": error_text(error)}


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
    """The run was suspended, or went astray, whatever its handler did then."""
    return {"kind": "decided", "as": type(outcome).__name__, "outcome": msgspec.to_builtins(outcome)}


def decode_decided(answer: dict[str, Any]) -> Outcome:
    from .model import outcome

    decided: Outcome = msgspec.convert(answer["outcome"], getattr(outcome, answer["as"]))
    return decided
