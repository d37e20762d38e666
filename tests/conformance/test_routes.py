"""Routes: a job that asks for more than its queue goes only to workers that have it."""

from __future__ import annotations

import pytest

from holdfast.engine.routes import ServedRoutes
from holdfast.model.job import JobState
from holdfast.model.outcome import Rerouted
from holdfast.model.route import Route
from holdfast.storage.ops import routes

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
