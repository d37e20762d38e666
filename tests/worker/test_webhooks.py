"""Webhooks from end to end: what happens to jobs is told to a real receiver, signed, and told again where need be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from standardwebhooks import Webhook

from holdfast import Context
from holdfast.errors import Conflict, InvalidInput, UrlRefused
from holdfast.model.values import micros_of
from holdfast.model.webhooks import Delivery, Endpoint
from holdfast.outbound.policy import Policy
from holdfast.rules.signing import new_secret
from holdfast.worker.worker import Worker
from tests.patience import SOON
from tests.unit.http_kit import OK, Seen, Server, answer, serving

from .worker_kit import Shop, live

OPEN = Policy(allow_http=True, allow_private=("127.0.0.0/8",), ports=range(1, 65_536))
TELLING = {"lead_interval": 0.05, "webhook_interval": 0.05, "unpark_interval": 0.2}


def verified(secret: str, seen: Seen) -> dict[str, Any]:
    return Webhook(secret).verify(seen.body, seen.headers)  # type: ignore[no-any-return]


def open_up(shop: Shop) -> None:
    shop.app.outbound = OPEN

    @shop.app.task(max_attempts=1)
    async def work(word: str) -> str:
        if word == "bad":
            raise ValueError("it broke")
        return word * 2


async def requests_to(server: Server, n: int) -> list[Seen]:
    while len(server.seen) < n:
        server.changed.clear()
        await server.changed.wait()
    return server.seen


async def logged(shop: Shop, endpoint: Endpoint, wanted: Callable[[list[Delivery]], bool]) -> list[Delivery]:
    listener = shop.app.open().wakeups.listen(["finished", "queue:webhooks"])
    try:
        while not wanted(found := await shop.app.webhooks.alog(endpoint.id)):
            await listener.await_ring(0.1)
        return found
    finally:
        listener.close()


@live
async def test_an_endpoint_is_told_of_how_jobs_end_and_can_verify_it(real_shop: Shop) -> None:
    open_up(real_shop)
    async with serving(OK) as server:
        endpoint = await real_shop.app.webhooks.aadd(server.url)
        async with real_shop.working(real_shop.app.all_tasks, **TELLING):
            good = await real_shop.app.tasks["work"].options(tags=["vip"]).aenqueue("ab")
            bad = await real_shop.app.tasks["work"].aenqueue("bad")
            seen = await requests_to(server, 2)
            log = await logged(real_shop, endpoint, lambda log: all(one.state == "succeeded" for one in log))

    told = {body["data"]["job"]: body for body in (verified(endpoint.secret, one) for one in seen)}
    assert told[good.id]["type"] == "job.succeeded"
    assert told[good.id]["data"]["result"] == "abab"
    assert told[good.id]["data"]["tags"] == ["vip"]
    assert (told[good.id]["data"]["previous_state"], told[good.id]["data"]["attempt"]) == ("running", 1)
    assert told[bad.id]["type"] == "job.failed"
    assert told[bad.id]["data"]["error"] == {"type": "ValueError", "message": "it broke"}
    assert {one.headers["webhook-id"] for one in seen} == {body["id"] for body in told.values()}
    assert {(one.status, one.event, one.job) for one in log} == {
        (200, "job.failed", bad.id),
        (200, "job.succeeded", good.id),
    }


@live
async def test_each_event_is_told_once_to_each_who_wants_it(shop: Shop) -> None:
    open_up(shop)
    add = shop.app.webhooks.aadd
    async with serving(OK) as server:
        everything = await add(server.url)
        failures = await add(server.url, events=["job.failed"])
        tagged = await add(server.url, tags=["vip", "new"])
        theirs = await add(server.url, tenant="acme")
        async with shop.working(shop.app.all_tasks) as worker:
            work = shop.app.tasks["work"]
            jobs = {
                "good": await work.aenqueue("a"),
                "bad": await work.aenqueue("bad"),
                "vip": await work.options(tags=["vip"]).aenqueue("b"),
                "acme": await work.options(tenant="acme").aenqueue("c"),
            }
            for job in jobs.values():
                await shop.until_ended(job)
            await lead(worker)
            for _ in range(2):
                await worker.services.fanout.run_once()
                shop.clock.advance(1)
            told = {
                endpoint.id: await logged(shop, endpoint, lambda log: all(one.status == 200 for one in log))
                for endpoint in (everything, failures, tagged, theirs)
            }

    names = {job.id: name for name, job in jobs.items()}
    heard_of = {endpoint: sorted(names[one.job or ""] for one in log) for endpoint, log in told.items()}
    assert heard_of == {
        everything.id: ["acme", "bad", "good", "vip"],
        failures.id: ["bad"],
        tagged.id: ["vip"],
        theirs.id: ["acme"],
    }
    assert len(server.seen) == 7


@live
async def test_a_job_names_its_own_webhook_and_the_endpoint_is_made_with_it(real_shop: Shop) -> None:
    open_up(real_shop)
    async with serving(OK) as server:
        async with real_shop.working(real_shop.app.all_tasks, **TELLING):
            work = real_shop.app.tasks["work"]
            silent = await work.options(webhook=server.url, webhook_events=["job.failed"]).aenqueue("a")
            await silent.aresult(SOON)
            await work.aenqueue("unheard")
            job = await work.options(webhook=server.url).aenqueue("b")
            seen = await requests_to(server, 1)
        endpoint = await real_shop.app.webhooks.afor_calls(server.url)
        log = await real_shop.app.webhooks.alog(endpoint.id)

    assert [one.job for one in log] == [job.id]
    body = verified(endpoint.secret, seen[0])
    assert (body["data"]["job"], body["data"]["tags"]) == (job.id, [])


@live
async def test_a_job_is_told_of_from_its_start_by_its_own_webhook_with_the_stages_it_reports(real_shop: Shop) -> None:
    open_up(real_shop)

    @real_shop.app.task
    async def generate(ctx: Context) -> str:
        await ctx.progress(stage="loading")
        await ctx.progress(50, stage="working")
        return "done"

    kinds = ["job.enqueued", "job.started", "job.stage", "job.succeeded"]
    async with serving(OK) as server, real_shop.working(real_shop.app.all_tasks, **TELLING):
        job = await generate.options(webhook=server.url, webhook_events=kinds).aenqueue()
        seen = await requests_to(server, 5)
    told = [json.loads(one.body) for one in seen]
    stages = {one["data"]["stage"]: one["data"] for one in told if one["type"] == "job.stage"}
    assert sorted(one["type"] for one in told) == sorted([*kinds, "job.stage"])
    assert {one["data"]["job"] for one in told} == {job.id}
    assert stages["loading"]["previous_stage"] is None
    assert (stages["working"]["previous_stage"], stages["working"]["attempt"]) == ("loading", 1)


@live
async def test_during_rotation_both_secrets_sign(real_shop: Shop) -> None:
    open_up(real_shop)
    webhooks = real_shop.app.webhooks
    async with serving(OK) as server, real_shop.working(real_shop.app.all_tasks):
        old = await webhooks.aadd(server.url)
        new = await webhooks.arotate(old.id, overlap=3600)
        await webhooks.atest(old.id)
        (first,) = await requests_to(server, 1)
        alone = await webhooks.arotate(old.id, overlap=0)
        await webhooks.atest(old.id)
        *_, second = await requests_to(server, 2)

    assert verified(old.secret, first) == verified(new.secret, first)
    assert verified(alone.secret, second)["type"] == "webhook.test"
    with pytest.raises(Exception, match="No matching signature"):
        verified(new.secret, second)


@live
async def test_a_delivery_is_tried_again_by_the_schedule_with_the_same_id(shop: Shop) -> None:
    open_up(shop)
    server_says = [answer(500, b'{"token": "abc123"}'), answer(302, Location="http://127.0.0.1/"), answer(404), OK]
    async with serving(*server_says) as server, shop.working(shop.app.all_tasks) as worker:
        endpoint = await shop.app.webhooks.aadd(server.url)
        sent = await shop.app.webhooks.atest(endpoint.id)
        waits = []
        for n in range(1, 4):
            (one,) = await logged(shop, endpoint, lambda log, n=n: (log[0].attempts, log[0].state) == (n, "ready"))  # type: ignore[misc]
            assert one.next_at is not None
            waits.append((micros_of(one.next_at) - shop.clock.now()) / 1e6)
            await shop.pass_time(waits[-1] + 0.01, worker)
        await logged(shop, endpoint, lambda log: log[0].state == "succeeded")
        found = await shop.app.webhooks.adelivery(sent.id)

    assert all(low <= wait <= low * 1.2 for wait, low in zip(waits, (5, 300, 1800), strict=True))
    assert {one.headers["webhook-id"] for one in server.seen} == {sent.message}
    assert [one.status for one in found.tries] == [500, 302, 404]
    assert "abc123" not in found.tries[0].detail
    assert (found.status, found.attempts, len(server.seen)) == (200, 4, 4)


@pytest.mark.parametrize(
    ("said", "waits"), [("120", 120), ("1", 5), ("-5", 5), ("nonsense", 5), ("1000000000000", 300)]
)
@live
async def test_a_receiver_may_ask_for_more_time(small_shop: Shop, said: str, waits: float) -> None:
    open_up(small_shop)
    async with serving(answer(429, Retry_After=said)) as server, small_shop.working(small_shop.app.all_tasks):
        endpoint = await small_shop.app.webhooks.aadd(server.url)
        await small_shop.app.webhooks.atest(endpoint.id)
        (one,) = await logged(small_shop, endpoint, lambda log: log[0].attempts == 1 and log[0].state == "ready")

    assert one.next_at is not None
    assert waits <= (micros_of(one.next_at) - small_shop.clock.now()) / 1e6 <= waits * 1.2


@live
async def test_an_endpoint_that_is_gone_is_disabled_and_hears_no_more(shop: Shop) -> None:
    open_up(shop)
    async with serving(answer(410)) as server, shop.working(shop.app.all_tasks) as worker:
        endpoint = await shop.app.webhooks.aadd(server.url)
        sent = await shop.app.webhooks.atest(endpoint.id)
        await logged(shop, endpoint, lambda log: log[0].state == "failed")
        job = await shop.app.tasks["work"].aenqueue("a")
        assert (await shop.until_ended(job)).state == "succeeded"
        await lead(worker)
        await worker.services.fanout.run_once()
        found = await shop.app.webhooks.aget(endpoint.id)
        assert (found.state, found.reason) == ("disabled", "gone")
        assert [one.id for one in await shop.app.webhooks.alog(endpoint.id)] == [sent.id]
        (record,) = shop.app.audit.list(target_kind="webhook", target=endpoint.id, action="webhook.disable")
        assert record.actor == "holdfast"

        server.script = [OK]
        assert await shop.app.webhooks.aenable(endpoint.id)
        assert await shop.app.webhooks.arecover(endpoint.id) == [sent.id]
        await logged(shop, endpoint, lambda log: log[0].state == "succeeded")

    assert {one.headers["webhook-id"] for one in server.seen} == {sent.message}


@live
async def test_a_url_of_one_job_that_is_gone_says_nothing_of_its_host(real_shop: Shop) -> None:
    open_up(real_shop)
    work = real_shop.app.tasks["work"]
    async with serving(answer(410), OK) as server, real_shop.working(real_shop.app.all_tasks, **TELLING):
        await work.options(webhook=f"{server.url}?job=1").aenqueue("a")
        await requests_to(server, 1)
        await work.options(webhook=f"{server.url}?job=2").aenqueue("b")
        await requests_to(server, 2)
        endpoint = await real_shop.app.webhooks.afor_calls(server.url)
        log = await logged(real_shop, endpoint, lambda log: {one.state for one in log} == {"failed", "succeeded"})

    assert endpoint.state == "active"
    assert sorted((one.status or 0, one.attempts) for one in log) == [(200, 1), (410, 1)]
    assert [seen.line.split()[1] for seen in server.seen] == ["/hook?job=1", "/hook?job=2"]


@live
async def test_an_endpoint_that_fails_for_days_is_disabled(small_shop: Shop) -> None:
    shop = small_shop
    open_up(shop)
    async with serving(answer(500)) as server, shop.working(shop.app.all_tasks) as worker:
        endpoint = await shop.app.webhooks.aadd(server.url)
        await shop.app.webhooks.atest(endpoint.id)
        for n in range(1, 10):
            (one,) = await logged(shop, endpoint, lambda log, n=n: (log[0].attempts, log[0].state) == (n, "ready"))  # type: ignore[misc]
            assert one.next_at is not None
            await shop.pass_time((micros_of(one.next_at) - shop.clock.now()) / 1e6 + 60, worker)
        await logged(shop, endpoint, lambda log: log[0].state == "failed")
        found = await shop.app.webhooks.aget(endpoint.id)

    assert (found.state, found.reason, len(server.seen)) == ("disabled", "failing", 10)


@live
async def test_one_slow_receiver_delays_nobody_else(shop: Shop) -> None:
    open_up(shop)
    never = asyncio.Event()

    async def hang(_: asyncio.StreamWriter) -> None:
        await never.wait()

    async with serving(hang) as slow, serving(OK) as quick, shop.working(shop.app.all_tasks, concurrency=6) as worker:
        stuck = await shop.app.webhooks.aadd(slow.url, concurrency=2)
        well = await shop.app.webhooks.aadd(quick.url)
        jobs = [await shop.app.tasks["work"].aenqueue(str(n)) for n in range(20)]
        for job in jobs:
            await shop.until_ended(job)
        await lead(worker)
        await worker.services.fanout.run_once()
        await requests_to(quick, 20)
        assert len(slow.seen) <= 2
        assert {one.attempts for one in await shop.app.webhooks.alog(stuck.id)} <= {0, 1}
        await logged(shop, well, lambda log: all(one.state == "succeeded" for one in log))


@live
async def test_a_receiver_that_fails_is_left_alone_by_its_breaker(shop: Shop) -> None:
    open_up(shop)
    async with serving(answer(500)) as server, shop.working(shop.app.all_tasks, concurrency=2) as worker:
        endpoint = await shop.app.webhooks.aadd(server.url, concurrency=1)
        for _ in range(12):
            await shop.app.webhooks.atest(endpoint.id)
        await logged(shop, endpoint, lambda log: [one.status for one in log].count(500) == 5)
        await shop.beat(worker)
        assert shop.app.breakers.get(f"webhook:{endpoint.id}").state == "open"
        assert len(server.seen) == 5


@live
async def test_deliveries_are_not_told_of_and_replay_sends_the_same_message(real_shop: Shop) -> None:
    open_up(real_shop)
    async with serving(OK) as server, real_shop.working(real_shop.app.all_tasks, **TELLING):
        endpoint = await real_shop.app.webhooks.aadd(server.url)
        job = await real_shop.app.tasks["work"].aenqueue("a")
        await requests_to(server, 1)
        (one,) = await logged(real_shop, endpoint, lambda log: log[0].state == "succeeded")
        assert await real_shop.app.webhooks.aretry(one.id)
        first, second = await requests_to(server, 2)
        await logged(real_shop, endpoint, lambda log: log[0].state == "succeeded")
        await real_shop.app.webhooks.adelete(endpoint.id)
        await real_shop.app.tasks["work"].aenqueue("b")

    assert len(server.seen) == 2
    assert json.loads(first.body) == json.loads(second.body)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert json.loads(first.body)["data"]["job"] == job.id


@live
async def test_where_a_message_may_go_is_asked_at_each_try(small_shop: Shop) -> None:
    shop = small_shop
    open_up(shop)
    async with serving(OK) as canary, shop.working(shop.app.all_tasks):
        endpoint = await shop.app.webhooks.aadd(canary.url.replace("127.0.0.1", "localhost"))
        shop.app.outbound = Policy(allow_http=True, ports=OPEN.ports)
        sent = await shop.app.webhooks.atest(endpoint.id)
        await logged(shop, endpoint, lambda log: log[0].error is not None)
        found = await shop.app.webhooks.adelivery(sent.id)

    assert (canary.connections, found.status, found.state) == (0, None, "ready")
    assert "not a public address" in found.tries[0].detail


@live
async def test_an_answer_without_end_is_not_read_to_its_end(small_shop: Shop) -> None:
    open_up(small_shop)

    async def pour(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    async with serving(pour) as server, small_shop.working(small_shop.app.all_tasks):
        endpoint = await small_shop.app.webhooks.aadd(server.url)
        await small_shop.app.webhooks.atest(endpoint.id)
        (one,) = await logged(small_shop, endpoint, lambda log: log[0].finished_at is not None)

    assert (one.state, one.status) == ("succeeded", 200)


@pytest.mark.parametrize("url", ["https://127.0.0.1/", "http://example.com/", "https://a:b@example.com/", "nonsense"])
def test_a_url_that_requests_may_not_go_to_is_refused_at_once(small_shop: Shop, url: str) -> None:
    with pytest.raises(UrlRefused):
        small_shop.app.webhooks.add(url)
    task = small_shop.app.task(name="any")(lambda: None)
    with pytest.raises(UrlRefused):
        task.options(webhook=url).enqueue()


def test_a_secret_too_short_and_nonsense_are_refused(small_shop: Shop) -> None:
    add = small_shop.app.webhooks.add
    for wrong in (
        {"secret": "whsec_c2hvcnQ="},
        {"events": []},
        {"events": "job"},
        {"events": ["nonsense"]},
        {"events": ["job.faild"]},
        {"concurrency": 0},
    ):
        with pytest.raises(InvalidInput):
            add("https://example.com/", **wrong)  # type: ignore[arg-type]
    own = new_secret(b"x" * 32)
    endpoint = add("https://example.com/", secret=own)
    assert endpoint.secret == own
    assert own not in repr(endpoint)
    assert not hasattr(small_shop.app.webhooks.get(endpoint.id), "secret")


async def lead(worker: Worker) -> None:
    await worker.services.leader.run_once()
    assert worker.services.leader.holds("webhooks")


def test_an_endpoint_that_is_added_again_under_its_id_is_the_same_one(small_shop: Shop) -> None:
    webhooks = small_shop.app.webhooks
    first = webhooks.add("https://example.com/", id="mine")
    assert webhooks.add("https://example.com/", id="mine") == first
    assert [one.id for one in webhooks.list()] == ["mine"]
    assert len(small_shop.app.audit.list()) == 1
    for other in ({"url": "https://example.com/other"}, {"url": "https://example.com/", "tenant": "acme"}):
        with pytest.raises(Conflict, match="another URL or tenant"):
            webhooks.add(**other, id="mine")
