"""Daemon threads for calls that block: the interpreter must be able to exit while a call hangs."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from ..tasks.connections import close_all_connections

T = TypeVar("T")

_MOST_AT_ONCE: Final = 32


def on_thread(call: Callable[[], T]) -> Future[T]:
    """Run a call on a thread of its own, in a copy of the caller's context. Cancelling it does not stop it."""
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
