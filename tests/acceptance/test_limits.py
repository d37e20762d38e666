"""Cluster-wide limits with real worker processes, some of which are killed."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

import holdfast
from holdfast.model import JobFilter
from tests.acceptance.fleet import Fleet, Line, until

pytestmark = pytest.mark.thorough

OPTIONS = ("--queues", "limited", "--concurrency", "20")
PROCESSES = 4


@pytest.mark.timeout(300)
def test_a_rate_is_kept_by_four_processes_and_used(app: holdfast.App, workers: Fleet) -> None:
    used = _use_of_a_rate(app, workers, seconds=8)
    assert used > 0.75, used


@pytest.mark.proof
@pytest.mark.timeout(180)
def test_a_rate_is_kept_for_twenty_seconds_and_nearly_all_of_it_is_used(app: holdfast.App, workers: Fleet) -> None:
    used = _use_of_a_rate(app, workers, seconds=20)
    print(f"used: {used:.1%}")
    assert used > 0.95, used


def _use_of_a_rate(app: holdfast.App, workers: Fleet, *, seconds: int, rate: int = 100) -> float:
    """Which share of the tokens that flowed in after the first burst was spent, in the best half of that time; none
    was before it was there. A machine that stands still for a moment is not the limit's fault."""
    app.limits.set_rate("api", capacity=rate, per_second=rate)
    task = app.tasks["mark"].options(rate="api")
    for _ in range(seconds + 6):
        app.enqueue_many([task.job() for _ in range(rate)])
    for _ in range(PROCESSES):
        workers.start(*OPTIONS)
    enough = (seconds + 4) * rate
    until(lambda: len(_starts(workers)) >= enough, 120, f"{seconds} seconds of work", workers.log)
    workers.stop_all()
    done = app.jobs.find(JobFilter(state="succeeded", limit=10_000))
    claims = sorted(job.claimed_at / 1e6 for job in done if job.claimed_at)
    starts = _starts(workers)
    # The bucket was full when the first was claimed. A handler starts after its token was taken: by then as many must
    # have flowed in.
    for n, at in enumerate(starts, 1):
        assert n <= rate + rate * (at - claims[0]) + 1, (n, at - claims[0])
    _check_windows(claims, capacity=rate, per_second=rate)
    window = seconds / 2
    return max(
        sum(begun < at <= begun + window for at in starts) / (rate * window) for begun in starts[2 * rate :: rate // 10]
    )


def _check_windows(claims: list[float], *, capacity: float, per_second: float) -> None:
    """From any claim on, no more than the bucket held and what flowed in since, to one token.

    A claim is noted by the statement before the one that takes the token, a few milliseconds apart.
    """
    slack = 0.05 * per_second
    for first in range(0, len(claims), 7):
        for last in range(first + 1, len(claims), 11):
            allowed = capacity + per_second * (claims[last] - claims[first]) + 1 + slack
            assert last - first + 1 <= allowed, (first, last, claims[last] - claims[first])


def _starts(workers: Fleet) -> list[float]:
    return sorted(line.at for line in workers.lines() if line.mark == "S")


@pytest.mark.timeout(600)
def test_two_per_key_are_never_exceeded_while_workers_are_killed(app: holdfast.App, workers: Fleet) -> None:
    _two_per_key(app, workers, jobs=4_000, kills=8)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_two_per_key_are_never_exceeded_in_twenty_thousand_jobs(app: holdfast.App, workers: Fleet) -> None:
    _two_per_key(app, workers, jobs=20_000, kills=30)


def _two_per_key(app: holdfast.App, workers: Fleet, *, jobs: int, kills: int) -> None:
    dice = random.Random(3)
    task = app.tasks["mark"]
    for _ in range(jobs // 1_000):
        keys = [f"k{dice.randrange(20)}" for _ in range(1_000)]
        app.enqueue_many([task.options(concurrency_key=key, concurrency=2).job() for key in keys])
    for _ in range(PROCESSES):
        workers.start(*OPTIONS)
    for killed in range(1, kills + 1):
        enough = killed * jobs // kills
        until(lambda n=enough: len(workers.lines()) >= n, 120, "some work", workers.log)  # type: ignore[misc]
        workers.kill(dice.randrange(PROCESSES), *OPTIONS)
    until(lambda: _live(app) == 0, 300, "all is done", workers.log)
    workers.stop_all()
    assert Counter({c.state: c.jobs for c in app.jobs.counts() if c.jobs}) == {"succeeded": jobs}
    assert all(lane.running == 0 for lane in app.limits.show().lanes)
    _check_overlap(app, workers.lines(), limit=2)


def _check_overlap(app: holdfast.App, lines: list[Line], limit: int) -> None:
    """Count the handlers of each key that ran at once; one that was killed ran until its process died, unknown when."""
    key_of = {job: app.jobs.get(job).limits for job in {line.job for line in lines}}
    ended = {(line.job, line.epoch) for line in lines if line.mark == "E"}
    events = defaultdict(list)
    for line in lines:
        if (line.job, line.epoch) in ended:
            events[key_of[line.job]].append((line.at, 1 if line.mark == "S" else -1))
    for key, those in events.items():
        running = 0
        for _, change in sorted(those, key=lambda event: (event[0], event[1])):
            running += change
            assert running <= limit, key


@pytest.mark.timeout(300)
def test_a_new_tenant_is_served_before_a_big_one_is_done(app: holdfast.App, workers: Fleet) -> None:
    task = app.tasks["mark"]
    for _ in range(5):
        app.enqueue_many([task.options(fair_key="big").job() for _ in range(10_000)])
    workers.start(*OPTIONS)
    until(lambda: len(workers.lines()) > 200, 120, "the big one is under way", workers.log)
    small = task.options(fair_key="small").enqueue()
    small.wait(120)
    order = [line.job for line in workers.lines() if line.mark == "S"]
    enqueued_at = app.jobs.get(small.id).created_at / 1e6
    before = sum(1 for line in workers.lines() if line.mark == "S" and line.at < enqueued_at)
    assert order.index(small.id) - before < 300
    workers.end()


def _live(app: holdfast.App) -> int:
    labels = Counter({count.state: count.jobs for count in app.jobs.counts()})
    return sum(n for label, n in labels.items() if label not in ("succeeded", "failed"))
