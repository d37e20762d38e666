"""Which jobs a worker gets, in which order, and that nobody else gets them."""

from __future__ import annotations

from functools import partial

import pytest

from holdfast.clock import SECOND
from holdfast.ids import ids
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import Done, Finish, Recorded, Retry
from holdfast.model.routing import Route
from holdfast.storage.ops.jobs import actions, claims, enqueue
from holdfast.storage.ops.workers import workers

from .racing import all_at_once, aside, claim_op, open_transaction, setting_op
from .world import ERROR, World, claim_request, spec


def test_a_claim_gives_the_job_to_its_worker_under_a_new_epoch(world: World) -> None:
    job_id, owner = world.add(payload="1", timeout=7, deadline=60 * SECOND), world.worker()
    world.clock.advance(3)
    (claimed,) = world.claim(owner, token="first")
    assert (claimed.id, claimed.payload, claimed.attempt, claimed.epoch, claimed.timeout) == (job_id, "1", 1, 1, 7)
    assert claimed.time_left == 57 * SECOND
    job = world.job(job_id)
    assert (job.state, job.owner, job.claim, job.epoch, job.attempts) == (JobState.RUNNING, owner, "first", 1, 1)
    assert job.started_at == job.claimed_at == world.now


def test_a_job_starts_once_and_is_claimed_as_often_as_it_runs(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Retry(SECOND, ERROR))
    first = world.job(job_id).started_at
    world.clock.advance(2)
    world.take(owner)
    job = world.job(job_id)
    assert (job.started_at, job.claimed_at, job.attempts, job.epoch) == (first, world.now, 2, 3)


def test_the_higher_priority_comes_first(world: World) -> None:
    low, high, middle = world.add(priority=-1), world.add(priority=9), world.add()
    assert [job.id for job in world.claim(world.worker())] == [high, middle, low]


def test_among_equal_priorities_the_earlier_due_time_comes_first(world: World) -> None:
    late, early = world.add(at=world.now - 5), world.add(at=world.now - 9)
    assert [job.id for job in world.claim(world.worker())] == [early, late]


def test_among_equal_due_times_the_smaller_id_comes_first(world: World) -> None:
    made = ids.many(5)
    for id in reversed(made):
        world.add(id=id)
    assert [job.id for job in world.claim(world.worker())] == made


def test_the_order_holds_across_small_claims(world: World) -> None:
    wanted = [world.add(priority=p, at=world.now - t) for p, t in [(2, 9), (2, 5), (1, 9), (1, 5), (0, 9), (0, 5)]]
    owner = world.worker()
    assert [world.take(owner).id for _ in wanted] == wanted


@pytest.mark.parametrize("n", [0, 1, 3, 5, 9])
def test_a_claim_takes_at_most_what_there_is_room_for(world: World, n: int) -> None:
    for queue in ("default", "other"):
        world.enqueue(*(spec(queue=queue) for _ in range(3)))
    assert len(world.claim(world.worker(), n, queues=["default", "other"])) == min(n, 6)


def test_an_earlier_queue_is_emptied_before_a_later_one_whatever_the_priorities(world: World) -> None:
    second = world.add(queue="b", priority=100)
    first = [world.add(queue="a") for _ in range(2)]
    owner = world.worker()
    assert [world.take(owner, queues=["a", "b"]).id for _ in range(3)] == [*first, second]


def test_queues_of_one_tier_share_one_order(world: World) -> None:
    b, a = world.add(queue="b", priority=5), world.add(queue="a", priority=1)
    tiers = [[Route("a"), Route("b")]]
    assert [job.id for job in world.claim(world.worker(), tiers=tiers)] == [b, a]


def test_an_empty_queue_does_not_stall_the_next(world: World) -> None:
    job_id = world.add(queue="b")
    assert world.take(world.worker(), queues=["a", "b"]).id == job_id


