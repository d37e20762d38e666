"""Decide which claimed jobs may start, given the room in their lanes and the tokens in their buckets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import msgspec

from ..errors import ConfigError, InvalidInput
from ..model.jobs import Claimed
from ..model.limits import (
    ActiveLimits,
    BreakerRecord,
    JobLimits,
    breaker_it_follows,
    breaker_lane,
    queue_lane,
    rate_lane,
    task_lane,
)
from ..model.outcomes import Done, Failed, Outcome, Retry
from ..model.workers import WorkerRecord


class Candidate(msgspec.Struct, frozen=True):
    """A job that was just claimed, with its limits."""

    job: Claimed
    lanes: tuple[str, ...]
    capacities: tuple[tuple[str, int], ...] = ()
    """The lanes of the job's own keys, with their capacity."""
    scope: str | None = None
    breaker: str | None = None
    """The lane of its circuit breaker."""
    base: str | None = None
    """The rate to which `scope`, the bucket of a key, belongs."""
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
        """True if it also counts in other lanes, which the claim recorded together with its breaker."""
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


def candidate(job: Claimed, active: ActiveLimits) -> Candidate:
    """Collect the limits of a job: its own key and rate, and the lanes of its task and queue, if any."""
    own = JobLimits.decode(job.limits) if job.limits else None
    lanes = _active_lanes(job, active) if active.lanes else ()
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


def _active_lanes(job: Claimed, active: ActiveLimits) -> tuple[str, ...]:
    return tuple(lane for lane in (queue_lane(job.queue), task_lane(job.task)) if lane in active.lanes)


class QuotaRoom(msgspec.Struct):
    """The room in one quota: jobs that may still be admitted, and jobs that may still be active; None is no limit."""

    lane: str
    window: int | None
    active: int | None
    span: int | None = None
    """Of the window, in microseconds."""
    inside: frozenset[str] = frozenset()
    """Jobs that were admitted before within the window: they count once there."""

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
    like others here. `quotas` are those of jobs, by the job's id; they are updated to the room that is left.
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


_RATE: Final = re.compile(r"(\d+(?:\.\d+)?) ?/ ?(s|sec|second|m|min|minute|h|hour|d|day)")
# A number and a word for "per", or anything before a slash and a unit of time.
_LOOKS_LIKE_RATE: Final = re.compile(
    r"\s*[+-]?\.?\d[\d._,]*(?:e[+-]?\d+)?\s*(/|per\b|a\b|each\b|every\b|$)"
    r"|[^/]*/\s*\d*\s*(ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?|months?|y|years?)\s*$",
    re.IGNORECASE,
)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Rate(NamedTuple):
    """A number of runs at once, and a sustained number of runs per second."""

    burst: float
    per_second: float


def check_rate_text(task: str, rate: str | None) -> None:
    """Refuse a malformed rate, which would be taken for the name of one."""
    if _is_malformed(rate):
        raise ConfigError(f"task {task!r}: {_not_understood(rate)}")
    if (said := parse_rate(rate)) and said.per_second <= 0:
        raise ConfigError(f"task {task!r}: rate={rate!r} would let none of its jobs run; give more than 0")


def check_rate_name(rate: str | None) -> str | None:
    """Return the rate that a call names. Refuses a rate as text, and one that is malformed."""
    if parse_rate(rate):
        raise InvalidInput(
            f"rate={rate!r} in a call has no bucket of its own; give it to @app.task, or declare one with app.rate(…)"
            " and pass its name"
        )
    if _is_malformed(rate):
        raise InvalidInput(_not_understood(rate))
    return rate


def _is_malformed(rate: object) -> bool:
    return isinstance(rate, str) and parse_rate(rate) is None and _LOOKS_LIKE_RATE.match(rate) is not None


def _not_understood(rate: object) -> str:
    return (
        f"rate={rate!r} is not understood; write '10/s', '100/m', '1000/h' or '5/d' at @app.task, or the name that"
        " app.rate(…) returns"
    )


def parse_rate(text: object) -> Rate | None:
    """Parse a rate such as "10/s"; return None for the name of a rate."""
    if not isinstance(text, str) or (match := _RATE.fullmatch(text)) is None:
        return None
    count = float(match[1])
    return Rate(max(1.0, count), count / _SECONDS[match[2][0]])


