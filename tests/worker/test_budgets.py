"""Budgets and quotas around running jobs: admission, reservations in the handler, blocked jobs that go on."""

from __future__ import annotations

import asyncio
import logging
from decimal import Decimal
from typing import Any

import pytest

from holdfast import App, Context, Job, JobFailed, SyncContext
from holdfast.errors import IllegalMove, InvalidAmount, InvalidInput, StepDiverged, StorageUnavailable, UnknownDimension
from holdfast.model.jobs import Claimed
from holdfast.model.limits import JobLimits
from holdfast.storage.port import Op
from holdfast.storage.statements import Statement
from holdfast.worker.maintenance.budget_releaser import BudgetReleaser
from holdfast.worker.running.admission import AdmissionCheck
from holdfast.worker.running.runs import Run
from tests.patience import SOON

from .worker_kit import AT_ONCE, Shop, live


async def declare(app: App) -> None:
    for declaration in app.declarations():
        await app.open().awrite(declaration)


def spent(app: App, budget: str = "team", dimension: str = "tokens") -> tuple[Any, Any]:
    line = app.budgets.get(budget)[dimension]
    return line.spent, line.reserved


def is_blocked(record: Any) -> bool:
    return bool(record.state == "blocked")


@live
async def test_a_job_is_admitted_with_its_reservation_and_settles_what_it_used(shop: Shop) -> None:
    app, seen = shop.app, []
    app.budget("team", tokens=1000, usd=Decimal("1.50"))

    @app.task(reserve={"team": {"tokens": 400}})
    async def ask(ctx: Context) -> None:
        seen.append(spent(app))
        await ctx.settle("team", tokens=150, usd=Decimal("0.25"))
        seen.append(spent(app))

    await declare(app)
    async with shop.working():
        await (await ask.aenqueue()).aresult(SOON)
    assert seen == [(0, 400), (150, 0)]
    assert spent(app, dimension="usd") == (Decimal("0.25"), 0)


@live
async def test_what_a_job_does_not_settle_is_given_back_at_its_end(shop: Shop) -> None:
    app = shop.app
    app.budget("team", tokens=100)

    @app.task(reserve={"team": {"tokens": 60}}, max_attempts=1)
    async def ask(fails: bool) -> None:
        assert spent(app) == (0, 60)
        if fails:
            raise RuntimeError

    await declare(app)
    async with shop.working(concurrency=1):
        jobs = [await ask.aenqueue(fails) for fails in (True, False)]
        assert await jobs[1].aresult(SOON) is None
    assert spent(app) == (0, 0)


@live
async def test_a_job_that_the_budget_refuses_is_blocked_at_no_cost_and_a_raise_lets_it_go(shop: Shop) -> None:
    app, runs = shop.app, []
    app.budget("team", tokens=100)

    @app.task(max_attempts=1)
    async def ask(ctx: Context) -> str:
        runs.append(ctx.attempt)
        return "done"

    await declare(app)
    async with shop.working():
        job = await ask.options(reserve={"team": {"tokens": 101}}).aenqueue()
        record = await shop.until(job, is_blocked)
        assert (record.reason, record.attempts, runs) == ("budget_exhausted", 0, [])
        await app.budgets.araise("team", {"tokens": 200}, actor="ada")
        assert await job.aresult(SOON) == "done"
    assert runs == [1]
    (record,) = app.audit.list(target_kind="budget")
    assert (record.action, record.actor, record.target) == ("budget.raise", "ada", "team")


