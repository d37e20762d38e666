"""A child process that runs isolated jobs, one at a time: `python -m holdfast.worker.processes.child FD PARENT`.

It imports the module that the worker names from its own registry and calls `run_in_child` on the task found there.
It must start fast: nothing of storage, and asyncio only for a task that needs it.
"""

from __future__ import annotations

import contextvars
import faulthandler
import functools
import importlib
import io
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from ...importing import importing
from .messages import (
    Begin,
    Begun,
    CancelOrder,
    ChildReady,
    EndOrder,
    FrameSplitter,
    Hello,
    Loaded,
    Order,
    RunOrder,
    RunOutcome,
    frame,
    orders,
)
from .parent import die_with_parent

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class RunsInChild(Protocol):
    """The object that the child calls: usually a task. `run_in_child` may also be `async def`."""

    def run_in_child(
        self, header: dict[str, Any], payload: str, control: ChildControl
    ) -> dict[str, Any] | Coroutine[Any, Any, dict[str, Any]]:
        """Run the job and return its outcome: `kind`, and a result text or an error."""
        ...


class RunEnded(BaseException):
    """Raised in a `def` handler that the worker ends."""


class ChildControl:
    """Lets the worker start and cancel a run in the child."""

    def __init__(self, serial: int) -> None:
        self.serial = serial
        self._event = threading.Event()
        self._answered = threading.Event()
        self._lock = threading.Lock()
        self._task: asyncio.Task[Any] | None = None
        self._is_ending = False
        self._may_raise = False

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Block until the run is cancelled or the time is over; True if it was."""
        return self._event.wait(timeout)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on this child's event loop; a cancel of the job cancels it."""
        # The runner's own context would be that of the child's first job, with its tenant.
        return _runner().run(self._cancellable(coroutine), context=contextvars.copy_context())

    def may_begin(self) -> bool:
        """Wait for the worker's answer; False if the run was cancelled."""
        self._answered.wait()
        return not self.cancelled

    def begin(self) -> None:
        """Let the handler begin. Called on the listening thread."""
        self._answered.set()

    def watch(self, task: asyncio.Task[Any] | None) -> None:
        """Cancel that task when the job is cancelled, from now on; None for no task."""
        with self._lock:
            self._task = task

    def cancel(self) -> None:
        """Ask the run to stop. Called on the listening thread."""
        with self._lock:
            self._event.set()
            self._answered.set()
            if self._task is not None:
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def end(self) -> None:
        """End the run by an exception. Called on the listening thread."""
        self._is_ending = True
        self.cancel()
        # A real signal: it also interrupts a call of the system in which the handler waits.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the worker end this block, on the main thread, by an exception."""
        try:
            self._may_raise = True
            self.raise_if_ending()
            yield
        finally:
            self._may_raise = False

    def raise_if_ending(self) -> None:
        """Raise RunEnded, once, if the worker ends the block that runs."""
        if self._is_ending and self._may_raise:
            self._may_raise = False
            raise RunEnded

    async def _cancellable(self, coroutine: Coroutine[Any, Any, T]) -> T:
        import asyncio

        with self._lock:
            self._task = asyncio.current_task()
            if self._task is not None and self._event.is_set():
                self._task.cancel()
        try:
            return await coroutine
        finally:
            with self._lock:
                self._task = None


