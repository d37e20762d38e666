"""Decides which claimed jobs may start, given the room in their lanes and the tokens in their buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from ..model.job import Claimed
from ..model.limits import JobLimits, Standing, breaker_lane, queue_lane, rate_lane, task_lane


class Candidate(msgspec.Struct, frozen=True):
    """A job that was claimed a moment ago, with what limits it."""

    job: Claimed
    lanes: tuple[str, ...]
    capacities: tuple[tuple[str, int], ...] = ()
    """Lanes that the job itself brings along, with their capacity."""
    scope: str | None = None
    breaker: str | None = None
    """The lane of its circuit breaker."""
    base: str | None = None
    """The rate that `scope` is a key's bucket of."""
    quota: str | None = None
    shares_quota: bool = True
    """True if the quota may be the one without a tenant."""

    @property
    def is_free(self) -> bool:
        return not self.lanes and self.scope is None and self.breaker is None and self.quota is None

    @property
    def holds(self) -> tuple[str, ...]:
        """The lanes and the breaker that are recorded on the job while it runs."""
        return self.lanes if self.breaker is None else (*self.lanes, self.breaker)

    @property
    def stands_in_others(self) -> bool:
        """True if it counts in lanes besides its own, which the claim has recorded together with its breaker."""
        return len(self.lanes) > len(self.capacities)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The jobs that start, those that are parked with their lane, and the number that join each lane."""

    accepted: list[Candidate]
    parked: list[tuple[Candidate, str]]

    @property
    def by_lane(self) -> dict[str, list[Claimed]]:
        """The parked jobs of each lane."""
        found: dict[str, list[Claimed]] = {}
        for one, lane in self.parked:
            found.setdefault(lane, []).append(one.job)
        return found

    @property
    def joined(self) -> Counter[str]:
        return Counter(lane for candidate in self.accepted for lane in candidate.lanes)


def candidate(job: Claimed, standing: Standing) -> Candidate:
    """Collect the limits of a job: its own key and rate, and the lanes of its task and queue, if any."""
    own = JobLimits.decode(job.limits) if job.limits else None
    lanes = _standing_lanes(job, standing) if standing.lanes else ()
    if own is None:
        return Candidate(job, lanes)
    capacities: tuple[tuple[str, int], ...] = ()
    if own.key is not None:
        lanes = (*lanes, own.key)
        if own.capacity is not None:
            capacities = ((own.key, own.capacity),)
    breaker = breaker_lane(own.breaker) if own.breaker else None
    base = own.rate if own.keyed else None
    return Candidate(job, lanes, capacities, own.keyed or own.rate, breaker, base, own.quota, not own.own_quota)


def _standing_lanes(job: Claimed, standing: Standing) -> tuple[str, ...]:
    return tuple(lane for lane in (queue_lane(job.queue), task_lane(job.task)) if lane in standing.lanes)


class QuotaRoom(msgspec.Struct):
    """The room in one quota: jobs that may still be let in, and jobs that may still be active; None is any number."""

    lane: str
    window: int | None
    active: int | None
    span: int | None = None
    """Of the window, in microseconds."""
    inside: frozenset[str] = frozenset()
    """Jobs that were let in before within the window: they count once there."""

    @property
    def least(self) -> int | None:
        return min((n for n in (self.window, self.active) if n is not None), default=None)

    def has_room_for(self, job_id: str) -> bool:
        return (self.active is None or self.active > 0) and (
            self.window is None or self.window > 0 or job_id in self.inside
        )

    def take(self, job_id: str) -> None:
        if self.active is not None:
            self.active -= 1
        if self.window is not None and job_id not in self.inside:
            self.window -= 1


def admit(
    candidates: Sequence[Candidate],
    room: Mapping[str, int],
    tokens: Mapping[str, int],
    quotas: Mapping[str, QuotaRoom] = MappingProxyType({}),
) -> Verdicts:
    """Take each job for which every lane has room and its bucket a token, in order; park the rest.

    A lane that is not in `room` has no limit; a scope that is not in `tokens` has no token. A circuit breaker is a lane
    like others here. `quotas` are those of jobs, by the job's id; the room that is left stays in them.
    """
    left, purse = dict(room), dict(tokens)
    verdicts = Verdicts([], [])
    for one in candidates:
        holds, quota = one.holds, quotas.get(one.job.id)
        for lane in holds:
            if left.get(lane, 1) <= 0:
                verdicts.parked.append((one, lane))
                break
        else:
            if one.scope is not None and purse.get(one.scope, 0) <= 0:
                verdicts.parked.append((one, rate_lane(one.scope)))
                continue
            if quota is not None and not quota.has_room_for(one.job.id):
                verdicts.parked.append((one, quota.lane))
                continue
            verdicts.accepted.append(one)
            for lane in holds:
                if lane in left:
                    left[lane] -= 1
            if one.scope is not None:
                purse[one.scope] -= 1
            if quota is not None:
                quota.take(one.job.id)
    return verdicts
