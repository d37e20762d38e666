"""`app.drain()` does what a worker would: it tells webhooks too, unless it is asked not to."""

from __future__ import annotations

import json

import pytest

from holdfast.runtime.draining import Drained
from holdfast.testing import drain
from tests.unit.http_kit import OK, answer, serving

from .receiver import Answer, Receiver
from .test_webhooks import open_up
from .worker_kit import Shop, live


@live
async def test_drain_runs_jobs_and_tells_webhooks_of_them(shop: Shop) -> None:
    open_up(shop)
    work = shop.app.tasks["work"]
    async with serving(OK) as server:
        await shop.app.webhooks.aadd(server.url, events=["job.failed"])
        await work.options(webhook=f"{server.url}?mine").aenqueue("a")
        await work.aenqueue("bad")
        assert await shop.app.adrain() == Drained(succeeded=3, failed=1)
        assert (await shop.app.adrain()).runs == 0

    told = {seen.line.split()[1]: json.loads(seen.body)["type"] for seen in server.seen}
    assert told == {"/hook": "job.failed", "/hook?mine": "job.succeeded"}


@live
async def test_a_delivery_that_fails_is_tried_again_by_a_later_drain(shop: Shop) -> None:
    open_up(shop)
    async with serving(answer(500), OK) as server:
        endpoint = await shop.app.webhooks.aadd(server.url)
        await shop.app.tasks["work"].aenqueue("a")
        assert await shop.app.adrain() == Drained(succeeded=1, again=1)
        assert (await shop.app.adrain()).runs == 0
        shop.clock.advance(6.1)
        assert await shop.app.adrain() == Drained(succeeded=1)
        (one,) = await shop.app.webhooks.alog(endpoint.id)
    assert (one.attempts, one.status, len(server.seen)) == (2, 200, 2)


@pytest.mark.parametrize("how", [{"webhooks": False}, {"queues": ["default"]}])
@live
async def test_where_it_is_not_asked_to_nothing_is_told_and_nothing_lost(
    small_shop: Shop, how: dict[str, bool]
) -> None:
    open_up(small_shop)
    async with serving(OK) as server:
        await small_shop.app.webhooks.aadd(server.url)
        await small_shop.app.tasks["work"].aenqueue("a")
        assert await small_shop.app.adrain(**how) == Drained(succeeded=1)
        assert server.seen == []
        assert await small_shop.app.adrain() == Drained(succeeded=1)
    assert len(server.seen) == 1


def test_blocking_drains_one_after_the_other_tell_of_what_came_between(shop: Shop) -> None:
    open_up(shop)
    receiver = Receiver()
    receiver.script = [Answer()] * 2
    try:
        shop.app.webhooks.add(receiver.url)
        for word in ("a", "b"):
            shop.app.tasks["work"].enqueue(word)
            assert drain(shop.app) == Drained(succeeded=2)
    finally:
        receiver.close()
    assert len(receiver.seen) == 2
