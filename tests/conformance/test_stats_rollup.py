"""What happened, minute by minute, and what went wrong, by kind. Doing it twice, or by two, changes nothing."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from holdfast.clock import SECOND
from holdfast.errors import NotFound
from holdfast.model.outcomes import Done, Failed, Outcome, Retry, Throttled
from holdfast.model.stats import MINUTE, ErrorGroup, MetricPoint, TaskStats
from holdfast.model.values import instant_of, micros_of
from holdfast.storage.ops.jobs import actions, finishing
from holdfast.storage.ops.stats import errors, rollup
from holdfast.storage.ops.stats.rollup import Rolled

from .world import World, spec

Counts = dict[str, int]


def minute_of(world: World) -> int:
    return world.now // MINUTE * MINUTE


def start_of_next_minute(world: World) -> int:
    """Let time pass to the beginning of a minute; which one."""
    world.clock.advance((MINUTE - world.now % MINUTE) / SECOND)
    return world.now


def roll(world: World, since: int, until: int) -> None:
    for minute in range(since, until, MINUTE):
        world.run(rollup.put, world.read(rollup.roll, minute))


def rolled(world: World, minute: int, queue: str = "default") -> Counts:
    points = world.run(rollup.window, minute, minute + MINUTE, 1000)
    return {point.metric: point.count for point in points if point.queue == queue}


def latency(world: World, metric: str, minute: int, queue: str = "default") -> MetricPoint:
    (point,) = world.run(rollup.series, queue, metric, minute, minute + MINUTE)
    return point


def run_job(world: World, owner: str, outcome: Outcome, *, seconds: float = 1.0, **fields: object) -> str:
    job_id = world.add(**fields)
    (job,) = world.claim(owner, 1, queues=[str(fields.get("queue", "default"))])
    world.clock.advance(seconds)
    world.finish(owner, job, outcome)
    return job_id


def test_a_minute_counts_what_was_enqueued_started_and_ended_in_it(world: World, made_now: None) -> None:
    owner, minute = world.worker(), start_of_next_minute(world)
    run_job(world, owner, Done("1"))
    run_job(world, owner, Done("1"))
    run_job(world, owner, Failed("permanent", error()))
    run_job(world, owner, Retry(3600 * SECOND, error()))
    run_job(world, owner, Throttled(3600 * SECOND, error()))
    expired = world.add(deadline=SECOND)
    world.clock.advance(2)
    assert world.run(finishing.expire_jobs) == [expired]
    world.run(actions.cancel, world.add())
    roll(world, minute, minute + MINUTE)
    assert rolled(world, minute) == {
        "enqueued": 7, "started": 5, "succeeded": 2, "failed": 1, "retried": 1, "throttled": 1, "expired": 1,
        "cancelled": 1, "wait": 3, "run": 3, "total": 3,
    }  # fmt: skip


@pytest.fixture
def made_now(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are made by the clock of the test, as the rows' times are."""
    monkeypatch.setattr("holdfast.ids.ids.wall", lambda: world.now * 1000)
    monkeypatch.setattr("holdfast.ids.ids._millis", -1)


def test_a_run_counts_as_started_in_the_minute_of_its_start_whatever_became_of_it(world: World) -> None:
    owner, minute = world.worker(), start_of_next_minute(world)
    world.enqueue(*(spec() for _ in range(4)))
    running, later, failed, again = world.claim(owner)
    world.clock.advance(70)
    world.finish(owner, later, Done("1"))
    world.finish(owner, failed, Failed("permanent", error()))
    world.finish(owner, again, Retry(0, error()))
    (again,) = world.claim(owner)
    roll(world, minute, minute + 2 * MINUTE)
    assert rolled(world, minute)["started"] == 4
    assert rolled(world, minute + MINUTE)["started"] == 1
    assert "succeeded" not in rolled(world, minute)
    assert rolled(world, minute + MINUTE)["succeeded"] == 1
    assert running.id != again.id


def test_rolling_again_changes_nothing_and_finds_what_came_late(world: World) -> None:
    owner, minute = world.worker(), start_of_next_minute(world)
    run_job(world, owner, Done("1"))
    roll(world, minute, minute + MINUTE)
    before = world.run(rollup.window, 0, world.now + MINUTE, 1000)
    roll(world, minute, minute + MINUTE)
    assert world.run(rollup.window, 0, world.now + MINUTE, 1000) == before
    run_job(world, owner, Done("1"), seconds=9)
    roll(world, minute, minute + MINUTE)
    assert rolled(world, minute)["succeeded"] == 2
    assert latency(world, "run", minute).max == 9


