"""Circuit breakers, on each store and in each way: what opens them, who waits, who tries, and what closes them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.errors import NotFound
from holdfast.model.jobs import Claimed
from holdfast.model.limits import BreakerRecord, JobLimits, breaker_lane, key_lane
from holdfast.model.outcomes import Cancelled, Done, Failed, Finish, Outcome, Released, Retry, Snoozed, Throttled
from holdfast.storage.ops.jobs import actions, claims, explaining, finishing
from holdfast.storage.ops.limits import breakers, lanes
from holdfast.storage.ops.stats import stats
from holdfast.storage.ops.workers import lookout, workers
from holdfast.storage.port import Op
from holdfast.storage.statements import sql

from .racing import open_transaction
from .test_store_statements import _FULL_SCAN as FULL_SCAN
from .test_store_statements import _plans as plans
from .test_store_statements import fill
from .world import ERROR, World, claim_request

FAILED = Retry(0, ERROR)
OPEN_FOR = 30


def shielded(**fields: Any) -> dict[str, Any]:
    return {"limits": JobLimits(breaker="stripe").encode(), "max_attempts": 0, **fields}


def claim(world: World, owner: str, n: int = 10) -> list[Claimed]:
    """Claim as a worker does that has just looked."""
    view = world.read(lookout.look, owner, ())
    return world.run(claims.claim, claim_request(owner, n, standing=view.standing))


def stripe(world: World) -> BreakerRecord:
    return world.read(breakers.get_breaker, "stripe")


def opened(world: World, *, failures: int = 3) -> str:
    """A worker that has just opened the breaker; as many jobs are ready again."""
    world.run(breakers.ensure, "stripe", failures, OPEN_FOR * SECOND, origin="code")
    for _ in range(failures):
        world.add(**shielded())
    me = world.worker()
    for job in claim(world, me):
        world.finish(me, job, FAILED)
    assert stripe(world).state == "open"
    return me


def cool_down(world: World, *owners: str) -> None:
    world.clock.advance(OPEN_FOR)
    for owner in owners:
        world.run(workers.beat, owner)


# -- opening


def test_so_many_failures_in_a_row_open_a_breaker(world: World) -> None:
    world.run(breakers.ensure, "stripe", 3, OPEN_FOR * SECOND, origin="code")
    for _ in range(3):
        world.add(**shielded())
    me = world.worker()
    first, second, third = claim(world, me)
    world.finish(me, first, FAILED)
    world.finish(me, second, Failed("exhausted", ERROR))
    assert (stripe(world).state, stripe(world).failures) == ("closed", 2)
    world.finish(me, third, Retry(0, ERROR, outcome="timeout"))
    now = stripe(world)
    assert (now.state, now.opened_at, now.open_until) == ("open", world.now, world.now + OPEN_FOR * SECOND)


def test_a_success_starts_the_count_anew(world: World) -> None:
    world.run(breakers.ensure, "stripe", 2, OPEN_FOR * SECOND, origin="code")
    for _ in range(3):
        world.add(**shielded())
    me = world.worker()
    outcomes: list[Outcome] = [FAILED, Done("1"), FAILED]
    jobs = claim(world, me)
    world.run(finishing.finish, me, [Finish(j.id, j.epoch, o) for j, o in zip(jobs, outcomes, strict=True)])
    assert (stripe(world).state, stripe(world).failures) == ("closed", 1)


@pytest.mark.parametrize(
    "outcome",
    [
        Failed("permanent", ERROR),
        Failed("bad_result", ERROR),
        Cancelled("cancelled"),
        Throttled(0, ERROR),
        Snoozed(0),
        Released("shutdown"),
        Retry(0, ERROR, outcome="crashed"),
    ],
    ids=lambda outcome: f"{type(outcome).__name__}-{getattr(outcome, 'kind', '')}",
)
def test_what_says_nothing_about_the_destination_does_not_count(each_store: World, outcome: Outcome) -> None:
    world = each_store
    world.run(breakers.ensure, "stripe", 1, OPEN_FOR * SECOND, origin="code")
    world.add(**shielded())
    me = world.worker()
    world.finish(me, world.take(me), outcome)
    assert (stripe(world).state, stripe(world).failures) == ("closed", 0)


def test_a_failure_of_a_job_whose_cancel_was_requested_does_not_count(world: World) -> None:
    world.run(breakers.ensure, "stripe", 1, OPEN_FOR * SECOND, origin="code")
    job_id = world.add(**shielded())
    me = world.worker()
    job = world.take(me)
    world.run(actions.cancel, job_id)
    world.finish(me, job, FAILED)
    assert stripe(world).state == "closed"


def test_a_lost_worker_does_not_count(world: World) -> None:
    world.run(breakers.ensure, "stripe", 1, OPEN_FOR * SECOND, origin="code")
    world.add(**shielded())
    me = world.worker()
    world.take(me)
    world.lose(me)
    assert (stripe(world).state, stripe(world).failures) == ("closed", 0)


def test_an_outcome_that_comes_too_late_does_not_count(world: World) -> None:
    world.run(breakers.ensure, "stripe", 1, OPEN_FOR * SECOND, origin="code")
    world.add(**shielded())
    me = world.worker()
    job = world.take(me)
    world.lose(me)
    world.finish(me, job, FAILED)
    assert stripe(world).state == "closed"


def test_jobs_of_other_breakers_and_of_none_do_not_count(world: World) -> None:
    world.run(breakers.ensure, "stripe", 1, OPEN_FOR * SECOND, origin="code")
    world.run(breakers.ensure, "other", 1, OPEN_FOR * SECOND, origin="code")
    world.add()
    world.add(limits=JobLimits(breaker="other").encode())
    me = world.worker()
    for job in claim(world, me):
        world.finish(me, job, FAILED)
    assert {one.scope: one.state for one in world.read(breakers.list_breakers)} == {"other": "open", "stripe": "closed"}


# -- while it is open


def test_while_it_is_open_its_jobs_wait_at_no_cost_and_hide_nobody(world: World) -> None:
    me = opened(world)
    fresh, free = world.add(**shielded()), world.add()
    assert [job.id for _ in range(3) for job in claim(world, me, 2)] == [free]
    parked = world.job(fresh)
    assert (parked.state, parked.due, parked.lane, parked.attempts) == ("ready", 2, breaker_lane("stripe"), 0)


def test_a_job_that_waits_says_why(world: World) -> None:
    me = opened(world)
    job = world.add(**shielded())
    claim(world, me)
    reasons = [reason.code for reason in world.read(explaining.explain, job).reasons]
    assert reasons[0] == "breaker_open"


def test_a_breaker_that_does_not_exist_lets_nothing_through_and_is_named(world: World) -> None:
    job = world.add(**shielded())
    assert claim(world, world.worker()) == []
    assert world.read(explaining.explain, job).reasons[0].code == "breaker_unknown"


def test_a_breaker_that_is_made_lets_those_go_who_waited_for_it(world: World) -> None:
    job = world.add(**shielded())
    me = world.worker()
    claim(world, me)
    world.run(breakers.ensure, "stripe", 3, OPEN_FOR * SECOND, origin="code")
    assert [found.id for found in claim(world, me)] == [job]


def test_the_loop_that_looks_for_room_in_lanes_leaves_an_open_breaker_alone(world: World) -> None:
    me = opened(world)
    claim(world, me)
    assert world.run(lanes.unpark_stalled) == 0
    assert claim(world, me) == []


def test_a_success_that_began_before_it_opened_does_not_close_it(world: World) -> None:
    world.run(breakers.ensure, "stripe", 1, OPEN_FOR * SECOND, origin="code")
    for _ in range(2):
        world.add(**shielded())
    me = world.worker()
    slow, quick = claim(world, me)
    world.finish(me, quick, FAILED)
    world.finish(me, slow, Done("1"))
    assert stripe(world).state == "open"


def test_a_worker_knows_when_to_look_again(world: World) -> None:
    me = opened(world)
    claim(world, me)
    world.clock.advance(10)
    assert world.read(lookout.look, me, ()).next_due == 20 * SECOND


# -- the trial


def test_after_its_time_a_single_job_tries(world: World) -> None:
    me = opened(world)
    other = world.worker()
    cool_down(world, me, other)
    (trial,) = claim(world, me)
    assert claim(world, me) == claim(world, other) == []
    now = stripe(world)
    assert (now.state, now.trial, now.trial_runs) == ("half_open", (trial.id, trial.epoch), True)


def test_when_the_trial_succeeds_everybody_goes(world: World) -> None:
    me = opened(world)
    claim(world, me)
    cool_down(world, me)
    (trial,) = claim(world, me)
    world.finish(me, trial, Done("1"))
    assert (stripe(world).state, stripe(world).failures) == ("closed", 0)
    assert len(claim(world, me)) == 2


def test_when_the_trial_fails_it_opens_again(world: World) -> None:
    me = opened(world)
    claim(world, me)
    cool_down(world, me)
    (trial,) = claim(world, me)
    world.finish(me, trial, FAILED)
    now = stripe(world)
    assert (now.state, now.open_until, now.openings) == ("open", world.now + OPEN_FOR * SECOND, 2)
    assert claim(world, me) == []
    cool_down(world, me)
    assert len(claim(world, me)) == 1


def test_when_the_trial_proves_nothing_the_next_job_tries(world: World) -> None:
    me = opened(world)
    claim(world, me)
    cool_down(world, me)
    (trial,) = claim(world, me)
    world.finish(me, trial, Failed("permanent", ERROR))
    (second,) = claim(world, me)
    assert second.id != trial.id
    assert stripe(world).trial == (second.id, second.epoch)


@pytest.mark.parametrize("end", ["lost", "cancelled by force"])
def test_a_trial_that_never_ends_by_itself_leaves_nothing_stuck(world: World, end: str) -> None:
    me, other = opened(world), world.worker()
    claim(world, me)
    cool_down(world, me, other)
    (trial,) = claim(world, me)
    if end == "lost":
        world.clock.advance(31)
        world.run(workers.beat, other)
        world.run(workers.rescue, me)
    else:
        world.run(actions.cancel, trial.id, force=True)
    assert (stripe(world).state, stripe(world).trial_runs) == ("half_open", False)
    assert len(claim(world, other)) == 1


def test_a_turn_that_opens_a_breaker_claims_none_of_its_jobs(world: World) -> None:
    world.run(breakers.ensure, "stripe", 1, OPEN_FOR * SECOND, origin="code")
    first = world.add(**shielded())
    me = world.worker()
    job = world.take(me)
    world.add(**shielded())
    turn = world.run(claims.turn, me, [Finish(first, job.epoch, FAILED)], claim_request(me, 5))
    assert turn.claimed == []


def test_two_workers_that_claim_at_once_make_one_trial(on_postgres: World) -> None:
    """The second does not wait for the first, and does not try beside it."""
    world = on_postgres
    me, other = opened(world), world.worker()
    cool_down(world, me, other)
    view = world.read(lookout.look, me, ())

    def take(owner: str) -> Op[list[Claimed]]:
        request = claim_request(owner, 1, standing=view.standing)
        return Op(lambda tx: claims.claim(tx, request))

    with open_transaction(world) as within:
        assert len(within(take(me))) == 1
        assert world.store.write(take(other)) == []
    assert len(world.sql("select id from holdfast_any_job where state = 'running'")) == 1


def test_a_breaker_and_a_key_hold_together(world: World) -> None:
    limits = JobLimits(key=key_lane("", "a"), capacity=1, breaker="stripe").encode()
    world.run(breakers.ensure, "stripe", 1, OPEN_FOR * SECOND, origin="code")
    for _ in range(2):
        world.add(limits=limits, max_attempts=0)
    me = world.worker()
    (job,) = claim(world, me)
    world.finish(me, job, FAILED)
    assert claim(world, me) == []
    cool_down(world, me)
    (trial,) = claim(world, me)
    world.finish(me, trial, Done("1"))
    assert len(claim(world, me)) == 1
    assert [lane.running for lane in world.read(lanes.list_lanes)] == [1]


def test_a_clock_that_steps_back_does_not_keep_it_open(world: World) -> None:
    me = opened(world)
    world.clock.step(-3600)
    assert stripe(world).state == "half_open"
    assert len(claim(world, me)) == 1


def test_many_jobs_that_waited_are_let_go_by_the_claims_that_follow(each_store: World) -> None:
    world = each_store
    me = opened(world, failures=1)
    for _ in range(1_500):
        world.add(**shielded())
    while claim(world, me, 1_000) or world.sql("select 1 from holdfast_any_job where due = 1 limit 1"):
        pass
    world.run(breakers.reset, "stripe")
    got = sum(len(claim(world, me, 1_000)) for _ in range(3))
    assert got == 1_501


# -- by hand


def test_an_operator_opens_and_closes_it(world: World) -> None:
    world.run(breakers.ensure, "stripe", 5, OPEN_FOR * SECOND, origin="code")
    job = world.add(**shielded())
    me = world.worker()
    assert world.run(breakers.trip, "stripe", 90 * SECOND).open_until == world.now + 90 * SECOND
    assert claim(world, me) == []
    world.run(breakers.reset, "stripe")
    assert [found.id for found in claim(world, me)] == [job]


@pytest.mark.parametrize("act", [breakers.trip, breakers.reset, breakers.get_breaker])
def test_a_breaker_that_nobody_made_is_not_found(world: World, act: Callable[..., Any]) -> None:
    with pytest.raises(NotFound):
        world.run(act, "nobody")


def test_code_does_not_overwrite_what_an_operator_set(world: World) -> None:
    world.run(breakers.ensure, "stripe", 9, SECOND, origin="operator")
    world.run(breakers.ensure, "stripe", 2, SECOND, origin="code")
    assert (stripe(world).threshold, stripe(world).origin) == (9, "operator")


def test_declaring_it_again_does_not_close_it(world: World) -> None:
    opened(world)
    world.run(breakers.ensure, "stripe", 3, OPEN_FOR * SECOND, origin="code")
    assert stripe(world).state == "open"


def test_statistics_show_how_full_it_is_and_who_waits(world: World) -> None:
    me = opened(world)
    claim(world, me)
    (limit,) = world.read(stats.limits)
    assert (limit.kind, limit.key, limit.saturation, limit.waiting) == ("breaker", "stripe", 1.0, 3)


def test_jobs_without_a_breaker_cost_no_statement(each_store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world = each_store
    world.run(breakers.ensure, "stripe", 1, OPEN_FOR * SECOND, origin="code")
    world.add()
    world.add(limits=JobLimits(key=key_lane("", "a"), capacity=1).encode())
    me = world.worker()

    async def refuse(_: Any, scopes: Collection[str]) -> dict[str, Any]:
        assert not scopes, "a breaker was read"
        return {}

    monkeypatch.setattr(breakers, "_read_all", refuse)
    for job in claim(world, me):
        world.finish(me, job, Done("1"))


# -- plans


@pytest.mark.parametrize("analyzed", [False, True])
def test_what_workers_ask_about_breakers_does_not_read_the_table_of_jobs(each_store: World, analyzed: bool) -> None:
    world = each_store
    fill(world, 20_000, "a", due=1, priority=0, base=1)
    for n in range(20):
        world.run(breakers.ensure, f"b{n}", 3, SECOND, origin="code")
    if world.backend == "postgres":
        # An autovacuum may have come by while other tests had emptied the table.
        world.sql("update pg_class set reltuples = -1, relpages = 0 where relname like 'holdfast_live%'")
    if analyzed and world.backend == "postgres":
        world.sql("analyze holdfast_live")
        world.sql("analyze holdfast_breaker")
    for statement in (sql.get_breaker, sql.get_breakers, sql.list_breakers, sql.restless_breakers):
        for plan in plans(world, statement, {"scope": "b1", "scopes": '["b1", "b2"]'}):
            assert not FULL_SCAN.search(plan), f"{statement.name}:\n{plan}"
            assert "holdfast_live_parked" in plan, f"{statement.name}:\n{plan}"
