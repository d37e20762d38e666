"""Affinities that a worker has loaded: those of its most recent jobs, up to its limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...clock import SECOND, Clock
from ...rules.routing import Hold, loaded
from ..settings import WorkerSettings


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
