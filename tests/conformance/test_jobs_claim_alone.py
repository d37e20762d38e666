"""Claims by one statement: they take what any claim would, or say that there is more to do than that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.model.jobs import Claimed
from holdfast.model.limits import ActiveLimits, JobLimits, key_lane
from holdfast.model.outcomes import Retry
from holdfast.model.routing import Route
from holdfast.rules.routing import Hold
from holdfast.rules.webhooks import call_tags, called_endpoint
from holdfast.storage.ops.jobs import actions, claims
from holdfast.storage.ops.jobs.claims import Turn
from holdfast.storage.ops.routing.affinities import Routing
from holdfast.storage.port import Op

from .world import ERROR, World, claim_request


def _lone(world: World, owner: str, n: int = 10) -> list[Claimed] | None:
    request = claim_request(owner, n)
    turn: Turn | None = world.store.write(Op(lambda tx: claims.lone_claim(tx, request), single=True))
    return None if turn is None else turn.claimed


def test_where_nothing_waits_it_is_all_there_is_to_do(world: World) -> None:
    world.add(delay=60 * SECOND)
    assert _lone(world, world.worker()) == []


def test_it_takes_the_first_jobs_in_order_where_round_trips_cost(world: World) -> None:
    wanted = [world.add(priority=p) for p in (9, 5, 1)]
    found = _lone(world, owner := world.worker(), 2)
    if world.backend == "postgres":
        assert found is not None
        assert [job.id for job in found] == wanted[:2]
        assert {world.job(job.id).owner for job in found} == {owner}
    else:
        assert found is None
        assert [job.id for job in world.claim(owner, 2)] == wanted[:2]


def test_a_job_with_a_limit_is_left_to_a_claim_that_looks_at_it_and_so_are_its_neighbours(world: World) -> None:
    free = world.add(at=world.now - SECOND)
    limited = world.add(limits=JobLimits(key=key_lane("", "k"), capacity=1).encode())
    owner = world.worker()
    assert _lone(world, owner) is None
    assert [job.id for job in world.claim(owner)] == [free, limited]


def test_a_job_whose_start_is_to_be_told_is_left_to_a_claim_that_tells_it(world: World) -> None:
    id = called_endpoint("", "https://example.com")
    job_id = world.add(tags=json.dumps(call_tags(id, ["job.started"])), webhook=(id, "https://example.com"))
    owner = world.worker()
    assert _lone(world, owner) is None
    assert [job.id for job in world.claim(owner)] == [job_id]
    assert [event.kind for event in world.events()] == ["job.enqueued", "job.started"]


def test_what_has_come_due_is_not_passed_over(world: World) -> None:
    late = world.add(delay=SECOND)
    world.clock.advance(2)
    now = world.add()
    owner = world.worker()
    assert _lone(world, owner) is None
    assert [job.id for job in world.claim(owner)] == [late, now]


def test_a_suspect_is_not_passed_over(world: World) -> None:
    lost = world.worker()
    suspect = world.add()
    world.take(lost)
    world.lose_twice(lost)
    world.add()
    owner = world.worker()
    assert _lone(world, owner) is None
    assert suspect in {job.id for job in world.claim(owner, suspects=1)}


def test_a_worker_that_was_declared_lost_gets_nothing(world: World) -> None:
    owner = world.worker()
    world.lose(owner)
    job = world.add()
    assert not _lone(world, owner)
    assert world.job(job).owner is None


def test_a_paused_queue_gives_nothing(world: World) -> None:
    world.run(actions.set_queue_state, "default", "paused")
    job = world.add()
    assert not _lone(world, world.worker())
    assert world.job(job).owner is None


def test_its_jobs_are_found_again_by_its_token(world: World) -> None:
    job, owner = world.add(), world.worker()
    request = claim_request(owner)
    world.store.write(Op(lambda tx: claims.lone_claim(tx, request), single=True)) or world.run(claims.claim, request)
    assert [found.id for found in world.read(claims.claimed_under, owner, request.token)] == [job]


def test_a_retry_of_its_job_is_recorded_like_any(world: World) -> None:
    job, owner = world.add(), world.worker()
    (claimed,) = _lone(world, owner) or world.claim(owner)
    world.finish(owner, claimed, Retry(0, ERROR))
    assert (world.job(job).state, world.job(job).attempts) == ("ready", 1)


@pytest.mark.parametrize(
    "special",
    [
        {"alone": True},
        {"parts": (("[]", 1),)},
        {"routing": Routing(Hold((), frozenset(), 1), {}, frozenset(), ())},
        {"standing": ActiveLimits(lanes=frozenset({"task:a"}))},
        {"standing": ActiveLimits(scopes=("a",))},
        {"standing": ActiveLimits(breakers=("a",))},
        {"standing": ActiveLimits(verbose_queues=frozenset({"default"}))},
    ],
)
def test_only_claims_without_anything_special_are_simple(special: dict[str, Any]) -> None:
    assert claim_request("me", tiers=[[Route("default")]]).is_simple
    assert not claim_request("me", tiers=[[Route("default")]], **special).is_simple
