"""Leases belong to workers: beats, losses, rescues, suspects."""

from __future__ import annotations

import json
from contextlib import closing
from functools import partial

import pytest

from holdfast.clock import SECOND
from holdfast.errors import LeaseLost
from holdfast.ids import ids
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import Done, Lost, Released, Retry
from holdfast.model.routing import Route
from holdfast.model.workers import Owned, Rescue
from holdfast.rules.lifecycle import CRASH_CAP, SUSPECT_AFTER
from holdfast.rules.retry import RetryPolicy
from holdfast.storage.ops.jobs import actions, claims
from holdfast.storage.ops.workers import leases, workers
from holdfast.storage.port import Op
from tests.patience import SOON

from .racing import all_at_once, aside, await_blocked, claim_op, open_transaction
from .world import ERROR, LEASE, World, spec, worker_spec


def test_a_worker_is_registered_with_all_that_others_need_to_know(world: World) -> None:
    wanted = worker_spec("w", queues=("a", "b"), tasks=("t",), host="h", pid=7, process_key="h:7", concurrency=3)
    world.run(workers.register, wanted)
    (worker,) = world.read(workers.list_workers)
    assert (worker.id, worker.queues, worker.tasks, worker.host, worker.pid) == ("w", ("a", "b"), ("t",), "h", 7)
    assert (worker.process_key, worker.concurrency, worker.state, worker.lease) == ("h:7", 3, "alive", LEASE)
    assert (worker.started_at, worker.beat_at, worker.lease_until) == (world.now, world.now, world.now + LEASE)
    assert not worker.is_expired


def test_registering_again_after_an_unknown_outcome_is_harmless(world: World) -> None:
    world.worker("w")
    world.clock.advance(5)
    world.worker("w")
    (worker,) = world.read(workers.list_workers)
    assert worker.lease_until == world.now + LEASE


def test_a_beat_renews_the_lease_and_tells_what_the_store_thinks_is_mine(world: World) -> None:
    owner = world.worker()
    world.enqueue(spec(), spec())
    world.worker()
    mine = world.claim(owner, 2, token="t")
    world.clock.advance(20)
    assert sorted(world.run(workers.beat, owner), key=lambda owned: owned.id) == [
        Owned(job.id, job.epoch, "t", False) for job in mine
    ]
    worker = next(w for w in world.read(workers.list_workers) if w.id == owner)
    assert (worker.beat_at, worker.lease_until) == (world.now, world.now + LEASE)


def test_a_beat_of_a_worker_that_owns_nothing_is_empty(world: World) -> None:
    assert world.run(workers.beat, world.worker()) == []


def test_a_worker_beats_on_while_it_stops(world: World) -> None:
    owner = world.worker()
    world.run(workers.stop, owner)
    world.clock.advance(20)
    world.run(workers.beat, owner)
    (worker,) = world.read(workers.list_workers)
    assert (worker.state, worker.lease_until) == ("stopping", world.now + LEASE)


