"""Counts of jobs by queue and state.

Live jobs are counted exactly. So are finished ones while they are few; a large number of them is counted now and
then, and those that ended since are added: an estimate, marked as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ....model.answers import Count
from ...port import Tx
from ...statements import sql

FEW: Final = 20_000
"""Up to this many finished jobs are counted each time."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """The waiting jobs of a queue. `oldest` is for how many µs the first could have started; None if none could."""

    queue: str
    ready: int
    delayed: int
    oldest: int | None


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of jobs that had ended in a state of a queue up to an instant."""

    queue: str
    state: str
    jobs: int
    upto: int


async def count_jobs(tx: Tx) -> list[Count]:
    """Return every count that is not 0. A ready job that is not due yet counts as "delayed"."""
    waiting = await backlogs(tx)
    live = [Count(item.queue, "ready", item.ready) for item in waiting]
    live += [Count(item.queue, "delayed", item.delayed) for item in waiting]
    live += [Count(queue, "running", jobs) for queue, jobs in await tx.all(sql.running_by_queue)]
    live += [Count(queue, state, jobs) for queue, state, jobs in await tx.all(sql.waiting_by_queue)]
    counts = [count for count in live + await ended(tx) if count.jobs]
    return sorted(counts, key=lambda count: (count.queue, count.state))


async def backlogs(tx: Tx) -> list[Backlog]:
    """Return the backlog of each queue that has one."""
    rows = await tx.all(sql.queued_by_queue)
    return [Backlog(queue, int(jobs - later), int(later), oldest) for queue, jobs, later, oldest in rows]


async def measure(tx: Tx, *, recount: bool) -> list[Tally]:
    """Compute the tallies: the stored ones plus the jobs that ended since, or with `recount` all jobs."""
    if await tx.one(sql.ended_beyond, n=FEW) is None:
        return []
    known = {} if recount else {(queue, state): jobs for queue, state, jobs, _ in await tx.all(sql.list_tallies)}
    upto = await _upto(tx) if known else 0
    # Up to the last end that was seen, not up to now: a commit in progress may add ends from before this moment.
    seen = upto
    for queue, state, more, last in await tx.all(sql.ended_since, after=upto):
        known[queue, state] = known.get((queue, state), 0) + more
        seen = max(seen, last)
    return [Tally(queue, state, jobs, seen) for (queue, state), jobs in known.items()]


async def write_tallies(tx: Tx, tallies: Sequence[Tally]) -> None:
    """Replace the tallies."""
    await tx.one(sql.clear_tallies)
    for item in tallies:
        await tx.one(sql.write_tally, queue=item.queue, state=item.state, jobs=item.jobs, upto=item.upto)


async def lower_tallies(tx: Tx, gone: Iterable[tuple[str, str]]) -> None:
    """Subtract deleted jobs from the tallies, each by its queue and state."""
    for (queue, state), n in sorted(Counter(gone).items()):
        await tx.one(sql.lower_tally, queue=queue, state=state, n=n)


async def _upto(tx: Tx) -> int:
    return min(int(upto) for _, _, _, upto in await tx.all(sql.list_tallies))


async def ended(tx: Tx) -> list[Count]:
    """Count finished jobs by queue and state."""
    tallies = {(queue, state): (jobs, upto) for queue, state, jobs, upto in await tx.all(sql.list_tallies)}
    if not tallies or await tx.one(sql.ended_beyond, n=FEW) is None:
        return [Count(queue, state, jobs) for queue, state, jobs, _ in await tx.all(sql.ended_since, after=0)]
    jobs = {key: before for key, (before, _) in tallies.items()}
    upto = min(upto for _, upto in tallies.values())
    for queue, state, more, _ in await tx.all(sql.ended_since, after=upto):
        jobs[queue, state] = jobs.get((queue, state), 0) + more
    return [Count(queue, state, number, estimated=True) for (queue, state), number in jobs.items()]
