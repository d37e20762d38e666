"""Turns that overlap: with many slots on Postgres, the handlers of one batch run while the store has another."""

from __future__ import annotations

import asyncio

from tests.patience import SOON

from .worker_kit import Shop, live


@live
async def test_many_slots_are_claimed_in_halves_and_never_more_than_there_are(shop: Shop) -> None:
    running, most = 0, 0

    @shop.app.task
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    jobs = await shop.app.aenqueue_many([work.job() for _ in range(1_500)])
    async with shop.working(concurrency=400) as worker:
        claims: list[int] = []
        dispatch = worker.runner.dispatch

        def note(taken: list[object], claim: str) -> None:
            claims.append(len(taken))
            dispatch(taken, claim)  # type: ignore[arg-type]

        worker.runner.dispatch = note  # type: ignore[method-assign, assignment]
        for job in jobs:
            assert await job.await_(SOON) == "succeeded"
    assert most <= 400
    assert max(claims) <= (200 if shop.store.backend == "postgres" else 400)
