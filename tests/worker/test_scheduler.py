"""The scheduler as a service: when it looks, when it rests, and what one bad schedule does to the others."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from holdfast import App, InvalidInput
from holdfast.clock import SECOND
from holdfast.errors import ConfigError, Conflict, UnknownOption, UrlRefused
from holdfast.model.schedules import Schedule
from holdfast.outbound.policy import Policy
from holdfast.rules.webhooks import call_tags, called_endpoint
from holdfast.tasks.task import Task
from holdfast.worker.maintenance.scheduler import Scheduler
from tests.patience import SOON

from .worker_kit import Shop, live


@pytest.fixture
def shop_at_noon(shop: Shop) -> Shop:
    noon = int(datetime(2024, 5, 1, 12, tzinfo=UTC).timestamp()) * SECOND
    shop.clock.step((noon - shop.clock.now()) / SECOND)
    return shop


def declare(app: App) -> Task[Any, Any]:
    @app.task
    async def work() -> None: ...

    return work


def scheduler(shop: Shop, leads: bool = True) -> Scheduler:
    return Scheduler(shop.store, lambda: leads, shop.clock)  # type: ignore[arg-type]


@live
async def test_it_rests_until_the_next_tick_and_never_longer_than_five_seconds(shop_at_noon: Shop) -> None:
    shop = shop_at_noon
    work = declare(shop.app)
    at_work = scheduler(shop)
    assert await at_work.run_once() == 5.0
    await shop.app.schedules.acreate("soon", work, cron="*/10 * * * * *")
    assert await at_work.run_once() == 5.0
    shop.clock.advance(7.25)
    assert await at_work.run_once() == pytest.approx(2.75)
    shop.clock.advance(2.75)
    assert await at_work.run_once() == 5.0
    assert len(await shop.app.jobs.afind()) == 1


@live
async def test_an_interval_keeps_its_pace_after_the_clock_was_set_forward_and_waits_where_it_was_set_back(
    shop_at_noon: Shop,
) -> None:
    shop = shop_at_noon
    await shop.app.schedules.acreate("fast", declare(shop.app), every=5, cooldown=0)
    at_work = scheduler(shop)

    async def fired(seconds: int) -> int:
        """The jobs that come in so many seconds."""
        before = len(await shop.app.jobs.afind())
        for _ in range(seconds):
            await at_work.run_once()
            shop.clock.advance(1)
        return len(await shop.app.jobs.afind()) - before

    assert await fired(46) == 9
    shop.clock.step(3_600)
    assert await fired(45) in (9, 10), "one of the hour that is missing, if any"
    shop.clock.step(-3_600)
    assert await fired(45) == 0, "each of these ticks has had its job"
    shop.clock.step(3_600)
    assert await fired(45) >= 9


@live
async def test_the_jobs_of_a_schedule_tell_the_webhook_that_its_task_was_given(shop_at_noon: Shop) -> None:
    shop, url = shop_at_noon, "https://hooks.example.com/in?of=report"
    report = declare(shop.app).options(webhook=url, webhook_events=["job.failed"], tags=["mine"])
    shop.app.cron("* * * * *", name="declared")(report)
    await shop.app.schedules.aensure()
    await shop.app.schedules.acreate("created", report.job(), cron="* * * * *")
    await shop.app.scoped("acme").schedules.acreate("theirs", report, cron="* * * * *")
    shop.clock.advance(60)
    await scheduler(shop).run_once()

    assert len(jobs := await shop.app.jobs.afind()) == 3
    for tenant, n in (("", 2), ("acme", 1)):
        endpoint = called_endpoint(tenant, url)
        tags = json.dumps(["mine", *call_tags(endpoint, ["job.failed"])])
        assert [job.tenant for job in jobs if job.tags == tags] == [tenant] * n
        assert (await shop.app.webhooks.aget(endpoint)).called


def test_a_webhook_that_may_not_be_told_is_refused_when_the_schedule_is_made(small_shop: Shop) -> None:
    app = small_shop.app
    inside = declare(app).options(webhook="https://10.0.0.1/")
    with pytest.raises(UrlRefused):
        app.schedules.create("inside", inside, every=60)
    app.every(60, name="inside")(inside)
    with pytest.raises(UrlRefused):
        app.schedules.ensure()
    with pytest.raises(UrlRefused):
        app.declarations()
    app.outbound = Policy(allow_private=["10.0.0.0/8"])
    assert app.schedules.ensure() == ["inside"]


@live
async def test_a_schedule_made_at_run_time_is_stored_at_once_and_fires(shop_at_noon: Shop) -> None:
    app = shop_at_noon.app

    @app.task
    async def report(region: str, day: int = 0) -> None: ...

    assert await asyncio.to_thread(app.schedule, report.job("eu"), every=60, cooldown=0) == "report"
    asia = report.options(priority=7).job("asia", day=1)
    assert await app.aschedule(asia, cron="0 21 * * *", zone="Asia/Tokyo", name="asia", overlap="skip") == "asia"
    stored = await app.schedules.aget("asia")
    assert (stored.cron, stored.zone, stored.overlap) == ("0 21 * * *", "Asia/Tokyo", "skip")
    shop_at_noon.clock.advance(60)
    await scheduler(shop_at_noon).run_once()
    assert [json.loads(job.payload) for job in await app.jobs.afind()] == [{"region": "eu"}]
    assert app.schedules.declared == ()


def test_a_schedule_made_again_at_run_time_is_changed_except_for_what_an_operator_edited(shop: Shop) -> None:
    app = shop.app
    work = declare(app)
    app.schedule(work, cron="0 3 * * *", name="nightly")
    app.schedules.edit("nightly", zone="Europe/Paris")
    app.schedule(work, cron="0 4 * * *", name="nightly", jitter=5)
    stored = app.schedules.get("nightly")
    assert (stored.cron, stored.zone, stored.jitter) == ("0 4 * * *", "Europe/Paris", 5.0)


def test_a_schedule_made_while_a_module_is_imported_is_declared_and_opens_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = """
        import holdfast
        app = holdfast.App("nowhere/jobs.db")

        @app.task
        def report(region: str) -> None: ...

        def plan(region):
            app.schedule(report.job(region), cron="0 6 * * *", name=f"report-{region}")

        plan("eu")
        app.schedule(report.job("us"), every=60)
    """
    (tmp_path / "planned_at_import.py").write_text(textwrap.dedent(module))
    monkeypatch.syspath_prepend(tmp_path)
    app: App = importlib.import_module("planned_at_import").app
    assert [spec.name for spec in app.schedules.declared] == ["report-eu", "report"]
    assert app._opened is None
    with app.override_store(tmp_path / "jobs.db"):
        assert app.schedules.ensure() == ["report", "report-eu"]
        with pytest.raises(ConfigError, match="there are two schedules named 'report-eu'"):
            app.schedule(app.tasks["report"].job("eu"), every=5, name="report-eu")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, InvalidInput, "needs a time: give a cron expression, or every"),
        ({"cron": "0 3 * * *", "every": 60}, InvalidInput, "has a cron expression and an interval; give one"),
        ({"cron": "never"}, InvalidInput, "never"),
        ({"every": 60, "tz": "UTC"}, UnknownOption, "use zone$"),
        ({"every": 60, "args": [1]}, UnknownOption, r"takes the arguments with the job: app.schedule\(task.job\(…\)"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(
    small_shop: Shop, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        small_shop.app.schedule(declare(small_shop.app).job(), **given)


def test_only_a_job_or_a_task_can_be_scheduled(small_shop: Shop) -> None:
    with pytest.raises(InvalidInput, match=r"app.schedule takes what task.job\(…\) makes, or a task, not 'work'"):
        small_shop.app.schedule("work", every=60)  # type: ignore[arg-type]


@live
async def test_it_fires_nothing_unless_it_leads(shop_at_noon: Shop) -> None:
    shop = shop_at_noon
    await shop.app.schedules.acreate("soon", declare(shop.app), every=60)
    shop.clock.advance(61)
    assert await scheduler(shop, leads=False).run_once() is None
    assert await shop.app.jobs.afind() == []
    # The cool-down of the one that comes up now.
    assert await scheduler(shop).run_once() == 5.0
    assert await shop.app.jobs.afind() == []


@live
async def test_one_that_cannot_be_fired_is_tried_again_with_growing_rests_and_keeps_no_other_waiting(
    shop_at_noon: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop = shop_at_noon
    work = declare(shop.app)
    await shop.app.schedules.acreate("a-bad", work, cron="* * * * *", overlap="skip")
    await shop.app.schedules.acreate("b-good", work, cron="* * * * *")
    shop.alter("update holdfast_schedule set zone = 'Mars/Base' where name = 'a-bad'")
    at_work = scheduler(shop)
    shop.clock.advance(60)
    rests = []
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            rests.append(await at_work.run_once())
            shop.clock.advance(rests[-1] or 0)
    assert rests == [0.5, 1.0, 2.0]
    assert (await shop.app.schedules.aget("b-good")).fired == 1
    bad = await shop.app.schedules.aget("a-bad")
    assert (str(bad.state), bad.fired) == ("active", 0)
    assert "Mars/Base" in (bad.last_error or "")
    assert len(caplog.records) == 1
    await shop.app.schedules.apause("a-bad")
    assert await at_work.run_once() == 5.0


@live
async def test_a_broken_one_is_reported_and_the_next_one_fired(
    shop_at_noon: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop = shop_at_noon
    work = declare(shop.app)
    for name in ("a", "b"):
        await shop.app.schedules.acreate(name, work, cron="* * * * *")
    shop.alter("update holdfast_schedule set expression = '0 0 30 2 *' where name = 'a'")
    shop.clock.advance(60)
    with caplog.at_level(logging.ERROR):
        await scheduler(shop).run_once()
    assert "schedule a is disabled" in caplog.text
    assert [(s.name, str(s.state), s.fired) for s in await shop.app.schedules.alist()] == [
        ("a", "broken", 0), ("b", "active", 1),
    ]  # fmt: skip
    mended = await shop.app.schedules.aedit("a", cron="5 * * * *")
    assert str(mended.state) == "active"


@live
async def test_a_worker_makes_known_what_code_declares_and_runs_it_by_the_clock(real_shop: Shop) -> None:
    app = real_shop.app
    ran = asyncio.Event()
    seen: list[datetime] = []

    @app.cron("* * * * * *", zone="Europe/Paris")
    async def secondly(tick: datetime) -> None:
        seen.append(tick)
        ran.set()

    async with app.worker(lead_interval=3.0, schedule_interval=5.0, poll=60.0):
        await asyncio.wait_for(ran.wait(), SOON)
    (schedule,) = await app.schedules.alist()
    assert (schedule.name, schedule.origin, schedule.task) == ("secondly", "code", "secondly")
    assert seen[0].microsecond == 0
    assert seen[0].utcoffset() == datetime.now(ZoneInfo("Europe/Paris")).utcoffset()
    made = (await app.schedules.aticks("secondly"))[-1]
    assert made.tick.microsecond == 0
    assert (await app.jobs.aget(made.job_id)).task == "secondly"


@live
async def test_a_leader_that_leaves_lets_the_next_worker_lead_at_once(real_shop: Shop) -> None:
    settings: dict[str, Any] = {"lead_interval": 0.05, "schedule_interval": 5.0}
    declare(real_shop.app)
    first = real_shop.worker(**settings)
    # Nobody waits for it to run out.
    first.services.leader._lease = 3600.0
    await first.start()
    while not first.services.leader.holds("schedules"):
        await asyncio.sleep(0)
    await first.stop(grace=0)
    async with real_shop.working(**settings) as second:
        async with asyncio.timeout(SOON):
            while not second.services.leader.holds("schedules"):
                await asyncio.sleep(0)


def test_functions_and_tasks_are_scheduled_with_their_arguments_and_options(small_shop: Shop) -> None:
    app = small_shop.app

    @app.every(3600, overlap="skip", jitter=5)
    def hourly(region: str = "eu") -> None: ...

    @app.task(queue="reports", max_attempts=2, timeout=30)
    async def report(region: str, tick: datetime) -> None: ...

    app.cron("0 3 * * *", name="report-eu", args=["eu"])(report.options(priority=7, tags=["night"]))
    app.cron("0 4 * * *", name="report-us", kwargs={"region": "us"}, missed="skip")(report)
    assert app.schedules.ensure() == ["hourly", "report-eu", "report-us"]
    assert app.schedules.ensure() == []
    eu = app.schedules.get("report-eu")
    assert (eu.arguments, eu.tick_argument, eu.queue, eu.task) == ({"region": "eu"}, "tick", "reports", "report")
    app.schedules.run_now("report-eu")
    (job,) = app.jobs.find()
    assert (job.priority, job.max_attempts, job.timeout, job.queue) == (7, 2, 30 * SECOND, "reports")
    assert job.tags == '["night"]'
    assert hourly() is None


def test_bad_schedules_are_refused_where_they_are_written(small_shop: Shop) -> None:
    app = small_shop.app

    @app.task
    def needs(user: int) -> None: ...

    for make in (
        lambda: app.cron("0 0 30 2 *")(needs.options()),
        lambda: app.cron("0 3 * * *", zone="Mars/Base", args=[1])(needs),
        lambda: app.cron("0 3 * * *")(needs),
        lambda: app.cron("0 3 * * *", args=["x"])(needs),
        lambda: app.every(0.5, args=[1])(needs),
        lambda: app.every(float("nan"), args=[1])(needs),
        lambda: app.every(60, args=[1], missed="never")(needs),  # type: ignore[arg-type]
        lambda: app.every(60, args=[1], overlap="hope")(needs),  # type: ignore[arg-type]
        lambda: app.every(60, args=[1], missed="all", max_missed=0)(needs),
        lambda: app.every(60, args=[1], jitter=-1)(needs),
        lambda: app.every(60, args=[1])(needs.options(id="same")),
        lambda: app.every(60, args=[1])(needs.options(delay=5)),
        lambda: app.every(60, args=[1], name="bad\u202ename")(needs),
        lambda: app.schedules.create("x", needs.job(1)),
        lambda: app.schedules.create("x", needs.job(1), cron="* * * * *", every=5),
    ):
        with pytest.raises(InvalidInput):
            make()
    assert app.schedules.declared == ()


def test_an_operator_edits_creates_and_backfills_and_code_leaves_it_alone(small_shop: Shop) -> None:
    app = small_shop.app

    @app.cron("0 3 * * *")
    def nightly(region: str = "eu") -> None: ...

    app.schedules.ensure()
    edited = app.schedules.edit("nightly", cron="0 5 * * *", zone="Asia/Tokyo", arguments={"region": "jp"}, priority=3)
    assert set(edited.edited) == {"expression", "zone", "payload", "options"}
    assert app.schedules.ensure() == []
    with pytest.raises(InvalidInput):
        app.schedules.edit("nightly", arguments={"nobody": 1})
    with pytest.raises(InvalidInput):
        app.schedules.edit("nightly", zone="Nowhere/Land")
    with pytest.raises(Conflict):
        app.schedules.create("nightly", nightly, cron="* * * * *")
    runs = app.schedules.next_runs("nightly", 3)
    assert [run.isoformat()[11:] for run in runs] == ["05:00:00+09:00"] * 3
    start = datetime.fromtimestamp(small_shop.clock.now() // SECOND, UTC)
    small_shop.clock.advance(3 * 86_400)
    end = datetime.fromtimestamp(small_shop.clock.now() // SECOND, UTC)
    assert len(app.schedules.backfill("nightly", start, end, dry_run=True).made) == 3
    assert len(app.schedules.backfill("nightly", start, end).made) == 3
    app.schedules.pause("nightly")
    assert app.schedules.next_runs("nightly") == []
    schedule: Schedule = app.schedules.resume("nightly")
    app.schedules.delete("nightly")
    assert app.schedules.list() == []
    assert schedule.next_tick is not None
