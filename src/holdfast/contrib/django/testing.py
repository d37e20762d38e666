"""Tools for the tests of a Django project: run the jobs that a test enqueued, and assert on them.

In a TestCase, jobs are part of the test's transaction: the test sees them, its jobs see its rows, and all of it is
rolled back. `run_jobs` runs them one after the other, with the test's own connections.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from asgiref.sync import sync_to_async

from ...clock import SECOND, ManualClock
from ...errors import ConfigError, InvalidInput
from ...runtime.draining import Drained, drain_store, run_blocking
from ...tasks.task import Task
from ...testing import assert_enqueued as _assert_enqueued
from .project import shared_app
from .store_in_tests import is_testing
from .untyped import connections

if TYPE_CHECKING:
    from ...model.jobs import JobRecord
    from ...tasks.task import JobRequest

__all__ = ["JobAssertions", "arun_jobs", "assert_enqueued", "run_jobs"]

_SAVEPOINT: Final = "holdfast_run"
_ABORTED: Final = 3  # psycopg's TransactionStatus.INERROR


def run_jobs(
    *,
    queues: Sequence[str] | None = None,
    until_empty: bool = True,
    at: datetime | None = None,
    webhooks: bool = False,
) -> Drained:
    """Run every due job now, one after the other; return the number of runs by outcome.

    Jobs that those jobs enqueue run too; with `until_empty=False` only as many as are due at the start. `at` is the
    time that it is for the jobs, to run delayed ones and retries. Webhooks are sent only with `webhooks=True`. A task
    with `isolate="process"` runs in this process, because another could not see the test's transaction.
    """
    _require_test()
    with _shared_connections(_initialized()), _clock_at(at):
        return run_blocking(_drained(queues, until_empty, webhooks), instead="await arun_jobs(…)")


async def arun_jobs(
    *,
    queues: Sequence[str] | None = None,
    until_empty: bool = True,
    at: datetime | None = None,
    webhooks: bool = False,
) -> Drained:
    """The async version of `run_jobs`."""
    _require_test()
    mine = await sync_to_async(_initialized)()
    with _shared_connections(mine), _clock_at(at):
        return await _drained(queues, until_empty, webhooks)


def assert_enqueued(
    wanted: Task[..., Any] | JobRequest[Any],
    *,
    queue: str | None = None,
    tenant: str | None = None,
    count: int | None = None,
) -> list[JobRecord]:
    """Fail unless such jobs were enqueued, whatever their state now; return them, the oldest first.

    `wanted` is a task, or a call of it with the arguments to look for: `assert_enqueued(receipt.job(42))`. `count` is
    the required number, 0 for none; without it, at least one.
    """
    __tracebackhide__ = True
    return _assert_enqueued(shared_app(), wanted, queue=queue, tenant=tenant, count=count)


class JobAssertions:
    """Methods for a test case: `class OrderTests(JobAssertions, TestCase)`."""

    def run_jobs(self, **options: Any) -> Drained:
        """Run every due job now, as the function `run_jobs` does."""
        return run_jobs(**options)

    def assertEnqueued(
        self,
        wanted: Task[..., Any] | JobRequest[Any],
        *,
        queue: str | None = None,
        tenant: str | None = None,
        count: int | None = None,
    ) -> list[JobRecord]:
        """Fail unless such jobs were enqueued, as `assert_enqueued` does."""
        return assert_enqueued(wanted, queue=queue, tenant=tenant, count=count)

    def assertNotEnqueued(
        self, wanted: Task[..., Any] | JobRequest[Any], *, queue: str | None = None, tenant: str | None = None
    ) -> None:
        """Fail if such jobs were enqueued."""
        assert_enqueued(wanted, queue=queue, tenant=tenant, count=0)


def _require_test() -> None:
    if not is_testing():
        raise ConfigError("run_jobs is for tests, run by manage.py test or pytest-django; elsewhere use app.drain()")


async def _drained(queues: Sequence[str] | None, until_empty: bool, webhooks: bool) -> Drained:
    app = shared_app()
    settings = app.settings(queues=queues, concurrency=1).worker
    tasks = _in_process(app.all_tasks if webhooks else app.tasks)
    return await drain_store(app, settings, tasks, until_empty=until_empty)


@contextmanager
def _clock_at(at: datetime | None) -> Iterator[None]:
    """Let it be that time for the app and its store."""
    if at is None:
        yield
        return
    if at.tzinfo is None:
        raise InvalidInput("at has no time zone; use django.utils.timezone.now() + timedelta(…)")
    app = shared_app()
    before = app._clock
    app._clock = ManualClock(round(at.timestamp() * SECOND))
    app._test_store = None
    try:
        yield
    finally:
        app._clock = before
        app._test_store = None


# -- connections


def _initialized() -> dict[str, Any]:
    """Return this thread's connections, by alias."""
    return {connection.alias: connection for connection in connections.all(initialized_only=True)}