def test_a_worker_that_was_declared_lost_is_told_so(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.clock.advance(LEASE / SECOND + 1)
    world.rescue(placed.owner)
    with pytest.raises(LeaseLost):
        world.run(workers.beat, placed.owner)
    world.rescue(placed.owner)
    with pytest.raises(LeaseLost):
        world.run(workers.beat, placed.owner)


def test_a_late_beat_of_a_worker_that_nobody_rescued_keeps_its_jobs(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.clock.advance(10 * LEASE / SECOND)
    assert [owned.id for owned in world.run(workers.beat, placed.owner)] == [placed.id]
    assert world.rescue(placed.owner) == Rescue((), more=False)


# -- leaving


def test_a_worker_that_owns_nothing_is_forgotten(world: World) -> None:
    owner = world.worker()
    assert world.run(workers.deregister, owner) is True
    assert world.read(workers.list_workers) == []


def test_a_workers_row_lives_until_it_owns_nothing(world: World) -> None:
    world.add()
    owner = world.worker()
    claimed = world.take(owner)
    assert world.run(workers.deregister, owner) is False
    world.finish(owner, claimed, Released("shutdown"))
    assert world.run(workers.deregister, owner) is True


# -- rescue


def test_a_worker_with_a_lease_is_not_rescued(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    before = world.row(placed.id)
    world.clock.advance(LEASE / SECOND)
    assert world.rescue(placed.owner) == Rescue((), more=False)
    assert world.row(placed.id) == before
    assert [worker.state for worker in world.read(workers.list_workers)] == ["alive"]


@pytest.mark.parametrize("of_queue", [False, True])
def test_a_lost_job_past_its_age_limit_is_given_up(world: World, of_queue: bool) -> None:
    policy = RetryPolicy(max_age=LEASE / SECOND).encode()
    if of_queue:
        world.run(actions.set_queue_state, "default", "active")
        world.sql("update holdfast_queue set retry = :policy", policy=policy)
    job_id, owner = world.add(retry=None if of_queue else policy), world.worker()
    world.take(owner)
    world.lose(owner)
    job = world.job(job_id)
    assert (job.state, job.reason) == (JobState.FAILED, "aged_out")


def test_a_worker_whose_lease_ran_out_is_rescued(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.clock.advance(LEASE / SECOND + 0.000_001)
    assert world.rescue(placed.owner) == Rescue((placed.id,), more=True)
    job = world.job(placed.id)
    assert (job.state, job.reason, job.owner, job.claim) == (JobState.READY, "rescue", None, None)
    assert (job.epoch, job.attempts, job.suspect, job.crashes) == (placed.epoch + 1, 1, 0, 0)
    assert json.loads(job.error or "")["type"] == "WorkerLost"


@pytest.mark.parametrize("waits", [True, False])
def test_a_lease_that_ends_later_than_any_could_is_over(world: World, waits: bool) -> None:
    world.clock.step(3600)
    placed = world.place(JobState.RUNNING)
    world.clock.step(-3600)
    assert [worker.is_expired for worker in world.read(workers.list_workers)] == [True]
    assert [lease.job for lease in world.read(leases.expired_leases)] == [placed.id]
    assert world.run(workers.rescue, placed.owner, waits=waits).rescued == (placed.id,)


@pytest.mark.parametrize("waits", [True, False])
def test_a_lease_that_was_renewed_after_the_clock_was_set_back_holds(world: World, waits: bool) -> None:
    world.clock.step(3600)
    placed = world.place(JobState.RUNNING)
    world.clock.step(-3600)
    world.run(workers.beat, placed.owner)
    assert [worker.is_expired for worker in world.read(workers.list_workers)] == [False]
    assert world.run(workers.rescue, placed.owner, waits=waits) == Rescue((), more=False)


def test_a_clock_that_was_set_back_by_less_than_a_lease_ends_no_lease(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.clock.step(-LEASE / SECOND)
    assert [worker.is_expired for worker in world.read(workers.list_workers)] == [False]
    assert world.rescue(placed.owner) == Rescue((), more=False)


def test_a_worker_whose_process_is_certainly_gone_is_rescued_at_once(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    assert world.rescue(placed.owner, certain=True).rescued == (placed.id,)


def test_a_lost_run_is_in_the_history(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.lose(placed.owner)
    (attempt,) = world.history(placed.id)
    assert (attempt.outcome, attempt.epoch, attempt.worker, attempt.attempt) == ("lost", placed.epoch, placed.owner, 1)


def test_a_rescued_worker_is_forgotten_when_it_owns_nothing(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.clock.advance(LEASE / SECOND + 1)
    world.rescue(placed.owner)
    assert [worker.state for worker in world.read(workers.list_workers)] == ["dead"]
    assert world.rescue(placed.owner) == Rescue((), more=False)
    assert world.read(workers.list_workers) == []


def test_rescuing_a_worker_that_does_not_exist_changes_nothing(world: World) -> None:
    assert world.rescue("nobody", certain=True) == Rescue((), more=False)


def test_a_second_rescuer_finds_nothing_left(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.clock.advance(LEASE / SECOND + 1)
    assert world.rescue(placed.owner).rescued == (placed.id,)
    assert world.rescue(placed.owner).rescued == ()


def test_a_rescue_takes_pages_of_500_and_spreads_them_over_a_second(each_store: World) -> None:
    world = each_store
    world.enqueue(*(spec(id=id) for id in ids.many(1_200)))
    owner = world.worker()
    world.claim(owner, 1_200)
    world.clock.advance(LEASE / SECOND + 1)
    pages = [world.rescue(owner, spread=0.5) for _ in range(4)]
    assert [(len(page.rescued), page.more) for page in pages] == [(500, True), (500, True), (200, True), (0, False)]
    assert len({id for page in pages for id in page.rescued}) == 1_200
    delays = {t - world.now for (t,) in world.sql("select not_before from holdfast_any_job")}
    assert min(delays) >= 0
    assert SECOND * 0.9 < max(delays) < SECOND
    assert len(delays) > 400


def test_a_rescued_job_that_was_its_last_attempt_has_failed(world: World) -> None:
    placed = world.place(JobState.RUNNING, max_attempts=1)
    world.lose(placed.owner)
    assert (world.job(placed.id).state, world.job(placed.id).reason) == (JobState.FAILED, "worker_lost")


def test_a_rescued_job_without_a_limit_of_attempts_runs_again(world: World) -> None:
    placed = world.place(JobState.RUNNING, max_attempts=0)
    world.lose(placed.owner)
    assert world.job(placed.id).state is JobState.READY


def test_a_rescued_job_whose_deadline_has_passed_is_expired(world: World) -> None:
    placed = world.place(JobState.RUNNING, deadline=10 * SECOND)
    world.lose(placed.owner)
    assert (world.job(placed.id).state, world.job(placed.id).reason) == (JobState.EXPIRED, "deadline")


def test_a_rescued_job_that_was_asked_to_stop_is_cancelled_also_past_its_deadline(world: World) -> None:
    placed = world.place(JobState.RUNNING, deadline=10 * SECOND)
    world.run(actions.cancel, placed.id)
    world.lose(placed.owner)
    assert world.job(placed.id).state is JobState.CANCELLED


def test_a_rescue_wakes_those_who_can_take_the_jobs(each_store: World) -> None:
    placed = each_store.place(JobState.RUNNING)
    with closing(each_store.store.wakeups.listen([f"queue:{placed.queue}"])) as listener:
        each_store.rescue(placed.owner, certain=True)
        assert listener.wait(SOON)


# -- suspects


def test_a_first_loss_makes_nobody_a_suspect(world: World) -> None:
    world.enqueue(*(spec() for _ in range(5)))
    lost = world.worker()
    jobs = [job.id for job in world.claim(lost)]
    assert world.lose(lost) == sorted(jobs)
    assert world.run(claims.suspects_wait, [Route("default").number]) is False
    again = world.claim(world.worker())
    assert [(job.id, job.suspect, job.crashes, job.attempt) for job in again] == [(id, 0, 0, 2) for id in jobs]


def test_a_rescued_job_keeps_its_place_before_those_that_came_later(world: World) -> None:
    first, lost = world.add(), world.worker()
    world.take(lost)
    world.clock.advance(1)
    second = world.add()
    world.lose(lost)
    assert [job.id for job in world.claim(world.worker(), 2)] == [first, second]


def test_a_run_that_comes_to_an_outcome_of_its_own_clears_the_losses_before_it(world: World) -> None:
    job_id = world.add(max_attempts=0)
    for _ in range(3):
        lost, owner = world.worker(), world.worker()
        world.take(lost)
        world.lose(lost)
        world.finish(owner, world.take(owner), Retry(0, ERROR))
        assert world.job(job_id).suspect == 0


def test_a_job_that_is_handed_back_keeps_the_losses_before_it(world: World) -> None:
    job_id = world.add(max_attempts=0)
    first, owner, second = world.worker(), world.worker(), world.worker()
    world.take(first)
    world.lose(first)
    world.finish(owner, world.take(owner), Released("shutdown"))
    world.take(second)
    world.lose(second)
    assert world.job(job_id).suspect == 1


def test_a_replay_forgets_the_losses(world: World) -> None:
    lost, owner = world.worker(), world.worker()
    job_id = world.add(max_attempts=0)
    world.take(lost)
    world.lose(lost)
    world.run(actions.cancel, job_id)
    world.run(actions.retry, job_id)
    world.take(owner)
    world.lose(owner)
    assert world.job(job_id).suspect == 0


def test_a_job_that_was_lost_twice_is_a_suspect_that_ordinary_claims_pass_over(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.lose_twice(placed.owner)
    owner, route = world.worker(), Route(placed.queue).number
    assert world.run(claims.suspects_wait, [route]) is True
    assert world.claim(owner, queues=[placed.queue]) == []
    claimed = world.take(owner, queues=[placed.queue], suspects=1)
    assert (claimed.id, claimed.suspect, claimed.attempt) == (placed.id, 1, 3)
    assert world.run(claims.suspects_wait, [route]) is False


@pytest.mark.parametrize("state", ["paused", "disabled"])
def test_nobody_waits_idly_for_a_suspect_that_it_cannot_have(world: World, state: str) -> None:
    placed = world.place(JobState.RUNNING)
    world.lose_twice(placed.owner)
    assert world.run(claims.suspects_wait, [Route("elsewhere").number]) is False
    world.run(actions.set_queue_state, placed.queue, state)
    assert world.run(claims.suspects_wait, [Route(placed.queue).number]) is False


def test_suspects_come_one_at_a_time_beside_other_jobs(world: World) -> None:
    world.enqueue(spec(), spec())
    lost = world.worker()
    suspects = {job.id for job in world.claim(lost, 2)}
    world.lose_twice(lost)
    fresh = world.add()
    claimed = world.claim(world.worker(), 5, suspects=1)
    assert len(claimed) == 2
    assert len(suspects & {job.id for job in claimed}) == 1
    assert fresh in {job.id for job in claimed}


def test_a_suspect_that_must_be_alone_comes_alone(world: World) -> None:
    world.add()
    lost = world.worker()
    suspect = world.take(lost).id
    world.lose_twice(lost)
    world.add()
    (claimed,) = world.claim(world.worker(), 5, suspects=1, alone=True)
    assert claimed.id == suspect
    assert world.job(suspect).alone == 1


def test_where_no_suspect_waits_a_claim_for_one_alone_gives_other_work(world: World) -> None:
    job_id = world.add()
    assert [job.id for job in world.claim(world.worker(), 1, suspects=1, alone=True)] == [job_id]
    assert world.job(job_id).alone == 0


def test_losses_shared_with_neighbours_never_convict(world: World) -> None:
    job_id = world.add(max_attempts=0)
    for _ in range(3 * CRASH_CAP):
        owner = world.worker()
        world.claim(owner, 1, suspects=1)
        world.lose(owner)
    job = world.job(job_id)
    assert (job.state, job.crashes, job.attempts) == (JobState.READY, 0, 3 * CRASH_CAP)


def test_a_shared_loss_does_not_convict_even_one_crash_below_the_cap(world: World) -> None:
    job_id = world.add(max_attempts=0)
    for alone in [*[False] * SUSPECT_AFTER, *[True] * (CRASH_CAP - 1), False]:
        owner = world.worker()
        world.claim(owner, 1, suspects=1, alone=alone)
        world.lose(owner)
    job = world.job(job_id)
    assert (job.state, job.crashes) == (JobState.READY, CRASH_CAP - 1)


def test_losses_while_alone_convict_at_the_cap(world: World) -> None:
    job_id = world.add(max_attempts=0)
    for losses in range(SUSPECT_AFTER + CRASH_CAP):
        assert world.job(job_id).crashes == max(0, losses - SUSPECT_AFTER)
        owner = world.worker()
        world.claim(owner, 1, suspects=1, alone=True)
        world.lose(owner)
    job = world.job(job_id)
    assert (job.state, job.reason, job.crashes) == (JobState.FAILED, "worker_lost", CRASH_CAP)


def test_a_success_of_a_suspect_ends_its_story(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.lose_twice(placed.owner)
    owner = world.worker()
    claimed = world.take(owner, queues=[placed.queue], suspects=1)
    world.finish(owner, claimed, Done("1"))
    assert world.job(placed.id).state is JobState.SUCCEEDED


def test_a_rescued_job_delayed_by_the_spread_is_still_a_suspect_when_due(world: World) -> None:
    world.enqueue(*(spec() for _ in range(20)))
    lost = world.worker()
    world.claim(lost, 20)
    world.lose_twice(lost)
    owner = world.worker()
    world.clock.advance(2)
    assert world.claim(owner, 20) == []
    assert len(world.claim(owner, 20, suspects=1)) == 1


# -- races


def test_a_claim_that_is_first_is_seen_by_the_rescue_that_waits_for_it(on_postgres: World) -> None:
    world = on_postgres
    job_id, owner = world.add(), world.worker()
    world.clock.advance(LEASE / SECOND + 1)
    with aside() as start:
        with open_transaction(world) as within:
            (claimed,) = within(claim_op(owner, 1))
            late = start(lambda: world.rescue(owner))
            await_blocked(world)
        assert late.result(10).rescued == (job_id,)
    assert world.job(job_id).epoch == claimed.epoch + 1
    assert world.finish(owner, claimed, Done("1")) == Lost()


def test_a_claim_that_comes_second_gets_nothing_from_a_worker_that_is_being_rescued(on_postgres: World) -> None:
    world = on_postgres
    job_id, owner = world.add(), world.worker()
    world.clock.advance(LEASE / SECOND + 1)
    with aside() as start:
        with open_transaction(world) as within:
            within(Op(lambda tx: workers.rescue(tx, owner)))
            late = start(lambda: world.claim(owner))
            await_blocked(world)
        assert late.result(10) == []
    assert world.job(job_id).state is JobState.READY


def test_a_worker_that_leaves_while_its_own_claim_is_in_flight_is_not_forgotten(on_postgres: World) -> None:
    world = on_postgres
    job_id, owner = world.add(), world.worker()
    with aside() as start:
        with open_transaction(world) as within:
            within(claim_op(owner, 1))
            late = start(lambda: world.run(workers.deregister, owner))
            await_blocked(world)
        assert late.result(10) is False
    assert world.lose(owner) == [job_id]


def test_claims_of_one_worker_do_not_wait_for_its_beats(on_postgres: World) -> None:
    world = on_postgres
    world.add()
    owner = world.worker()
    with aside() as start, open_transaction(world) as within:
        within(Op(lambda tx: workers.beat(tx, owner)))
        assert len(start(lambda: world.claim(owner)).result(10)) == 1


def test_many_rescuers_take_each_job_once(two_worlds: tuple[World, World]) -> None:
    first, _ = two_worlds
    first.enqueue(*(spec() for _ in range(60)))
    owner = first.worker()
    taken = first.claim(owner, 60)
    first.clock.advance(LEASE / SECOND + 1)
    pages = all_at_once([partial(world.rescue, owner) for world in two_worlds * 3])
    assert sorted(id for page in pages for id in page.rescued) == sorted(job.id for job in taken)
    assert {first.job(job.id).epoch for job in taken} == {2}


def test_finishing_races_rescuing_and_exactly_one_of_them_counts(two_worlds: tuple[World, World]) -> None:
    first, second = two_worlds
    for _ in range(10):
        job_id, owner = first.add(), first.worker()
        claimed = first.take(owner)
        first.clock.advance(LEASE / SECOND + 1)
        verdict, page = all_at_once([partial(first.finish, owner, claimed, Done("1")), partial(second.rescue, owner)])
        assert (verdict == Lost()) == (page.rescued == (job_id,))
        assert first.job(job_id).state is (JobState.READY if verdict == Lost() else JobState.SUCCEEDED)
        first.wipe()