@live
async def test_a_handler_that_cannot_reserve_is_left_and_runs_again_when_there_is_room(shop: Shop) -> None:
    app, marks = shop.app, []
    app.budget("team", tokens=100)

    def note(what: str) -> str:
        marks.append(what)
        return what

    @app.task(max_attempts=1)
    async def ask(ctx: Context) -> str:
        await ctx.step("load", note, "load")
        try:
            async with ctx.reserve("team", tokens=80) as held:
                marks.append("inside")
                await held.settle(tokens=30)
        finally:
            marks.append("left")
        return "done"

    await declare(app)
    app.budgets.spend("team", tokens=50)
    async with shop.working():
        job = await ask.aenqueue()
        assert (await shop.until(job, is_blocked)).reason == "budget_exhausted"
        assert marks == ["load", "left"]
        assert app.budgets.reset("team")
        assert await job.aresult(SOON) == "done"
    assert marks == ["load", "left", "inside", "left"], "what was recorded is not done again"
    assert spent(app) == (30, 0)


@live
async def test_a_def_task_reserves_settles_and_spends_too(shop: Shop) -> None:
    app = shop.app
    app.budget("team", tokens=100)

    @app.task(reserve={"team": {"tokens": 10}})
    def ask(ctx: SyncContext) -> str:
        ctx.settle("team", tokens=5)
        with ctx.reserve("team", tokens=50) as held:
            held.settle(tokens=20)
        with ctx.reserve("team", tokens=50):
            pass
        ctx.spend("team", tokens=7)
        return "done"

    @app.task
    def ask_too_much(ctx: SyncContext) -> None:
        with ctx.reserve("team", tokens=101):
            raise AssertionError

    await declare(app)
    async with shop.working():
        assert await (await ask.aenqueue()).aresult(SOON) == "done"
        assert (await shop.until(await ask_too_much.aenqueue(), is_blocked)).attempts == 0
    assert spent(app) == (32, 0)


@live
async def test_a_second_settlement_is_refused_instead_of_left_uncounted(shop: Shop) -> None:
    app = shop.app
    app.budget("team", tokens=100)

    @app.task
    async def ask(ctx: Context) -> str:
        async with ctx.reserve("team", tokens=50) as held:
            await held.settle(tokens=20)
            with pytest.raises(InvalidInput, match="settle it once"):
                await held.settle(tokens=30)
        return "done"

    await declare(app)
    async with shop.working():
        assert await (await ask.aenqueue()).aresult(SOON) == "done"
    assert spent(app) == (20, 0)


@live
async def test_what_was_charged_is_not_charged_again_by_a_later_run(small_shop: Shop) -> None:
    app = small_shop.app
    app.budget("team", tokens=100)

    @app.task(reserve={"team": {"tokens": 10}}, retry=AT_ONCE, max_attempts=3)
    async def ask(ctx: Context) -> tuple[int, bool]:
        await ctx.settle("team", tokens=1)
        await ctx.spend("team", tokens=2)
        async with ctx.reserve("team", tokens=50) as held:
            await held.settle(tokens=4)
        if ctx.attempt < 3:
            raise RuntimeError
        return ctx.attempt, spent(app)[1] == 0

    await declare(app)
    async with small_shop.working():
        assert await (await ask.aenqueue()).aresult(SOON) == (3, True)
    assert spent(app) == (7, 0)


@live
async def test_reservations_side_by_side_in_a_gather_block_the_job_when_all_have_ended(small_shop: Shop) -> None:
    app, done = small_shop.app, []
    app.budget("team", tokens=100)

    @app.task
    async def ask(ctx: Context) -> None:
        async def part(n: int) -> None:
            async with ctx.reserve("team", tokens=n) as held:
                await held.settle(tokens=n)
            done.append(n)

        await ctx.gather(part(60), part(70))

    await declare(app)
    async with small_shop.working():
        job = await ask.aenqueue()
        await small_shop.until(job, is_blocked)
        await app.budgets.araise("team", {"tokens": 500})
        await job.aresult(SOON)
    assert sorted(done[-2:]) == [60, 70]
    assert spent(app) == (130, 0)


