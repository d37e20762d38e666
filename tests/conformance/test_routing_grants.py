"""Grants: for a while a job is for one worker, by its name, and then for everybody again."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.errors import IllegalMove, NotFound
from holdfast.ids import ids, token
from holdfast.model.actions import Action, Order
from holdfast.model.jobs import Claimed, JobState
from holdfast.model.outcomes import Done, Retry
from holdfast.model.routing import Route
from holdfast.model.steps import Step
from holdfast.rules.routing import Hold
from holdfast.storage.ops import steps
from holdfast.storage.ops.jobs import actions, claims, explaining
from holdfast.storage.ops.jobs.claims import ClaimRequest
from holdfast.storage.ops.routing import grants, routes, stranded
from holdfast.storage.ops.routing.affinities import Routing
from holdfast.storage.ops.workers import lookout
from holdfast.worker.claiming.routes import ServedRoutes

from .world import ERROR, World, spec

GPU = Route("default", frozenset({"gpu"}))


def claim(world: World, owner: str, name: str, *, queues: tuple[str, ...] = ("default", "other")) -> list[Claimed]:
    """Claim as a worker of that name does, which looks around before."""
    if world.read(lookout.look, owner, []).grants_over:
        world.run(grants.expire_grants)
    served = ServedRoutes(queues, ["gpu", "task:work", f"worker:{name}"])
    served.learn(world.read(routes.special_routes))
    routing = Routing(Hold((), frozenset(), 1), served.affinities, served.own, ())
    asked = ClaimRequest(owner=owner, token=token(), routes=served.encoded, n=10, routing=routing)
    return world.run(claims.claim, asked)


def give(world: World, job_id: str, worker: str = "gpu-1", seconds: float = 30) -> Any:
    return world.run(grants.grant, job_id, worker, round(seconds * SECOND))


def reasons(world: World, job_id: str) -> dict[str, str]:
    return {reason.code: reason.text for reason in world.run(explaining.explain, job_id).reasons}


@pytest.mark.parametrize("route", [Route("default"), GPU])
def test_only_the_named_worker_gets_it_and_once(world: World, route: Route) -> None:
    (job,) = world.enqueue(spec(route=route))
    one, other = world.worker("gpu-1"), world.worker("gpu-2")
    granted = give(world, job.id)
    assert (granted.worker, granted.expires_at - granted.granted_at) == ("gpu-1", 30 * SECOND)
    assert claim(world, other, "gpu-2") == []
    (claimed,) = claim(world, one, "gpu-1")
    assert claimed.id == job.id
    assert claimed.route == world.job(job.id).route == route.number
    assert world.read(grants.list_grants) == []
    # The grant is used up: the next run may be anybody's.
    world.finish(one, claimed, Retry(0, ERROR))
    assert [job.id for job in claim(world, other, "gpu-2")] == [job.id]


def test_it_is_open_to_everybody_again_when_its_time_is_over(world: World) -> None:
    job_id, other = world.add(), world.worker("gpu-2")
    give(world, job_id)
    world.clock.advance(29)
    assert claim(world, other, "gpu-2") == []
    assert world.read(lookout.look, other, []).next_due == SECOND
    world.clock.advance(1)
    assert [job.id for job in claim(world, other, "gpu-2")] == [job_id]
    assert world.read(grants.list_grants) == []


def test_it_survives_what_keeps_a_job_from_starting(world: World) -> None:
    """A delay, and a queue that is paused meanwhile."""
    job_id, one, other = world.add(delay=10 * SECOND), world.worker("gpu-1"), world.worker("gpu-2")
    give(world, job_id)
    world.clock.advance(10)
    assert claim(world, other, "gpu-2") == []
    world.run(actions.set_queue_state, "default", "paused")
    assert claim(world, one, "gpu-1") == []
    world.run(actions.set_queue_state, "default", "active")
    assert [job.id for job in claim(world, one, "gpu-1")] == [job_id]


def test_a_new_grant_takes_the_place_of_the_old_one(world: World) -> None:
    job_id, one, two = world.add(), world.worker("gpu-1"), world.worker("gpu-2")
    give(world, job_id, "gpu-1")
    give(world, job_id, "gpu-2", 60)
    assert [grant.worker for grant in world.read(grants.list_grants)] == ["gpu-2"]
    world.clock.advance(31)
    assert world.run(grants.expire_grants) == 0
    assert claim(world, one, "gpu-1") == []
    assert len(claim(world, two, "gpu-2")) == 1
    assert world.job(job_id).route == Route("default").number


def test_it_can_be_withdrawn(world: World) -> None:
    job_id, other = world.add(), world.worker("gpu-2")
    give(world, job_id)
    assert world.run(grants.withdraw, job_id)
    assert not world.run(grants.withdraw, job_id)
    assert len(claim(world, other, "gpu-2")) == 1


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.SUCCEEDED, JobState.FAILED])
def test_only_a_job_that_waits_can_be_granted(world: World, state: JobState) -> None:
    placed = world.place(state)
    before = world.row(placed.id)
    with pytest.raises(IllegalMove):
        give(world, placed.id)
    assert world.row(placed.id) == before
    assert world.read(grants.list_grants) == []


@pytest.mark.parametrize("state", [JobState.BLOCKED, JobState.SUSPENDED])
def test_a_job_that_waits_for_something_else_can_be_granted_too(world: World, state: JobState) -> None:
    placed = world.place(state)
    give(world, placed.id)
    world.clock.advance(30)
    assert world.run(grants.expire_grants) == 1
    assert world.job(placed.id).route == Route(placed.queue).number


def test_what_is_not_there_cannot_be_granted(world: World) -> None:
    with pytest.raises(NotFound):
        give(world, "nothing")
    with pytest.raises(NotFound):
        world.run(grants.withdraw, "nothing")


def test_a_job_that_was_moved_meanwhile_goes_on_in_its_new_queue(world: World) -> None:
    (job,) = world.enqueue(spec(route=GPU))
    give(world, job.id)
    world.run(actions.apply, [job.id], Order(Action.MOVE, queue="other"), actor="me", reason="", target="one")
    other = world.worker("gpu-2", queues=["default", "other"])
    assert claim(world, other, "gpu-2") == []
    world.clock.advance(30)
    (claimed,) = claim(world, other, "gpu-2")
    assert (claimed.id, claimed.queue, claimed.route) == (job.id, "other", GPU.on("other").number)


def test_a_granted_job_that_ended_otherwise_can_be_replayed_for_all(world: World) -> None:
    job_id, other = world.add(), world.worker("gpu-2")
    give(world, job_id)
    world.run(actions.cancel, job_id)
    world.clock.advance(30)
    world.run(grants.expire_grants)
    world.run(actions.retry, job_id)
    assert len(claim(world, other, "gpu-2")) == 1


def test_a_deleted_job_leaves_no_grant(world: World) -> None:
    job_id = world.add()
    give(world, job_id)
    world.run(actions.delete, job_id)
    assert world.read(grants.list_grants) == []


def test_explain_says_for_whom_it_is(world: World) -> None:
    job_id = world.add()
    world.worker("gpu-2")
    give(world, job_id)
    found = reasons(world, job_id)
    assert "'gpu-1'" in found["granted"]
    assert "30 s" in found["granted"]
    assert "gpu-1" in found["worker_missing"]
    assert [item.code for item in world.read(stranded.stranded)] == ["worker_missing"]
    world.worker("gpu-1")
    assert list(reasons(world, job_id)) == ["granted"]
    assert world.read(stranded.stranded) == []
    world.clock.advance(30)
    assert "grant_expired" in reasons(world, job_id)


def test_two_who_end_the_same_grant_end_it_once(two_worlds: tuple[World, World]) -> None:
    one, two = two_worlds
    job_id = one.add()
    give(one, job_id)
    one.clock.advance(30)
    assert one.run(grants.expire_grants) + two.run(grants.expire_grants) == 1
    owner = one.worker("gpu-2")
    (claimed,) = claim(one, owner, "gpu-2")
    one.finish(owner, claimed, Done("null"))


@pytest.mark.parametrize("queue", ["default", "other"])
@pytest.mark.parametrize("route", [Route("default"), GPU])
def test_a_fork_of_a_granted_job_is_for_everybody(world: World, route: Route, queue: str) -> None:
    (job,) = world.enqueue(spec(route=route))
    one, other = world.worker("gpu-1"), world.worker("gpu-2")
    (claimed,) = claim(world, one, "gpu-1")
    step = Step(key="step:load#1", kind="step", name="load", called="fetch", position=1, value="1")
    world.run(steps.record, one, job.id, claimed.epoch, step)
    world.finish(one, claimed, Retry(0, ERROR))
    give(world, job.id)
    if queue == "other":
        world.run(actions.apply, [job.id], Order(Action.MOVE, queue=queue), actor="me", reason="", target="one")
    fork = world.run(steps.fork, job.id, "load", ids.new())
    assert [job.id for job in claim(world, other, "gpu-2")] == [fork]
    assert world.job(fork).route == route.on(queue).number
    # The grant stays with the job that it was given for.
    assert [job.id for job in claim(world, one, "gpu-1")] == [job.id]
