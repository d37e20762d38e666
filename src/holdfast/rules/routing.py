"""Choose the affinities that a worker serves next: models, datasets and other things that are slow to load.

A worker has room for a fixed number. It stays with what it has loaded while there are jobs for it; other affinities
come first by their queue, by their priority, or when they have waited longer than allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from ..errors import ConfigError
from ..model.routing import Route
from ..model.workers import WorkerRecord
from ..names import check_queue
from .limits import live
from .versions import fits, read_pin


@dataclass(frozen=True, slots=True)
class Head:
    """The first claimable job of a route with an affinity."""

    affinity: str
    tier: int
    """The place of its queue in the worker's order."""
    priority: int
    rank: int
    id: str
    waited: int
    """Microseconds for which it could have started."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The affinities that a worker has loaded, the last used first, and those that its running jobs use."""

    resident: tuple[str, ...]
    in_use: frozenset[str]
    most: int
    wait: int | None = None
    """The longest wait of other affinities, in microseconds; None is unbounded."""
    stints: Mapping[str, int] = field(default_factory=dict)
    """The microseconds for which each has been loaded; a missing one has always been."""
    elsewhere: frozenset[str] = frozenset()
    """The affinities that other workers have loaded; empty if other affinities may wait forever."""

    def using(self, affinities: Iterable[str]) -> Hold:
        """Return the hold after jobs of these affinities were started."""
        used = tuple(dict.fromkeys(affinities))
        stints = {**self.stints, **{affinity: 0 for affinity in used if affinity not in self.resident}}
        return replace(self, resident=loaded(self, used), in_use=self.in_use | set(used), stints=stints)

    @property
    def is_full(self) -> bool:
        return len(self.in_use) >= self.most


def choose(hold: Hold, heads: Sequence[Head]) -> tuple[str, ...]:
    """Return the affinities to claim from, the best first; none if a better one waits for running jobs to end."""
    best: dict[str, Head] = {}
    stint = None if hold.wait is None else hold.wait // (2 * max(1, len({head.affinity for head in heads})))
    for head in sorted(heads, key=lambda head: _order(hold, stint, head)):
        best.setdefault(head.affinity, head)
    wanted = list(best)[: hold.most]
    chosen: list[str] = []
    for affinity in wanted:
        # An affinity in use cannot be unloaded: its place is free when its jobs have ended, and it gets no new ones.
        if len(hold.in_use | {*chosen, affinity}) <= hold.most:
            chosen.append(affinity)
    return tuple(chosen)


def loaded(hold: Hold, used: Sequence[str]) -> tuple[str, ...]:
    """Return the affinities that are loaded after a start: `used`, those in use, then the last used of the rest."""
    order = dict.fromkeys([*used, *(name for name in hold.resident if name in hold.in_use), *hold.resident])
    return tuple(order)[: hold.most]


def _order(hold: Hold, stint: int | None, head: Head) -> tuple[int, int, int, int, int, str]:
    urgency, late = _urgency(hold, stint, head)
    return head.tier, -head.priority, urgency, -late, head.rank, head.id


def _urgency(hold: Hold, stint: int | None, head: Head) -> tuple[int, int]:
    """Return a sort key, then the time waited: loaded affinities first, or those that must not wait any longer.

    Half of the bound is for waiting, half for the turns of the affinities served before: each late one is served for a
    share of it, and then yields to other late ones. Under overload every job is late, and oldest first would mean a new
    load for each job.
    """
    is_resident = head.affinity in hold.resident or head.affinity in hold.in_use
    if stint is None or hold.wait is None:
        return (0 if is_resident else 3), 0
    if is_resident:
        return (0 if hold.stints.get(head.affinity, stint) < stint else 2), 0
    # Not everybody runs after the same late one: where another worker has it, that one comes first.
    patience = hold.wait if head.affinity in hold.elsewhere else hold.wait // 2
    return (1, head.waited) if head.waited >= patience else (3, 0)


_TASK: Final = "task:"
_WORKER: Final = "worker:"
RESERVED: Final = (_TASK, _WORKER)
"""Prefixes of the capabilities that each worker has implicitly: its tasks and its name."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One fact: a stable code for programs, a sentence for people."""

    code: str
    text: str


def worker_capability(name: str) -> str:
    """Return the capability that only workers of that name have."""
    return _WORKER + name


def task_capability(name: str) -> str:
    """Return the capability that only workers with that task have."""
    return _TASK + name


def task_of(route: Route) -> str:
    """Return the task of a route's jobs, if the route names one; "" otherwise."""
    named = [name.removeprefix(_TASK) for name in route.requires if name.startswith(_TASK)]
    return named[0] if named else read_pin(route.version)[0]


def is_for_one(route: Route) -> bool:
    """Return whether a route names its worker."""
    return bool(_names(route))


def able(route: Route, task: str, workers: Sequence[WorkerRecord]) -> list[WorkerRecord]:
    """Return the live workers that could run such a job."""
    return [] if missing(route, task, workers) else _narrowed(route, task, workers)[-1]


def missing(route: Route, task: str, workers: Sequence[WorkerRecord]) -> Reason | None:
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
        return Reason("worker_missing", f"only worker {name} may run it, and no live worker of that name could")
    return None


def _narrowed(route: Route, task: str, workers: Sequence[WorkerRecord]) -> tuple[list[WorkerRecord], ...]:
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


def _version_missing(route: Route, workers: Sequence[WorkerRecord]) -> Reason:
    task, wanted = read_pin(route.version)
    there = ", ".join(sorted({worker.versions.get(task, "none declared") for worker in workers}))
    return Reason("version_missing", f"it asks for version {wanted} of {task!r}; the live workers have {there}")


def _capabilities(route: Route) -> frozenset[str]:
    return frozenset(name for name in route.requires if not name.startswith(RESERVED))


def _names(route: Route) -> set[str]:
    return {name.removeprefix(_WORKER) for name in route.requires if name.startswith(_WORKER)}


DEFAULT: Final = "default"
Routes: TypeAlias = "Mapping[str, str] | Callable[[str], str | None]"
"""Queues by task name, by prefix (`"mail.*"`) or for all others (`"*"`); or a function from a task name to a queue."""


class QueueRouter:
    """Maps task names to queues."""

    def __init__(self, routes: Routes | None) -> None:
        self._ask = routes if callable(routes) else None
        self._exact: dict[str, str] = {}
        self._prefixes: list[tuple[str, str]] = []
        if routes is not None and not callable(routes):
            self._read(routes)

    def queue_for(self, task: str) -> str:
        """Return the queue of the exact name, else of the longest prefix, else "default"."""
        if self._ask is not None:
            found = self._ask(task)
            return DEFAULT if found is None else check_queue(found)
        if task in self._exact:
            return self._exact[task]
        return next((queue for prefix, queue in self._prefixes if task.startswith(prefix)), DEFAULT)

    def _read(self, routes: Mapping[str, str]) -> None:
        for pattern, queue in routes.items():
            if not pattern or "*" in str(pattern)[:-1] or type(pattern) is not str:
                raise ConfigError(f"{pattern!r} routes no task; use a task's name, or a prefix such as 'mail.*'")
            if pattern.endswith("*"):
                self._prefixes.append((pattern[:-1], check_queue(queue)))
            else:
                self._exact[pattern] = check_queue(queue)
        self._prefixes.sort(key=lambda item: -len(item[0]))
