"""Durable calls that could only end in a wait without end, or with the value of another: refused when they are made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import Context, SyncContext, any_of
from holdfast.model.jobs import JobRecord
from tests.patience import SOON

from .worker_kit import Shop, live


async def refused(shop: Shop, job: Any) -> JobRecord:
    """The record of a job that fails at its first attempt."""
    async with shop.working():
        record = await shop.until_ended(job)
    assert (record.state, record.reason) == ("failed", "exhausted")
    return record


@live
async def test_a_job_cannot_wait_for_itself(shop: Shop) -> None:
    @shop.app.task(max_attempts=1)
    async def narcissus(ctx: Context) -> None:
        await ctx.wait_for(shop.app.job(ctx.job.id))

    record = await refused(shop, await narcissus.aenqueue())
    assert "waits for itself" in (record.error or "")


@live
async def test_a_member_cannot_wait_for_one_that_starts_when_it_has_ended(shop: Shop) -> None:
    @shop.app.task
    def last() -> None: ...

    @shop.app.task(max_attempts=1)
    async def splits(ctx: Context) -> None:
        async with ctx.flow() as more:
            first = more.add(last.job(), after=more.me)
            second = more.add(last.job(), after=first)
        await ctx.wait_for(second)

    async with shop.app.flow("circle") as flow:
        member = flow.add(splits.job())
    record = await refused(shop, member)
    assert "FlowCycle" in (record.error or "")


@live
async def test_a_member_may_wait_for_one_that_can_start_without_it(shop: Shop) -> None:
    @shop.app.task
    def part() -> int:
        return 7

    @shop.app.task(max_attempts=1)
    async def splits(ctx: Context) -> int:
        async with ctx.flow() as more:
            one = more.add(part.job())
            either = more.add(part.job(), after=any_of(more.me, one))
        return await ctx.wait_for(either)

    async with shop.app.flow("no circle") as flow:
        member = flow.add(splits.job())
    async with shop.working():
        assert await member.aresult(SOON) == 7


@live
async def test_a_name_that_looks_like_a_call_inside_of_a_step_is_refused(shop: Shop) -> None:
    """A later run, which does not go into the recorded step, would give it the value of the call in there."""

    @shop.app.task(max_attempts=1)
    def confuses(ctx: SyncContext) -> str:
        ctx.step("outer", lambda: ctx.step("inner", str, "of the inner"))
        return ctx.step("outer#1/inner", str, "its own")

    record = await refused(shop, await confuses.aenqueue())
    assert "looks like a call inside" in (record.error or "")


@pytest.mark.parametrize(
    ("terms", "complaint"),
    [({"time_out": 60}, "unexpected keyword argument 'time_out'"), ({"type": 5}, "type is 5")],
    ids=["a misspelt timeout", "a type that is none"],
)
@live
async def test_a_wait_whose_terms_make_no_sense_is_refused_at_once(
    shop: Shop, terms: dict[str, Any], complaint: str
) -> None:
    @shop.app.task(max_attempts=1)
    def waits(ctx: SyncContext) -> None:
        ctx.wait_for("approval", **terms)

    record = await refused(shop, await waits.aenqueue())
    assert complaint in (record.error or "")


@live
async def test_a_waitpoint_of_a_type_that_is_none_is_refused_at_once(shop: Shop) -> None:
    @shop.app.task(max_attempts=1)
    def opens(ctx: SyncContext) -> None:
        ctx.waitpoint("approval", expires=60, type="not a type")

    record = await refused(shop, await opens.aenqueue())
    assert "no answer can be read as" in (record.error or "")


@live
async def test_a_wait_for_some_of_several_jobs_is_refused(shop: Shop) -> None:
    @shop.app.task
    def part() -> None: ...

    @shop.app.task(max_attempts=1)
    async def waits(ctx: Context) -> None:
        await ctx.wait_for(await ctx.enqueue(part.job()), await ctx.enqueue(part.job()), needed=1)

    record = await refused(shop, await waits.aenqueue())
    assert "when all of them have ended" in (record.error or "")


@live
async def test_a_wait_for_all_of_nothing_is_over_at_once(shop: Shop) -> None:
    @shop.app.task
    def waits(ctx: SyncContext) -> list[int]:
        found: list[int] = ctx.wait_for(*[], needed="all")
        return found

    async with shop.working():
        assert await (await waits.aenqueue()).aresult(SOON) == []


@live
async def test_a_job_cannot_wait_at_the_waitpoint_of_another(shop: Shop) -> None:
    opened: list[Any] = []

    @shop.app.task
    async def opens(ctx: Context) -> None:
        opened.append(await ctx.waitpoint("approval", expires=3600))

    @shop.app.task(max_attempts=1)
    async def waits(ctx: Context) -> None:
        await ctx.wait_for(opened[0])

    async with shop.working():
        await shop.until_ended(await opens.aenqueue())
    record = await refused(shop, await waits.aenqueue())
    assert "is of job" in (record.error or "")


@live
async def test_a_task_in_the_place_of_its_job_cannot_be_enqueued(shop: Shop) -> None:
    @shop.app.task(max_attempts=1)
    async def forgets(ctx: Context) -> None:
        await ctx.enqueue(forgets)  # type: ignore[arg-type]

    record = await refused(shop, await forgets.aenqueue())
    assert "enqueue takes what task.job" in (record.error or "")


@live
async def test_the_id_of_a_job_or_a_call_of_a_task_cannot_be_waited_for(shop: Shop) -> None:
    @shop.app.task
    def child() -> int:
        return 1

    @shop.app.task(max_attempts=1)
    async def by_id(ctx: Context) -> int:
        return await ctx.wait_for((await ctx.enqueue(child.job())).id)

    @shop.app.task(max_attempts=1)
    def by_call(ctx: SyncContext) -> int:
        return ctx.wait_for(child.job())  # type: ignore[call-overload,no-any-return]

    record = await refused(shop, await by_id.aenqueue())
    assert "give the job itself: ctx.wait_for(job)" in (record.error or "")
    message = json.loads((await refused(shop, await by_call.aenqueue())).error or "")["message"]
    assert message.startswith("a call of task 'child' is not a job yet; enqueue it first") and len(message) < 150


@live
async def test_a_signal_with_the_name_of_a_job_is_warned_of(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    @shop.app.task
    async def waits(ctx: Context) -> object:
        return await ctx.wait_for("order-7")

    await waits.options(id="order-7", delay=3600).aenqueue()
    job = await waits.aenqueue()
    async with shop.working():
        await shop.until(job, lambda record: record.state == "suspended")
        assert "waits for a signal named 'order-7', which is also the id of a job" in caplog.text
        await shop.app.asignal(job, "order-7", 1)
        assert await job.aresult(SOON) == 1
