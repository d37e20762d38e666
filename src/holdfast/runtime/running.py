"""Runs a worker as the main program of a process: it owns the event loop and the signals.

The first SIGTERM or SIGINT stops gracefully, the second stops now, the third has its usual effect.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from ..worker.condition import STARTING, Condition
from ..worker.processes.parent import SUPERVISOR_VARIABLE, is_orphan, take_worker_id, tie_to_supervisor
from ..worker.processes.supervisor import ONE_STOP, Supervisor
from ..worker.resting import RestingWorker
from ..worker.settings import WorkerSettings
from ..worker.worker import Worker
from .probes import Crew, ProbeServer, report
from .workers import worker_of

if TYPE_CHECKING:
    from ..app import App

__all__ = ["EXIT_BROKEN", "EXIT_STUCK", "EXIT_WORN_OUT", "SUPERVISOR_VARIABLE", "Health", "run_worker", "run_workers"]

logger: Final = logging.getLogger("holdfast.worker")

EXIT_STUCK: Final = 70
"""The event loop was blocked for several leases and the process ended itself."""
EXIT_BROKEN: Final = 71
"""A worker task crashed with an unexpected error: the worker stopped, to be restarted."""
EXIT_WORN_OUT: Final = 75
"""Too many threads hang in handlers that do not end: the worker stopped, to be restarted."""

_OBJECTS_UNTIL_COLLECTED: Final = 10_000
_CHECK_EVERY: Final = 1.0
_LAST_CHANCE: Final = 1.0
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Health:
    """Where the health of a worker is served."""

    port: int
    host: str = "127.0.0.1"


def run_worker(app: App, settings: WorkerSettings, *, identity: str | None = None, health: Health | None = None) -> int:
    """Run a worker until a stop signal; return the process's exit code. Main thread only."""
    collect_seldom()
    supervisor = tie_to_supervisor()
    current = _Current()
    # A worker process finds the port of its supervisor in the environment, too.
    if not report(current.condition, settings.lease) and health is not None:
        ProbeServer(current.condition, health.port, health.host)
    code, all_ended = run_to_its_end(_live(app, settings, identity or take_worker_id(), supervisor, current))
    if not all_ended:
        # The interpreter would also wait for hanging threads.
        _end_at_once(code)
    return code


class _Current:
    """The worker of this process, once there is one."""

    worker: Worker | RestingWorker | None = None

    def condition(self) -> Condition:
        return STARTING if self.worker is None else self.worker.condition()


def collect_seldom() -> None:
    """Run the cyclic garbage collector less often, unless the program has set its own threshold.

    Reference counting frees what a job leaves behind. With Python's default, collections of live objects took a tenth
    of the time of short jobs.
    """
    youngest, *older = gc.get_threshold()
    if 0 < youngest < _OBJECTS_UNTIL_COLLECTED:
        gc.freeze()
        gc.set_threshold(_OBJECTS_UNTIL_COLLECTED, *older)


def run_workers(
    app: App, argv: Sequence[str], count: int, settings: WorkerSettings, *, health: Health | None = None
) -> int:
    """Run `count` processes of a command line and restart crashed ones; return the exit code. Main thread only."""
    tie_to_supervisor()  # with --reload there is one
    # After the grace period a worker needs time to give up handlers, and up to a lease to record the last outcomes.
    longest = settings.grace + settings.cancel_grace + settings.lease + 30.0
    crew = None if health is None else Crew(settings.lease)
    supervisor = Supervisor(
        argv,
        count,
        on_lost=lambda worker_id: _rescue(app, worker_id),
        stop_after=longest,
        open_pipe=None if crew is None else crew.open_pipe,
    )
    if health is not None and crew is not None:
        ProbeServer(partial(crew.condition, supervisor), health.port, health.host)
    try:
        return supervisor.run()
    finally:
        app.close()


async def _live(
    app: App, settings: WorkerSettings, identity: str | None, supervisor: int | None, current: _Current
) -> int:
    leave = asyncio.Event()

    def stop_now() -> None:
        if current.worker is not None:
            current.worker.stop_runs("shutdown")

    # Before the store is opened, which takes as long as another process holds the file.
    with _signals(leave.set, stop_now):
        current.worker = worker = worker_of(
            app, app.open(), settings, clock=app._clock, identity=identity, on_stuck=_end_stuck
        )
        code = await _work(worker, leave, supervisor)
    app.close()
    return code