@live
async def test_bad_amounts_and_names_are_typed_errors_that_change_nothing(small_shop: Shop) -> None:
    app, errors = small_shop.app, []
    app.budget("team", tokens=100)

    @app.task(max_attempts=1)
    async def ask(ctx: Context) -> None:
        for call in (
            lambda: ctx.spend("team", tokens=-1),
            lambda: ctx.spend("team", tokens=float("nan")),
            lambda: ctx.spend("team"),
            lambda: ctx.spend("team", euros=1),
            lambda: ctx.spend("nobody", tokens=1),
            lambda: ctx.settle("team", tokens=1),
        ):
            try:
                await call()
            except Exception as error:
                errors.append(type(error).__name__)
        held = ctx.reserve("team", tokens=1)
        with pytest.raises(InvalidInput):
            await held.settle(tokens=1)
        with pytest.raises(UnknownDimension):
            async with ctx.reserve("team", tokens=1, euros=1):
                pass

    await declare(app)
    async with small_shop.working():
        await (await ask.aenqueue()).aresult(SOON)
    assert errors == [
        "InvalidAmount", "InvalidAmount", "InvalidAmount", "UnknownDimension", "BudgetNotFound", "InvalidInput",
    ]  # fmt: skip
    assert spent(app) == (0, 0)


@live
async def test_a_job_that_names_an_unknown_budget_or_quota_fails_by_its_attempts(small_shop: Shop) -> None:
    app = small_shop.app

    @app.task(max_attempts=2, retry=AT_ONCE)
    async def ask() -> None: ...

    async with small_shop.working():
        for options in ({"reserve": {"nobody": {"tokens": 1}}}, {"quota": "nobody"}):
            job: Job[Any] = await ask.options(**options).aenqueue()
            with pytest.raises(JobFailed, match="nobody"):
                await job.aresult(SOON)
            assert (await job.astatus()).attempts == 2


def test_options_that_make_no_sense_are_refused_before_anything_is_stored() -> None:
    app = App(":memory:")
    with pytest.raises(InvalidAmount):
        app.task(reserve={"team": {"tokens": 0}})(lambda: None)
    task = app.declare("elsewhere")
    for wrong in ({"reserve": {"team": {"tokens": -1}}}, {"reserve": {"": {"tokens": 1}}}, {"quota": "a\nb"}):
        with pytest.raises(InvalidInput):
            task.options(**wrong).enqueue()  # type: ignore[arg-type]
    for limits in ({"tokens": -1}, {"tokens": float("inf")}, {"": 1}):
        with pytest.raises(InvalidInput):
            app.budget("team", **limits)
    for wrong_quota in ({}, {"limit": 5}, {"window": 5}, {"limit": 0, "window": 5}, {"limit": 5, "window": 0}):
        with pytest.raises(InvalidInput):
            app.quota("api", **wrong_quota)
    for every in ("0", "soon", "61 * * * *", -1):
        with pytest.raises(InvalidInput):
            app.budget("team", tokens=1, every=every)  # type: ignore[arg-type]


@live
async def test_a_refused_rate_sends_the_job_back_until_there_is_room_without_cooling_its_queue(shop: Shop) -> None:
    app, runs = shop.app, []
    app.quota("api", limit=1, window=60)

    @app.task(quota="api", max_attempts=1)
    async def call(n: int) -> None:
        runs.append(n)

    @app.task
    async def other() -> str:
        return "done"

    await declare(app)
    async with shop.working(concurrency=1) as worker:
        jobs = await app.aenqueue_many([call.job(n) for n in range(2)])
        await jobs[0].aresult(SOON)
        waiting = await shop.until(jobs[1], lambda record: record.reason == "limit")
        assert (waiting.state, waiting.attempts, waiting.started_at) == ("ready", 0, None)
        assert await app.jobs.aattempts(jobs[1].id) == []
        assert await (await other.aenqueue()).aresult(SOON) == "done"
        await shop.pass_time(61, worker)
        await jobs[1].aresult(SOON)
    assert runs == [0, 1]