def test_a_worker_gets_nothing_from_queues_it_does_not_serve(world: World) -> None:
    world.add(queue="other")
    assert world.claim(world.worker()) == []


def test_a_delayed_job_is_claimable_the_moment_it_is_due(world: World) -> None:
    job_id, owner = world.add(delay=5 * SECOND), world.worker()
    world.clock.advance(4.999_999)
    assert world.claim(owner) == []
    world.clock.advance(0.000_001)
    assert world.take(owner).id == job_id


def test_a_delayed_job_that_became_due_takes_its_place_by_priority(world: World) -> None:
    delayed = world.add(delay=SECOND, priority=9)
    ready, owner = world.add(), world.worker()
    world.clock.advance(2)
    assert [job.id for job in world.claim(owner)] == [delayed, ready]


def test_more_rows_than_one_claim_promotes_all_come_in_the_end(each_store: World) -> None:
    world = each_store
    specs = [spec(id=id, delay=SECOND) for id in ids.many(1_100)]
    world.enqueue(*specs)
    owner = world.worker()
    world.clock.advance(1)
    seen = [job.id for _ in range(3) for job in world.claim(owner, 500)]
    assert seen == [s.id for s in specs]


def test_the_most_urgent_of_all_that_came_due_is_taken_first_however_many_there_are(each_store: World) -> None:
    world = each_store
    world.enqueue(*(spec(id=id, delay=SECOND) for id in ids.many(2_500)))
    urgent = world.add(delay=2 * SECOND, priority=1_000)
    elsewhere = world.add(delay=2 * SECOND, queue="other")
    owner = world.worker()
    world.clock.advance(3)
    assert world.take(owner).id == urgent
    assert world.take(owner, queues=["other"]).id == elsewhere


def test_the_next_due_time_tells_how_long_to_sleep(world: World) -> None:
    assert world.run(claims.next_due) is None
    world.add()
    assert world.run(claims.next_due) is None
    world.enqueue(spec(delay=9 * SECOND), spec(delay=5 * SECOND))
    assert world.run(claims.next_due) == 5 * SECOND


@pytest.mark.parametrize("state", ["paused", "disabled"])
def test_a_paused_or_disabled_queue_hands_out_nothing_until_it_is_active_again(world: World, state: str) -> None:
    job_id, other, owner = world.add(), world.add(queue="other"), world.worker()
    world.run(actions.set_queue_state, "default", state)
    assert [job.id for job in world.claim(owner, queues=["default", "other"])] == [other]
    world.run(actions.set_queue_state, "default", "active")
    assert world.take(owner).id == job_id


def test_a_draining_queue_still_hands_out_what_it_has(world: World) -> None:
    job_id = world.add()
    world.run(actions.set_queue_state, "default", "draining")
    assert world.take(world.worker()).id == job_id


def test_a_paused_queue_accepts_jobs(world: World) -> None:
    world.run(actions.set_queue_state, "default", "paused")
    assert world.enqueue(spec())[0].created


def test_suspects_of_a_paused_queue_wait_too(world: World) -> None:
    world.add()
    lost = world.worker()
    world.take(lost)
    world.lose_twice(lost)
    world.run(actions.set_queue_state, "default", "paused")
    assert world.claim(world.worker(), suspects=1) == []


@pytest.mark.parametrize("how", ["unregistered", "stopping", "dead"])
def test_only_a_worker_that_is_registered_and_alive_gets_jobs(world: World, how: str) -> None:
    job_id = world.add()
    owner = "nobody" if how == "unregistered" else world.worker()
    if how == "stopping":
        world.run(workers.stop, owner)
    if how == "dead":
        world.lose(owner)
    assert world.claim(owner) == []
    assert world.job(job_id).state is JobState.READY


