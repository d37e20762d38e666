"""A statement of Postgres reads one snapshot, and locks rows as they are now: what it answers is of one moment."""

from __future__ import annotations

from contextlib import closing

from tests.conformance.conftest import Ground
from tests.conformance.racing import aside, await_blocked
from tests.conformance.world import spec


def test_a_claim_that_had_to_wait_takes_a_job_with_the_arguments_that_it_has_now(stores: Ground) -> None:
    world = stores.open("postgres")
    owner, job_id = world.worker(), world.add(key="k", payload="1")
    with aside() as start, closing(world.connect()) as other:
        other.execute("select 1 from holdfast_worker where id = %s for update", [owner])
        claim = start(lambda: world.claim(owner))
        await_blocked(world)
        world.enqueue(spec(key="k", payload="2", on_duplicate="replace"))
        other.rollback()
        (taken,) = claim.result(10)
    assert (taken.id, taken.payload, world.job(job_id).payload) == (job_id, "2", "2")