@live
async def test_a_raised_rate_lets_those_ask_again_who_wait_for_the_window(shop: Shop) -> None:
    app = shop.app
    app.quota("api", limit=1, window=86_400)

    @app.task(quota="api")
    async def call(n: int) -> int:
        return n

    await declare(app)
    async with shop.working(concurrency=1):
        jobs = await app.aenqueue_many([call.job(n) for n in range(2)])
        await jobs[0].aresult(SOON)
        await shop.until(jobs[1], lambda record: record.reason == "limit")
        await app.quotas.aset("api", limit=5)
        assert await jobs[1].aresult(SOON) == 1


@live
async def test_so_many_jobs_of_a_quota_run_at_once_and_the_next_starts_when_one_ends(shop: Shop) -> None:
    app, running, most = shop.app, 0, 0

    @app.task(quota=app.quota("gpu", concurrency=2))
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    await declare(app)
    async with shop.working(concurrency=10):
        for job in await app.aenqueue_many([work.job() for _ in range(12)]):
            await job.aresult(SOON)
        assert most <= 2


@live
async def test_the_accountant_finds_jobs_whose_release_nobody_heard_and_fails_closed(shop: Shop) -> None:
    app = shop.app
    app.budget("team", tokens=100)
    app.budget("other", tokens=100)

    @app.task
    async def ask() -> str:
        return "done"

    await declare(app)
    async with shop.working():
        jobs = [await ask.options(reserve={name: {"tokens": 101}}).aenqueue() for name in ("team", "other")]
        for job in jobs:
            await shop.until(job, is_blocked)
        # Behind everybody's back.
        await app.open().awrite(Op(_raise_silently))
        store = _Failing(app.open(), "\x1fother")
        await BudgetReleaser(store).run_once()  # type: ignore[arg-type]
        assert await jobs[0].aresult(SOON) == "done"
        assert (await jobs[1].astatus()).state == "blocked"
        await BudgetReleaser(app.open()).run_once()
        assert await jobs[1].aresult(SOON) == "done"


@live
async def test_a_store_that_does_not_answer_admits_nobody_and_costs_no_attempt(small_shop: Shop) -> None:
    app = small_shop.app
    app.budget("team", tokens=100)

    @app.task(reserve={"team": {"tokens": 1}})
    async def ask() -> None: ...

    store = _Failing(app.open(), "")
    run = Run(_claimed(ask), ask, "claim", 0.0, "w")
    outcome = await AdmissionCheck(store, lambda: 0.5).admit(run)  # type: ignore[arg-type]
    assert (type(outcome).__name__, getattr(outcome, "reason", "")) == ("Snoozed", "admission")


