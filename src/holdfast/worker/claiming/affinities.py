"""What a worker has loaded: the affinities of the jobs that it ran last, as many as there is room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...clock import SECOND, Clock
from ...rules.routing import Hold, loaded
from ..settings import WorkerSettings


class LoadedAffinities:
    """Kept from what is started and what ends here; what handlers say themselves counts more."""

    def __init__(self, settings: WorkerSettings, clock: Clock) -> None:
        self._clock = clock
        self._most = settings.residents
        self._wait = None if settings.affinity_wait is None else max(1, round(settings.affinity_wait * SECOND))
        self._resident = self.known = tuple(dict.fromkeys(settings.resident))
        self._running: dict[tuple[str, int], str] = {}
        self._uses = Counter[str]()
        self._since: dict[str, float] = {}
        """When each was loaded, where others may not wait for ever."""
        self.others_wait = False
        """Whether jobs of other affinities wait for a place here."""

    @property
    def resident(self) -> tuple[str, ...]:
        """The last used first."""
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
        """A run has ended; True if that made room for an affinity that jobs wait for."""
        affinity = self._running.pop((job_id, epoch), None)
        if affinity is None:
            return False
        self._uses[affinity] -= 1
        if self._uses[affinity] > 0:
            return False
        del self._uses[affinity]
        return self.others_wait

    def told(self, affinities: Iterable[str]) -> None:
        """A handler says what is loaded now, the last used first."""
        self._load(tuple(dict.fromkeys(affinities))[: self._most])

    def _load(self, affinities: tuple[str, ...]) -> None:
        if self._wait is not None:
            now, before = self._clock.monotonic(), {affinity: self._since.get(affinity) for affinity in self._resident}
            # What was loaded before this worker began has been so for ever.
            since = {affinity: before.get(affinity, now) for affinity in affinities}
            self._since = {affinity: then for affinity, then in since.items() if then is not None}
        self._resident = affinities
