"""A deadline ends what nobody runs; the running keep theirs themselves."""

from __future__ import annotations

from contextlib import closing

import pytest

from holdfast.clock import SECOND
from holdfast.ids import ids
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import Expired, Recorded, Rerouted
from holdfast.model.routing import Route
from holdfast.storage.ops.jobs import finishing
from tests.patience import SOON

from .world import World, spec


@pytest.mark.parametrize("state", [JobState.READY, JobState.BLOCKED, JobState.SUSPENDED])
def test_a_waiting_job_is_expired_when_its_deadline_has_come(world: World, state: JobState) -> None:
    job_id = world.place(state, deadline=10 * SECOND).id
    epoch = world.job(job_id).epoch
    world.clock.advance(9.999_999)
    assert world.run(finishing.expire_jobs) == []
    world.clock.advance(0.000_001)
    assert world.run(finishing.expire_jobs) == [job_id]
    job = world.job(job_id)
    assert (job.state, job.reason, job.finished_at, job.epoch) == (JobState.EXPIRED, "deadline", world.now, epoch + 1)


def test_a_delayed_job_may_expire_before_it_was_due(world: World) -> None:
    job_id = world.add(delay=60 * SECOND, deadline=10 * SECOND)
    world.clock.advance(11)
    assert world.run(finishing.expire_jobs) == [job_id]
    world.clock.advance(100)
    assert world.claim(world.worker()) == []


def test_the_deadline_of_a_running_job_is_its_workers_to_keep(world: World) -> None:
    world.add(deadline=10 * SECOND)
    owner = world.worker()
    claimed = world.take(owner)
    assert claimed.time_left == 10 * SECOND
    world.clock.advance(20)
    assert world.run(finishing.expire_jobs) == []
    assert world.finish(owner, claimed, Expired()) == Recorded("expired")


@pytest.mark.parametrize("state", [s for s in JobState if s.is_terminal])
def test_what_has_ended_does_not_expire(world: World, state: JobState) -> None:
    job_id = world.place(state, deadline=10 * SECOND).id
    world.clock.advance(20)
    before = world.row(job_id)
    assert world.run(finishing.expire_jobs) == []
    assert world.row(job_id) == before


def test_expiry_takes_a_page_at_a_time_until_nothing_is_left(each_store: World) -> None:
    world = each_store
    world.enqueue(*(spec(id=id, deadline=SECOND) for id in ids.many(700)))
    world.clock.advance(2)
    assert [len(world.run(finishing.expire_jobs)) for _ in range(3)] == [500, 200, 0]


def test_a_job_that_no_worker_knew_fails_as_no_handler_at_its_deadline_and_not_before(world: World) -> None:
    world.add(deadline=60 * SECOND)
    owner = world.worker()
    claimed = world.take(owner)
    world.finish(owner, claimed, Rerouted(Route("default", frozenset({"task:work"})), "no_handler"))
    world.clock.advance(59)
    assert world.run(finishing.expire_jobs) == []
    world.clock.advance(1)
    assert world.run(finishing.expire_jobs) == [claimed.id]
    assert (world.job(claimed.id).state, world.job(claimed.id).reason) == (JobState.FAILED, "no_handler")


@pytest.mark.parametrize(("deadline", "age", "ends"), [(60, 90, 60), (90, 60, 60), (None, 60, 60), (60, None, 60)])
def test_a_job_that_no_worker_knew_ends_by_deadline_or_age_whichever_is_first(
    world: World, deadline: int | None, age: int | None, ends: int
) -> None:
    world.add(deadline=deadline and deadline * SECOND)
    owner = world.worker()
    claimed = world.take(owner)
    limit = age and world.now + age * SECOND
    world.finish(owner, claimed, Rerouted(Route("default", frozenset({"task:work"})), "no_handler", limit))
    assert world.job(claimed.id).deadline == world.now + ends * SECOND


def test_an_expiry_wakes_those_who_wait_for_the_result(each_store: World) -> None:
    each_store.add(deadline=SECOND)
    each_store.clock.advance(2)
    with closing(each_store.store.wakeups.listen(["finished"])) as listener:
        each_store.run(finishing.expire_jobs)
        assert listener.wait(SOON)
