"""Lanes, buckets, cool-downs and fair shares, on each store and in each way."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.model.jobs import Fair, JobState
from holdfast.model.limits import ActiveLimits, JobLimits, key_lane, keyed_scope, queue_lane, rate_lane, task_lane
from holdfast.model.outcomes import Done, Finish, Outcome, Retry, Snoozed, Throttled
from holdfast.storage.ops.jobs import actions, claims, finishing
from holdfast.storage.ops.limits import lanes, rates
from holdfast.storage.ops.workers import workers
from holdfast.storage.port import Op

from .racing import aside, await_blocked, open_transaction
from .world import ERROR, World, claim_request, spec


def keyed(key: str, n: int, **fields: Any) -> dict[str, Any]:
    return {"limits": JobLimits(key=key_lane("", key), capacity=n).encode(), **fields}


def claim(world: World, owner: str, n: int = 10) -> list[Any]:
    """Claim under the limits as the store has them now."""
    standing = world.read(rates.standing)
    return world.run(claims.claim, claim_request(owner, n, standing=standing))


def running(world: World, lane: str) -> int:
    return next(row.running for row in world.read(lanes.list_lanes) if row.key == lane)


def test_of_the_jobs_with_one_key_only_so_many_run(world: World) -> None:
    jobs = [world.add(**keyed("a", 2)) for _ in range(4)]
    me = world.worker()
    assert [job.id for job in claim(world, me)] == jobs[:2]
    assert running(world, key_lane("", "a")) == 2


def test_what_is_over_a_limit_is_parked_as_if_it_had_never_been_taken(world: World) -> None:
    _, second = (world.add(**keyed("a", 1)) for _ in range(2))
    claim(world, world.worker())
    parked = world.job(second)
    assert (parked.state, parked.due, parked.lane, parked.attempts) == ("ready", 2, key_lane("", "a"), 0)
    assert parked.started_at is None
    assert parked.owner is None


def test_a_job_that_is_parked_before_its_first_run_keeps_the_key_that_it_holds_until_it_starts(world: World) -> None:
    world.add(**keyed("a", 1))
    second = world.add(**keyed("a", 1), key="once", until="start")
    me = world.worker()
    (job,) = claim(world, me)
    (twin,) = world.enqueue(spec(key="once", until="start"))
    assert (twin.id, twin.created) == (second, False)
    world.finish(me, job, Done("null"))
    assert [job.id for job in claim(world, me)] == [second]
    (next_one,) = world.enqueue(spec(key="once", until="start"))
    assert next_one.created


def test_a_job_that_is_parked_after_it_was_snoozed_does_not_take_its_key_back(world: World) -> None:
    second = world.add(**keyed("a", 1), key="once", until="start")
    me = world.worker()
    (job,) = claim(world, me)
    world.clock.advance(1)
    world.finish(me, job, Snoozed(0))
    (twin,) = world.enqueue(spec(key="once", until="start"))
    assert twin.created
    world.add(**keyed("a", 1), priority=9)
    claim(world, me, 1)
    claim(world, me)
    parked = world.job(second)
    assert (parked.state, parked.due) == ("ready", 2)
    assert parked.started_at is not None


def _parked_after(world: World, outcome: Outcome) -> str:
    """A job that holds its key until it fails, over a limit after a run that came to this."""
    job_id, me = world.add(**keyed("a", 1), key="once", until="failure"), world.worker()
    world.finish(me, world.take(me), outcome)
    _hold_back(world, me, job_id)
    return job_id


def _hold_back(world: World, owner: str, job_id: str) -> None:
    world.add(**keyed("a", 1), priority=9)
    claim(world, owner, 1)
    world.run(claims.claim, claim_request(owner, suspects=1))
    assert (world.job(job_id).due, world.job(job_id).reason) == (2, "limit")


def test_a_job_that_is_parked_before_its_next_try_gives_way_to_a_newer_twin(world: World) -> None:
    first = _parked_after(world, Retry(0, ERROR))
    (twin,) = world.enqueue(spec(key="once", until="failure"))
    assert twin.created
    assert (world.job(first).state, world.job(first).reason) == (JobState.FAILED, "superseded")


def test_a_job_that_is_parked_and_has_not_failed_keeps_the_key_that_it_holds_until_then(world: World) -> None:
    first = _parked_after(world, Snoozed(0))
    (twin,) = world.enqueue(spec(key="once", until="failure"))
    assert (twin.id, twin.created) == (first, False)


def test_a_job_that_is_parked_after_it_paused_in_its_second_try_keeps_its_key(world: World) -> None:
    first, me = world.add(**keyed("a", 1), key="once", until="failure"), world.worker()
    world.finish(me, world.take(me), Retry(0, ERROR))
    world.finish(me, world.take(me), Snoozed(0, "sleep"))
    _hold_back(world, me, first)
    (twin,) = world.enqueue(spec(key="once", until="failure"))
    assert (twin.id, twin.created) == (first, False)


def test_a_job_that_is_parked_after_its_worker_was_lost_keeps_its_key(world: World) -> None:
    first, me = world.add(**keyed("a", 1), key="once", until="failure"), world.worker()
    world.finish(me, world.take(me), Retry(0, ERROR))
    world.take(me)
    world.lose(me)
    _hold_back(world, world.worker(), first)
    (twin,) = world.enqueue(spec(key="once", until="failure"))
    assert (twin.id, twin.created) == (first, False)


def test_a_saturated_key_does_not_hide_the_jobs_behind_it(world: World) -> None:
    for _ in range(5):
        world.add(**keyed("a", 1))
    free = world.add()
    me = world.worker()
    found = {job.id for _ in range(3) for job in claim(world, me, 3)}
    assert free in found
    assert len(found) == 2


def test_a_finish_lets_the_next_of_its_key_go(world: World) -> None:
    first, second = (world.add(**keyed("a", 1)) for _ in range(2))
    me = world.worker()
    (job,) = claim(world, me)
    assert job.id == first
    world.finish(me, job, Done("null"))
    assert [job.id for job in claim(world, me)] == [second]
    assert running(world, key_lane("", "a")) == 1


def test_a_freed_slot_is_taken_in_the_same_turn(world: World) -> None:
    first = world.add(**keyed("a", 1))
    me = world.worker()
    (job,) = claim(world, me)
    second = world.add(**keyed("a", 1))
    turn = world.run(claims.turn, me, [Finish(first, job.epoch, Done("null"))], claim_request(me, 5))
    assert [job.id for job in turn.claimed] == [second]


def test_a_lost_worker_gives_its_slots_back(world: World) -> None:
    first, second = (world.add(**keyed("a", 1)) for _ in range(2))
    one, other = world.worker(), world.worker()
    claim(world, one)
    claim(world, other)
    world.clock.advance(31)
    world.run(workers.beat, other)
    world.run(workers.rescue, one)
    assert running(world, key_lane("", "a")) == 0
    assert [job.id for job in claim(world, other)] == [first]
    assert world.job(second).due == 2


def test_a_forced_cancel_gives_the_slot_back(world: World) -> None:
    first, second = (world.add(**keyed("a", 1)) for _ in range(2))
    me = world.worker()
    claim(world, me)
    claim(world, me)
    world.run(actions.cancel, first, force=True)
    assert [job.id for job in claim(world, me)] == [second]


def test_a_lane_whose_next_job_was_cancelled_does_not_stall(world: World) -> None:
    first, second, third = (world.add(**keyed("a", 1)) for _ in range(3))
    me = world.worker()
    (job,) = claim(world, me)
    claim(world, me)
    world.finish(me, job, Done("null"))
    world.run(actions.cancel, second)
    world.run(lanes.unpark_stalled)
    assert [job.id for job in claim(world, me)] == [third]
    assert world.job(first).state == "succeeded"


def test_a_task_and_a_queue_have_lanes_of_their_own(world: World) -> None:
    world.run(lanes.set_lane, task_lane("t"), 2)
    world.run(lanes.set_lane, queue_lane("narrow"), 1)
    for _ in range(3):
        world.add(task="t")
        world.add(task="u", queue="narrow")
    me = world.worker(queues=("default", "narrow"))
    standing = world.read(rates.standing)
    request = claim_request(me, 10, queues=("default", "narrow"), standing=standing)
    assert Counter(job.task for job in world.run(claims.claim, request)) == {"t": 2, "u": 1}


def test_raising_a_limit_lets_waiting_jobs_go(world: World) -> None:
    world.run(lanes.set_lane, task_lane("t"), 1)
    for _ in range(3):
        world.add(task="t")
    me = world.worker()
    assert len(claim(world, me)) == 1
    world.run(lanes.set_lane, task_lane("t"), 3)
    assert len(claim(world, me)) == 2


def test_removing_a_limit_lets_everything_go(world: World) -> None:
    world.run(lanes.set_lane, task_lane("t"), 1)
    for _ in range(3):
        world.add(task="t")
    me = world.worker()
    claim(world, me)
    assert world.run(lanes.remove_lane, task_lane("t")) is True
    assert len(claim(world, me)) == 2


def test_a_limit_that_is_set_again_counts_those_that_still_run(world: World) -> None:
    world.run(lanes.set_lane, task_lane("work"), 2)
    for _ in range(5):
        world.add()
    me = world.worker()
    first = claim(world, me)
    assert len(first) == 2
    world.run(lanes.remove_lane, task_lane("work"))
    world.run(lanes.set_lane, task_lane("work"), 2)
    assert (claim(world, me), running(world, task_lane("work"))) == ([], 2)
    for job in first:
        world.finish(me, job, Done("1"))
    assert len(claim(world, me)) == 2, "two, and not the two that left besides"
    assert running(world, task_lane("work")) == 2


def test_code_does_not_overwrite_what_an_operator_set(world: World) -> None:
    world.run(lanes.set_lane, task_lane("t"), 7)
    world.run(lanes.set_lane, task_lane("t"), 2, origin="code")
    world.run(rates.ensure, "smtp", 10, 10, origin="operator")
    world.run(rates.ensure, "smtp", 99, 99, origin="code")
    (lane,), (bucket,) = world.read(lanes.list_lanes), world.read(rates.list_buckets)
    assert (lane.capacity, lane.origin) == (7, "operator")
    assert (bucket.capacity, bucket.origin) == (10, "operator")


def test_each_run_takes_a_token_and_waits_for_one(world: World) -> None:
    world.run(rates.ensure, "smtp", 2, 1, origin="code")
    jobs = [world.add(limits=JobLimits(rate="smtp").encode()) for _ in range(5)]
    me = world.worker()
    assert [job.id for job in claim(world, me)] == jobs[:2]
    assert world.job(jobs[2]).lane == rate_lane("smtp")
    assert claim(world, me) == []
    world.clock.advance(2)
    assert [job.id for job in claim(world, me)] == jobs[2:4]


def test_a_job_that_waits_for_a_token_says_when_to_look_again(world: World) -> None:
    world.run(rates.ensure, "smtp", 1, 4, origin="code")
    for _ in range(2):
        world.add(limits=JobLimits(rate="smtp").encode())
    claim(world, world.worker())
    assert world.read(lanes.next_token) == SECOND // 4


def test_a_rate_that_does_not_exist_lets_nothing_through(world: World) -> None:
    job = world.add(limits=JobLimits(rate="nobody").encode())
    assert claim(world, world.worker()) == []
    assert world.job(job).lane == rate_lane("nobody")


def by_key(key: str, rate: str = "customer", tenant: str = "") -> dict[str, Any]:
    return {"limits": JobLimits(rate=rate, keyed=keyed_scope(rate, tenant, key)).encode(), "tenant": tenant}


def test_each_key_of_a_rate_has_a_bucket_of_its_own_and_waits_for_nobody_else(world: World) -> None:
    world.run(rates.ensure, "customer", 2, 1, origin="code")
    one, two = ([world.add(**by_key(key)) for _ in range(4)] for key in ("1", "2"))
    theirs = world.add(**by_key("1", tenant="acme"))
    me = world.worker()
    assert {job.id for job in claim(world, me)} == {*one[:2], *two[:2], theirs}
    assert world.job(one[2]).lane == rate_lane("customer[1]")
    assert claim(world, me) == []
    world.clock.advance(1)
    assert {job.id for job in claim(world, me)} == {one[2], two[2]}
    world.clock.advance(1)
    assert {job.id for job in claim(world, me)} == {one[3], two[3]}
    assert world.read(lanes.next_token) is None


def test_a_job_that_waits_for_a_token_of_its_key_says_when_to_look_again(world: World) -> None:
    world.run(rates.ensure, "customer", 1, 4, origin="code")
    for _ in range(2):
        world.add(**by_key("1"))
    claim(world, world.worker())
    assert world.read(lanes.next_token) == SECOND // 4


def test_a_rate_shows_how_many_keys_it_has_and_an_operators_word_holds_for_all_of_them(world: World) -> None:
    world.run(rates.ensure, "customer", 1, 1, origin="code")
    jobs = [world.add(**by_key(key)) for key in ("1", "2", "1", "1", "1")]
    me = world.worker()
    assert [job.id for job in claim(world, me)] == jobs[:2]
    (bucket,) = world.run(rates.count_keys, world.read(rates.list_buckets))
    assert (bucket.scope, bucket.keys) == ("customer", 2)
    world.run(rates.ensure, "customer", 3, 3, origin="operator")
    world.clock.advance(1)
    assert [job.id for job in claim(world, me)] == jobs[2:]


def test_buckets_of_keys_that_nobody_uses_are_removed_and_those_that_are_awaited_stay(world: World) -> None:
    world.run(rates.ensure, "customer", 1, 0.01, origin="code")
    for key in ("idle", "busy", "busy", "gone", "gone"):
        last = world.add(**by_key(key))
    claim(world, world.worker())
    world.run(actions.cancel, last)
    world.clock.advance(99)
    assert (world.read(rates.is_idle), world.run(rates.prune_idle)) == (False, 0)
    world.clock.advance(20)
    assert world.read(rates.is_idle)
    assert world.run(rates.prune_idle) == 2
    assert world.sql("select scope from holdfast_bucket order by scope") == [("customer",), ("customer[busy]",)]
    assert not world.read(rates.is_idle)


def test_after_a_clock_was_set_back_the_keys_of_a_rate_go_on(world: World) -> None:
    world.run(rates.ensure, "customer", 1, 1, origin="code")
    jobs = [world.add(**by_key("1")) for _ in range(2)]
    me = world.worker()
    assert [job.id for job in claim(world, me)] == jobs[:1]
    world.clock.step(-3600)
    assert world.read(rates.is_idle)
    world.run(rates.prune_idle)
    claim(world, me)
    world.clock.advance(1)
    assert [job.id for job in claim(world, me)] == jobs[1:]


def test_a_key_of_a_rate_that_does_not_exist_waits_until_it_does(world: World) -> None:
    job = world.add(**by_key("1"))
    me = world.worker()
    assert claim(world, me) == []
    assert world.run(lanes.unpark_stalled) == 0
    world.run(rates.ensure, "customer", 1, 1, origin="code")
    assert world.run(lanes.unpark_stalled) == 1
    assert [taken.id for taken in claim(world, me)] == [job]


def test_a_rate_is_removed_with_the_buckets_of_its_keys(world: World) -> None:
    world.run(rates.ensure, "customer", 1, 1, origin="code")
    world.add(**by_key("1"))
    claim(world, world.worker())
    assert world.run(rates.remove, "customer")
    assert world.sql("select scope from holdfast_bucket") == []


def test_a_bucket_is_neither_drained_nor_filled_by_a_clock_that_steps_back(world: World) -> None:
    world.run(rates.ensure, "smtp", 10, 1, origin="code")
    for _ in range(10):
        assert world.run(rates.acquire, "smtp") == 0
    world.clock.step(-3600)
    assert world.run(rates.acquire, "smtp") == SECOND
    world.clock.advance(1)
    assert world.run(rates.acquire, "smtp") == 0


def test_draining_a_bucket_empties_it(world: World) -> None:
    world.run(rates.ensure, "smtp", 10, 2, origin="code")
    world.run(rates.drain, "smtp")
    assert world.run(rates.acquire, "smtp") == SECOND // 2


def test_a_throttled_queue_hands_out_nothing_until_its_window_ends(world: World) -> None:
    first, second = world.add(), world.add()
    me = world.worker()
    job = world.take(me)
    world.finish(me, job, Throttled(60 * SECOND, "{}", cools=True))
    assert claim(world, me) == []
    world.clock.advance(60)
    world.run(workers.beat, me)
    assert {job.id for job in claim(world, me)} == {first, second}
    assert world.job(first).attempts == 1


def test_the_cool_down_is_opened_once_per_window(world: World) -> None:
    for _ in range(3):
        world.add()
    me = world.worker()
    jobs = claim(world, me)
    for job in jobs:
        world.finish(me, job, Throttled(60 * SECOND, "{}", cools=True))
    (state,) = world.sql("select throttles, cool_until from holdfast_queue")
    assert state == (1, world.now + 60 * SECOND)


def test_each_throttle_in_a_row_doubles_the_window_up_to_a_most(world: World) -> None:
    lengths = []
    for _ in range(35):
        world.run(rates.cool, "default", 60 * SECOND)
        world.run(rates.cool, "default", 60 * SECOND)  # in the same window it counts for nothing
        ((throttles, until),) = world.sql("select throttles, cool_until from holdfast_queue")
        lengths.append((until - world.now) // SECOND)
        world.clock.advance((until - world.now) / SECOND)
    assert lengths[:6] == [60, 120, 240, 480, 900, 900]
    assert (lengths[-1], throttles) == (900, 30)
    world.run(rates.cool, "default", 3600 * SECOND)
    assert world.sql("select cool_until from holdfast_queue") == [(world.now + 3600 * SECOND,)]
    world.clock.advance(3600 + 120)
    world.run(rates.warm, "default")
    world.run(rates.cool, "default", 60 * SECOND)
    assert world.sql("select throttles, cool_until from holdfast_queue") == [(1, world.now + 60 * SECOND)]


def test_a_queue_recovers_only_by_a_success_two_minutes_after_its_window(world: World) -> None:
    first, second, third = (world.add() for _ in range(3))
    me = world.worker()
    job, other, last = claim(world, me)
    world.finish(me, job, Throttled(10 * SECOND, "{}", cools=True))
    world.clock.advance(100)
    _succeed(world, me, other)
    assert world.sql("select throttles from holdfast_queue") == [(1,)]
    world.clock.advance(31)
    _succeed(world, me, last)
    assert world.sql("select throttles from holdfast_queue") == [(0,)]
    assert {job.id, other.id, last.id} == {first, second, third}


def test_every_window_multiplies_the_delay_also_after_many(world: World) -> None:
    world.run(rates.cool, "default", 1)
    world.sql("update holdfast_queue set throttles = 40 - 10, cool_until = 0")
    world.run(rates.cool, "default", 0)
    assert world.sql("select throttles, cool_until from holdfast_queue") == [(30, world.now)]


def test_queues_are_cooled_in_one_order_whatever_the_order_of_the_jobs(on_postgres: World) -> None:
    world, throttled = on_postgres, Throttled(60 * SECOND, "{}", cools=True)
    late, early = spec(queue="b"), spec(queue="a")
    world.enqueue(late, early)
    assert late.id < early.id
    me = world.worker(queues=["a", "b"])
    done = [Finish(job.id, job.epoch, throttled) for job in world.claim(me, queues=["a", "b"])]
    _waits_for_a_and_leaves_b_alone(world, partial(world.run, finishing.finish, me, done))


def test_a_queue_that_recovers_and_one_that_cools_are_locked_in_the_same_order(on_postgres: World) -> None:
    world = on_postgres
    world.run(rates.cool, "a", SECOND)
    world.clock.advance(200)
    world.enqueue(spec(queue="a"), spec(queue="b"))
    me = world.worker(queues=["a", "b"])
    outcomes: dict[str, Outcome] = {"a": Done("1"), "b": Throttled(60 * SECOND, "{}", cools=True)}
    done = [Finish(job.id, job.epoch, outcomes[job.queue]) for job in world.claim(me, queues=["a", "b"])]
    _waits_for_a_and_leaves_b_alone(world, partial(world.run, finishing.record, me, done, ["a"]))


def _waits_for_a_and_leaves_b_alone(world: World, finish: Any) -> None:
    with aside() as start:
        with open_transaction(world) as within:
            within(Op(lambda tx: rates.cool(tx, "a", SECOND)))
            waiting = start(finish)
            await_blocked(world)
            start(partial(world.run, rates.cool, "b", SECOND)).result(5)
        waiting.result(10)


def test_a_new_key_of_a_fair_queue_starts_at_the_head(world: World) -> None:
    for _ in range(20):
        world.add(fair=Fair("big"))
    me = world.worker()
    claim(world, me, 5)
    small = world.add(fair=Fair("small"))
    assert small in [job.id for job in claim(world, me, 2)]


def test_keys_of_a_fair_queue_take_turns_by_weight(world: World) -> None:
    names = {world.add(fair=Fair("light", 1.0)): "light" for _ in range(40)}
    names |= {world.add(fair=Fair("heavy", 3.0)): "heavy" for _ in range(40)}
    me = world.worker()
    first = Counter(names[job.id] for job in claim(world, me, 20))
    assert first == {"heavy": 15, "light": 5}


@pytest.mark.parametrize("twin", [{"id": "same", "explicit_id": True}, {"key": "k"}])
def test_a_duplicate_does_not_push_its_key_of_a_fair_queue_back(world: World, twin: dict[str, Any]) -> None:
    world.add(fair=Fair("mine"), **twin)
    for _ in range(20):
        assert not world.enqueue(spec(fair=Fair("mine"), **twin))[0].created
    next_one = world.add(fair=Fair("mine"))
    for _ in range(10):
        world.add(fair=Fair("others"))
    assert next_one in [job.id for job in claim(world, world.worker(), 4)]


def test_equal_weights_give_equal_shares_over_ten_thousand_jobs(each_store: World) -> None:
    world, key_of = each_store, {}
    for key in ("a", "b", "c", "d"):
        for _ in range(4):
            answers = world.enqueue(*(spec(fair=Fair(key)) for _ in range(1_000)))
            key_of |= {answer.id: key for answer in answers}
    me, shares = world.worker(), Counter[str]()
    for _ in range(25):
        jobs = world.claim(me, 400)
        shares.update(key_of[job.id] for job in jobs)
        world.run(finishing.finish, me, [Finish(job.id, job.epoch, Done("null")) for job in jobs])
    assert sum(shares.values()) == 10_000
    assert all(2_375 <= share <= 2_625 for share in shares.values()), shares


def _succeed(world: World, owner: str, job: Any) -> None:
    cooled = ActiveLimits(cooled=frozenset({"default"}))
    world.run(claims.turn, owner, [Finish(job.id, job.epoch, Done("null"))], claim_request(owner, 0, standing=cooled))


# -- lanes that no job uses any more


def _prune_lanes(world: World) -> None:
    world.run(lanes.delete_unused, world.read(lanes.unused_lanes, "", 100))


def test_a_key_that_no_job_uses_leaves_no_lane_and_counts_from_zero_when_it_comes_back(world: World) -> None:
    me = world.worker()
    for _ in range(2):
        first, second = (world.add(**keyed("a", 1)) for _ in range(2))
        (job,) = claim(world, me)
        _prune_lanes(world)
        assert running(world, key_lane("", "a")) == 1
        world.finish(me, job, Done("null"))
        (job,) = claim(world, me)
        assert (first, second) == (first, job.id)
        world.finish(me, job, Done("null"))
        _prune_lanes(world)
        assert world.read(lanes.list_lanes) == []


def test_a_lane_behind_which_a_job_waits_stays(world: World) -> None:
    world.add(**keyed("a", 0))
    assert claim(world, world.worker()) == []
    _prune_lanes(world)
    assert [lane.key for lane in world.read(lanes.list_lanes)] == [key_lane("", "a")]


def test_limits_of_tasks_and_queues_are_listed_before_those_of_keys(world: World) -> None:
    for key in "abc":
        world.add(**keyed(key, 1))
    claim(world, world.worker())
    world.run(lanes.set_lane, "task:zebra", 5)
    assert world.read(lanes.list_lanes, 2)[0].key == "task:zebra"
