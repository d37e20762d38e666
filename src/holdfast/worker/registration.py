"""Registration of a worker in the store."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ..clock import SECOND, Clock
from ..errors import QueueFull, SchemaMismatch, StorageError
from ..model.outbox import PREFIX
from ..model.webhooks import QUEUE
from ..model.webhooks import TASK as DELIVER
from ..model.workers import WorkerSpec
from ..rules.routing import task_capability, worker_capability
from ..storage.port import Op, Store
from ..tasks.destinations import Destination
from ..tasks.task import Task
from ..version import VERSION
from .claiming.routes import ServedRoutes
from .processes.identity import process_key
from .settings import WorkerSettings, weights_of

logger: Final = logging.getLogger("holdfast.worker")


async def write_until_stored(store: Store, op: Op[Any], clock: Clock) -> float:
    """Write to a store that may be down, retrying for ever; return when the successful try started."""
    while True:
        asked_at = clock.monotonic()
        try:
            await store.awrite(op)
            store.outage.passed()
            return asked_at
        except SchemaMismatch:
            raise
        except (StorageError, QueueFull) as error:
            if not store.outage.covers("the start", error):
                logger.error("the worker could not start yet (%s: %s); trying again", type(error).__name__, error)
            await asyncio.sleep(1.0)


def introduction(
    identity: str, settings: WorkerSettings, queues: Iterable[str], tasks: Mapping[str, Task[Any, Any]]
) -> WorkerSpec:
    """Return the row of a worker of this process."""
    host, pid = socket.gethostname(), os.getpid()
    outboxes = served_destinations(settings, tasks)
    return WorkerSpec(
        id=identity,
        name=own_name(settings),
        host=host,
        pid=pid,
        process_key=process_key(),
        queues=(*queues, *(destination.name for destination in outboxes)),
        tasks=tuple(sorted([name for name, task in tasks.items() if task.fn] + [to.name for to in outboxes])),
        concurrency=settings.concurrency,
        version=VERSION,
        lease=round(settings.lease * SECOND),
        capabilities=settings.capabilities,
        resident=settings.resident,
        versions=versions(tasks),
    )


def own_name(settings: WorkerSettings) -> str:
    """Return the display name of a worker of this process."""
    return settings.name or f"{socket.gethostname()}:{os.getpid()}"


def versions(tasks: Mapping[str, Task[Any, Any]]) -> dict[str, str]:
    """Return the versions of the tasks implemented here, where they declare one."""
    return {name: task.task_options.version for name, task in tasks.items() if task.fn and task.task_options.version}


def served_queues(settings: WorkerSettings, tasks: Mapping[str, Task[Any, Any]]) -> tuple[str, ...]:
    """Return the configured queues, or those of all tasks implemented here."""
    here = (task for name, task in tasks.items() if task.fn and name != DELIVER)
    own = dict.fromkeys(queue for task in here for queue in task.queues)
    asked = settings.queues or tuple(weights_of(settings.weights))
    # Only relays claim outbox entries.
    queues = [queue for queue in asked or tuple(own) or ("default",) if not queue.startswith(PREFIX)]
    # Workers that serve all queues deliver webhooks, after everything else.
    return (*queues, QUEUE) if not asked and DELIVER in tasks and QUEUE not in queues else tuple(queues)


def served_destinations(settings: WorkerSettings, tasks: Mapping[str, Task[Any, Any]]) -> list[Destination]:
    """Return the destinations implemented here; where queues are configured, only those among them."""
    asked = settings.queues or tuple(weights_of(settings.weights))
    here = [task for task in tasks.values() if isinstance(task, Destination) and task.deliver]
    return [destination for destination in here if not asked or destination.name in asked]


def capabilities(settings: WorkerSettings, tasks: Mapping[str, Task[Any, Any]]) -> list[str]:
    """Return a worker's capabilities: the configured ones, its tasks, and its name."""
    own = (task_capability(name) for name, task in tasks.items() if task.fn)
    return [*settings.capabilities, *own, worker_capability(own_name(settings))]


def served_routes(
    settings: WorkerSettings, tasks: Mapping[str, Task[Any, Any]], random: Callable[[], float]
) -> ServedRoutes:
    """Return the routes of its queues that a worker can run."""
    return ServedRoutes(
        served_queues(settings, tasks),
        capabilities(settings, tasks),
        strict=bool(settings.queues or settings.weights),
        versions=versions(tasks),
        weights=weights_of(settings.weights),
        batched=[name for name, task in tasks.items() if task.fn and task.task_options.batch is not None],
        random=random,
    )


def worth_telling(queues: tuple[str, ...]) -> tuple[str, ...]:
    """Return a worker's queues without the webhook queue, which is served beside them."""
    return tuple(queue for queue in queues if queue != QUEUE) or queues