def test_a_claim_whose_reply_was_lost_is_read_again_by_its_token(world: World) -> None:
    world.enqueue(spec(), spec(), spec())
    owner = world.worker()
    taken = world.claim(owner, 2, token="lost")
    world.claim(owner, 1, token="other")
    assert world.run(claims.claimed_under, owner, "lost") == taken
    assert world.run(claims.claimed_under, "somebody", "lost") == []


def test_finishing_and_claiming_share_one_turn(world: World) -> None:
    first, second = world.add(), world.add()
    owner = world.worker()
    job = world.take(owner)
    assert job.id == first
    turn = world.run(claims.turn, owner, [Finish(job.id, job.epoch, Done("1"))], claim_request(owner, 5))
    assert turn.verdicts == [Recorded("succeeded")]
    assert [job.id for job in turn.claimed] == [second]


def test_a_turn_may_only_finish_or_only_claim(world: World) -> None:
    world.add()
    owner = world.worker()
    (job,) = world.run(claims.turn, owner, [], claim_request(owner)).claimed
    turn = world.run(claims.turn, owner, [Finish(job.id, job.epoch, Done("1"))], None)
    assert (turn.verdicts, turn.claimed) == ([Recorded("succeeded")], [])


# -- many claimers


def test_no_job_is_given_twice_and_none_is_lost_among_many_claimers(two_worlds: tuple[World, World]) -> None:
    first, _ = two_worlds
    specs = [spec(id=id) for id in ids.many(200)]
    first.enqueue(*specs)
    owners = [(world, first.worker()) for world in two_worlds * 3]

    def drain(world: World, owner: str) -> list[str]:
        seen: list[str] = []
        while jobs := world.claim(owner, 7):
            seen += [job.id for job in jobs]
        return seen

    seen = all_at_once([partial(drain, world, owner) for world, owner in owners])
    given = [id for some in seen for id in some]
    # A claimer that found every row locked by others may stop early; what it left is still there.
    given += drain(first, owners[0][1])
    assert sorted(given) == [s.id for s in specs]


def test_claimers_beside_producers_lose_nothing(two_worlds: tuple[World, World]) -> None:
    first, second = two_worlds
    owner = first.worker()
    made = [ids.many(10) for _ in range(10)]

    def produce() -> list[str]:
        for some in made:
            second.enqueue(*(spec(id=id) for id in some))
        return []

    def consume() -> list[str]:
        return [job.id for _ in range(15) for job in first.claim(owner, 20)]

    _, seen = all_at_once([produce, consume])
    while jobs := first.claim(owner, 50):
        seen += [job.id for job in jobs]
    assert sorted(seen) == sorted(id for some in made for id in some)


def test_a_claim_steps_over_rows_that_an_open_transaction_has_taken(on_postgres: World) -> None:
    world = on_postgres
    first, second = world.add(), world.add()
    slow, quick = world.worker(), world.worker()
    with open_transaction(world) as within:
        (held,) = within(claim_op(slow, 1))
        assert held.id == first
        assert world.take(quick).id == second
        assert world.claim(quick) == []
    assert world.job(first).owner == slow


def test_a_claim_never_takes_more_than_n_rows_however_the_planner_joins(on_postgres: World) -> None:
    world = on_postgres
    world.enqueue(*(spec(queue=f"q{i % 5}") for i in range(200)))
    owner = world.worker()
    with open_transaction(world) as within:
        for way in ("hashjoin", "mergejoin", "hashagg", "material", "memoize", "sort", "indexscan", "bitmapscan"):
            within(setting_op(f"enable_{way}"))
            assert len(within(claim_op(owner, 7, queues=[f"q{i}" for i in range(5)]))) == 7


def test_an_enqueue_beside_an_open_claim_is_not_held_up(on_postgres: World) -> None:
    world = on_postgres
    world.add()
    owner = world.worker()
    with aside() as start, open_transaction(world) as within:
        within(claim_op(owner, 1))
        assert start(lambda: world.run(enqueue.enqueue, [spec()])).result(10)[0].created
