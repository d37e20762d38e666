"""Makes the worker of an app: one that always works, or one that rests while there is no work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..clock import SYSTEM_CLOCK, Clock
from ..storage.port import Store
from ..tasks.middleware import Middleware
from ..tasks.resources import ResourceHost
from ..tasks.task import Task
from ..worker.resting import RestingWorker
from ..worker.settings import WorkerSettings
from ..worker.worker import Worker

if TYPE_CHECKING:
    from ..app import App


def worker_of(
    app: App,
    store: Store,
    settings: WorkerSettings,
    *,
    tasks: Mapping[str, Task[Any, Any]] | None = None,
    middleware: Sequence[Middleware] | None = None,
    clock: Clock | None = None,
    identity: str | None = None,
    on_stuck: Callable[[], None] | None = None,
    on_broken: Callable[[], object] = lambda: None,
) -> Worker | RestingWorker:
    """Return a worker that is not started. `tasks` are those that it runs; by default it has all of the app's."""
    clock = clock or SYSTEM_CLOCK

    def make(identity: str | None, resources: ResourceHost | None) -> Worker:
        return Worker(
            store,
            app.all_tasks if tasks is None else tasks,
            settings,
            app=app,
            middleware=app._middleware if middleware is None else middleware,
            declarations=app.declarations(),
            identity=identity,
            clock=clock,
            random=app._u,
            on_stuck=on_stuck,
            on_broken=on_broken,
            resources=resources,
        )

    if not settings.idle:
        return make(identity, None)
    return RestingWorker(make, store, settings, clock, app._u, resources=ResourceHost.here(app), identity=identity)
