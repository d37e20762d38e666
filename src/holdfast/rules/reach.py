"""Finds the workers that could run a job, and what is missing if none could."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..model.route import Route
from ..model.worker import Worker
from .totals import live
from .versions import fits, read_pin

_TASK: Final = "task:"
_WORKER: Final = "worker:"
RESERVED: Final = (_TASK, _WORKER)
"""Prefixes of the capabilities that each worker has by itself: its tasks and its name."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One fact: a stable code for programs, a sentence for people."""

    code: str
    text: str


def worker_capability(name: str) -> str:
    """Return the capability that only workers of that name have."""
    return _WORKER + name


def task_of(route: Route) -> str:
    """The task that its jobs are of, where the route says so; "" otherwise."""
    named = [name.removeprefix(_TASK) for name in route.requires if name.startswith(_TASK)]
    return named[0] if named else read_pin(route.version)[0]


def is_for_one(route: Route) -> bool:
    """Return whether a route names its worker."""
    return bool(_names(route))


def able(route: Route, task: str, workers: Sequence[Worker]) -> list[Worker]:
    """The live workers that could run such a job."""
    return [] if missing(route, task, workers) else _narrowed(route, task, workers)[-1]


def missing(route: Route, task: str, workers: Sequence[Worker]) -> Reason | None:
    """Return the first requirement that no worker meets, as a reason; None where a worker could run such a job."""
    alive, serving, knowing, fitted, versioned, named = _narrowed(route, task, workers)
    queue = repr(route.queue)
    if not alive:
        return Reason("no_worker", f"no worker is alive for queue {queue}; start one with: holdfast worker MODULE:APP")
    if not serving:
        queues = ", ".join(sorted({queue for worker in alive for queue in worker.queues}))
        return Reason("queue_not_served", f"no live worker serves queue {queue}; they serve {queues}")
    if not knowing:
        return Reason("task_unknown", f"no live worker of queue {queue} knows the task {task!r}")
    if not fitted:
        return _capability_missing(route)
    if not versioned:
        return _version_missing(route, fitted)
    if not named:
        name = ", ".join(_names(route))
        return Reason("worker_missing", f"it is for worker {name}, and no live worker of that name could run it")
    return None


def _narrowed(route: Route, task: str, workers: Sequence[Worker]) -> tuple[list[Worker], ...]:
    """Return the live workers, those of them that serve the queue, those of these that know the task, and so on."""
    alive = live(workers)
    serving = [worker for worker in alive if route.queue in worker.queues]
    knowing = [worker for worker in serving if not task or task in worker.tasks]
    fitted = [worker for worker in knowing if _capabilities(route) <= {*worker.capabilities}]
    versioned = [worker for worker in fitted if fits(route.version, worker.versions)]
    named = [worker for worker in versioned if _names(route) <= {worker.name}]
    return alive, serving, knowing, fitted, versioned, named


def _capability_missing(route: Route) -> Reason:
    needs = ", ".join(sorted(_capabilities(route)))
    return Reason("capability_missing", f"it requires {needs}, which no live worker of queue {route.queue!r} has")


def _version_missing(route: Route, workers: Sequence[Worker]) -> Reason:
    task, wanted = read_pin(route.version)
    there = ", ".join(sorted({worker.versions.get(task, "none declared") for worker in workers}))
    return Reason("version_missing", f"it asks for version {wanted} of {task!r}; the live workers have {there}")


def _capabilities(route: Route) -> frozenset[str]:
    return frozenset(name for name in route.requires if not name.startswith(RESERVED))


def _names(route: Route) -> set[str]:
    return {name.removeprefix(_WORKER) for name in route.requires if name.startswith(_WORKER)}
