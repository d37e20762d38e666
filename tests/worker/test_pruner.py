"""The pruner: what it removes, when, in which steps, and that it leaves the rest alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from holdfast import InvalidInput
from holdfast.clock import ManualClock
from holdfast.model import JobFilter
from holdfast.storage.ops import events
from holdfast.storage.ops.jobs import counting, retention
from holdfast.storage.ops.routing import routes
from holdfast.storage.port import Op
from holdfast.storage.statements import Statement
from holdfast.worker.maintenance.pruner import Pruner
from holdfast.worker.maintenance.stats_roller import StatsRoller
from holdfast.worker.settings import WorkerSettings
from tests.postgres_server import url_of

from .worker_kit import Shop, live

DAY = 86_400.0


class Steps:
    """Counts the rests between two transactions."""

    def __init__(self) -> None:
        self.rests = 0

    async def __call__(self, seconds: float) -> None:
        assert seconds > 0
        self.rests += 1


def pruner(shop: Shop, leads: Callable[[], bool] = lambda: True, rest: Any = None, **settings: Any) -> Pruner:
    return Pruner(shop.store, WorkerSettings(**settings), leads, rest or Steps())  # type: ignore[arg-type]


def work(shop: Shop, *numbers: int, queue: str = "default") -> None:
    """Jobs that have ended: odd numbers fail."""
    if "work" not in shop.app.tasks:

        @shop.app.task(max_attempts=1)
        def work(n: int) -> int:
            if n % 2:
                raise ValueError(n)
            return n

    task = shop.app.tasks["work"]
    shop.app.enqueue_many([task.options(queue=queue).job(n) for n in numbers])


async def ended(shop: Shop, *numbers: int, queue: str = "default") -> None:
    work(shop, *numbers, queue=queue)
    await shop.app.adrain(queues=[queue])


async def left(shop: Shop, **wanted: Any) -> list[str]:
    return sorted(str(job.state) for job in await shop.app.jobs.afind(JobFilter(**wanted)))


@live
async def test_successes_go_after_a_week_and_failures_after_a_month(shop: Shop) -> None:
    await ended(shop, 0, 1, 2, 3)
    pruning = pruner(shop)
    shop.clock.advance(7 * DAY - 1)
    await pruning.run_once()
    assert await left(shop) == ["failed", "failed", "succeeded", "succeeded"]
    shop.clock.advance(1)
    await pruning.run_once()
    assert await left(shop) == ["failed", "failed"]
    shop.clock.advance(23 * DAY)
    await pruning.run_once()
    assert await left(shop) == []


@live
async def test_a_queue_may_keep_its_jobs_longer_or_not_at_all(shop: Shop) -> None:
    await shop.app.queues.aset("brief", keep_succeeded=0, keep_failed=60)
    await shop.app.queues.aset("long", keep_succeeded=30 * DAY)
    for queue in ("brief", "long", "default"):
        await ended(shop, 0, 1, queue=queue)
    pruning = pruner(shop)
    await pruning.run_once()
    assert await left(shop, queue="brief") == ["failed"]
    shop.clock.advance(8 * DAY)
    await pruning.run_once()
    assert await left(shop, queue="brief") == []
    assert await left(shop, queue="default") == ["failed"]
    assert await left(shop, queue="long") == ["failed", "succeeded"]


@live
async def test_a_shorter_retention_holds_for_what_the_walk_has_already_passed(shop: Shop) -> None:
    await ended(shop, 0, 1)
    pruning = pruner(shop)
    shop.clock.advance(8 * DAY)
    await pruning.run_once()
    assert await left(shop) == ["failed"]
    await shop.app.queues.aset("default", keep_failed=DAY)
    await pruning.run_once()
    assert await left(shop) == []


@live
async def test_results_go_before_their_jobs_where_a_queue_says_so(shop: Shop) -> None:
    await shop.app.queues.aset("default", keep_result=60)
    await ended(shop, 2)
    pruning = pruner(shop)
    shop.clock.advance(59)
    await pruning.run_once()
    assert [job.result for job in await shop.app.jobs.afind()] == ["2"]
    shop.clock.advance(1)
    await pruning.run_once()
    assert [(job.state, job.result) for job in await shop.app.jobs.afind()] == [("succeeded", None)]


@live
async def test_live_jobs_stay_however_old_they_are(shop: Shop) -> None:
    await ended(shop, 0)
    work(shop, 0, 2)
    shop.clock.advance(1000 * DAY)
    await pruner(shop).run_once()
    assert await left(shop) == ["ready", "ready"]


@live
async def test_it_deletes_in_batches_with_a_rest_after_each(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 3)
    monkeypatch.setattr(retention, "PAGE", 4)
    await ended(shop, *range(0, 22, 2))
    shop.clock.advance(7 * DAY)
    rest = Steps()
    await pruner(shop, rest=rest).run_once()
    assert await left(shop) == []
    assert rest.rests >= 4


@live
async def test_many_ends_of_one_instant_are_all_found(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PAGE", 4)
    await ended(shop, *range(10))
    shop.alter("update holdfast_ended set finished_at = ?", shop.clock.now())
    shop.clock.advance(7 * DAY)
    await pruner(shop).run_once()
    assert await left(shop, state="succeeded") == []
    assert len(await left(shop, state="failed")) == 5


@live
async def test_only_the_leader_prunes(shop: Shop) -> None:
    await ended(shop, 0)
    shop.clock.advance(30 * DAY)
    writes = shop.store.writes
    await pruner(shop, leads=lambda: False).run_once()
    assert shop.store.writes == writes
    assert await left(shop) == ["succeeded"]


@live
async def test_two_who_prune_at_once_do_no_harm(shop: Shop) -> None:
    await ended(shop, 0, 1, 2)
    shop.clock.advance(7 * DAY)
    first, second = pruner(shop), pruner(shop)
    shop.store.before = second.run_once
    await first.run_once()
    assert await left(shop) == ["failed"]


@live
async def test_records_and_closed_windows_go_too(shop: Shop) -> None:
    work(shop)
    await shop.app.tasks["work"].options(dedupe_key="k", dedupe_until=60).aenqueue(0)
    await shop.app.queues.apause("default")
    shop.clock.advance(365 * DAY)
    await pruner(shop).run_once()
    assert await shop.app.audit.alist() == []
    twin = await shop.app.tasks["work"].options(dedupe_key="k", dedupe_until=60, id="twin").aenqueue(0)
    assert twin.created is False  # the first job is live and holds its key


@live
async def test_great_numbers_are_counted_for_those_who_ask(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "FEW", 2)
    await ended(shop, 0, 2, 4)
    await pruner(shop).run_once()
    (count,) = await shop.app.jobs.acounts()
    assert (count.state, count.jobs, count.estimated) == ("succeeded", 3, True)
    shop.clock.advance(7 * DAY)
    await pruner(shop).run_once()
    assert await shop.store.aread(Op(counting.count_jobs)) == []


@live
async def test_it_writes_nothing_where_nothing_is_over(shop: Shop) -> None:
    await ended(shop, 0, 1)
    # On Postgres what was told of these jobs goes from the inbox to the log.
    await pruner(shop).run_once()
    writes = shop.store.writes
    await pruner(shop).run_once()
    assert shop.store.writes == writes


@live
async def test_events_that_another_moves_just_now_are_left_to_it(postgres_dsn: str) -> None:
    shop = Shop(url_of(postgres_dsn), ManualClock())
    await ended(shop, 0)
    await pruner(shop).run_once()
    await ended(shop, 1)
    async with await psycopg.AsyncConnection.connect(postgres_dsn) as other:
        await other.execute("select 1 from holdfast_event_mark where name = 'head' for update")
        await pruner(shop).run_once()
        assert await shop.store.aread(Op(events.waits))
    await pruner(shop).run_once()
    assert not await shop.store.aread(Op(events.waits))
    shop.app.close()


# -- caps


async def ended_apart(shop: Shop, *numbers: int) -> None:
    """One after the other, a second apart."""
    for number in numbers:
        await ended(shop, number)
        shop.clock.advance(1)


async def arguments_left(shop: Shop, state: str) -> list[str]:
    return sorted(job.payload for job in await shop.app.jobs.afind(JobFilter(state=state)))


@live
async def test_over_its_cap_a_queue_gives_up_successes_first_and_the_oldest_of_them_first(shop: Shop) -> None:
    await ended_apart(shop, 1, 0, 2, 3, 4, 6)
    await shop.app.queues.aset("default", cap=4)
    await pruner(shop).run_once()
    assert await arguments_left(shop, "succeeded") == ['{"n":4}', '{"n":6}']
    assert await arguments_left(shop, "failed") == ['{"n":1}', '{"n":3}']


@live
async def test_failures_go_only_when_nothing_else_is_left(shop: Shop) -> None:
    await ended_apart(shop, 1, 0, 3, 5)
    work(shop, 7)
    await (await shop.app.tasks["work"].options(delay=60).aenqueue(9)).acancel()
    await shop.app.queues.aset("default", cap=2)
    await pruner(shop).run_once()
    assert await left(shop) == ["failed", "failed", "ready"]
    assert await arguments_left(shop, "failed") == ['{"n":3}', '{"n":5}']


@live
async def test_a_cap_of_one_queue_leaves_others_alone_and_holds_as_more_jobs_end(shop: Shop) -> None:
    await ended(shop, 0, 2, 4, queue="other")
    await shop.app.queues.aset("default", cap=1)
    pruning = pruner(shop)
    for number in (0, 2, 4):
        await ended(shop, number)
        await pruning.run_once()
        shop.clock.advance(1)
    assert await left(shop, queue="other") == ["succeeded"] * 3
    assert await arguments_left(shop, "succeeded") == ['{"n":0}', '{"n":2}', '{"n":4}', '{"n":4}']


@live
async def test_a_cap_is_kept_in_batches_and_passes_what_must_stay(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    work(shop)
    named = await shop.app.tasks["work"].options(dedupe_key="k", dedupe_until=1000).aenqueue(0)
    also = await shop.app.tasks["work"].options(dedupe_key="l", dedupe_until=1000).aenqueue(0)
    await shop.app.adrain()
    shop.clock.advance(1)
    await ended_apart(shop, 2, 4, 6, 8, 10)
    await shop.app.queues.aset("default", cap=0)
    await pruner(shop).run_once()
    assert sorted(job.id for job in await shop.app.jobs.afind()) == sorted([named.id, also.id])


@live
async def test_without_a_cap_nothing_is_given_up(shop: Shop) -> None:
    await ended(shop, 0, 1, 2)
    await shop.app.queues.aset("default", cap=3)
    await pruner(shop).run_once()
    await shop.app.queues.aset("default", cap=0)
    await shop.app.queues.aset("default", cap=None)
    await pruner(shop).run_once()
    assert len(await left(shop)) == 3


@pytest.mark.parametrize("wrong", [-1, 2.5, True, "3", float("nan")])
def test_a_cap_is_a_whole_number_from_zero(small_shop: Shop, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="cap"):
        small_shop.app.queues.set("default", cap=wrong)


# -- numbers


@live
async def test_what_is_deleted_on_success_is_counted_first(shop: Shop) -> None:
    await shop.app.queues.aset("default", keep_succeeded=0)
    meter, pruning = StatsRoller(shop.store, lambda: True, shop.clock), pruner(shop)  # type: ignore[arg-type]
    await meter.run_once()
    await ended(shop, 0, 2)
    await pruning.run_once()
    assert await left(shop) == ["succeeded", "succeeded"]
    shop.clock.advance(65)
    await meter.run_once()
    await pruning.run_once()
    assert await left(shop) == []
    (minute,) = await shop.app.stats.athroughput(1)
    assert (minute.per_minute["succeeded"], minute.worst_minute["total"].count) == (2, 2)


@live
async def test_where_nobody_counts_it_is_deleted_at_once(shop: Shop) -> None:
    await shop.app.queues.aset("default", keep_succeeded=0)
    await StatsRoller(shop.store, lambda: True, shop.clock).run_once()  # type: ignore[arg-type]
    shop.clock.advance(600)
    await ended(shop, 0)
    await pruner(shop).run_once()
    assert await left(shop) == []


@live
async def test_a_result_that_is_not_kept_goes_at_once(shop: Shop) -> None:
    await shop.app.queues.aset("default", keep_result=0)
    await StatsRoller(shop.store, lambda: True, shop.clock).run_once()  # type: ignore[arg-type]
    await ended(shop, 0)
    await pruner(shop).run_once()
    assert [(job.state, job.result) for job in await shop.app.jobs.afind()] == [("succeeded", None)]


@live
async def test_sessions_go_when_they_cannot_be_good_any_more_and_tokens_with_the_audit(shop: Shop) -> None:
    made = await shop.app.tokens.acreate("ci", role="viewer")
    await shop.app.tokens.alogin(made.secret)
    await shop.app.tokens.arevoke("ci")
    pruning = pruner(shop)

    def sessions() -> Any:
        count = Statement("count", *["select count(*) from holdfast_session"] * 2)
        return shop.store.read(Op(lambda tx: tx.one(count)))

    await pruning.run_once()
    assert sessions() == (1,)
    shop.clock.advance(DAY / 2)
    await pruning.run_once()
    assert sessions() == (0,)
    assert [token.name for token in await shop.app.tokens.alist()] == ["ci"]
    shop.clock.advance(366 * DAY)
    await pruning.run_once()
    assert await shop.app.tokens.alist() == []


# -- names that jobs made


@live
async def test_lanes_and_routes_that_no_job_uses_any_more_go(shop: Shop) -> None:
    @shop.app.task
    def work(n: int) -> None: ...

    shop.app.limits.set_concurrency(3, queue="other")
    shop.app.enqueue_many([work.options(concurrency_key=str(n), concurrency=1).job(n) for n in range(250)])
    shop.app.enqueue_many([work.options(affinity=f"model-{n}").job(n) for n in range(20)])
    await shop.app.adrain()
    assert len(shop.app.limits.show().lanes) == 251
    await pruner(shop).run_once()
    assert [lane.key for lane in shop.app.limits.show().lanes] == ["queue:other"]
    assert len(await shop.store.aread(Op(routes.special_routes))) == 20
    shop.clock.advance(3601)
    assert await shop.store.aread(Op(routes.special_routes)) == []
