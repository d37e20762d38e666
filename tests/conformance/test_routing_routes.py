"""Routes: a job that asks for more than its queue goes only to workers that have it."""

from __future__ import annotations

import pytest

from holdfast.model.jobs import JobState
from holdfast.model.outcomes import Done, Rerouted
from holdfast.model.routing import Route
from holdfast.storage.ops.jobs import actions
from holdfast.storage.ops.routing import routes
from holdfast.worker.claiming.routes import ServedRoutes

from .world import World, spec

GPU = Route("default", frozenset({"gpu"}))


def test_a_job_that_requires_a_capability_goes_only_to_workers_that_serve_its_route(world: World) -> None:
    world.enqueue(spec(route=GPU))
    plain, able = world.worker(), world.worker()
    assert world.claim(plain) == []
    assert world.take(able, tiers=[[Route("default"), GPU]]).route == GPU.number


def test_a_worker_learns_which_special_routes_it_serves(world: World) -> None:
    both = Route("default", frozenset({"gpu", "big"}))
    other = Route("other", frozenset({"gpu"}))
    world.enqueue(spec(route=GPU), spec(route=both), spec(route=other))
    served = ServedRoutes(["default"], ["gpu"])
    served.learn(world.read(routes.special_routes))
    owner = world.worker()
    (claimed,) = world.claim(owner, 10, routes=served.encoded)
    assert claimed.route == GPU.number


def test_exotic_jobs_do_not_starve_the_others(world: World) -> None:
    world.enqueue(*(spec(route=GPU, priority=9) for _ in range(50)))
    plain = world.add()
    assert [job.id for job in world.claim(world.worker(), 5)] == [plain]


def test_a_plain_route_has_no_row(world: World) -> None:
    world.add()
    assert world.read(routes.special_routes) == []


def test_a_job_knows_its_route(world: World) -> None:
    special, plain = world.enqueue(spec(route=GPU), spec(queue="q"))
    assert world.read(routes.route_of, world.job(special.id)) == GPU
    assert world.read(routes.route_of, world.job(plain.id)) == Route("q")


def test_an_unknown_task_is_left_to_workers_that_know_it(world: World) -> None:
    job_id = world.add(task="rare")
    stranger, expert = world.worker(), world.worker()
    claimed = world.take(stranger)
    knows = Route("default").requiring("task:rare")
    world.finish(stranger, claimed, Rerouted(knows, "no_handler"))
    job = world.job(job_id)
    assert (job.state, job.reason, job.attempts, job.route) == (JobState.READY, "no_handler", 0, knows.number)
    assert world.claim(stranger) == []
    served = ServedRoutes(["default"], ["task:rare"])
    assert served.learn(world.read(routes.special_routes))
    assert world.take(expert, routes=served.encoded).id == job_id


def test_a_reroute_keeps_what_the_job_asked_for_before(world: World) -> None:
    world.enqueue(spec(route=GPU, task="rare"))
    stranger = world.worker()
    claimed = world.take(stranger, tiers=[[GPU]])
    world.finish(stranger, claimed, Rerouted(GPU.requiring("task:rare"), "no_handler"))
    assert world.claim(stranger, tiers=[[GPU]]) == []
    assert world.read(routes.route_of, world.job(claimed.id)).requires == {"gpu", "task:rare"}


def test_a_rerouted_job_stays_with_its_queue(world: World) -> None:
    world.add(queue="mail", task="rare")
    stranger = world.worker()
    claimed = world.take(stranger, queues=["mail"])
    world.finish(stranger, claimed, Rerouted(Route("mail").requiring("task:rare"), "no_handler"))
    assert world.job(claimed.id).queue == "mail"
    others = ServedRoutes(["default"], ["task:rare"])
    others.learn(world.read(routes.special_routes))
    assert world.claim(world.worker(), routes=others.encoded) == []


@pytest.mark.parametrize("twice", [1, 2])
def test_making_a_route_known_again_changes_nothing(world: World, twice: int) -> None:
    for _ in range(twice):
        world.run(routes.insert_routes, [GPU, GPU, Route("plain")])
    assert world.read(routes.special_routes) == [GPU]


def _note_usage(world: World) -> None:
    world.run(routes.note_usage, world.read(routes.usage))


def _done_on(world: World, route: Route) -> str:
    """A job on that route that has ended."""
    (made,) = world.enqueue(spec(route=route))
    owner = world.worker()
    world.finish(owner, world.take(owner, tiers=[[route]]), Done("null"))
    return made.id


def test_a_route_that_no_live_job_has_is_hidden_from_workers_after_an_hour(world: World) -> None:
    _done_on(world, GPU)
    _note_usage(world)
    assert world.read(routes.special_routes) == [GPU]
    world.clock.advance(3601)
    assert world.read(routes.special_routes) == []


@pytest.mark.parametrize("state", [state for state in JobState if not state.is_terminal])
def test_a_route_of_a_live_job_stays(world: World, state: JobState) -> None:
    placed = world.place(state)
    world.run(routes.insert_routes, [GPU])
    world.sql("update holdfast_live set route = :route where id = :id", route=GPU.number, id=placed.id)
    _note_usage(world)
    world.clock.advance(3601)
    assert world.read(routes.special_routes) == [GPU]


def test_an_enqueue_or_a_replay_brings_a_hidden_route_back(world: World) -> None:
    job_id = _done_on(world, GPU)
    for bring_back in (lambda: world.enqueue(spec(route=GPU)), lambda: world.run(actions.retry, job_id)):
        _note_usage(world)
        world.clock.advance(3601)
        assert world.read(routes.special_routes) == []
        bring_back()
        assert world.read(routes.special_routes) == [GPU]
        owner = world.worker()
        world.finish(owner, world.take(owner, tiers=[[GPU]]), Done("null"))


def test_a_job_stored_while_its_route_was_marked_idle_is_found_before_the_route_is_hidden(
    world: World,
) -> None:
    _done_on(world, GPU)
    before = world.read(routes.usage)
    world.enqueue(spec(route=GPU))
    world.run(routes.note_usage, before)
    _note_usage(world)
    world.clock.advance(3601)
    assert world.read(routes.special_routes) == [GPU]


def test_a_route_is_deleted_only_when_no_job_has_it(world: World) -> None:
    other = Route("default", frozenset({"big"}))
    kept, gone = _done_on(world, GPU), _done_on(world, other)
    _note_usage(world)
    world.clock.advance(2 * 86_400)
    world.run(actions.delete, gone)
    _note_usage(world)
    assert world.read(routes.route_of, world.job(kept)) == GPU
    assert world.read(routes.find_route, other.number, "default") == Route("default")
