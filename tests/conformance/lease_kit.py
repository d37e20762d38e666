"""A worker elsewhere: it knows nothing but `app.remote`, in either colour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast import App
from holdfast.model.jobs import JobRecord
from holdfast.model.remote import LeasedJob

from .world import World


class Colour:
    """Calls the method of that name, or its awaiting twin."""

    def __init__(self, app: App, runner: asyncio.Runner | None) -> None:
        self._app = app
        self._runner = runner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if self._runner is None:
            blocking: Callable[..., Any] = getattr(self._app.remote, name)
            return blocking
        runner, twin = self._runner, getattr(self._app.remote, f"a{name}")
        return lambda *args, **kwargs: runner.run(twin(*args, **kwargs))


class Elsewhere:
    """An app on a test's store, and workers that are not of this process."""

    def __init__(self, world: World, runner: asyncio.Runner | None = None) -> None:
        self.world = world
        self.app = App(":memory:", clock=world.clock)
        self.app._opened = world.store
        self.remote = Colour(self.app, runner)
        self.task = self.app.declare("work")

    def worker(self, **options: Any) -> str:
        known: dict[str, Any] = {"queues": ["default"], "tasks": ["work"], "concurrency": 10}
        worker: str = self.remote.register("elsewhere", **{**known, **options}).worker
        return worker

    def enqueue(self, *args: Any, **options: Any) -> str:
        return self.app.enqueue(self.task.options(**options).job(**(args[0] if args else {}))).id

    def take(self, worker: str, **options: Any) -> LeasedJob:
        """Claim exactly one job."""
        (job,) = self.remote.claim(worker, 1, **options)
        assert isinstance(job, LeasedJob)
        return job

    def running(self, **options: Any) -> tuple[str, LeasedJob]:
        """A new worker, and a job in its hands."""
        worker = self.worker()
        self.enqueue(**options)
        return worker, self.take(worker)

    def job(self, job_id: str) -> JobRecord:
        return self.world.job(job_id)
