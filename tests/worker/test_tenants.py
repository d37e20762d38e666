"""For whom jobs run: captured where they are enqueued, carried to their handlers and to what these enqueue."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

import holdfast
from holdfast import App, Context, InvalidInput, JobFailed, NotFound, SyncContext
from holdfast.errors import BeyondScope, ConfigError, ForeignMember, IdTaken, UnknownTenant
from holdfast.model import JobState
from tests.patience import SOON

from . import tenant_tasks
from .worker_kit import AT_ONCE, Shop, live


@pytest.fixture
def app(place: str) -> Iterator[App]:
    """An app on each store."""
    app = App(place)
    app.migrate()
    yield app
    app.close()


def _work(app: App) -> holdfast.Task[[int], int]:
    @app.task
    def work(x: int) -> int:
        return x

    return work


# -- captured


def test_what_is_enqueued_in_a_block_is_for_its_tenant(app: App) -> None:
    work = _work(app)
    with holdfast.tenant("acme"):
        made = [work.enqueue(1), *app.enqueue_many([work.job(2)])]
        with holdfast.tenant("beta"):
            inner = work.enqueue(3)
        with app.flow("pair") as flow:
            member = flow.add(work.job(4))
        other = work.options(tenant="other").enqueue(5)
    assert [job.status().tenant for job in (*made, inner, other)] == ["acme", "acme", "beta", "other"]
    assert (flow.status().tenant, app.jobs.get(member.id).tenant) == ("acme", "acme")
    assert work.enqueue(6).status().tenant == ""


@live
async def test_two_coroutines_are_each_for_their_own_tenant(shop: Shop) -> None:
    work = _work(shop.app)
    meet = asyncio.Barrier(2)

    async def enqueue(name: str) -> str:
        with holdfast.tenant(name):
            await meet.wait()
            return (await (await work.aenqueue(1)).astatus()).tenant

    assert await asyncio.gather(enqueue("acme"), enqueue("beta")) == ["acme", "beta"]


def test_the_app_is_asked_only_where_no_block_says_it(place: str) -> None:
    app = App(place, tenant=lambda: "from the app")
    work = _work(app)
    app.migrate()
    assert work.enqueue(1).status().tenant == "from the app"
    with holdfast.tenant("acme"):
        assert work.enqueue(1).status().tenant == "acme"
    app.close()


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 129, "a\x1fb"])
def test_a_tenants_name_is_like_any_other(app: App, name: str) -> None:
    with pytest.raises(InvalidInput), holdfast.tenant(name):
        pass
    with pytest.raises(InvalidInput):
        app.scoped(name)


# -- carried


@live
async def test_what_a_handler_enqueues_is_for_the_tenant_of_its_job(real_shop: Shop) -> None:
    app = real_shop.app
    work = _work(app)

    @app.task
    async def awaiting() -> list[str]:
        with holdfast.tenant("other"):
            other = await work.aenqueue(1)
        return [(await work.aenqueue(1)).id, app.enqueue_many([work.job(2)])[0].id, other.id]

    @app.task
    def blocking(ctx: SyncContext) -> list[str]:
        with app.flow("pair") as flow:
            member = flow.add(work.job(3))
        return [work.enqueue(1).id, member.id, ctx.enqueue(work.options(tenant="other").job(2)).id]

    async with real_shop.working(concurrency=4):
        for task in (awaiting, blocking):
            for tenant in ("acme", "beta"):
                found = await (await task.options(tenant=tenant).aenqueue()).aresult(SOON)
                assert [(await app.jobs.aget(id)).tenant for id in found] == [tenant, tenant, "other"]


@live
async def test_a_handler_does_not_inherit_the_tenant_of_whoever_started_the_worker(real_shop: Shop) -> None:
    app = real_shop.app
    work = _work(app)

    @app.task
    async def fan_out() -> str:
        return (await work.aenqueue(1)).id

    with holdfast.tenant("whoever"):
        async with real_shop.working():
            job = await app.aenqueue(fan_out.job(), tenant="")
            assert (await app.jobs.aget(await job.aresult(SOON))).tenant == ""


@live
async def test_steps_on_threads_are_for_the_tenant_of_their_job(real_shop: Shop) -> None:
    app = real_shop.app
    work = _work(app)

    def enqueue() -> str:
        assert threading.current_thread() is not threading.main_thread()
        return work.enqueue(1).id

    @app.task
    async def durable(ctx: Context) -> str:
        return await ctx.step("enqueue", enqueue)

    async with real_shop.working():
        job = await durable.options(tenant="acme").aenqueue()
        assert (await app.jobs.aget(await job.aresult(SOON))).tenant == "acme"


@live
async def test_a_job_in_a_process_of_its_own_runs_for_its_tenant(small_shop: Shop) -> None:
    app = small_shop.borrow(tenant_tasks.app)
    async with small_shop.working():
        for tenant in ("acme", "beta"):
            for task in (tenant_tasks.whose, tenant_tasks.awhose):
                assert await (await app.aenqueue(task.options(tenant=tenant).job())).aresult(SOON) == tenant


def test_an_inline_job_runs_for_its_tenant() -> None:
    app = App(":memory:", inline=True)
    seen: list[str] = []

    @app.task
    def child(ctx: SyncContext) -> None:
        seen.append(ctx.tenant)

    @app.task
    def parent(ctx: SyncContext) -> None:
        seen.append(ctx.tenant)
        child.enqueue()

    with holdfast.tenant("acme"):
        parent.enqueue()
    app.scoped("beta").enqueue(parent.job())
    assert seen == ["acme", "acme", "beta", "beta"]


# -- known


@pytest.mark.parametrize("known", [{"acme"}, ["acme"], lambda name: name == "acme"])
def test_an_unknown_tenant_is_refused_wherever_it_is_named(place: str, known: object) -> None:
    app = App(place, tenants=known)  # type: ignore[arg-type]
    work = _work(app)
    app.migrate()
    work.options(tenant="acme").enqueue(1)
    work.enqueue(2)
    with holdfast.tenant("acmee"):
        refused = [
            lambda: work.enqueue(1),
            lambda: app.enqueue_many([work.job(1)]),
            lambda: app.flow("f"),
            lambda: work.options(tenant="beta").enqueue(1),
            lambda: app.scoped("beta"),
            lambda: app.scoped("acme").enqueue(work.options(tenant="beta").job(1)),
        ]
        for call in refused:
            with pytest.raises(UnknownTenant):
                call()
    assert len(app.jobs.find()) == 2
    app.close()


@live
async def test_a_job_of_a_tenant_that_is_gone_fails_and_says_so(shop: Shop) -> None:
    app, known = shop.app, {"acme"}
    app._tenants = type(app._tenants)(known=known.__contains__)

    @app.task(max_attempts=1, retry=AT_ONCE)
    async def awaiting() -> None: ...

    @app.task(max_attempts=1, retry=AT_ONCE)
    def blocking() -> None: ...

    jobs = [await task.options(tenant="acme").aenqueue() for task in (awaiting, blocking)]
    known.clear()
    async with shop.working():
        for job in jobs:
            with pytest.raises(JobFailed, match="UnknownTenant: there is no tenant 'acme'"):
                await job.aresult(SOON)


def test_a_list_of_tenants_is_not_one_name() -> None:
    with pytest.raises(ConfigError):
        App(":memory:", tenants="acme")


# -- apart


@live
async def test_a_job_cannot_wait_for_another_tenants_job(real_shop: Shop) -> None:
    app = real_shop.app
    work = _work(app)

    @app.task(max_attempts=1)
    async def waits(ctx: Context, job_id: str) -> int:
        return int(await ctx.wait_for(work.handle(job_id)))

    async with real_shop.working(concurrency=4):
        theirs = await work.options(tenant="beta").aenqueue(1)
        assert await theirs.aresult(SOON) == 1
        running = await work.options(tenant="beta", delay=3600).aenqueue(2)
        for job_id in (theirs.id, running.id, "01m0000000000000000missing"):
            job = await waits.options(tenant="acme").aenqueue(job_id)
            with pytest.raises(JobFailed, match=f"NotFound: no job '{job_id}'"):
                await job.aresult(SOON)
        # Whoever works for nobody in particular may wait for anybody.
        assert await (await waits.aenqueue(theirs.id)).aresult(SOON) == 1
        assert await (await waits.options(tenant="beta").aenqueue(theirs.id)).aresult(SOON) == 1


def test_an_id_that_another_tenant_has_taken_is_taken_and_nothing_more_is_said(app: App) -> None:
    work = _work(app)
    app.scoped("acme").enqueue(work.options(id="order-1").job(1))
    with pytest.raises(IdTaken) as same:
        app.scoped("beta").enqueue(work.options(id="order-1").job(1))
    with pytest.raises(IdTaken) as different:
        app.scoped("beta").enqueue(work.options(id="order-1").job(2))
    assert str(same.value) == str(different.value)
    again = app.scoped("acme").enqueue(work.options(id="order-1").job(1))
    assert not again.created


def test_keys_of_two_tenants_are_two_keys(app: App) -> None:
    work = _work(app)
    keyed = work.options(dedupe_key="k", concurrency_key="c", concurrency=1)
    jobs = [app.scoped(tenant).enqueue(keyed.job(1)) for tenant in ("a", "b", "a:c", "a%3ac")]
    assert all(job.created for job in jobs)
    # Not even where the names of one look like those of the other.
    odd = app.scoped("a").enqueue(work.options(concurrency_key="c:c", concurrency=1).job(1))
    assert len({job.status().limits for job in (*jobs, odd)}) == 5


def test_a_flow_takes_no_member_of_another_tenant(app: App) -> None:
    work = _work(app)
    theirs = app.scoped("beta").enqueue(work.options(id="theirs").job(1))
    with app.scoped("beta").flow("flow") as flow:
        member = flow.add(work.options(id="member").job(1))
    for taken in (theirs.id, member.id):
        mine = app.scoped("acme").flow("mine")
        mine.add(work.options(id=taken).job(1))
        with pytest.raises(IdTaken):
            mine.start()
    with pytest.raises(ForeignMember), app.scoped("acme").flow("mine") as mine:
        mine.add(work.options(tenant="beta").job(1))
    assert app.scoped("acme").jobs.find() == []


def test_handles_of_a_view_are_confined_to_it(app: App) -> None:
    work, view = _work(app), app.scoped("acme")
    mine, theirs = view.enqueue(work.job(1)), app.scoped("beta").enqueue(work.job(2))
    assert view.job(mine.id).cancel() == "cancelled"
    for act in (view.job(theirs.id).cancel, view.job(theirs.id).status, view.job(theirs.id).wait):
        with pytest.raises(NotFound):
            act()
    assert theirs.status().state is JobState.READY


def test_what_is_the_whole_stores_is_beyond_a_view(app: App) -> None:
    with pytest.raises(BeyondScope, match="not available to users of tenant 'acme'"):
        app.scoped("acme").signals.refused()


def test_two_tenants_each_have_a_schedule_of_the_same_name(app: App) -> None:
    work = _work(app)
    acme, beta = app.scoped("acme").schedules, app.scoped("beta").schedules
    acme.create("nightly", work.job(1), every=60)
    beta.create("nightly", work.job(2), every=60)
    app.schedules.create("odd", work.options(tenant="beta").job(3), every=60)
    assert [one.name for one in acme.list()] == ["nightly"]
    assert [one.key for one in app.schedules.list()] == [("acme", "nightly"), ("beta", "nightly"), ("beta", "odd")]
    assert app.schedules.of("beta").get("odd").tenant == "beta"
    with pytest.raises(NotFound):
        app.schedules.get("nightly")
    for act in (acme.get, acme.pause, acme.run_now, acme.delete):
        with pytest.raises(NotFound):
            act("odd")
    made = acme.run_now("nightly").job_id
    assert made is not None and app.jobs.get(made).tenant == "acme"
    acme.delete("nightly")
    assert [one.name for one in beta.list()] == ["nightly", "odd"]
    seen = [(record.action, record.target) for record in app.scoped("acme").audit.list()]
    assert seen == [(f"schedule.{verb}", "nightly") for verb in ("delete", "run", "create")]