def rate_scope(task: str, rate: str) -> str:
    """Return the scope that a task's `rate` names: itself, or for "10/s" one of the task's own."""
    return f"task:{task}" if parse_rate(rate) else rate


def missing_scopes(
    lanes: Iterable[str], rates: Collection[str], breakers: frozenset[str]
) -> dict[tuple[str, str], str]:
    """Return the rates and breakers, by kind and name, that these lanes need and that do not exist.

    Each comes with the first lane that needs it.
    """
    found: dict[tuple[str, str], str] = {}
    for lane in lanes:
        kind, _, scope = lane.partition(":")
        if kind == "rate" and not any(base in rates for base in _bases(scope)):
            found.setdefault((kind, scope.partition("[")[0] or scope), lane)
        elif kind == "breaker" and breakers.isdisjoint({scope, breaker_it_follows(scope)}):
            found.setdefault((kind, breaker_it_follows(scope) or scope), lane)
    return found


def _bases(scope: str) -> Iterator[str]:
    """Return a scope, and the rates of which it may be the bucket of a key."""
    yield scope
    yield from (scope[:at] for at, character in enumerate(scope) if character == "[")


_FAILURES: Final = frozenset({"failed", "timeout", "exhausted", "aged_out"})


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that ended. `answered` says whether the destination did; None if that is unknown."""

    job: str
    epoch: int
    answered: bool | None


def answered(outcome: Outcome, state: str) -> bool | None:
    """Return whether the destination answered, as far as the outcome shows. `state` is the job's new state."""
    match outcome:
        case Done():
            return True
        case Retry(outcome=kind) | Failed(kind=kind) if kind in _FAILURES and state != "cancelled":
            return False
        case _:
            return None


def after(breaker: BreakerRecord, runs: Iterable[Ended]) -> BreakerRecord:
    """Return the breaker after these runs have ended, in that order."""
    for run in runs:
        if breaker.open_until is None:
            breaker = _closed(breaker, run)
        elif breaker.trial == (run.job, run.epoch):
            breaker = _tried(breaker, run)
        # Others began before it opened, and prove nothing new.
    return breaker


def opened(breaker: BreakerRecord, open_for: int | None = None) -> BreakerRecord:
    """Open a breaker, so that it lets nothing through for a while, by default for its usual time."""
    until = breaker.now + (breaker.open_for if open_for is None else open_for)
    openings = breaker.openings + 1
    return replace(breaker, opened_at=breaker.now, open_until=until, trial=None, trial_runs=False, openings=openings)


def closed(breaker: BreakerRecord) -> BreakerRecord:
    """Close a breaker, so that it lets everything through, and forget its failures."""
    return replace(breaker, failures=0, opened_at=None, open_until=None, trial=None, trial_runs=False)


def _closed(breaker: BreakerRecord, run: Ended) -> BreakerRecord:
    if run.answered is None:
        return breaker
    if run.answered:
        return replace(breaker, failures=0)
    counted = replace(breaker, failures=breaker.failures + 1)
    return opened(counted) if counted.failures >= counted.threshold else counted


def _tried(breaker: BreakerRecord, run: Ended) -> BreakerRecord:
    if run.answered is None:
        # It proved nothing: the next job is the trial.
        return replace(breaker, trial=None, trial_runs=False)
    return closed(breaker) if run.answered else opened(breaker)


Shares: TypeAlias = "dict[tuple[str, str], int]"
"""Slots by queue and worker."""


def split(totals: Mapping[str, int], workers: Sequence[WorkerRecord]) -> Shares:
    """Return equal shares, with the remainder one each to the first by id: every process computes the same."""
    shares: Shares = {}
    for queue, total in totals.items():
        serving = sorted(worker.id for worker in live(workers) if queue in worker.queues)
        for place, worker in enumerate(serving):
            shares[queue, worker] = total // len(serving) + (place < total % len(serving))
    return shares


def before_the_first_split(total: int, queue: str, workers: Sequence[WorkerRecord]) -> int:
    """Return a worker's share until the leader has split the total: rounded up, so that all is used, but never all."""
    eligible = sum(1 for worker in live(workers) if queue in worker.queues)
    return -(-total // max(1, eligible))


def live(workers: Sequence[WorkerRecord]) -> list[WorkerRecord]:
    return [worker for worker in workers if worker.state == "alive" and not worker.is_expired]
