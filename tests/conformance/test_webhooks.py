"""Webhooks in the store: each event once for each endpoint, made in one commit with the mark behind it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.errors import NotFound
from holdfast.model.actions import Action, ActionResult, Order
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import Done, Failed, Finish, Retry, Throttled
from holdfast.model.webhooks import QUEUE, TASK, Endpoint
from holdfast.rules.signing import new_secret
from holdfast.rules.webhooks import call_tags, called_endpoint
from holdfast.storage.ops import events
from holdfast.storage.ops.jobs import actions, finishing, queries, retention
from holdfast.storage.ops.webhooks import endpoints, fanout, webhooks
from holdfast.storage.port import Op, Tx
from holdfast.storage.statements import sql

from .world import ERROR, World

SECRET = new_secret(b"s" * 32)
URL = "https://example.com/hook"


def add(world: World, id: str = "end", **fields: Any) -> Endpoint:
    world.run(endpoints.add, **{"id": id, "tenant": "", "url": URL, "secret": SECRET, **fields})
    return world.read(endpoints.get, id)


def pass_on(world: World) -> int:
    """Until nothing is left; how many deliveries were made."""
    made = 0
    while world.read(fanout.is_behind):
        world.store.write(Op(events.relay))
        made += world.run(fanout.fan_out).made
    return made


def succeed(world: World, n: int = 1, **fields: Any) -> list[str]:
    owner = world.worker()
    made = [world.add(**fields) for _ in range(n)]
    for job in world.claim(owner, n):
        world.finish(owner, job, Done('"fine"'))
    return made


def error(message: str) -> str:
    return json.dumps({"type": "Boom", "message": message})


def told(world: World, endpoint: str = "end") -> list[str | None]:
    return [one.job for one in reversed(world.read(webhooks.log, endpoint, None, 1000))]


def test_each_event_makes_one_delivery_for_each_endpoint(world: World) -> None:
    add(world, "one")
    add(world, "two")
    jobs = succeed(world, 3)

    assert pass_on(world) == 6
    assert pass_on(world) == 0
    assert sorted(map(str, told(world, "one"))) == sorted(jobs) == sorted(map(str, told(world, "two")))


def test_a_crash_before_the_commit_leaves_neither_deliveries_nor_the_mark(each_store: World) -> None:
    world = each_store
    add(world)
    jobs = succeed(world, 2)
    world.store.write(Op(events.relay))

    async def crash(tx: Tx) -> None:
        assert (await fanout.fan_out(tx)).made == 2
        raise RuntimeError("the power is gone")

    with pytest.raises(RuntimeError):
        world.store.write(Op(crash))
    assert told(world) == []
    assert pass_on(world) == 2
    assert sorted(map(str, told(world))) == sorted(jobs)


def test_two_leaders_at_once_make_each_delivery_once(two_worlds: tuple[World, World]) -> None:
    first, second = two_worlds
    add(first)
    jobs = succeed(first, 40)

    def lead(world: World) -> None:
        while world.read(fanout.is_behind):
            world.store.write(Op(events.relay))
            world.store.write(Op(lambda tx: fanout.fan_out(tx, rows=1)))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lead, (first, second)))
    assert sorted(map(str, told(first))) == sorted(jobs)


def test_of_many_endpoints_only_those_are_read_that_may_hear(world: World) -> None:
    add(world, "all")
    add(world, "failures", events_wanted=["job.failed"])
    add(world, "flows", events_wanted=["flow", "operator"])
    add(world, "acme", tenant="acme", events_wanted=["job", "flow"])
    add(world, "other", tenant="other")
    add(world, "called", tenant="acme", called=True)
    world.run(endpoints.disable, add(world, "silent").id, "moving")

    async def read(tx: Tx) -> set[str]:
        rows = await tx.all(sql.hearing_webhooks, tenants='["", "acme"]', words='["job", "job.succeeded"]')
        return {row[0] for row in rows}

    assert world.store.read(Op(read)) == {"all", "acme"}
    succeed(world, tenant="acme")
    assert pass_on(world) == 2


def test_an_endpoint_hears_from_its_making_on_and_not_while_it_is_disabled(world: World) -> None:
    add(world, "early")
    succeed(world)
    # On Postgres what is not in the log yet counts as later.
    world.store.write(Op(events.relay))
    add(world, "late")
    (heard,) = succeed(world)
    assert pass_on(world) == 3
    assert told(world, "late") == [heard]

    world.run(endpoints.disable, "late", "moving")
    succeed(world)
    world.store.write(Op(events.relay))
    assert world.run(endpoints.enable, "late")
    assert not world.run(endpoints.enable, "late")
    (again,) = succeed(world)
    pass_on(world)
    assert told(world, "late") == [heard, again]


def test_without_an_endpoint_the_mark_goes_along_and_nothing_is_made(each_store: World) -> None:
    world = each_store
    succeed(world)
    assert not world.read(fanout.is_behind)
    add(world)
    world.run(endpoints.delete, "end")
    succeed(world, 3)
    assert pass_on(world) == 0
    assert not world.read(fanout.is_behind)


@pytest.mark.parametrize("called", [False, True])
def test_events_are_not_removed_before_webhooks_were_told_of_them(world: World, called: bool) -> None:
    id = called_endpoint("", URL) if called else add(world).id
    fields = {"tags": json.dumps(call_tags(id, [])), "webhook": (id, URL)} if called else {}
    jobs = succeed(world, 3, **fields)
    jobs += succeed(world, 3, **fields)
    world.store.write(Op(events.relay))
    world.clock.advance(60)
    world.run(events.prune, SECOND)

    assert pass_on(world) == 6
    assert sorted(map(str, told(world, id))) == sorted(jobs)
    # All but the newest, which is never removed.
    assert world.run(events.prune, SECOND) > 0
    assert len(world.read(events.read, 0, 10).chunks) == 1


def test_events_that_no_endpoint_needs_are_removed_wherever_the_relay_stands(world: World) -> None:
    world.run(endpoints.disable, add(world).id, "moving")
    succeed(world)
    succeed(world)
    world.store.write(Op(events.relay))
    world.clock.advance(60)
    assert world.run(events.prune, SECOND) > 0


def test_a_row_that_cannot_be_read_holds_up_nothing(each_store: World) -> None:
    world = each_store
    add(world)
    succeed(world)
    world.store.write(Op(events.relay))
    world.sql("update holdfast_event set body = 'nonsense' where body is not null")
    (job,) = succeed(world)
    world.store.write(Op(events.relay))

    passed = world.run(fanout.fan_out)
    assert (passed.made, len(passed.unreadable)) == (1, 1)
    assert told(world) == [job]


def test_a_delivery_tells_what_became_of_the_job(world: World) -> None:
    add(world, tenant="acme")
    placed = world.place(JobState.FAILED, tenant="acme", tags='["vip"]')
    world.place(JobState.FAILED, tenant="other")
    assert pass_on(world) == 1

    (one,) = world.read(webhooks.log, "end", None, 10)
    job = world.job(one.id)
    payload = json.loads(job.payload)
    body = json.loads(payload["body"])
    assert (job.task, job.queue, job.tenant, payload["endpoint"]) == (TASK, QUEUE, "acme", "end")
    assert body["id"] == payload["message"] == one.message
    assert body["type"] == "job.failed"
    assert body["data"]["job"] == placed.id
    assert body["data"]["error"] == {"type": "Boom", "message": "it broke"}
    assert (body["data"]["tags"], body["data"]["tenant"]) == (["vip"], "acme")


def bodies(world: World, endpoint: str = "end") -> list[dict[str, Any]]:
    """What the deliveries tell, the oldest first."""
    found = [world.job(one.id) for one in reversed(world.read(webhooks.log, endpoint, None, 1000))]
    return [json.loads(json.loads(job.payload)["body"]) for job in found]


def test_each_transition_carries_the_error_of_its_own_run_and_a_success_none(world: World) -> None:
    id = called_endpoint("", URL)
    job = world.add(tags=json.dumps(call_tags(id, ["job"])), webhook=(id, URL))
    for outcome in (Retry(0, error("first")), Throttled(0, error("second")), Done('"fine"')):
        owner = world.worker()
        world.finish(owner, world.take(owner), outcome)
    # All is passed on late, after the job has gone on.
    pass_on(world)

    said = {
        body["type"]: body["data"]["error"] for body in bodies(world, id) if body["data"]["previous_state"] == "running"
    }
    assert said == {
        "job.retried": {"type": "Boom", "message": "first"},
        "job.throttled": {"type": "Boom", "message": "second"},
        "job.succeeded": None,
    }
    assert {body["data"]["error"] is None for body in bodies(world, id) if body["type"] == "job.started"} == {True}
    assert world.job(job).error is None
    assert [end.error for end in world.read(queries.outcomes_of, [job])] == [None]


def test_a_job_that_failed_twice_tells_each_failure_with_its_own_error(world: World) -> None:
    add(world)
    job, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Failed("permanent", error("first")))
    world.run(actions.retry, job)
    world.finish(owner, world.take(owner), Failed("permanent", error("second")))
    pass_on(world)
    assert [body["data"]["error"]["message"] for body in bodies(world)] == ["first", "second"]


@pytest.mark.parametrize("size", [200_000, 300_000])
def test_a_result_is_sent_along_or_says_where_it_is(each_store: World, size: int) -> None:
    world = each_store
    add(world)
    job, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Done(f'"{"x" * size}"'))
    pass_on(world)

    (body,) = bodies(world)
    data = body["data"]
    if size < 256 * 1024:
        assert (data["result"], "result_omitted" in data) == ("x" * size, False)
    else:
        assert (data["result"], data["result_omitted"]) == (None, True)
        assert (data["result_bytes"], data["result_path"]) == (size + 2, f"/api/v1/jobs/{job}/result")
    path = f"/api/v1/jobs/{job}/artifacts/completion/content"
    assert data["artifacts"] == [
        {"name": "completion", "content_type": "application/json", "size": size + 2, "path": path}
    ]


def test_large_results_of_many_jobs_are_not_all_sent_along_in_one_transaction(each_store: World) -> None:
    world = each_store
    add(world)
    owner = world.worker()
    for _ in range(200):
        world.add()
    claimed = world.claim(owner, 200)
    world.run(finishing.finish, owner, [Finish(job.id, job.epoch, Done(f'"{"x" * 100_000}"')) for job in claimed])
    pass_on(world)
    assert {body["data"].get("result_omitted") for body in bodies(world)} == {True}


def test_deliveries_of_one_endpoint_share_a_lane_and_a_breaker(world: World) -> None:
    add(world, concurrency=2)
    add(world, "other")
    succeed(world, 4)
    pass_on(world)

    owner = world.worker(queues=[QUEUE])
    jobs = world.claim(owner, 100, queues=[QUEUE])
    whose = [json.loads(job.payload)["endpoint"] for job in jobs]
    assert (whose.count("end"), whose.count("other")) == (2, 4)


def test_an_endpoint_that_a_job_names_is_made_with_it(world: World) -> None:
    id = called_endpoint("acme", URL)
    tags = json.dumps(call_tags(id, ["job.succeeded"]))
    jobs = succeed(world, 2, tenant="acme", tags=tags, webhook=(id, URL))
    succeed(world, tenant="acme")
    succeed(world, tenant="other", tags=tags)

    assert pass_on(world) == 2
    assert sorted(map(str, told(world, id))) == sorted(jobs)
    found = world.read(endpoints.get, id)
    assert (found.tenant, found.url, found.called) == ("acme", "https://example.com", True)
    (first, _) = world.read(webhooks.log, id, None, 10)
    assert json.loads(world.job(first.id).payload)["url"] == URL
    world.run(actions.delete, jobs[0])
    world.clock.advance(3_700)
    succeed(world)
    pass_on(world)
    assert world.sql("select job_id from holdfast_callback") == [(jobs[1],)]


@pytest.mark.parametrize("bulk", [False, True])
def test_a_live_job_that_is_deleted_is_told_of_as_cancelled(world: World, bulk: bool) -> None:
    add(world)
    id = called_endpoint("", URL)
    job = world.add(tags=json.dumps(["vip", *call_tags(id, [])]), webhook=(id, URL))
    if bulk:
        world.run(actions.apply, [job], Order(Action.DELETE), actor="ann", reason="", target=job)
    else:
        assert world.run(actions.delete, job) is ActionResult.DELETED
    assert world.sql("select id from holdfast_job") == []

    (event,) = [event for event in world.events() if event.kind.startswith("job.")]
    assert (event.kind, event.job, event.previous, event.reason) == ("job.cancelled", job, "ready", "deleted")
    assert "vip" in event.tags
    assert pass_on(world) == 2
    assert [body["data"]["reason"] for end in ("end", id) for body in bodies(world, end)] == ["deleted", "deleted"]


def test_the_end_of_a_job_is_told_to_its_own_webhook_though_the_job_is_no_longer_kept(world: World) -> None:
    id = called_endpoint("", URL)
    (job,) = succeed(world, tags=json.dumps(call_tags(id, [])), webhook=(id, URL))
    world.clock.advance(60)
    assert world.run(retention.prune_jobs, [job], SECOND) == 1
    assert pass_on(world) == 1
    assert told(world, id) == [job]


def test_a_job_that_was_there_already_is_not_told_of_to_another_url(world: World) -> None:
    id = called_endpoint("", URL)
    first = world.add(key="once")
    assert world.add(key="once", tags=json.dumps(call_tags(id, [])), webhook=(id, URL)) == first
    assert world.sql("select count(*) from holdfast_callback") == [(0,)]


def test_urls_of_one_host_share_an_endpoint() -> None:
    ids = {called_endpoint("", url) for url in (URL, "HTTPS://Example.com?job=1", "https://example.com")}
    assert len(ids) == 1
    assert called_endpoint("", "https://example.com:8443/") not in ids


def test_what_is_rolled_back_leaves_no_endpoint(each_store: World) -> None:
    world, id = each_store, called_endpoint("", URL)

    async def fail(tx: Tx) -> None:
        await endpoints.add(tx, id=id, tenant="", url=URL, secret=SECRET, called=True)
        raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError):
        world.store.write(Op(fail))
    with pytest.raises(NotFound):
        world.read(endpoints.get, id)


def test_both_secrets_sign_until_the_overlap_is_over(world: World) -> None:
    add(world)
    fresh = new_secret(b"f" * 32)
    world.run(endpoints.rotate, "end", fresh, 60 * SECOND)
    assert world.read(endpoints.signed, ["end", "gone"])["end"].secrets == (fresh, SECRET)
    world.clock.advance(61)
    signed = world.read(endpoints.signed, ["end"])
    assert signed["end"].secrets == (fresh,)
    assert SECRET not in repr(signed)


def test_deleting_an_endpoint_cancels_what_waits_for_it_and_leaves_nothing(world: World) -> None:
    add(world)
    succeed(world, 3)
    pass_on(world)
    deliveries = [one.id for one in world.read(webhooks.log, "end", None, 10)]
    world.run(actions.cancel, deliveries[0])
    world.run(actions.delete, deliveries[0])

    assert world.sql("select count(*) from holdfast_delivery") == [(2,)]
    assert world.run(webhooks.cancel_page, "end") == 2
    assert world.run(webhooks.cancel_page, "end") == 0
    assert world.run(endpoints.delete, "end")
    assert not world.run(endpoints.delete, "end")
    assert {world.job(id).state for id in deliveries[1:]} == {JobState.CANCELLED}
    for table in ("holdfast_webhook", "holdfast_delivery", "holdfast_breaker"):
        assert world.sql(f"select count(*) from {table}") == [(0,)]


def test_what_was_given_up_is_sent_again_and_what_is_under_way_is_not(world: World) -> None:
    add(world)
    succeed(world, 2)
    pass_on(world)
    owner = world.worker(queues=[QUEUE])
    failed, running = world.claim(owner, 2, queues=[QUEUE])
    world.finish(owner, failed, Failed("exhausted", ERROR))

    assert world.run(webhooks.recover, "end", 0, 10) == [failed.id]
    assert world.run(webhooks.recover, "end", 0, 10) == []
    assert not world.run(webhooks.retry, running.id, None)
    assert not world.run(webhooks.retry, failed.id, None)
    with pytest.raises(NotFound):
        world.run(webhooks.retry, failed.id, "somebody else")
