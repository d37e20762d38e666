"""Hooks of a task: jobs that are enqueued in the commit that records how another ended."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import App, Fail, Job
from holdfast.errors import ConfigError
from tests.patience import SOON

from .worker_kit import AT_ONCE, Shop, live

Seen = list[tuple[Any, ...]]


def hooked(shop: Shop) -> tuple[Any, Seen]:
    """A task with all three hooks, and what these were called with."""
    seen: Seen = []

    @shop.app.task
    async def succeeded(job_id: str, result: Any) -> None:
        seen.append(("success", job_id, result))

    @shop.app.task
    async def failed(job_id: str, state: str, reason: str, error: dict[str, Any] | None) -> None:
        seen.append(("failure", job_id, state, reason, error["message"] if error else None))

    @shop.app.task(queue="ends")
    def ended(job: str, state: str) -> None:
        seen.append(("end", job, state))

    @shop.app.task(
        max_attempts=2, retry=AT_ONCE, on_success=succeeded, on_failure=[failed], on_end=ended.options(priority=3)
    )
    async def work(word: str) -> str:
        if word == "bad":
            raise ValueError("it broke")
        if word == "worse":
            raise Fail("no hope")
        return word * 2

    return work, seen


@live
async def test_a_success_an_exhausted_and_a_permanent_failure_each_enqueue_their_hooks(shop: Shop) -> None:
    work, seen = hooked(shop)
    good, bad, worse = [await work.aenqueue(word) for word in ("ab", "bad", "worse")]
    await shop.app.adrain()
    assert sorted(seen) == sorted(
        [
            ("success", good.id, "abab"),
            ("failure", bad.id, "failed", "exhausted", "it broke"),
            ("failure", worse.id, "failed", "permanent", "no hope"),
            ("end", good.id, "succeeded"),
            ("end", bad.id, "failed"),
            ("end", worse.id, "failed"),
        ]
    )


@live
async def test_a_cancelled_and_an_expired_job_enqueue_theirs(shop: Shop) -> None:
    work, seen = hooked(shop)
    cancelled = await work.aenqueue("a")
    expired = await work.options(deadline=5).aenqueue("b")
    forced = await work.options(tenant="acme").aenqueue("c")
    await shop.app.jobs.acancel(cancelled.id)
    await shop.app.jobs.acancel(forced.id, force=True)
    shop.clock.advance(6)
    await shop.app.adrain()
    assert sorted(seen) == sorted(
        [
            ("end", cancelled.id, "cancelled"),
            ("end", forced.id, "cancelled"),
            ("failure", expired.id, "expired", "deadline", None),
            ("end", expired.id, "expired"),
        ]
    )
    hooks = [job for job in await shop.app.jobs.afind() if job.task == "ended"]
    assert {job.queue for job in hooks} == {"ends"}
    assert sorted(job.tenant for job in hooks) == ["", "", "acme"]


@live
async def test_what_is_deleted_before_it_ends_has_ended_too(shop: Shop) -> None:
    work, seen = hooked(shop)
    job = await work.aenqueue("a")
    await shop.app.jobs.adelete(job.id)
    await shop.app.adrain()
    assert seen == [("end", job.id, "cancelled")]


@live
async def test_a_hook_is_stored_with_the_end_and_in_a_queue_that_takes_no_jobs_too(shop: Shop) -> None:
    work, _ = hooked(shop)
    await shop.app.queues.adrain("ends")
    job: Job[Any] = await work.aenqueue("a")
    async with shop.working({"work": shop.app.tasks["work"]}):
        await job.await_(SOON)
    # Nobody but that worker was there: what waits now was stored by the commit that ended the job.
    waiting = [one for one in await shop.app.jobs.afind() if one.state == "ready"]
    assert sorted((one.task, one.queue) for one in waiting) == [("ended", "ends"), ("succeeded", "default")]


@live
async def test_a_job_that_is_replayed_has_hooks_for_each_of_its_ends(shop: Shop) -> None:
    work, seen = hooked(shop)
    job = await work.aenqueue("worse")
    await shop.app.adrain()
    await shop.app.jobs.aretry(job.id)
    await shop.app.adrain()
    assert [call[0] for call in seen].count("failure") == 2


@live
async def test_members_of_a_flow_and_jobs_of_a_bulk_have_hooks(shop: Shop) -> None:
    work, seen = hooked(shop)
    async with shop.app.flow("pair") as flow:
        first = flow.add(work.job("worse"))
        flow.add(work.job("a"), after=first)
    await shop.app.aenqueue_many([work.job("x"), work.job("y")])
    await shop.app.adrain()
    assert sorted(call[0] for call in seen) == ["end"] * 4 + ["failure"] + ["success"] * 2
    assert sorted(call[2] for call in seen if call[0] == "end") == ["failed", "skipped", "succeeded", "succeeded"]


def test_what_cannot_be_a_hook_is_refused_where_it_is_declared() -> None:
    app = App(":memory:")

    @app.task
    def nothing() -> None: ...

    @app.task
    def other(job_id: str, color: str) -> None: ...

    @app.task
    def fine(job_id: str, color: str = "red") -> None: ...

    for wrong in (nothing, other, "fine", fine.options(dedupe_key="k"), fine.options(id="i")):
        with pytest.raises(ConfigError, match="hook|on_failure"):
            app.task(on_failure=wrong)  # type: ignore[call-overload]
    app.task(on_failure=fine)