def test_a_rolled_minute_is_not_lowered_by_what_is_deleted_or_replayed_since(world: World) -> None:
    owner, minute = world.worker(), start_of_next_minute(world)
    gone, again = run_job(world, owner, Done("1")), run_job(world, owner, Done("1"))
    roll(world, minute, minute + MINUTE)
    before = rolled(world, minute)
    world.run(actions.delete, gone)
    world.run(actions.retry, again)
    roll(world, minute, minute + MINUTE)
    assert rolled(world, minute) == before


def test_percentiles_are_those_of_the_nearest_rank(world: World) -> None:
    owner, minute = world.worker(), start_of_next_minute(world)
    jobs = [world.add() for _ in range(100)]
    claimed = world.claim(owner, 100)
    assert len(jobs) == len(claimed)
    for job in claimed:
        world.clock.advance(0.1)
        world.finish(owner, job, Done("1"))
    roll(world, minute, minute + MINUTE)
    point = latency(world, "run", minute)
    assert (point.count, point.p50, point.p95, point.p99, point.max) == (100, 5.0, 9.5, 9.9, 10.0)
    assert point.sum == pytest.approx(505.0)


def test_wait_is_from_due_to_start_run_from_start_to_end_and_total_from_enqueue_to_end(world: World) -> None:
    owner, minute = world.worker(), start_of_next_minute(world)
    world.add(delay=5 * SECOND)
    world.clock.advance(8)
    job = world.take(owner)
    world.clock.advance(2)
    world.finish(owner, job, Done("1"))
    roll(world, minute, minute + MINUTE)
    assert [latency(world, name, minute).max for name in ("wait", "run", "total")] == [3, 2, 10]


def test_queues_are_kept_apart_and_a_sample_of_a_busy_one_leaves_the_others_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup, "SAMPLE", 10)
    owner, minute = world.worker(queues=["busy", "calm"]), start_of_next_minute(world)
    world.enqueue(*(spec(queue="busy") for _ in range(200)), spec(queue="calm"))
    for job in world.claim(owner, 300, queues=["busy", "calm"]):
        world.finish(owner, job, Done("1"))
    roll(world, minute, minute + MINUTE)
    assert (rolled(world, minute, "busy")["succeeded"], rolled(world, minute, "calm")["run"]) == (200, 1)
    assert 1 <= rolled(world, minute, "busy")["run"] < 50


def test_totals_add_counts_and_keep_the_worst_minute_of_latencies(world: World) -> None:
    owner, minute = world.worker(), start_of_next_minute(world)
    run_job(world, owner, Done("1"), seconds=9)
    world.clock.advance(55)
    run_job(world, owner, Done("1"), seconds=2)
    run_job(world, owner, Failed("permanent", error()), seconds=3)
    roll(world, minute, minute + 2 * MINUTE)
    counted, latencies = world.run(rollup.totals, minute, minute + 2 * MINUTE)
    assert (counted["default", "succeeded"], counted["default", "failed"]) == (2, 1)
    worst = {point.metric: (point.p99, point.count) for point in latencies}
    assert worst["run"] == (9, 1)
    assert world.run(rollup.totals, minute - MINUTE, minute) == ({}, [])


def test_minutes_expire(world: World) -> None:
    minute = start_of_next_minute(world)
    empty = dict.fromkeys(("sum", "p50", "p95", "p99", "max"))
    row = {"queue": "q", "metric": "succeeded", "count": 1, **empty}
    task = {"task": "work", "count": 1, "figures": '{"counts": {"succeeded": 1}}'}
    for at in (minute, minute + MINUTE):
        world.run(rollup.put, Rolled([{**row, "minute": at}], [{**task, "minute": at}]))
    world.clock.advance(60)
    world.run(rollup.prune, 2 * MINUTE, 2 * MINUTE)
    assert len(world.run(rollup.window, 0, world.now + MINUTE, 10)) == 2
    assert by_task(world, minute, minute + 2 * MINUTE)["work"].count("succeeded") == 2
    world.clock.advance(61)
    world.run(rollup.prune, 2 * MINUTE, 2 * MINUTE)
    assert [point.minute for point in world.run(rollup.window, 0, world.now, 10)] == [instant_of(minute + MINUTE)]
    assert by_task(world, minute, minute + 2 * MINUTE)["work"].count("succeeded") == 1


# -- tasks


def did(stats: TaskStats) -> dict[str, int]:
    return {counter: count for counter, count in stats.counts.items() if count}