class Child:
    """Listens on a thread and runs jobs on the main one, where handlers may expect to run."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._runs: SimpleQueue[tuple[RunOrder, ChildControl] | None] = SimpleQueue()
        self._current: ChildControl | None = None

    def serve(self) -> None:
        """Run jobs until the worker closes the channel."""
        messages = self._messages()
        _greet(next(messages, None))
        threading.Thread(target=self._listen, args=(messages,), name="holdfast-orders", daemon=True).start()
        self._channel.sendall(frame(ChildReady()))
        while (order := self._runs.get()) is not None:
            self._channel.sendall(frame(Begun(order[0].serial)))
            reply = self._perform(*order)
            self._current = None
            self._channel.sendall(reply)

    def _perform(self, run: RunOrder, control: ChildControl) -> bytes:
        """Return the framed outcome of one run. Any exception is an outcome; the child continues."""
        try:
            if (setup := run.header.pop("setup", None)) is not None:
                importlib.import_module(setup)
            task = resolve(run.module, run.qualname)
            # Starting this process and the import take time: the run may have been cancelled meanwhile.
            self._channel.sendall(frame(Loaded(run.serial)))
            if not control.may_begin():
                return frame(RunOutcome(run.serial, {"kind": "cancelled"}))
            # What a job sets in its context, such as a language, must not reach the next one.
            outcome = contextvars.copy_context().run(task.run_in_child, run.header, run.payload, control)
            if isinstance(outcome, Coroutine):
                outcome = control.run(outcome)
            return frame(RunOutcome(run.serial, outcome))
        except BaseException as error:
            return frame(RunOutcome(run.serial, _outcome_of(error, control)))

    def _listen(self, messages: Iterator[Order]) -> None:
        for message in messages:
            if isinstance(message, RunOrder):
                # Created here rather than by the main thread, so that a cancel right behind it is not lost.
                self._current = ChildControl(message.serial)
                self._runs.put((message, self._current))
            elif isinstance(message, Begin | CancelOrder | EndOrder):
                control = self._current
                if control is not None and control.serial == message.serial:
                    _ORDERS[type(message)](control)
        if self._current is not None:
            _end_group()
        self._runs.put(None)

    def _messages(self) -> Iterator[Order]:
        frames = FrameSplitter()
        while data := _receive(self._channel):
            for body in frames.feed(data):
                yield orders.decode(body)

    def signalled(self, signum: int, _: object) -> None:
        """Do nothing, unless the worker ends the current run: the worker alone stops its children.

        Not SIG_IGN, which the programs that a job starts would inherit.
        """
        if (control := self._current) is not None:
            control.raise_if_ending()


_ORDERS: Final[dict[type, Callable[[ChildControl], None]]] = {
    Begin: ChildControl.begin,
    CancelOrder: ChildControl.cancel,
    EndOrder: ChildControl.end,
}


def resolve(module: str, qualname: str) -> RunsInChild:
    """Return the task object of that name. A failed import raises its own error."""
    with importing(module):
        imported = importlib.import_module(module)
    found = functools.reduce(getattr, qualname.split("."), cast(Any, imported))
    if not hasattr(found, "run_in_child"):
        raise TypeError(f"{module}:{qualname} is not a task; a task with isolate='process' must keep its own name")
    return cast(RunsInChild, found)


def _outcome_of(error: BaseException, control: ChildControl) -> dict[str, Any]:
    if isinstance(error, RunEnded) or (control.cancelled and type(error).__name__ == "CancelledError"):
        return {"kind": "cancelled"}
    return {"kind": "failed", "error": _describe(error)}


def _describe(error: BaseException) -> dict[str, str]:
    try:
        message = str(error)
    except Exception as broken:
        message = f"<its text could not be made: {type(broken).__name__}>"
    text = "".join(traceback.format_exception(error))
    # Lone surrogates cannot travel as JSON.
    described = {"type": type(error).__qualname__, "message": message, "traceback": text}
    return {key: value.encode("utf-8", "backslashreplace").decode() for key, value in described.items()}


@functools.cache
def _runner() -> asyncio.Runner:
    # One loop for all jobs of the child, as in the worker: clients that a handler keeps stay usable.
    import asyncio

    return asyncio.Runner()


def _greet(hello: Order | None) -> None:
    if not isinstance(hello, Hello):
        raise SystemExit("the worker closed the channel before its first message")
    sys.path[:] = hello.path
    os.environ.pop("PYTHONPATH", None)
    if hello.pythonpath is not None:
        os.environ["PYTHONPATH"] = hello.pythonpath


def _receive(channel: socket.socket) -> bytes:
    try:
        return channel.recv(262_144)
    except OSError:
        return b""


def _end_group() -> None:
    """End the handler and all processes that it started: the worker is gone."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main(argv: list[str]) -> None:
    """Tie this process to its worker, then serve."""
    channel = socket.socket(fileno=int(argv[1]))
    channel.set_inheritable(False)
    die_with_parent(int(argv[2]), signal.SIGKILL)
    child = Child(channel)
    signal.signal(signal.SIGINT, child.signalled)
    signal.signal(signal.SIGTERM, child.signalled)
    faulthandler.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A handler's output must be written before it is killed.
        sys.stdout.reconfigure(line_buffering=True)
    child.serve()


if __name__ == "__main__":
    main(sys.argv)
