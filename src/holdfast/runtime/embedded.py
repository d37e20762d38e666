"""A worker inside the user's own program, as a sync and async context manager. It installs no signal handlers."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from ..clock import SYSTEM_CLOCK, Clock
from ..errors import ConfigError, HoldfastError
from ..model.answers import JobFilter
from ..storage.port import Store
from ..tasks import foreign_names
from ..tasks.foreign_names import find_attribute
from ..tasks.middleware import Middleware
from ..tasks.task import Task
from ..telemetry import refuse_in_import
from ..worker.registration import worth_telling
from ..worker.settings import WorkerSettings
from ..worker.worker import Worker

if TYPE_CHECKING:
    from ..app import App


logger: Final = logging.getLogger("holdfast")

_MOST_CHECKED: Final = 20


class EmbeddedWorker:
    """`with` runs the worker on a thread of its own, `async with` on the running event loop."""

    def __init__(
        self,
        app: App,
        store: Store,
        settings: WorkerSettings,
        middleware: Sequence[Middleware],
        clock: Clock | None = None,
        *,
        tasks: Mapping[str, Task[Any, Any]] | None = None,
    ) -> None:
        """`tasks` are those that it runs; by default all of the app's."""
        self._app = app
        self._tasks = tasks
        self._store = store
        self._settings = settings
        self._middleware = middleware
        self._clock = clock or SYSTEM_CLOCK
        self._worker: Worker | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leave = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._entered = False

    def __del__(self) -> None:
        if not getattr(self, "_entered", True):
            logger.warning("a worker does nothing by itself; write: with app.worker():")

    async def __aenter__(self) -> EmbeddedWorker:
        self._require_new()
        self._worker = self._make()
        await self._worker.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    def __enter__(self) -> EmbeddedWorker:
        self._require_new()
        self._thread = threading.Thread(target=self._serve, name="holdfast-worker", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._thread is not None
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._leave.set)
        self._thread.join()

    @property
    def id(self) -> str:
        """The worker's id in the store."""
        assert self._worker is not None
        return self._worker.id

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return find_attribute(self, "a worker", name, foreign_names.WORKER)

    def _require_new(self) -> None:
        self._entered = True
        refuse_in_import("running a worker")
        if self._thread is not None or self._worker is not None:
            raise ConfigError("this worker was started before; make another one with app.worker()")

    def _serve(self) -> None:
        from .running import run_to_its_end  # It also has the supervisor of processes, which few programs need.

        try:
            run_to_its_end(self._live())
        except BaseException as failure:
            self._failure = failure
        finally:
            self._started.set()

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._worker = self._make()
        await self._worker.start()
        self._started.set()
        await self._leave.wait()
        await self._stop()

    def _stop(self) -> asyncio.Task[None]:
        """Stop once: at the end of the block, or earlier if a worker task crashed, so that others get its jobs."""
        assert self._worker is not None
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._leave_work(self._worker))
        return self._stopping

    async def _leave_work(self, worker: Worker) -> None:
        await worker.stop()
        if self._tasks is not None or not logger.isEnabledFor(logging.INFO):
            return
        with suppress(HoldfastError):  # The store may be down, or closed by the program.
            for queue in worth_telling(worker.routes.queues):
                await self._log_waiting(queue)

    async def _log_waiting(self, queue: str) -> None:
        """Log that due jobs are not run here any more: the program probably meant to wait for them."""
        found = await self._app.jobs.afind(JobFilter(state="ready", queue=queue, limit=_MOST_CHECKED))
        if any(job.not_before <= self._clock.now() for job in found):
            logger.info(
                "the worker's block ended while jobs wait in queue %r, which are left to other workers; to wait for a"
                " job, call job.result() inside the block", queue,
            )  # fmt: skip

    def _make(self) -> Worker:
        return Worker(
            self._store,
            self._app.all_tasks if self._tasks is None else self._tasks,
            self._settings,
            app=self._app,
            middleware=self._middleware,
            declarations=self._app.declarations(),
            clock=self._clock,
            random=self._app._u,
            on_broken=self._stop,
        )
