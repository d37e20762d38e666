"""Outbox entries in the store: the cap, retry now, drain, and what a success lets go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.errors import OutboxFull
from holdfast.model.actions import Action, Order
from holdfast.model.audit import AuditFilter
from holdfast.model.jobs import Claimed
from holdfast.model.limits import ActiveLimits, queue_lane
from holdfast.model.outbox import queue_of
from holdfast.model.outcomes import Done, Failed, Finish, Outcome, Parked, Retry, Throttled
from holdfast.storage.ops.audit import list_audit
from holdfast.storage.ops.jobs import actions
from holdfast.storage.ops.limits import lanes
from holdfast.storage.ops.outbox import entries, outboxes
from holdfast.storage.ops.outbox.entries import Room
from holdfast.storage.ops.store import verify

from .world import ERROR, World, claim_request, spec

QUEUE = queue_of("cloud")


def put(world: World, n: int = 1, *, cap: int | None = None, kind: str = "note", key: str | None = None) -> list[str]:
    """Entries of the outbox; their ids."""
    payload = f'{{"data":1,"kind":"{kind}"}}'
    specs = [spec(task=QUEUE, queue=QUEUE, payload=payload, max_attempts=0) for _ in range(n)]
    keys = {} if key is None else {one.id: key for one in specs}
    room = None if cap is None else Room("cloud", QUEUE, cap)
    world.run(entries.put, specs, keys, room)
    return [one.id for one in specs]


def take(world: World, owner: str, n: int = 64, **options: Any) -> list[Claimed]:
    known = {"unpark": None, "ordered": False, **options}
    return world.run(entries.turn, owner, [], claim_request(owner, n, queues=[QUEUE], suspects=n), **known).jobs


def end(world: World, owner: str, jobs: list[Claimed], outcome: Outcome, **options: Any) -> None:
    known = {"unpark": None, "ordered": False, **options}
    world.run(entries.turn, owner, [Finish(job.id, job.epoch, outcome) for job in jobs], None, **known)


def ended(world: World, outcome: Outcome, n: int = 1, **options: Any) -> list[str]:
    """Entries that came to that outcome."""
    owner = world.worker(queues=[QUEUE])
    ids = put(world, n, **options)
    jobs = [job for job in take(world, owner) if job.id in ids]
    end(world, owner, jobs, outcome)
    return ids


def states(world: World, ids: list[str]) -> list[str]:
    return [str(world.job(id).state) for id in ids]


# -- the cap


def test_at_the_cap_delivered_entries_go_first_then_abandoned_ones_and_then_the_outbox_is_full(world: World) -> None:
    delivered = ended(world, Done("null"))
    abandoned = ended(world, Failed("permanent", ERROR))
    waiting = put(world, 2)
    put(world, cap=4)
    assert world.sql("select id from holdfast_job where id = :id", id=delivered[0]) == []
    assert states(world, abandoned + waiting) == ["failed", "ready", "ready"]
    put(world, cap=4)
    assert world.sql("select id from holdfast_job where id = :id", id=abandoned[0]) == []
    assert world.history(abandoned[0]) == []
    with pytest.raises(OutboxFull, match="4 undelivered entries"):
        put(world, cap=4)
    assert world.jobs() == 4


def test_abandoned_entries_are_evicted_one_by_one_the_oldest_first(each_store: World) -> None:
    world = each_store
    abandoned = ended(world, Failed("permanent", ERROR), 3)
    put(world, cap=3)
    left = [row[0] for row in world.sql("select id from holdfast_any_job where state = 'failed' order by id")]
    assert left == sorted(abandoned)[1:]


def test_what_is_being_sent_or_is_parked_is_never_evicted(each_store: World) -> None:
    world = each_store
    owner = world.worker(queues=[QUEUE])
    parked = ended(world, Parked("auth", ERROR))
    sending = put(world)
    assert len(take(world, owner)) == 1
    with pytest.raises(OutboxFull):
        put(world, cap=2)
    assert states(world, parked + sending) == ["blocked", "running"]


def test_entries_of_other_outboxes_and_jobs_of_others_do_not_count(each_store: World) -> None:
    world = each_store
    for queue in ("default", queue_of("other")):
        world.add(queue=queue, task=queue)
    put(world, 2, cap=2)
    with pytest.raises(OutboxFull):
        put(world, cap=2)


# -- parked entries


def test_a_success_lets_256_parked_entries_go_the_oldest_first_spread_over_five_seconds(each_store: World) -> None:
    world = each_store
    owner = world.worker(queues=[QUEUE])
    ids = put(world, 300)
    end(world, owner, take(world, owner, 300), Parked("auth", ERROR))
    (probe,) = put(world)
    end(world, owner, take(world, owner), Done("null"), unpark=QUEUE)
    assert states(world, [probe]) == ["succeeded"]
    due = [world.job(id).not_before - world.now for id in ids[:256]]
    assert states(world, ids[:256]) == ["ready"] * 256
    assert states(world, ids[256:]) == ["blocked"] * 44
    assert due == sorted(set(due))
    assert due[0] > 0
    assert due[-1] <= 5 * SECOND
    record = world.job(ids[0])
    assert (record.attempts, record.error, record.reason) == (0, None, "unparked")


def test_an_entry_that_is_let_go_starts_from_zero_and_keeps_the_total_of_its_attempts(each_store: World) -> None:
    world = each_store
    owner = world.worker(queues=[QUEUE])
    (entry,) = put(world)
    end(world, owner, take(world, owner), Retry(0, ERROR))
    end(world, owner, take(world, owner), Parked("auth", ERROR))
    put(world)
    end(world, owner, take(world, owner), Done("null"), unpark=QUEUE)
    assert (world.job(entry).attempts, world.job(entry).total_attempts) == (0, 1)


def test_a_success_lets_neither_held_nor_abandoned_entries_go(each_store: World) -> None:
    world = each_store
    (held,) = put(world)
    world.run(actions.act, held, Order(Action.HOLD), actor="ada", reason="")
    (abandoned,) = ended(world, Failed("permanent", ERROR))
    owner = world.worker(queues=[QUEUE])
    put(world)
    end(world, owner, take(world, owner), Done("null"), unpark=QUEUE)
    assert states(world, [held, abandoned]) == ["blocked", "failed"]


# -- retry now


def test_retry_now_makes_what_waits_and_what_is_parked_due_and_does_not_touch_what_is_sent(world: World) -> None:
    owner = world.worker(queues=[QUEUE])
    later = ended(world, Retry(60 * SECOND, ERROR))
    parked = ended(world, Parked("auth", ERROR))
    (held,) = put(world)
    world.run(actions.act, held, Order(Action.HOLD), actor="ada", reason="")
    sending = put(world)
    (job,) = take(world, owner)
    before = world.row(job.id)
    assert world.run(outboxes.retry_now, "cloud", actor="ada", reason="logged in") == 2
    assert world.row(job.id) == before
    assert states(world, [held]) == ["blocked"]
    assert {one.id for one in take(world, owner)} == {*later, *parked}
    assert sending == [job.id]
    (record,) = world.read(list_audit, AuditFilter(action="outbox.retry"))
    assert (record.actor, record.target) == ("ada", "cloud")


def test_retry_now_ends_the_rest_that_a_limit_asked_for(each_store: World) -> None:
    world = each_store
    owner = world.worker(queues=[QUEUE])
    ended(world, Throttled(60 * SECOND, ERROR, cools=True))
    put(world)
    assert take(world, owner) == []
    world.run(outboxes.retry_now, "cloud", actor="ada", reason="")
    assert len(take(world, owner)) == 2
    assert world.run(outboxes.retry_now, "cloud", actor="ada", reason="") == 0


# -- drain


def test_drain_shows_abandoned_entries_by_kind_and_changes_nothing(each_store: World) -> None:
    world = each_store
    ended(world, Failed("permanent", ERROR), 2, kind="note")
    ended(world, Failed("aged_out", ERROR), 1, kind="bill")
    before = world.dump()
    report = world.read(outboxes.drain, "cloud", 0, apply=False, actor="ada", reason="")
    assert (dict(report.kinds), report.total, report.applied) == ({"bill": 1, "note": 2}, 3, False)
    assert world.dump() == before


def test_applied_it_revives_those_that_are_old_enough_in_one_transaction(world: World) -> None:
    old = ended(world, Failed("permanent", ERROR))
    created = world.job(old[0]).created_at
    world.clock.advance(1000)
    young = ended(world, Failed("permanent", ERROR))
    report = world.run(outboxes.drain, "cloud", 500 * SECOND, apply=True, actor="ada", reason="mended")
    assert (dict(report.kinds), report.left) == ({"note": 1}, 0)
    assert states(world, old + young) == ["ready", "failed"]
    record = world.job(old[0])
    assert (record.attempts, record.created_at, record.due) == (0, created, 1)
    assert [one.action for one in world.read(list_audit, AuditFilter())] == ["outbox.drain", "job.retry"]


# -- fences and order


def test_what_became_of_a_batch_counts_only_for_whoever_still_has_it(world: World) -> None:
    owner, other = world.worker(queues=[QUEUE]), world.worker(queues=[QUEUE])
    ids = put(world, 2)
    batch = take(world, owner)
    world.lose(owner)
    world.clock.advance(60)
    again = take(world, other)
    assert {job.id for job in again} == set(ids)
    for outcome in (Done("null"), Failed("permanent", ERROR), Parked("auth", ERROR), Retry(1, ERROR)):
        end(world, owner, batch, outcome)
    assert states(world, ids) == ["running", "running"]
    end(world, other, again, Done("null"))
    assert states(world, ids) == ["succeeded", "succeeded"]


def test_of_an_ordered_key_nothing_is_claimed_before_what_was_put_earlier_has_ended(world: World) -> None:
    owner = world.worker(queues=[QUEUE])
    first, second, third = put(world, 3, key="k")
    (other,) = put(world, key="l")
    head = take(world, owner, 1, ordered=True)
    assert [job.id for job in head] == [first]
    assert [job.id for job in take(world, owner, ordered=True)] == [other]
    assert [world.job(id).reason for id in (second, third)] == ["order", "order"]
    assert world.job(second).attempts == 0
    end(world, owner, head, Retry(60 * SECOND, ERROR), ordered=True)
    assert take(world, owner, ordered=True) == []
    world.clock.advance(61)
    end(world, owner, take(world, owner, ordered=True), Failed("permanent", ERROR), ordered=True)
    assert [job.id for job in take(world, owner, ordered=True)] == [second]
    assert world.job(third).reason == "order"


def test_who_waits_for_an_earlier_entry_takes_no_slot_of_a_limit(each_store: World) -> None:
    world = each_store
    owner, lane = world.worker(queues=[QUEUE]), queue_lane(QUEUE)
    world.run(lanes.set_lane, lane, 2)
    ids = put(world, 4, key="k")

    def take_limited(n: int) -> list[Claimed]:
        request = claim_request(owner, n, queues=[QUEUE], suspects=n)
        limited = replace(request, standing=ActiveLimits(lanes=frozenset([lane])))
        return world.run(entries.turn, owner, [], limited, unpark=None, ordered=True).jobs

    end(world, owner, take_limited(1), Retry(20 * SECOND, ERROR), ordered=True)
    assert take_limited(2) == []
    assert world.run(lanes.unpark_stalled) == 0
    world.clock.advance(21)
    assert [job.id for job in take_limited(4)] == ids[:1]
    assert [problem for problem in world.read(verify, []) if problem.broken_by] == []


def test_an_abandoned_entry_that_is_tried_again_has_its_place_before_those_that_were_put_later(world: World) -> None:
    owner = world.worker(queues=[QUEUE])
    first, second = put(world, 2, key="k")
    end(world, owner, take(world, owner, ordered=True), Failed("permanent", ERROR), ordered=True)
    (third,) = put(world, key="k")
    world.run(outboxes.drain, "cloud", 0, apply=True, actor="ada", reason="mended")
    assert [job.id for job in take(world, owner, 1, ordered=True)] == [first]
    assert take(world, owner, ordered=True) == []
    assert [world.job(id).reason for id in (second, third)] == ["order", "order"]


def test_a_place_is_kept_until_the_entry_is_delivered_or_forgotten(each_store: World) -> None:
    world = each_store
    owner, other = world.worker(queues=[QUEUE]), world.worker(queues=[QUEUE])
    first, second = put(world, 2, key="k")
    batch = take(world, owner, ordered=True)
    world.lose(owner)
    world.clock.advance(60)
    again = take(world, other, ordered=True)
    end(world, owner, batch, Done("null"), ordered=True)
    assert world.sql("select job_id from holdfast_outbox_order order by seq") == [(first,), (second,)]
    end(world, other, again[:1], Done("null"), ordered=True)
    end(world, other, again[1:], Failed("permanent", ERROR), ordered=True)
    assert world.sql("select job_id from holdfast_outbox_order") == [(second,)]
    put(world, cap=1)
    assert world.sql("select job_id from holdfast_outbox_order") == []


def test_entries_that_come_back_in_another_order_are_still_sent_in_that_of_their_puts(each_store: World) -> None:
    world = each_store
    owner = world.worker(queues=[QUEUE])
    ids = put(world, 3, key="k")
    batch = take(world, owner, ordered=True)
    assert [job.id for job in batch] == ids
    for delay, job in zip((3, 2, 1), batch, strict=True):
        end(world, owner, [job], Retry(delay * SECOND, ERROR), ordered=True)
    world.clock.advance(2)
    assert take(world, owner, ordered=True) == []
    world.clock.advance(2)
    assert [job.id for job in take(world, owner, ordered=True)] == ids[:1]


def test_deleting_an_entry_forgets_its_place(each_store: World) -> None:
    world = each_store
    first, second = put(world, 2, key="k")
    world.run(actions.delete, first)
    assert world.sql("select job_id from holdfast_outbox_order") == [(second,)]
