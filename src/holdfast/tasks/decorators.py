"""The exact types of `@app.task`: each kind of function gives a task with its own parameters and result.

The order matters to type checkers: with a context before without, async before sync.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from .batches import Item
from .context import Context, SyncContext
from .task import AsyncTask, SyncTask, Task

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
TaskT = TypeVar("TaskT", bound=Task[Any, Any])


class TaskDecorator(Protocol):
    """The decorator that `@app.task(…)` returns."""

    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[Concatenate[SyncContext, P], R], /) -> SyncTask[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> SyncTask[P, R]: ...


class BatchDecorator(Protocol):
    """The decorator that `@app.task(batch=…)` returns: the function takes a list of items, a job has one."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[list[Item[T]], ...], Coroutine[Any, Any, None]], /
    ) -> AsyncTask[[T], None]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[list[Item[T]], ...], Coroutine[Any, Any, Sequence[R | Exception]]], /
    ) -> AsyncTask[[T], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[list[Item[T]], ...], None], /) -> SyncTask[[T], None]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[list[Item[T]], ...], Sequence[R | Exception]], /
    ) -> SyncTask[[T], R]: ...


class ScheduleDecorator(Protocol):
    """The decorator of `@app.cron(…)` and `@app.every(…)`: returns a task unchanged, makes a function a task."""

    @overload
    def __call__(self, fn: TaskT, /) -> TaskT: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[Concatenate[SyncContext, P], R], /) -> SyncTask[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> SyncTask[P, R]: ...
