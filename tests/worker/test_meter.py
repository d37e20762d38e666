"""The meter of a worker: minutes are rolled when they have closed, errors counted, by the leader alone."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from holdfast import RetryPolicy
from holdfast.errors import InvalidInput, StorageBusy
from holdfast.model.stats import MINUTE
from holdfast.storage.ops.stats import rollup, stats
from holdfast.storage.port import Op
from holdfast.worker.maintenance.stats_roller import KEPT, TASKS_KEPT, StatsRoller
from holdfast.worker.worker import Worker

from .worker_kit import Shop, live


def meter(shop: Shop, *, leads: bool = True) -> StatsRoller:
    return StatsRoller(shop.store, lambda: leads, shop.clock)  # type: ignore[arg-type]


def next_minute(shop: Shop) -> None:
    """To one second past the beginning of a minute."""
    shop.clock.advance((MINUTE - shop.clock.now() % MINUTE) / 1e6 + 1)


async def ran(shop: Shop, *tasks: str) -> None:
    """Run a job of each of these tasks to its end, in this minute."""
    async with shop.working(meter_interval=0):
        for name in tasks:
            await shop.until_ended(await shop.app.tasks[name].aenqueue())


def tasks(shop: Shop) -> None:
    @shop.app.task
    async def fine() -> None: ...

    @shop.app.task(max_attempts=1, retry=RetryPolicy(kind="none"))
    async def broken() -> None:
        raise ValueError("no such card")


@live
async def test_a_minute_is_rolled_once_it_has_closed(shop: Shop) -> None:
    tasks(shop)
    next_minute(shop)
    await ran(shop, "fine", "fine", "broken")
    keeper = meter(shop)
    assert await keeper.run_once() is None
    assert shop.app.stats.throughput(1) == []
    shop.clock.advance(62)
    assert await keeper.run_once() is None
    assert shop.app.stats.throughput(1) == []
    shop.clock.advance(3)
    await keeper.run_once()
    (found,) = shop.app.stats.throughput(1)
    assert tuple(found.per_minute[name] for name in ("succeeded", "failed", "started")) == (2, 1, 3)
    assert found.worst_minute["run"].count == 3
    before = shop.store.writes
    assert await keeper.run_once() is None
    assert shop.store.writes == before


@live
async def test_a_straggler_is_found_when_the_next_minute_is_rolled(shop: Shop) -> None:
    tasks(shop)
    next_minute(shop)
    await ran(shop, "fine")
    shop.clock.advance(65)
    keeper = meter(shop)
    await keeper.run_once()
    # It ended in that minute but its commit became visible only now.
    shop.clock.step(-65)
    await ran(shop, "fine")
    shop.clock.step(125)
    await keeper.run_once()
    points = shop.app.stats.series("default", "succeeded", 10)
    assert [point.count for point in points] == [2]


@live
async def test_minutes_that_nobody_rolled_are_caught_up_with(shop: Shop) -> None:
    tasks(shop)
    next_minute(shop)
    keeper = meter(shop)
    await keeper.run_once()
    await ran(shop, "fine")
    shop.clock.advance(45 * 60)
    await ran(shop, "fine")
    shop.clock.advance(70)
    rounds = 1
    while await keeper.run_once() == 0.0:
        rounds += 1
    assert rounds > 1
    assert [point.count for point in shop.app.stats.series("default", "succeeded", 60)] == [1, 1]


@live
async def test_a_day_without_work_takes_few_reads(shop: Shop) -> None:
    tasks(shop)
    next_minute(shop)
    keeper = meter(shop)
    await ran(shop, "fine")
    shop.clock.advance(70)
    await keeper.run_once()
    shop.clock.advance(20 * 3600)
    await ran(shop, "fine")
    shop.clock.advance(70)
    before, rounds = shop.store.reads, 1
    while await keeper.run_once() == 0.0:
        rounds += 1
    assert [point.count for point in shop.app.stats.series("default", "succeeded", 1_440)] == [1, 1]
    assert rounds <= 3
    assert shop.store.reads - before < 60


@live
async def test_errors_are_counted_by_kind_page_by_page(shop: Shop) -> None:
    tasks(shop)
    await ran(shop, "broken", "broken")
    keeper = meter(shop)
    await keeper.run_once()
    assert shop.app.errors.list() == []
    shop.clock.advance(6)
    await keeper.run_once()
    await keeper.run_once()
    (group,) = shop.app.errors.list()
    assert (group.task, group.type, group.message, group.count) == ("broken", "ValueError", "no such card", 2)
    assert 'raise ValueError("no such card")' in (shop.app.errors.show(group.fingerprint).traceback or "")


@live
async def test_two_that_keep_the_numbers_at_once_count_nothing_twice(shop: Shop) -> None:
    tasks(shop)
    next_minute(shop)
    await ran(shop, "fine", "broken")
    shop.clock.advance(70)
    await asyncio.gather(meter(shop).run_once(), meter(shop).run_once())
    (found,) = shop.app.stats.throughput(5)
    assert (found.per_minute["succeeded"], found.per_minute["failed"]) == (1 / 5, 1 / 5)
    assert [group.count for group in shop.app.errors.list()] == [1]


@live
async def test_who_does_not_lead_keeps_no_numbers(shop: Shop) -> None:
    tasks(shop)
    await ran(shop, "broken")
    shop.clock.advance(70)
    assert await meter(shop, leads=False).run_once() is None
    assert shop.app.errors.list() == []


@live
async def test_minutes_errors_and_vitals_of_the_gone_expire(shop: Shop) -> None:
    tasks(shop)
    next_minute(shop)
    await ran(shop, "broken")
    shop.clock.advance(70)
    keeper = meter(shop)
    await keeper.run_once()
    assert shop.app.stats.throughput(5) != []
    shop.clock.advance(KEPT / 1e6 + 120)
    # Old minutes go before others are rolled: the first run prunes, though it has days to catch up with.
    await keeper.run_once()
    window = Op(lambda tx: rollup.window(tx, 0, shop.clock.now() - KEPT, 10))
    assert shop.app.open().read(window) == []
    assert shop.app.errors.list() == []


@live
async def test_the_clock_set_back_by_a_day_does_not_stop_the_numbers(shop: Shop) -> None:
    tasks(shop)
    keeper = meter(shop)
    await keeper.run_once()
    shop.clock.advance(120)
    await keeper.run_once()
    shop.clock.step(-86_400)
    next_minute(shop)
    await ran(shop, "fine")
    shop.clock.advance(66)
    await keeper.run_once()
    assert [point.count for point in shop.app.stats.series("default", "succeeded", 5)] == [1]


@live
async def test_a_store_that_fails_leaves_the_minute_to_the_next_run(shop: Shop) -> None:
    tasks(shop)
    next_minute(shop)
    await ran(shop, "fine")
    shop.clock.advance(70)
    keeper = meter(shop)
    shop.store.replies_to_lose = 1
    try:
        await keeper.run_once()
    except Exception as error:
        assert "COMMIT" in str(error)
    else:
        raise AssertionError("the loss of a reply went unnoticed")
    await keeper.run_once()
    assert [found.per_minute["succeeded"] for found in shop.app.stats.throughput(5)] == [1 / 5]


@live
async def test_a_minute_whose_write_was_refused_is_rolled_by_the_next_run(shop: Shop) -> None:
    tasks(shop)
    next_minute(shop)
    await ran(shop, "fine")
    shop.clock.advance(70)
    keeper = meter(shop)

    async def refuse() -> None:
        raise StorageBusy("another writer held the lock")

    shop.store.before = refuse
    with pytest.raises(StorageBusy):
        await keeper.run_once()
    await keeper.run_once()
    assert [found.per_minute["succeeded"] for found in shop.app.stats.throughput(5)] == [1 / 5]


@live
async def test_tasks_are_counted_with_the_minutes_of_their_queues_and_kept_for_a_week(shop: Shop) -> None:
    tasks(shop)
    next_minute(shop)
    await ran(shop, "fine", "fine", "broken")
    shop.clock.advance(70)
    keeper = meter(shop)
    await keeper.run_once()
    broken, fine = await shop.app.stats.atasks(minutes=5)
    assert shop.app.stats.tasks(minutes=5) == [broken, fine]
    assert (fine.task, fine.runs, fine.count("succeeded"), fine.failure_rate) == ("fine", 2, 2, 0.0)
    assert (broken.task, broken.count("failed"), broken.failure_rate) == ("broken", 1, 1.0)
    assert fine.run is not None
    assert fine.run.count == 2
    every = Op(lambda tx: rollup.task_totals(tx, shop.clock.now() - 2 * TASKS_KEPT, shop.clock.now()))
    shop.clock.advance(TASKS_KEPT / 1e6 - 300)
    await keeper.run_once()
    assert len(shop.app.open().read(every)) == 2
    shop.clock.advance(600)
    await keeper.run_once()
    assert shop.app.open().read(every) == []


@live
async def test_more_than_a_day_of_tasks_is_refused(shop: Shop) -> None:
    with pytest.raises(InvalidInput, match="use 1 to 1,440"):
        shop.app.stats.tasks(1441)
    with pytest.raises(InvalidInput, match="use 1 to 1,440"):
        await shop.app.stats.atasks(0)


# -- vitals


async def beaten(shop: Shop, worker: Worker) -> None:
    assert await shop.beat(worker)


@live
async def test_a_worker_reports_its_vitals_with_its_beat_but_not_with_each(shop: Shop) -> None:
    tasks(shop)
    async with shop.working(meter_interval=0) as worker:
        await shop.until_ended(await shop.app.tasks["fine"].aenqueue())
        shop.clock.advance(10)
        await beaten(shop, worker)
        (found,) = shop.app.stats.workers()
        assert found.vitals is not None
        assert (found.vitals.rss > 1_000_000, found.vitals.claims >= 1, found.vitals.waiting) == (True, True, 0)
        reported = found.vitals.at
        await beaten(shop, worker)
        assert _vitals_at(shop) == reported
        shop.clock.advance(10)
        await beaten(shop, worker)
        assert _vitals_at(shop) > reported


def _vitals_at(shop: Shop) -> int:
    (found,) = shop.app.open().read(Op(stats.workers))
    assert found.vitals is not None
    return found.vitals.at


@live
async def test_the_runs_of_a_process_are_tallied_by_queue_task_and_outcome(shop: Shop) -> None:
    tasks(shop)
    await ran(shop, "fine", "fine", "broken")
    found = {task: tally.outcomes for (_, task), tally in shop.app.tally.tasks.items()}
    assert found == {"fine": {"succeeded": 2}, "broken": {"failed": 1}}
    assert sum(shop.app.tally.tasks["default", "fine"].counts) == 2


# -- health


@live
async def test_the_health_of_each_minute_is_kept_for_thirty_days(shop: Shop) -> None:
    tasks(shop)
    keeps = meter(shop)
    async with shop.working(meter_interval=0) as worker:
        for _ in range(2):
            await shop.pass_time(60, worker)
            await beaten(shop, worker)
            await keeps.run_once()
            await keeps.run_once()
        shop.clock.advance(1)
        first, second = shop.app.stats.health(minutes=5)
        assert second.minute - first.minute == timedelta(minutes=1)
        assert (second.workers, second.rss > 1_000_000, second.bytes > 0) == (1, True, True)
        assert shop.app.stats.health(minutes=5, before=second.minute) == [first]
    shop.clock.advance(31 * 86_400)
    await keeps.run_once()
    assert [
        point.workers for point in shop.app.stats.health(minutes=2_000, before=second.minute + timedelta(seconds=1))
    ] == []
