"""Each job says who enqueued it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast import App, Context, InvalidInput, SyncContext
from holdfast.errors import ReservedName
from holdfast.model.answers import JobFilter
from tests.patience import SOON

from . import tenant_tasks
from .worker_kit import Shop, live


@pytest.fixture
def app(place: str) -> Iterator[App]:
    """An app on each store."""
    app = App(place)
    app.migrate()
    yield app
    app.close()


def by(app: App, job_id: str) -> str | None:
    return app.jobs.get(job_id).created_by


def test_a_program_is_code_unless_it_says_who_enqueues(app: App) -> None:
    @app.task
    def work() -> None: ...

    many = app.enqueue_many([work.job(), work.options(created_by="user:bob").job()])
    keyed = work.options(dedupe_key="k", created_by="user:ada").enqueue()
    again = work.options(dedupe_key="k").enqueue()
    with app.flow("pair") as flow:
        member = flow.add(work.job())
    jobs = [work.enqueue(), *many, keyed, again]
    assert [by(app, job.id) for job in jobs] == ["code", "code", "user:bob", "user:ada", "user:ada"]
    assert by(app, member.id) == "code"
    assert [job.id for job in app.jobs.find(JobFilter(created_by="user:ada"))] == [keyed.id]


@pytest.mark.parametrize("name", ["token:shop", "schedule:nightly", "job:1", "engine"])
def test_a_program_cannot_pass_for_a_token_a_schedule_a_job_or_the_engine(app: App, name: str) -> None:
    work = app.task(name="work")(lambda: None)
    with pytest.raises(ReservedName, match="user:ada"):
        work.options(created_by=name).enqueue()


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 161])
def test_a_creator_is_a_short_visible_text(app: App, name: str) -> None:
    work = app.task(name="work")(lambda: None)
    with pytest.raises(InvalidInput):
        work.options(created_by=name).enqueue()


def test_what_a_handler_enqueues_is_created_by_its_job(app: App) -> None:
    @app.task
    def child() -> None: ...

    @app.task
    async def awaiting(ctx: Context) -> list[str]:
        recorded = await ctx.enqueue(child.job())
        return [(await child.aenqueue()).id, app.enqueue_many([child.job()])[0].id, recorded.id]

    @app.task
    def blocking(ctx: SyncContext) -> list[str]:
        with app.flow("of a job") as flow:
            member = flow.add(child.job())
        return [child.enqueue().id, ctx.enqueue(child.job()).id, member.id]

    for task in (awaiting, blocking):
        job = task.enqueue()
        app.drain()
        assert [by(app, made) for made in job.result(0)] == [f"job:{job.id}"] * 3
    assert by(app, child.enqueue().id) == "code"


@live
async def test_so_is_what_it_enqueues_from_a_process_of_its_own(small_shop: Shop) -> None:
    app = small_shop.borrow(tenant_tasks.app)
    async with small_shop.working():
        job = await app.aenqueue(tenant_tasks.creates_as.job())
        assert await job.aresult(SOON) == f"job:{job.id}"


def test_a_schedule_creates_its_jobs_and_the_engine_its_hooks(app: App) -> None:
    @app.task
    def after(job: str) -> None: ...

    @app.task(on_success=after)
    def nightly() -> None: ...

    app.schedules.create("every night", nightly.options(created_by="user:ada").job(), cron="0 3 * * *")
    made = app.schedules.run_now("every night").job_id
    assert made is not None
    app.drain()
    (hook,) = app.jobs.find(JobFilter(task=after.name))
    assert (by(app, made), hook.created_by) == ("schedule:every night", "engine")


def test_a_retry_keeps_the_creator_and_a_fork_has_the_operator_as_its_own(app: App) -> None:
    @app.task
    def steps(ctx: SyncContext) -> int:
        return ctx.step("first", lambda: 1)

    job = steps.options(created_by="user:ada").enqueue()
    app.drain()
    assert app.jobs.retry(job.id, actor="bob")
    assert by(app, job.id) == "user:ada"
    app.drain()
    named = app.jobs.fork(job.id, from_step="first", actor="bob")
    unnamed = app.jobs.fork(job.id, from_step="first")
    assert (by(app, named.id), by(app, unnamed.id)) == ("bob", "code")
