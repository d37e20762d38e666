"""`holdfast.testing.drain` runs what is due, and nothing else."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast.runtime.draining import Drained
from holdfast.testing import adrain, drain, isolated
from holdfast.worker.lease import Heartbeat
from tests.patience import SOON


@pytest.fixture
def clock() -> holdfast.clock.ManualClock:
    return holdfast.clock.ManualClock()


@pytest.fixture
def app(clock: holdfast.clock.ManualClock) -> holdfast.App:
    return holdfast.App(":memory:", clock=clock)


def test_drain_runs_every_due_job_of_every_kind(app: holdfast.App) -> None:
    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.task
    def treble(n: int) -> int:
        return 3 * n

    jobs = [double.enqueue(1), treble.enqueue(1), double.enqueue(2)]
    assert drain(app) == Drained(succeeded=3)
    assert [job.result(timeout=0) for job in jobs] == [2, 3, 4]
    assert drain(app).runs == 0
    assert app.workers.list() == []


def test_jobs_run_one_after_the_other_by_priority(app: holdfast.App) -> None:
    order: list[int] = []

    @app.task
    async def note(n: int) -> None:
        order.append(n)
        await asyncio.sleep(0)
        order.append(n)

    for n in (1, 3, 2):
        note.options(priority=n).enqueue(n)
    drain(app)
    assert order == [3, 3, 2, 2, 1, 1]


def test_what_jobs_enqueue_runs_in_the_same_drain(app: holdfast.App) -> None:
    seen: list[int] = []

    @app.task
    async def countdown(ctx: holdfast.Context, n: int) -> None:
        seen.append(n)
        if n:
            await ctx.enqueue(countdown.job(n - 1))

    countdown.enqueue(3)
    assert drain(app).succeeded == 4
    assert seen == [3, 2, 1, 0]


def test_with_until_empty_false_only_as_many_run_as_are_due_at_the_start(app: holdfast.App) -> None:
    @app.task
    async def endless(ctx: holdfast.Context) -> None:
        await ctx.enqueue(endless.job())

    endless.enqueue()
    endless.enqueue()
    assert drain(app, until_empty=False).succeeded == 2
    assert drain(app, until_empty=False).succeeded == 2


def test_retries_and_delays_come_due_only_when_the_clock_is_advanced(
    app: holdfast.App, clock: holdfast.clock.ManualClock
) -> None:
    @app.task(retry=holdfast.RetryPolicy("fixed", initial=10, jitter="none"))
    def flaky(ctx: holdfast.SyncContext) -> int:
        if ctx.attempt < 3:
            raise ConnectionError("not yet")
        return ctx.attempt

    job = flaky.options(delay=60).enqueue()
    assert drain(app).runs == 0
    clock.advance(60)
    assert drain(app).again == 1
    assert drain(app).runs == 0
    clock.advance(10)
    assert drain(app).again == 1
    clock.advance(10)
    assert drain(app).succeeded == 1
    assert job.result(timeout=0) == 3


def test_every_way_to_end_is_counted(app: holdfast.App, clock: holdfast.clock.ManualClock) -> None:
    @app.task
    async def end(how: str) -> None:
        match how:
            case "fail":
                raise holdfast.Fail("for good")
            case "snooze":
                raise holdfast.Snooze(60)
            case "park":
                raise holdfast.Park

    for how in ("fine", "fail", "snooze", "park"):
        end.enqueue(how)
    late = end.options(deadline=5).enqueue("fine")
    clock.advance(10)
    ended = drain(app)
    assert (ended.succeeded, ended.failed, ended.again, ended.parked) == (1, 1, 1, 1)
    assert ended.runs == 4
    assert late.status().state == "expired"


def test_only_the_queues_asked_for_are_drained(app: holdfast.App) -> None:
    @app.task(queue="mail")
    async def mail() -> None: ...

    @app.task
    async def other() -> None: ...

    mail.enqueue()
    other.enqueue()
    assert drain(app, queues=["mail"]).succeeded == 1
    assert drain(app, queues=["mail"]).runs == 0
    assert drain(app, queues=["mail"], until_empty=False).runs == 0
    assert drain(app).succeeded == 1


def test_middleware_wraps_the_drained_jobs(app: holdfast.App) -> None:
    seen: list[str] = []

    @app.middleware
    async def note(ctx, call):  # type: ignore[no-untyped-def]
        seen.append(ctx.job.task)
        return await call()

    @app.task
    async def one() -> None: ...

    @app.task
    def two() -> None: ...

    one.enqueue()
    two.enqueue()
    assert drain(app).succeeded == 2
    assert seen == ["one", "two"]


def test_a_job_of_an_unknown_task_is_left_and_ends_no_drain(app: holdfast.App) -> None:
    job = app.declare("elsewhere").enqueue(n=1)
    assert drain(app).runs == 0
    assert job.status().state == "ready"
    assert job.status().attempts == 0


def test_more_than_one_at_a_time_where_jobs_need_each_other(app: holdfast.App) -> None:
    met = asyncio.Event()

    @app.task
    async def first() -> None:
        await met.wait()

    @app.task
    async def second() -> None:
        met.set()

    first.enqueue()
    second.enqueue()
    assert drain(app, concurrency=2).succeeded == 2


async def _drained_while_a_loop_runs(app: holdfast.App) -> int:
    with pytest.raises(holdfast.errors.ConfigError, match="await adrain"):
        drain(app)
    return (await adrain(app)).succeeded


def test_inside_an_event_loop_the_awaiting_twin_is_asked_for(app: holdfast.App) -> None:
    @app.task
    async def nothing() -> None: ...

    nothing.enqueue()
    assert asyncio.run(_drained_while_a_loop_runs(app)) == 1


def test_an_interrupted_drain_hands_its_job_back(app: holdfast.App) -> None:
    started = asyncio.Event()

    @app.task
    async def forever() -> None:
        started.set()
        await asyncio.Event().wait()

    async def interrupt() -> None:
        draining = asyncio.create_task(adrain(app))
        await started.wait()
        draining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draining

    job = forever.enqueue()
    asyncio.run(interrupt())
    assert (job.status().state, job.status().attempts) == ("ready", 0)
    assert app.workers.list() == []


# -- the lease


def test_a_drain_keeps_its_lease_between_two_jobs(app: holdfast.App, clock: holdfast.clock.ManualClock) -> None:
    expired: list[bool] = []

    @app.task
    def long() -> None:
        expired.extend(worker.state == "lost" for worker in app.workers.list())
        clock.advance(20)

    for _ in range(4):
        long.enqueue()
    assert drain(app).succeeded == 4
    assert expired == [False] * 4


def test_where_real_time_passes_a_drain_keeps_its_lease_from_a_thread_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, renewed = holdfast.App(":memory:"), threading.Event()

    start, run_once = Heartbeat.start, Heartbeat.run_once

    def start_and_beat(self: Heartbeat, registered_at: float, *, on_thread: bool) -> None:
        start(self, registered_at, on_thread=on_thread)
        self.beat_now()

    def renew_and_tell(self: Heartbeat) -> bool:
        if told := run_once(self):
            renewed.set()
        return told

    @app.task
    async def blocks_the_loop() -> bool:
        return renewed.wait(SOON)

    monkeypatch.setattr(Heartbeat, "start", start_and_beat)
    monkeypatch.setattr(Heartbeat, "run_once", renew_and_tell)
    job = blocks_the_loop.enqueue()
    assert drain(app).succeeded == 1
    assert job.result(timeout=0)
    assert app.workers.list() == []
    assert "holdfast-heartbeat" not in {thread.name for thread in threading.enumerate()}


def test_a_success_that_comes_too_late_is_not_counted(app: holdfast.App) -> None:
    @app.task
    def lost_once(ctx: holdfast.SyncContext) -> int:
        if ctx.attempt == 1:
            (me,) = app.workers.list()
            app.workers.rescue(me.id)
        return ctx.attempt

    job = lost_once.enqueue()
    assert drain(app).runs == 0
    assert drain(app) == Drained(succeeded=1)
    assert job.result(timeout=0) == 2
    assert app.workers.list() == []


def test_a_drain_that_was_declared_lost_goes_on_under_a_new_identity(
    app: holdfast.App, clock: holdfast.clock.ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    @app.task
    async def note() -> None:
        (me,) = app.workers.list()
        seen.append(me.id)
        if len(seen) == 1:
            app.workers.rescue(me.id)
            clock.advance(60)

    note.enqueue()
    note.enqueue()
    assert drain(app) == Drained(succeeded=2)
    assert len(seen) == 3
    assert seen[0] not in seen[1:]
    assert "was declared lost" in caplog.text
    assert app.workers.list() == []


def test_where_real_time_passes_a_drain_that_was_declared_lost_goes_on_too(monkeypatch: pytest.MonkeyPatch) -> None:
    app, start = holdfast.App(":memory:"), Heartbeat.start
    beating: list[Heartbeat] = []
    seen: list[str] = []

    def start_and_note(self: Heartbeat, registered_at: float, *, on_thread: bool) -> None:
        start(self, registered_at, on_thread=on_thread)
        beating.append(self)

    @app.task
    async def note() -> None:
        (me,) = app.workers.list()
        seen.append(me.id)
        if len(seen) == 1:
            app.workers.rescue(me.id)
            beating[0].beat_now()
            await asyncio.Event().wait()

    monkeypatch.setattr(Heartbeat, "start", start_and_note)
    note.enqueue()
    assert drain(app) == Drained(succeeded=1)
    assert len(set(seen)) == len(beating) == 2
    assert app.workers.list() == []
    assert "holdfast-heartbeat" not in {thread.name for thread in threading.enumerate()}


def test_a_drain_that_could_not_renew_in_time_hands_back_and_goes_on_when_it_can_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = holdfast.App(":memory:")
    beating: list[Heartbeat] = []
    attempts: list[int] = []

    def start_by_hand(self: Heartbeat, registered_at: float, *, on_thread: bool) -> None:
        beating.append(self)

    @app.task
    async def handed_back(ctx: holdfast.Context) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) > 1:
            return
        (heartbeat,) = beating
        heartbeat._holder.fence("no renewal")
        try:
            await asyncio.Event().wait()
        finally:
            asyncio.get_running_loop().run_in_executor(None, heartbeat.run_once)

    monkeypatch.setattr(Heartbeat, "start", start_by_hand)
    handed_back.enqueue()
    assert drain(app) == Drained(succeeded=1, again=1)
    assert attempts == [1, 1]


def test_a_store_that_is_away_is_told_at_once(tmp_path: Path) -> None:
    app = holdfast.App(tmp_path / "missing" / "jobs.db")

    @app.task
    async def nothing() -> None: ...

    with pytest.raises(holdfast.StorageUnavailable):
        drain(app)


def test_a_task_in_its_own_process_can_be_drained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "drained_apart.py"
    module.write_text(
        "import holdfast, os\n"
        "app = holdfast.App(':memory:')\n"
        "@app.task(isolate='process')\n"
        "def where() -> int:\n"
        "    return os.getpid()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{Path(holdfast.__file__).parents[1]}")
    import drained_apart  # type: ignore[import-not-found]

    with isolated(drained_apart.app):
        job = drained_apart.where.enqueue()
        assert drain(drained_apart.app).succeeded == 1
        assert job.result(timeout=0) != os.getpid()
