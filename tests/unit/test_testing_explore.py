"""`holdfast.testing.explore`: a user's own jobs, killed before and after every commit."""

from __future__ import annotations

import logging

import pytest

from holdfast import App, Context, Fail, Item, SyncContext
from holdfast.model.answers import JobFilter
from holdfast.testing import aexplore, explore
from tests.worker.worker_kit import AT_ONCE, live


@pytest.fixture
def app() -> App:
    # Each kill is a run that did not end; nobody needs to read of it.
    logging.getLogger("holdfast.worker").setLevel(logging.CRITICAL)
    return App(":memory:")


@pytest.fixture(autouse=True)
def _quiet() -> object:
    yield
    logging.getLogger("holdfast.worker").setLevel(logging.NOTSET)


def _approve(app: App) -> None:
    for job in app.jobs.find(JobFilter(state="suspended")):
        app.signal(job.id, "approved", True)


def test_a_durable_job_of_each_colour_ends_alike_wherever_it_is_killed(app: App) -> None:
    @app.task
    async def child(n: int) -> int:
        return n * n

    @app.task
    async def report(ctx: Context) -> object:
        base = await ctx.step("load", abs, -3)
        await ctx.sleep(3600)
        made = [await ctx.enqueue(child.job(base + n)) for n in range(2)]
        squares = await ctx.wait_for(*made)
        return [squares, await ctx.wait_for("approved", type=bool)]

    @app.task
    def report_too(ctx: SyncContext) -> object:
        base = ctx.step("load", abs, -3)
        ctx.sleep(3600)
        square = ctx.wait_for(ctx.enqueue(child.job(base)))
        return [square, ctx.wait_for("approved", type=bool)]

    for task in (report, report_too):
        explored = explore(app, task.job(), on_idle=_approve)
        assert explored.kills > 20
        # Only the step in flight is done again, once, where the kill came before its commit.
        assert explored.repeated == {f"{task.name} step:load#1": 1}


def test_a_flow_ends_alike_wherever_it_is_killed(app: App) -> None:
    @app.task
    def part(n: int) -> int:
        return n

    @app.task
    def total(a: int, b: int) -> int:
        return a + b

    def start(app: App) -> None:
        with app.flow("sum") as flow:
            flow.add(total.job(flow.add(part.job(1)).output, flow.add(part.job(2)).output))

    explored = explore(app, start)
    assert explored.kills > 6
    assert explored.ends == {"succeeded": 3}


def test_each_job_of_a_batch_ends_alike_wherever_its_worker_is_killed(app: App) -> None:
    @app.task(batch=4, wait=1, retry=AT_ONCE, max_attempts=3)
    async def send(items: list[Item[int]]) -> list[int | Exception]:
        return [_answer(item) for item in items]

    @app.task(batch=4, retry=AT_ONCE, max_attempts=3)
    def send_too(items: list[Item[int]]) -> list[int | Exception]:
        return [_answer(item) for item in items]

    def _answer(item: Item[int]) -> int | Exception:
        if item.value == 3:
            return Fail("odd")
        return ValueError("once more") if item.value == 5 and item.attempt == 1 else item.value

    for task in (send, send_too):
        explored = explore(app, lambda app, task=task: app.enqueue_many([task.job(n) for n in range(10)]))  # type: ignore[misc]
        assert explored.kills > 8
        assert explored.ends == {"succeeded": 9, "failed": 1}


def test_a_step_that_fails_at_first_does_not_disturb(app: App) -> None:
    @app.task(retry=AT_ONCE)
    async def insists(ctx: Context) -> int:
        if ctx.attempt < 2:
            await ctx.step("fails", int, "no number")
        return await ctx.step("works", abs, -1)

    explore(app, insists.job())


def test_an_effect_outside_of_a_step_is_found_out(app: App) -> None:
    sent: list[str] = []

    @app.task
    async def careless(ctx: Context) -> None:
        sent.append("mail")
        await ctx.step("work", abs, -1)

    def start(app: App) -> None:
        sent.clear()
        careless.enqueue()

    with pytest.raises(AssertionError, match="killed before commit .* ends differently"):
        explore(app, start, outcome=lambda _: list(sent))


def test_a_job_that_waits_for_ever_is_compared_as_it_stands(app: App) -> None:
    @app.task
    async def waits(ctx: Context) -> None:
        await ctx.wait_for("nobody")

    assert explore(app, waits.job(), outcome=lambda app: [job.state for job in app.jobs.find()]).kills > 2


@live
async def test_it_can_be_awaited_and_leaves_the_apps_own_store_alone(app: App) -> None:
    @app.task
    async def plain() -> int:
        return 1

    assert (await aexplore(app, plain.job())).kills > 2
    assert await app.jobs.afind() == []
    app.close()