def by_task(world: World, since: int, until: int) -> dict[str, TaskStats]:
    return {stats.task: stats for stats in world.run(rollup.task_totals, since, until)}


def test_what_each_task_did_is_counted_over_all_its_queues(world: World, made_now: None) -> None:
    owner, minute = world.worker(queues=["default", "mail"]), start_of_next_minute(world)
    run_job(world, owner, Done("1"), task="send")
    run_job(world, owner, Done("1"), task="send", queue="mail")
    run_job(world, owner, Retry(3600 * SECOND, error()), task="send")
    run_job(world, owner, Failed("permanent", error()), task="pay")
    world.run(actions.cancel, world.add(task="pay"))
    roll(world, minute, minute + MINUTE)
    found = by_task(world, minute, minute + MINUTE)
    assert did(found["send"]) == {"enqueued": 3, "started": 3, "succeeded": 2, "retried": 1}
    assert did(found["pay"]) == {"enqueued": 2, "started": 1, "failed": 1, "cancelled": 1}
    assert found["send"].runs == 3
    assert found["send"].failure_rate == pytest.approx(1 / 3)
    assert found["pay"].failure_rate == 1.0


def test_counts_times_and_waits_of_a_task_are_added_over_minutes(world: World) -> None:
    owner, minute = world.worker(), start_of_next_minute(world)
    run_job(world, owner, Done("1"), seconds=8, task="send", delay=-3 * SECOND)
    world.clock.advance(60)
    for _ in range(9):
        run_job(world, owner, Done("1"), seconds=0.123, task="send")
    roll(world, minute, minute + 2 * MINUTE)
    found = by_task(world, minute, minute + 2 * MINUTE)["send"]
    assert found.count("succeeded") == 10
    assert found.run is not None
    assert found.wait is not None
    assert (found.run.count, found.run.max, found.run.p99) == (10, 8.0, 8.0)
    assert found.run.p50 == pytest.approx(0.123, rel=0.2)
    assert found.run.mean == pytest.approx((8 + 9 * 0.123) / 10)
    assert (found.wait.count, found.wait.p50) == (10, 0.0)
    assert by_task(world, minute, minute + MINUTE)["send"].count("succeeded") == 1
    assert by_task(world, minute - MINUTE, minute) == {}


def test_a_percentile_of_a_task_is_off_by_a_fifth_at_most(world: World) -> None:
    owner = world.worker()
    for seconds in (0.000_099, 0.001_24, 0.0126, 0.999, 1.1, 59.9, 7_777.7, 500_000.0):
        run_job(world, owner, Done("1"), seconds=seconds, task=f"took {seconds}")
        # The greatest would hide what the other is rounded to.
        world.enqueue(spec(task=f"took {seconds}"))
        (longer,) = world.claim(owner, 1)
        minute = minute_of(world)
        world.clock.advance(2 * seconds)
        world.finish(owner, longer, Done("1"))
        for at in {minute, minute_of(world)}:
            roll(world, at, at + MINUTE)
        run = by_task(world, minute, minute_of(world) + MINUTE)[f"took {seconds}"].run
        assert run is not None
        assert run.p50 == pytest.approx(seconds, rel=0.2)
        assert run.max == pytest.approx(2 * seconds)


def test_the_minute_of_a_task_is_rolled_again_for_what_came_late_and_never_lowered(world: World) -> None:
    owner, minute = world.worker(), start_of_next_minute(world)
    gone = run_job(world, owner, Done("1"))
    roll(world, minute, minute + MINUTE)
    run_job(world, owner, Done("1"), seconds=9)
    roll(world, minute, minute + MINUTE)
    before = by_task(world, minute, minute + MINUTE)
    assert before["work"].count("succeeded") == 2
    world.run(actions.delete, gone)
    roll(world, minute, minute + MINUTE)
    assert by_task(world, minute, minute + MINUTE) == before


# -- errors


def error(message: str = "no such card 42", line: int = 3, folder: str = "/srv/app") -> str:
    frames = f'Traceback (most recent call last):\n  File "{folder}/shop.py", line {line}, in pay\n    charge()\n'
    return json.dumps({"type": "ValueError", "message": message, "traceback": f"{frames}ValueError: {message}\n"})


def count_errors(world: World) -> int:
    """How many were counted."""
    page = world.read(errors.page)
    if not page.rows:
        return 0
    return len(page.rows) if world.run(errors.note, page, errors.grouped(page)) else 0


