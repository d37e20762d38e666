"""The operations of a program and of its worker are timed under names that say what they do."""

from __future__ import annotations

from .worker_kit import Shop, live


def counts(shop: Shop) -> dict[str, int]:
    return {one.operation: one.count for one in shop.app.stats.operations()}


@live
async def test_enqueue_claim_finish_and_heartbeat_are_timed_by_these_names(shop: Shop) -> None:
    @shop.app.task
    async def fine() -> None: ...

    fine.enqueue()
    await fine.aenqueue()
    await shop.app.aenqueue_many([fine.job(), fine.job()])
    fine.options(dedupe_key="k").enqueue()
    async with shop.working() as worker:
        await shop.until_ended(await fine.options(dedupe_key="x").aenqueue())
        assert await shop.beat(worker)
        found = counts(shop)
    assert (found["enqueue"], found["enqueue_many"]) == (4, 1)
    assert found["claim"] >= 1
    assert found.get("finish", 0) + found.get("finish_and_claim", 0) >= 1
    assert found["heartbeat"] >= 1
    assert found["workers.register"] == 1


@live
async def test_an_action_in_a_tenants_view_has_the_same_name_and_what_has_none_is_the_tenants(shop: Shop) -> None:
    @shop.app.task
    async def fine() -> None: ...

    job = fine.options(tenant="acme").enqueue()
    shop.app.scoped("acme").jobs.cancel(job.id)
    shop.app.jobs.cancel(job.id)
    assert counts(shop)["jobs.cancel"] == 2
    await shop.app.scoped("acme").jobs.aattempts(job.id)
    assert counts(shop)["tenant"] == 1