@contextmanager
def _shared_connections(mine: Mapping[str, Any]) -> Iterator[None]:
    """Let all threads use the test's connections, and close none of them: its transactions are open there.

    Only one thread uses them at a time: jobs run one after the other, and the test waits.
    """
    before = connections._connections
    for connection in mine.values():
        connection.inc_thread_sharing()
        connection.close = _keep_open
    connections._connections = SimpleNamespace(**mine)
    try:
        yield
    finally:
        connections._connections = before
        for connection in mine.values():
            del connection.close
            connection.dec_thread_sharing()


def _keep_open() -> None:
    """Close nothing."""


# -- tasks


def _in_process(tasks: Mapping[str, Task[Any, Any]]) -> dict[str, Task[Any, Any]]:
    return {name: _adapted(task) for name, task in tasks.items()}


def _adapted(task: Task[Any, Any]) -> Task[Any, Any]:
    """Return a task that runs in this process, and after a database error leaves the test's transaction usable."""
    if task.fn is None:
        return task
    # Not `copy.copy`: a task is pickled by its name, and a copy would be the task itself.
    adapted = object.__new__(type(task))
    vars(adapted).update(vars(task))
    adapted.fn = (_async_guarded if task.is_async else _guarded)(task.fn)
    adapted.task_options = replace(task.task_options, isolate=None)
    return adapted


def _guarded(fn: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _usable_after_errors():
            return fn(*args, **kwargs)

    return call


def _async_guarded(fn: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fn)
    async def call(*args: Any, **kwargs: Any) -> Any:
        async with _async_usable_after_errors():
            return await fn(*args, **kwargs)

    return call


@contextmanager
def _usable_after_errors() -> Iterator[None]:
    """Undo what a job wrote if an error of the database has made the transaction unusable.

    A worker's handler has no transaction around it: an error there spoils nothing, and what it wrote before stays.
    """
    opened = _open_savepoints()
    try:
        yield
    finally:
        _end_savepoints(opened)


@asynccontextmanager
async def _async_usable_after_errors() -> AsyncIterator[None]:
    opened = await sync_to_async(_open_savepoints)()
    try:
        yield
    finally:
        await sync_to_async(_end_savepoints)(opened)


def _open_savepoints() -> list[Any]:
    opened = [connection for connection in connections.all(initialized_only=True) if connection.in_atomic_block]
    for connection in opened:
        # On the driver's connection: a test that counts queries counts its own.
        _execute(connection, f"savepoint {_SAVEPOINT}")
    return opened


def _end_savepoints(opened: list[Any]) -> None:
    for connection in opened:
        if connection.needs_rollback or _is_aborted(connection):
            _execute(connection, f"rollback to {_SAVEPOINT}")
            connection.needs_rollback = False
        _execute(connection, f"release {_SAVEPOINT}")


def _is_aborted(connection: Any) -> bool:
    return bool(connection.vendor == "postgresql" and connection.connection.info.transaction_status == _ABORTED)


def _execute(connection: Any, text: str) -> None:
    connection.connection.cursor().execute(text).close()