async def _work(worker: Worker | RestingWorker, leave: asyncio.Event, supervisor: int | None) -> int:
    leaving = asyncio.create_task(leave.wait())
    starting = asyncio.create_task(worker.start())
    await asyncio.wait({starting, leaving}, return_when=asyncio.FIRST_COMPLETED)
    # It may be registered already, and must deregister then; a store that is down is not waited for.
    await asyncio.wait({starting}, timeout=_LAST_CHANCE)
    if not starting.done():
        starting.cancel()
        return 0
    await starting
    code = await _until_stopped(worker, leaving, supervisor)
    leaving.cancel()
    await worker.stop()
    logger.info("worker %s has stopped", worker.id)
    return code


async def _until_stopped(worker: Worker | RestingWorker, leaving: asyncio.Task[bool], supervisor: int | None) -> int:
    while True:
        done, _ = await asyncio.wait({leaving}, timeout=_CHECK_EVERY)
        if done:
            return 0
        if is_orphan(supervisor):
            logger.warning("the supervisor is gone; stopping")
            return 0
        if worker.error:
            return EXIT_BROKEN
        if worker.is_worn_out:
            logger.error("too many threads hang in handlers that do not end; stopping, to be restarted")
            return EXIT_WORN_OUT


@contextmanager
def _signals(first: Callable[[], None], second: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    asked_at: float | None = None

    def take(number: signal.Signals) -> None:
        nonlocal asked_at
        if asked_at is None:
            asked_at = loop.time()
            logger.info("%s: stopping; running jobs may end within the grace, a second signal stops now", number.name)
            first()
        elif loop.time() - asked_at > ONE_STOP:
            logger.warning("second signal: stopping now; running jobs are handed back")
            second()
            for each in _STOP_SIGNALS:
                loop.remove_signal_handler(each)

    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, take, number)
    try:
        yield
    finally:
        for number in _STOP_SIGNALS:
            loop.remove_signal_handler(number)


def _rescue(app: App, worker_id: str) -> None:
    if rescued := app.workers.rescue(worker_id):
        logger.warning("worker %s is lost; %d of its jobs were rescued", worker_id, rescued)


def _end_stuck() -> None:
    """End a process whose loop is blocked: nothing can be stopped cleanly, and other workers rescue its jobs."""
    logging.shutdown()
    os._exit(EXIT_STUCK)


def _end_at_once(code: int) -> NoReturn:
    """End a process that would not end by itself after its worker has stopped."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


def run_to_its_end(main: Coroutine[Any, Any, T]) -> tuple[T, bool]:
    """Run like `asyncio.run`; return the result, and whether every task and thread ended. The others are dropped.

    `asyncio.run` waits without limit for cancelled tasks, and for threads that hang in calls of `asyncio.to_thread`.
    """
    runner = asyncio.Runner()
    threads = ThreadPoolExecutor(thread_name_prefix="asyncio")
    runner.get_loop().set_default_executor(threads)
    all_ended = False
    try:
        value = runner.run(main)
    finally:
        all_ended = _end(runner, threads)
    return value, all_ended


def _end(runner: asyncio.Runner, threads: ThreadPoolExecutor) -> bool:
    left = runner.run(_wind_up())
    if left:
        logger.warning("not waited for any longer, although cancelled: %s", "; ".join(left))
    if not _returns(threads):
        left.append("threads")
        logger.warning("threads of asyncio.to_thread hang in their calls; they are not waited for any longer")
    if left:
        runner.get_loop().close()
    else:
        runner.close()
    return not left


async def _wind_up() -> list[str]:
    """Cancel all tasks and close the generators; return descriptions of the tasks that do not end."""
    me = asyncio.current_task()
    rest = asyncio.all_tasks() - {me}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=_LAST_CHANCE)
    closing = asyncio.create_task(asyncio.get_running_loop().shutdown_asyncgens())
    await asyncio.wait({closing}, timeout=_LAST_CHANCE)
    return [_described(task) for task in asyncio.all_tasks() if task is not me]


def _described(task: asyncio.Task[Any]) -> str:
    """Return the task's name and its stack of coroutines, outermost first."""
    coroutine: Any = task.get_coro()
    places = []
    while (place := getattr(coroutine, "__qualname__", None)) is not None:
        places.append(place)
        coroutine = getattr(coroutine, "cr_await", None)
    return f"{task.get_name()} ({' > '.join(places)})"


def _returns(threads: ThreadPoolExecutor) -> bool:
    ending = threading.Thread(target=threads.shutdown, name="holdfast-end", daemon=True)
    ending.start()
    ending.join(_LAST_CHANCE)
    return not ending.is_alive()
