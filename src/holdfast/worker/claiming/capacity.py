"""Number and kind of jobs that a worker can take now, and the affinities that it has loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ...clock import SECOND, Clock
from ...model.jobs import Claimed
from ...model.limits import ActiveLimits
from ...model.outcomes import Rerouted
from ...rules import retry
from ...rules.routing import Hold, loaded
from ...storage.ops.jobs.claims import ClaimRequest
from ...storage.ops.routing.affinities import Routing
from ..settings import WorkerSettings
from .routes import ServedRoutes

SINGLE: Final = ""
"""The kind of all jobs that are not of a task that takes batches; the kind of those is their task."""


class Capacity:
    """Number and kind of jobs that fit, and the routes to claim from."""

    __slots__ = ("alone", "kinds", "n", "parts", "routes", "routing", "suspects")

    def __init__(
        self,
        n: int,
        routes: str,
        suspects: int = 0,
        alone: bool = False,
        parts: tuple[tuple[str, int], ...] = (),
        routing: Routing | None = None,
        kinds: Mapping[str, int] | None = None,
    ) -> None:
        """`kinds` says how many of `n` are for each kind of jobs, if they are of several; see `SINGLE`."""
        self.n = n
        self.routes = routes
        self.suspects = suspects
        self.alone = alone
        self.parts = parts
        self.routing = routing
        self.kinds = kinds

    def exhausted(self, claimed: Iterable[Claimed], parked: int, kind_of: Mapping[int, str]) -> set[str]:
        """Return the kinds of jobs of which a claim has found all that there are. `kind_of` is by their routes."""
        assert self.kinds is not None
        found = Counter(kind_of.get(job.route, SINGLE) for job in claimed)
        return {kind for kind, most in self.kinds.items() if found[kind] + parked < most}

    def beside(self, every: str) -> Capacity:
        """Return this capacity for suspects of every route, and for others of its own routes only."""
        parts = self.parts or ((self.routes, self.n),)
        return Capacity(self.n, every, self.suspects, self.alone, parts, self.routing)

    @property
    def is_plain(self) -> bool:
        return not self.alone and not self.parts and self.routing is None

    def request(self, owner: str, token: str, standing: ActiveLimits, beyond: str | None = None) -> ClaimRequest:
        """Return a claim for this capacity; see `ClaimPosition` for `beyond`."""
        return ClaimRequest(
            owner=owner,
            token=token,
            routes=self.routes,
            n=self.n,
            suspects=self.suspects,
            alone=self.alone,
            standing=standing,
            parts=self.parts,
            routing=self.routing,
            beyond=beyond,
        )


def open_routes(
    routes: ServedRoutes, shares: Mapping[str, int], running: Iterable[str], free: int
) -> tuple[str | None, tuple[tuple[str, int], ...]]:
    """Return the routes to claim from; None if every queue's share is used up. `running` are queues of running jobs."""
    return routes.beside(Counter(running), shares, free) if shares else (routes.current(), ())


def routing_of(routes: ServedRoutes, hold: Callable[[], Hold], known: tuple[str, ...]) -> Routing | None:
    """Return the claim's routing data; None unless routes have an affinity or name this worker."""
    if not routes.affinities and not routes.own:
        return None
    return Routing(hold(), routes.affinities, routes.own, known)


def rerouted(job: Claimed, routes: ServedRoutes, now: int) -> Rerouted:
    """Return the outcome of a claimed job whose task is unknown here: it is left to workers that have the task."""
    route = routes.find(job.route, job.queue).requiring(f"task:{job.task}")
    limit = retry.age_limit(retry.decode(job.retry), job.created_at, job.time_left, now)
    return Rerouted(route, "no_handler", limit)


class LoadedAffinities:
    """Tracked from the runs that start and end here; a handler's own report overrides it."""

    def __init__(self, settings: WorkerSettings, clock: Clock) -> None:
        self._clock = clock
        self._most = settings.residents
        self._wait = None if settings.affinity_wait is None else max(1, round(settings.affinity_wait * SECOND))
        self._resident = self.known = tuple(dict.fromkeys(settings.resident))
        self._running: dict[tuple[str, int], str] = {}
        self._uses = Counter[str]()
        self._since: dict[str, float] = {}
        """Time when each was loaded; kept only if `affinity_wait` is set."""
        self.others_wait = False
        """True while jobs with other affinities wait for a place here."""

    @property
    def resident(self) -> tuple[str, ...]:
        """Loaded affinities, the most recently used first."""
        return self._resident

    def hold(self) -> Hold:
        return Hold(self._resident, frozenset(self._uses), self._most, self._wait, self._stints())

    def _stints(self) -> dict[str, int]:
        now = self._clock.monotonic()
        return {affinity: round((now - since) * SECOND) for affinity, since in self._since.items()}

    def began(self, job_id: str, epoch: int, affinity: str) -> None:
        self._running[job_id, epoch] = affinity
        self._uses[affinity] += 1
        self._load(loaded(self.hold(), (affinity,)))

    def ended(self, job_id: str, epoch: int) -> bool:
        """Note the end of a run; True if that made room for an affinity that jobs wait for."""
        affinity = self._running.pop((job_id, epoch), None)
        if affinity is None:
            return False
        self._uses[affinity] -= 1
        if self._uses[affinity] > 0:
            return False
        del self._uses[affinity]
        return self.others_wait

    def set_loaded(self, affinities: Iterable[str]) -> None:
        """Store a handler's report of what is loaded now, the most recently used first."""
        self._load(tuple(dict.fromkeys(affinities))[: self._most])

    def _load(self, affinities: tuple[str, ...]) -> None:
        if self._wait is not None:
            now, before = self._clock.monotonic(), {affinity: self._since.get(affinity) for affinity in self._resident}
            # Affinities loaded before this worker started have no start time.
            since = {affinity: before.get(affinity, now) for affinity in affinities}
            self._since = {affinity: then for affinity, then in since.items() if then is not None}
        self._resident = affinities