def known(world: World) -> list[ErrorGroup]:
    return world.run(errors.list_errors, task=None, since=None, n=100)


def test_errors_of_one_kind_are_counted_together_with_first_and_last_seen(world: World) -> None:
    owner, begun = world.worker(), world.instant
    run_job(world, owner, Retry(3600 * SECOND, error("no such card 1", 3)))
    last = run_job(world, owner, Failed("permanent", error("no such card 2", 9, "/opt/new")), seconds=30)
    run_job(world, owner, Failed("permanent", error()), task="other")
    world.clock.advance(10)
    assert count_errors(world) == 3
    other, same = known(world)
    assert (same.count, same.type, same.message, same.last_job) == (2, "ValueError", "no such card 2", last)
    assert (same.first_seen - begun, same.last_seen - begun) == (timedelta(seconds=1), timedelta(seconds=31))
    assert (other.task, other.count) == ("other", 1)
    assert "shop.py" in (world.run(errors.get_error, same.fingerprint).traceback or "")


def test_an_error_is_counted_once_however_often_and_by_whomever_it_is_looked_at(world: World) -> None:
    owner = world.worker()
    run_job(world, owner, Failed("permanent", error()))
    world.clock.advance(10)
    page = world.read(errors.page)
    assert world.run(errors.note, page, errors.grouped(page))
    assert not world.run(errors.note, page, errors.grouped(page))
    assert count_errors(world) == 0
    assert [group.count for group in known(world)] == [1]


def test_the_newest_failed_runs_are_told_with_where_their_jobs_are_now(world: World) -> None:
    owner = world.worker()
    first = run_job(world, owner, Retry(3600 * SECOND, error()))
    world.clock.advance(60)
    since = world.now
    second = run_job(world, owner, Failed("permanent", error()), tenant="acme")
    run_job(world, owner, Done("1"))
    rows = world.run(errors.recent, tenant=None, since=0, n=10)
    assert [(row[1], row[6], row[7]) for row in rows] == [
        (second, "permanent", "failed"),
        (first, "failed", "ready"),
    ]
    assert [row[1] for row in world.run(errors.recent, tenant=None, since=since, n=10)] == [second]
    assert [row[1] for row in world.run(errors.recent, tenant="acme", since=0, n=10)] == [second]
    assert world.run(errors.recent, tenant="globex", since=0, n=10) == []


def test_pages_of_errors_that_ended_at_one_instant_lose_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "PAGE", 3)
    owner = world.worker()
    world.enqueue(*(spec() for _ in range(8)))
    for job in world.claim(owner):
        world.finish(owner, job, Retry(3600 * SECOND, error()))
    world.clock.advance(10)
    assert [count_errors(world) for _ in range(4)] == [3, 3, 2, 0]
    assert [group.count for group in known(world)] == [8]


def test_what_ended_a_moment_ago_is_left_to_the_next_look(world: World) -> None:
    run_job(world, world.worker(), Failed("permanent", error()))
    assert count_errors(world) == 0
    world.clock.advance(5)
    assert count_errors(world) == 1


def test_a_throttle_is_no_error(world: World) -> None:
    run_job(world, world.worker(), Throttled(SECOND, error()))
    world.clock.advance(10)
    assert count_errors(world) == 0


def test_counting_goes_on_after_the_clock_was_set_back(world: World) -> None:
    owner = world.worker()
    run_job(world, owner, Failed("permanent", error()))
    world.clock.advance(10)
    assert count_errors(world) == 1
    world.clock.step(-86_400)
    world.run(errors.page)
    run_job(world, world.worker(), Failed("permanent", error()))
    world.clock.step(10)
    assert count_errors(world) == 1
    world.clock.step(86_400)


def test_errors_are_narrowed_and_expire_and_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = world.worker()
    for name in "abc":
        run_job(world, owner, Failed("permanent", error()), task=name)
    world.clock.advance(10)
    count_errors(world)
    assert [group.task for group in world.run(errors.list_errors, task="b", since=None, n=10)] == ["b"]
    latest = micros_of(known(world)[0].last_seen)
    assert [group.task for group in world.run(errors.list_errors, task=None, since=latest, n=10)] == ["c"]
    monkeypatch.setattr(errors, "_CAP", 1)
    world.run(errors.prune, 3600 * SECOND)
    assert [group.task for group in known(world)] == ["c"]
    world.clock.advance(3600)
    world.run(errors.prune, 3600 * SECOND)
    assert known(world) == []
    with pytest.raises(NotFound):
        world.run(errors.get_error, "nobody")