@live
async def test_a_soft_limit_is_logged_once(small_shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    app = small_shop.app
    app.budget("team", tokens=100, soft={"tokens": 10})

    @app.task
    async def ask(ctx: Context) -> None:
        for _ in range(3):
            await ctx.spend("team", tokens=8)

    await declare(app)
    with caplog.at_level(logging.WARNING, "holdfast.budgets"):
        async with small_shop.working():
            await (await ask.aenqueue()).aresult(SOON)
    assert [record.getMessage() for record in caplog.records if record.name == "holdfast.budgets"] == [
        "budget 'team' is over its soft limit: 16 of 10 tokens are spent"
    ]


@live
async def test_the_steps_of_a_job_show_amounts_in_their_own_unit(shop: Shop) -> None:
    app = shop.app
    app.budget("team", tokens=100, usd=5)

    @app.task
    async def ask(ctx: Context) -> None:
        await ctx.spend("team", tokens=8, usd=0.25)
        async with ctx.reserve("team", tokens=4) as held:
            await held.settle(tokens=3)

    await declare(app)
    async with shop.working():
        job = await ask.aenqueue()
        await job.aresult(SOON)
    values = {step.kind: step.value for step in await app.jobs.asteps(job.id)}
    assert values == {"spend": {"tokens": 8, "usd": 0.25}, "reserve": {"tokens": 3}}


@live
async def test_inline_jobs_spend_nothing(small_shop: Shop) -> None:
    app = small_shop.app

    @app.task(reserve={"team": {"tokens": 1}})
    async def ask(ctx: Context) -> str:
        await ctx.spend("team", tokens=1)
        await ctx.settle("team", tokens=1)
        async with ctx.reserve("team", tokens=1) as held:
            await held.settle(tokens=1)
        return "done"

    with app.inline():
        assert await (await ask.aenqueue()).aresult() == "done"


@live
async def test_a_spend_that_became_another_call_is_a_divergence(small_shop: Shop) -> None:
    app = small_shop.app
    app.budget("team", tokens=100)

    @app.task(retry=AT_ONCE, max_attempts=2)
    async def ask(ctx: Context) -> None:
        if ctx.attempt == 1:
            await ctx.spend("team", tokens=1)
            raise RuntimeError
        await ctx.settle("team", tokens=1)

    await declare(app)
    async with small_shop.working():
        with pytest.raises(JobFailed, match=StepDiverged.__name__):
            await (await ask.aenqueue()).aresult(SOON)
    assert spent(app) == (1, 0)


async def _raise_silently(tx: Any) -> None:
    text = "update holdfast_budget_line set hard = 1000000000"
    await tx.one(Statement("test", text, text))


class _Failing:
    """A store whose reads of one budget fail."""

    def __init__(self, store: Any, key: str) -> None:
        self._store = store
        self._key = key
        self.outage = store.outage

    async def aread(self, op: Any) -> Any:
        if self._key and self._key in [cell.cell_contents for cell in op.run.__closure__ or ()]:
            raise StorageUnavailable("away")
        return await self._store.aread(op)

    async def awrite(self, op: Any) -> Any:
        if not self._key:
            raise StorageUnavailable("away")
        return await self._store.awrite(op)


def _claimed(task: Any) -> Any:
    limits = JobLimits(reserve={"team": {"tokens": 1}}).encode()
    return Claimed(
        "j", task.name, "default", 0, "", "{}", 1, 5, None, None, None, 0, 1, 0, 0, None, None, 0, 0, 0, limits
    )


# -- the cost of one job


@live
async def test_the_cost_of_a_job_is_known_and_can_be_given_back_once(shop: Shop) -> None:
    app = shop.app
    app.budget("all", tokens=1000)
    app.budget("team", tokens=1000, usd=10, within="all")

    @app.task
    async def ask(ctx: Context) -> None:
        await ctx.spend("team", tokens=100, usd=Decimal("0.25"))
        await ctx.spend("team", tokens=50)
        async with ctx.reserve("team", tokens=200) as held:
            await held.settle(tokens=20)

    first, second = ask.enqueue(), ask.enqueue()
    with pytest.raises(IllegalMove):
        app.budgets.give_back(first)
    await app.adrain()
    cost = {"team": {"tokens": Decimal(170), "usd": Decimal("0.25")}}
    assert app.budgets.spent_by(first) == await app.budgets.aspent_by(second.id) == cost
    assert spent(app, "all")[0] == 340

    assert app.budgets.give_back(first, actor="ann", reason="it was our fault") == cost
    assert (spent(app)[0], spent(app, "all")[0], spent(app, dimension="usd")[0]) == (170, 170, Decimal("0.25"))
    assert await app.budgets.agive_back(first) == {}
    assert spent(app)[0] == 170
    assert app.budgets.get("team")["tokens"].lifetime == 340
    (record,) = app.audit.list(action="budget.give_back")
    assert (record.actor, record.target, record.reason) == ("ann", first.id, "it was our fault")


@live
async def test_what_is_given_back_lets_a_job_go_that_waits_for_it(shop: Shop) -> None:
    app = shop.app
    app.budget("team", tokens=100)

    @app.task(reserve={"team": {"tokens": 80}})
    async def ask(ctx: Context) -> None:
        await ctx.settle("team", tokens=80)

    first, second = ask.enqueue(), ask.enqueue()
    await app.adrain()
    assert (second.status().state, first.status().state) == ("blocked", "succeeded")
    app.budgets.give_back(first)
    await app.adrain()
    assert second.status().state == "succeeded"
