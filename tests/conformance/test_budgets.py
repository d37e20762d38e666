"""Budgets: reserve and settle without overshoot, spends that always count, and jobs that wait for room."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import time, timedelta
from decimal import Decimal
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.errors import (
    BudgetNotFound,
    Conflict,
    InvalidInput,
    LeaseLost,
    SpendConflict,
    UnknownDimension,
)  # fmt: skip
from holdfast.model.budgets import Budget, BudgetLine, Exhausted
from holdfast.model.jobs import Claimed, JobState
from holdfast.model.limits import JobLimits
from holdfast.model.outcomes import Done, Parked, Retry
from holdfast.model.steps import Step
from holdfast.rules.budgets import MICRO
from holdfast.storage.ops.budgets import budgets, reservations, shortages, spending
from holdfast.storage.ops.budgets.budgets import Terms
from holdfast.storage.ops.budgets.reservations import Runner, Wish
from holdfast.storage.ops.jobs import actions, explaining

from .racing import all_at_once
from .world import ERROR, World, spec

TOKENS = "tokens"


def test_a_reservation_counts_until_it_is_settled_and_then_what_was_used(world: World) -> None:
    make(world, "team", tokens=1000)
    job = running(world)
    assert reserve(world, job, "team", tokens=400) is None
    assert (line(world, "team").spent, line(world, "team").reserved) == (0, 400)
    settle(world, job, "team", tokens=150)
    assert (line(world, "team").spent, line(world, "team").reserved, line(world, "team").left) == (150, 0, 850)


def test_a_fan_out_cannot_reserve_more_than_there_is(world: World) -> None:
    make(world, "team", tokens=1000)
    answers = [reserve(world, running(world), "team", tokens=300) for _ in range(5)]
    assert [answer is None for answer in answers] == [True, True, True, False, False]
    refused = answers[-1]
    assert isinstance(refused, Exhausted)
    assert (refused.budget, refused.dimension, refused.asked, refused.left) == ("team", TOKENS, 300, 100)
    assert line(world, "team").hard_breaches == 2
    assert get(world, "team").breached_at == world.instant


def test_a_reservation_is_all_or_nothing_over_its_dimensions(world: World) -> None:
    make(world, "team", tokens=1000, usd=Decimal("0.5"))
    job = running(world)
    assert reserve(world, job, "team", tokens=10, usd=1) is not None
    assert line(world, "team").reserved == 0
    assert reserve(world, job, "team", tokens=10, usd=Decimal("0.5")) is None
    assert line(world, "team", "usd").left == 0


def test_a_reservation_is_all_or_nothing_over_the_budgets_that_it_is_a_part_of(world: World) -> None:
    make(world, "acme", tokens=500)
    make(world, "team", tokens=1000, within="acme")
    make(world, "flow", tokens=1000, usd=1, within="team")
    job = running(world)
    refused = reserve(world, job, "flow", tokens=600)
    assert isinstance(refused, Exhausted) and refused.budget == "acme"
    assert [line(world, name).reserved for name in ("flow", "team", "acme")] == [0, 0, 0]
    assert reserve(world, job, "flow", tokens=500, usd=1) is None
    assert [line(world, name).reserved for name in ("flow", "team", "acme")] == [500, 500, 500]
    settle(world, job, "flow", tokens=20, usd=1)
    assert [line(world, name).spent for name in ("flow", "team", "acme")] == [20, 20, 20]
    assert line(world, "flow", "usd").spent == 1


def test_two_budgets_of_one_run_that_share_what_they_are_parts_of_add_up_there(each_store: World) -> None:
    world = each_store
    make(world, "acme", tokens=100)
    make(world, "a", tokens=100, within="acme")
    make(world, "b", tokens=100, within="acme")
    job = running(world)
    both = [Wish("1", "a", micro(tokens=60)), Wish("2", "b", micro(tokens=60))]
    refused = world.run(reservations.reserve, runner(job), both)
    assert isinstance(refused, Exhausted) and (refused.budget, refused.asked) == ("acme", 120)
    assert line(world, "a").reserved == line(world, "b").reserved == 0


def test_a_repeated_reservation_changes_nothing(world: World) -> None:
    make(world, "team", tokens=1000)
    job = running(world)
    for _ in range(2):
        assert reserve(world, job, "team", tokens=600) is None
    assert line(world, "team").reserved == 600


@pytest.mark.parametrize("outcome", [Done("1"), Retry(0, ERROR), Parked("auth", ERROR)], ids=["done", "retry", "park"])
def test_what_a_run_did_not_settle_is_free_when_it_ends(world: World, outcome: Any) -> None:
    make(world, "team", tokens=1000)
    job = running(world)
    reserve(world, job, "team", tokens=900)
    world.finish("w", job, outcome)
    assert (line(world, "team").reserved, line(world, "team").spent) == (0, 0)
    assert world.sql("select count(*) from holdfast_reservation") == [(0,)]


def test_what_a_lost_run_held_is_free_when_its_job_is_rescued(world: World) -> None:
    make(world, "team", tokens=1000)
    job = running(world)
    reserve(world, job, "team", tokens=900)
    assert world.lose("w") == [job.id]
    assert line(world, "team").reserved == 0
    with pytest.raises(LeaseLost):
        settle(world, job, "team", tokens=900)
    assert line(world, "team").spent == 0


def test_a_reservation_whose_job_ended_by_other_hands_counts_no_more_and_is_swept(each_store: World) -> None:
    world = each_store
    make(world, "team", tokens=1000)
    job = running(world)
    reserve(world, job, "team", tokens=900)
    # As a worker of an older version would.
    world.sql("update holdfast_live set epoch = epoch + 2 where id = :id", id=job.id)
    assert line(world, "team").reserved == 0
    assert reserve(world, running(world), "team", tokens=1000) is None
    assert world.sql("select count(*) from holdfast_reservation") == [(1,)]


def test_a_forced_cancel_gives_back_what_the_run_held(world: World) -> None:
    make(world, "team", tokens=1000)
    job, other = running(world), running(world)
    reserve(world, job, "team", tokens=900)
    block(world, other, "team", tokens=500)
    world.run(actions.cancel, job.id, force=True)
    assert line(world, "team").reserved == 0
    assert world.job(other.id).state is JobState.READY


# -- spending


def test_a_spend_always_counts_and_the_next_reservation_is_refused(world: World) -> None:
    make(world, "team", tokens=100)
    assert [one.kind for one in spend(world, "team", tokens=250).crossed] == ["hard"]
    assert line(world, "team").left == -150
    assert spend(world, "team", tokens=1).crossed == ()
    assert isinstance(reserve(world, running(world), "team", tokens=1), Exhausted)


def test_a_settlement_may_be_more_than_was_reserved(world: World) -> None:
    make(world, "team", tokens=100)
    job = running(world)
    reserve(world, job, "team", tokens=10)
    settle(world, job, "team", tokens=120)
    assert (line(world, "team").spent, line(world, "team").hard_breaches) == (120, 1)


def test_a_soft_limit_is_told_once_for_each_crossing(world: World) -> None:
    make(world, "team", soft={TOKENS: 100}, tokens=1000)
    told = [[one.kind for one in spend(world, "team", tokens=60).crossed] for _ in range(4)]
    assert told == [[], ["soft"], [], []]
    assert world.run(budgets.reset, "", "team")
    assert [one.kind for one in spend(world, "team", tokens=101).crossed] == ["soft"]
    assert (line(world, "team").soft_breaches, line(world, "team").lifetime) == (2, 341)


def test_a_spend_with_a_key_counts_once_for_a_day(world: World) -> None:
    make(world, "team", tokens=100, soft={TOKENS: 50})
    first = spend(world, "team", key="r1", tokens=60)
    again = spend(world, "team", key="r1", tokens=60)
    assert (first.again, again.again, again.crossed) == (False, True, first.crossed)
    with pytest.raises(SpendConflict):
        spend(world, "team", key="r1", tokens=61)
    assert line(world, "team").spent == 60
    world.clock.advance(86_401)
    assert not spend(world, "team", key="r1", tokens=60).again
    assert line(world, "team").spent == 120


def test_an_unknown_budget_or_dimension_changes_nothing(world: World) -> None:
    make(world, "team", tokens=100)
    job = running(world)
    with pytest.raises(BudgetNotFound):
        spend(world, "nobody", tokens=1)
    with pytest.raises(UnknownDimension):
        spend(world, "team", tokens=1, euros=1)
    with pytest.raises(UnknownDimension):
        reserve(world, job, "team", tokens=1, euros=1)
    with pytest.raises(BudgetNotFound):
        world.run(reservations.reserve, runner(job), [wish("team", tokens=1), wish("nobody", tokens=1)])
    assert (line(world, "team").spent, line(world, "team").reserved) == (0, 0)
    reserve(world, job, "team", tokens=5)
    with pytest.raises(UnknownDimension):
        settle(world, job, "team", euros=1)
    assert line(world, "team").reserved == 5


def test_a_reservation_that_is_not_there_cannot_be_settled(world: World) -> None:
    make(world, "team", tokens=100)
    job = running(world)
    with pytest.raises(InvalidInput, match="nothing is reserved"):
        settle(world, job, "team", tokens=5)


def test_a_stale_run_can_neither_reserve_nor_spend(world: World) -> None:
    make(world, "team", tokens=100)
    job = running(world)
    world.finish("w", job, Retry(0, ERROR))
    step = Step(key="spend:team#1", kind="spend", name="team")
    with pytest.raises(LeaseLost):
        reserve(world, job, "team", tokens=1)
    with pytest.raises(LeaseLost):
        world.run(spending.spend, runner(job), step, "team", micro(tokens=1))
    assert line(world, "team").spent == 0


def test_a_spend_of_a_task_is_charged_once_by_its_place_in_the_journal(world: World) -> None:
    make(world, "team", tokens=100)
    job = running(world)
    step = Step(key="spend:team#1", kind="spend", name="team")
    for _ in range(2):
        world.run(spending.spend, runner(job), step, "team", micro(tokens=30))
    assert line(world, "team").spent == 30


def test_a_settlement_of_an_earlier_run_is_not_charged_again_and_the_new_hold_is_given_back(world: World) -> None:
    make(world, "team", tokens=100)
    job = running(world)
    step = Step(key="settle:team#1", kind="settle", name="team")
    reserve(world, job, "team", tokens=50)
    world.run(spending.settle, runner(job), step, wish("team", tokens=30))
    world.finish("w", job, Retry(0, ERROR))
    again = world.take("w")
    reserve(world, again, "team", tokens=50)
    world.run(spending.settle, runner(again), step, wish("team", tokens=30))
    assert (line(world, "team").spent, line(world, "team").reserved) == (30, 0)


def test_sums_do_not_overflow(each_store: World) -> None:
    world = each_store
    make(world, "all", tokens=None)
    for _ in range(12):
        spend(world, "all", tokens=10**12)
        reserve(world, running(world), "all", tokens=10**12)
    assert line(world, "all").spent == 9 * 10**12
    assert line(world, "all").left is None


# -- blocked, and let go


def test_a_raise_lets_a_blocked_job_go(world: World) -> None:
    make(world, "team", tokens=100)
    job = running(world)
    block(world, job, "team", tokens=300)
    stored = world.job(job.id)
    assert (stored.state, stored.reason, stored.attempts) == (JobState.BLOCKED, "budget_exhausted", 0)
    world.run(budgets.raise_limits, "", "team", micro(tokens=200))
    assert world.job(job.id).state is JobState.BLOCKED
    world.run(budgets.raise_limits, "", "team", micro(tokens=300))
    assert world.job(job.id).state is JobState.READY
    assert reserve(world, world.take("w"), "team", tokens=300) is None


def test_a_claim_blocks_what_the_budget_has_no_room_for_and_takes_the_rest(world: World) -> None:
    make(world, "team", tokens=100)
    limits = JobLimits(reserve={"team": micro(tokens=40)}).encode()
    owner = world.worker("w")
    ids = [world.add(limits=limits, key=str(n), until="start") for n in range(4)]
    free = world.add()
    unknown = world.add(limits=JobLimits(reserve={"nobody": micro(tokens=1)}).encode())
    assert [job.id for job in world.claim(owner)] == [*ids[:2], free, unknown]
    blocked = world.job(ids[2])
    assert (blocked.state, blocked.reason, blocked.attempts) == ("blocked", "budget_exhausted", 0)
    assert blocked.started_at is None
    assert len(world.sql("select id from holdfast_any_job where dedupe_held is not null")) == 2
    assert (get(world, "team").blocked, line(world, "team").hard_breaches) == (2, 2)
    assert world.claim(owner) == [], "it is not claimed again before there is room"
    world.run(budgets.raise_limits, "", "team", micro(tokens=200))
    assert [job.id for job in world.claim(owner)] == ids[2:]


def test_a_job_that_waits_for_a_budget_can_be_replaced_and_keeps_its_new_due_time(world: World) -> None:
    make(world, "team", tokens=1)
    limits = JobLimits(reserve={"team": micro(tokens=2)}).encode()
    job_id, owner = world.add(limits=limits, key="k"), world.worker("w")
    assert world.claim(owner) == []
    world.enqueue(spec(limits=limits, key="k", payload="2", delay=5 * SECOND, on_duplicate="replace"))
    assert (world.job(job_id).state, world.job(job_id).payload) == ("blocked", "2")
    world.run(budgets.raise_limits, "", "team", micro(tokens=2))
    assert world.claim(owner) == []
    world.clock.advance(5)
    assert world.take(owner).payload == "2"


def test_a_reset_lets_blocked_jobs_go_as_far_as_they_fit(world: World) -> None:
    make(world, "team", tokens=100)
    spend(world, "team", tokens=100)
    jobs = [running(world) for _ in range(3)]
    for job in jobs:
        block(world, job, "team", tokens=40)
        world.clock.advance(1)
    world.run(budgets.reset, "", "team")
    assert [world.job(job.id).state for job in jobs] == ["ready", "ready", "blocked"]


def test_a_settlement_lets_blocked_jobs_go(world: World) -> None:
    make(world, "acme", tokens=100)
    make(world, "team", tokens=1000, within="acme")
    first, second = running(world), running(world)
    reserve(world, first, "team", tokens=80)
    block(world, second, "team", tokens=50)
    settle(world, first, "team", tokens=20)
    assert world.job(second.id).state is JobState.READY


def test_the_end_of_a_run_lets_blocked_jobs_go(world: World) -> None:
    make(world, "team", tokens=100)
    first, second = running(world), running(world)
    reserve(world, first, "team", tokens=80)
    block(world, second, "team", tokens=50)
    world.finish("w", first, Done("1"))
    assert world.job(second.id).state is JobState.READY


def test_a_job_is_not_let_go_by_what_it_gave_back_itself(world: World) -> None:
    make(world, "team", tokens=100)
    job = running(world)
    world.run(reservations.reserve, runner(job), [Wish("outer", "team", micro(tokens=60))])
    block(world, job, "team", tokens=50)
    assert line(world, "team").reserved == 0
    assert world.job(job.id).state is JobState.BLOCKED
    world.run(budgets.raise_limits, "", "team", micro(tokens=110))
    assert world.job(job.id).state is JobState.READY


def test_room_that_is_made_between_the_refusal_and_the_block_is_not_missed(world: World) -> None:
    make(world, "team", tokens=100)
    first, second = running(world), running(world)
    reserve(world, first, "team", tokens=80)
    assert isinstance(reserve(world, second, "team", tokens=50), Exhausted)
    world.finish("w", first, Done("1"))
    world.finish("w", second, Parked("budget_exhausted", ERROR))
    assert world.job(second.id).state is JobState.READY


def test_a_job_that_waits_for_a_budget_is_not_run_by_hand(world: World) -> None:
    make(world, "team", tokens=100)
    job = running(world)
    block(world, job, "team", tokens=500)
    with pytest.raises(Conflict):
        world.run(actions.run_now, job.id)
    world.run(actions.cancel, job.id)
    assert world.run(shortages.drop_leftovers) == 1


def test_a_deleted_budget_lets_its_jobs_go_to_be_told(world: World) -> None:
    make(world, "team", tokens=100)
    job = running(world)
    block(world, job, "team", tokens=500)
    assert world.run(budgets.remove, "", "team")
    assert not world.run(budgets.remove, "", "team")
    assert world.job(job.id).state is JobState.READY
    with pytest.raises(BudgetNotFound):
        reserve(world, world.take("w"), "team", tokens=1)


def test_the_explanation_names_the_budget_and_what_would_release_the_job(each_store: World) -> None:
    world = each_store
    make(world, "acme", tokens=100, every=60 * SECOND)
    make(world, "team", tokens=1000, within="acme")
    first, second = running(world), running(world)
    reserve(world, first, "team", tokens=80)
    block(world, second, "team", tokens=50)
    found = world.read(explaining.explain, second.id)
    assert [reason.code for reason in found.reasons] == ["budget_exhausted", "released_by"]
    assert "'acme' has 20 of 100 tokens left (0 spent, 80 reserved) and it asks for 50" in found.reasons[0].text
    for way in ("budgets raise acme tokens=", "end of runs", "reset in 60 s"):
        assert way in found.reasons[1].text


# -- schedules, nesting, definitions


def test_a_budget_begins_anew_when_it_is_time_and_keeps_its_lifetime(world: World) -> None:
    make(world, "team", tokens=100, soft={TOKENS: 50}, every=60 * SECOND)
    spend(world, "team", tokens=100)
    world.clock.advance(59)
    assert isinstance(reserve(world, running(world), "team", tokens=1), Exhausted)
    world.clock.advance(1)
    assert line(world, "team").spent == 0, "a reader sees it at once"
    job = running(world)
    assert reserve(world, job, "team", tokens=100) is None
    found = get(world, "team")
    assert (found.resets, found["tokens"].lifetime, found["tokens"].soft_breaches) == (1, 100, 1)
    assert found["tokens"].hard_breaches == 1
    assert found.next_reset == world.instant + timedelta(seconds=60)
    assert found["tokens"].reserved == 100, "what runs hold goes on"


def test_a_reset_that_is_long_overdue_is_one_and_keeps_its_rhythm(world: World) -> None:
    start = world.instant
    make(world, "team", tokens=100, every=60 * SECOND)
    spend(world, "team", tokens=10)
    world.clock.advance(605)
    assert world.run(budgets.due_resets) == ["\x1fteam"]
    assert world.run(budgets.reset_due, "\x1fteam")
    assert not world.run(budgets.reset_due, "\x1fteam")
    assert (get(world, "team").resets, get(world, "team").next_reset) == (1, start + timedelta(seconds=660))


def test_a_budget_can_begin_anew_by_a_cron_expression(each_store: World) -> None:
    world = each_store
    world.run(budgets.ensure, "", "team", Terms(limits=micro(tokens=5), soft={}, expression="0 0 * * *"), origin="code")
    due = get(world, "team").next_reset
    assert due is not None and due.time() == time() and due > world.instant


def test_a_due_reset_lets_blocked_jobs_go(world: World) -> None:
    make(world, "team", tokens=100, every=60 * SECOND)
    spend(world, "team", tokens=100)
    job = running(world)
    block(world, job, "team", tokens=40)
    assert world.read(shortages.who_fits, "\x1fteam") == []
    world.clock.advance(60)
    assert world.read(shortages.who_fits, "\x1fteam") == [job.id]
    world.run(budgets.reset_due, "\x1fteam")
    assert world.job(job.id).state is JobState.READY


def test_code_does_not_overrule_an_operator(world: World) -> None:
    make(world, "team", tokens=100, origin="code")
    make(world, "team", tokens=200, origin="code")
    assert line(world, "team").limit == 200
    world.run(budgets.raise_limits, "", "team", micro(tokens=500))
    assert not make(world, "team", tokens=100, origin="code")
    assert line(world, "team").limit == 500
    assert make(world, "team", tokens=50, origin="operator")
    assert not make(world, "team", tokens=50, origin="operator")
    assert line(world, "team").limit == 50


def test_what_a_change_leaves_out_stays(world: World) -> None:
    make(world, "acme", tokens=1)
    make(world, "team", tokens=100, usd=5, every=60 * SECOND, within="acme")
    spend(world, "team", usd=1)
    make(world, "team", usd=9, origin="operator")
    found = get(world, "team")
    assert (found.within, found.every) == ("acme", 60)
    assert (found["tokens"].limit, found["usd"].limit, found["usd"].spent) == (100, 9, 1)


def test_a_raise_only_raises(world: World) -> None:
    make(world, "team", tokens=100)
    with pytest.raises(InvalidInput):
        world.run(budgets.raise_limits, "", "team", micro(tokens=99))
    assert world.run(budgets.raise_limits, "", "team", micro(tokens=100))[1] is False


def test_a_budget_cannot_be_a_part_of_itself(world: World) -> None:
    make(world, "a", tokens=1)
    make(world, "b", tokens=1, within="a")
    with pytest.raises(InvalidInput, match="part of itself"):
        make(world, "a", tokens=1, within="b")
    with pytest.raises(InvalidInput, match="part of itself"):
        make(world, "a", tokens=1, within="a")
    with pytest.raises(BudgetNotFound):
        make(world, "a", tokens=1, within="nobody")
    with pytest.raises(Conflict):
        world.run(budgets.remove, "", "a")


def test_budgets_nest_only_so_deep(each_store: World) -> None:
    world = each_store
    make(world, "0", tokens=1)
    for depth in range(1, budgets.DEEPEST):
        make(world, str(depth), tokens=1, within=str(depth - 1))
    with pytest.raises(InvalidInput, match="deep"):
        make(world, "too deep", tokens=1, within=str(budgets.DEEPEST - 1))


def test_a_tenants_own_budget_comes_before_that_of_no_tenant(world: World) -> None:
    make(world, "team", tokens=100)
    world.run(budgets.ensure, "acme", "team", Terms(limits=micro(tokens=5), soft={}), origin="code")
    assert isinstance(reserve(world, running(world, tenant="acme"), "team", tokens=6), Exhausted)
    assert reserve(world, running(world, tenant="other"), "team", tokens=6) is None
    assert [budget.tenant for budget in world.read(budgets.list_budgets, None)] == ["", "acme"]
    assert [budget.tenant for budget in world.read(budgets.list_budgets, "acme")] == ["acme"]
    with pytest.raises(BudgetNotFound):
        world.run(budgets.spend, "other", "team", micro(tokens=1), shares=False)


def test_a_job_that_is_deleted_leaves_nothing_behind(world: World) -> None:
    make(world, "team", tokens=100)
    job = running(world)
    block(world, job, "team", tokens=500)
    world.run(actions.delete, job.id)
    assert world.sql("select count(*) from holdfast_shortage") == [(0,)]


# -- races


def test_reservations_at_once_in_two_processes_never_overshoot(two_worlds: tuple[World, World]) -> None:
    one, two = two_worlds
    make(one, "acme", tokens=1000)
    make(one, "a", tokens=1000, within="acme")
    make(one, "b", tokens=1000, within="acme")
    jobs = [running(one) for _ in range(24)]
    calls = [
        lambda job=job, world=world, name=name: reserve(world, job, name, tokens=100)
        for job, world, name in zip(jobs, [one, two] * 12, ["a", "a", "b", "b"] * 6, strict=True)
    ]
    answers = all_at_once(calls)
    assert sum(answer is None for answer in answers) == 10
    assert line(one, "acme").reserved == 1000


# -- how


def micro(**amounts: Any) -> dict[str, int]:
    return {name: int(Decimal(value) * MICRO) for name, value in amounts.items()}


def make(
    world: World,
    name: str,
    *,
    soft: Mapping[str, Any] | None = None,
    every: int | None = None,
    within: str | None = None,
    origin: str = "code",
    **limits: Any,
) -> bool:
    hard = {dimension: None if limit is None else micro(x=limit)["x"] for dimension, limit in limits.items()}
    terms = Terms(limits=hard, soft=micro(**(soft or {})), every=every, within=within)
    return world.run(budgets.ensure, "", name, terms, origin=origin)


def running(world: World, **fields: Any) -> Claimed:
    """A job that runs on worker w."""
    if not world.sql("select 1 from holdfast_worker where id = 'w'"):
        world.worker("w")
    job_id = world.add(**fields)
    (job,) = world.claim("w", 1)
    assert job.id == job_id
    return job


def runner(job: Claimed) -> Runner:
    return Runner("w", job.id, job.epoch)


def wish(budget: str, **amounts: Any) -> Wish:
    return Wish(f"hold:{budget}", budget, micro(**amounts))


def reserve(world: World, job: Claimed, budget: str, **amounts: Any) -> Any:
    return world.run(reservations.reserve, runner(job), [wish(budget, **amounts)])


def settle(world: World, job: Claimed, budget: str, **amounts: Any) -> Any:
    step = Step(key=world.name("settle"), kind="settle", name=budget)
    return world.run(spending.settle, runner(job), step, wish(budget, **amounts))


def spend(world: World, budget: str, key: str | None = None, **amounts: Any) -> Any:
    return world.run(budgets.spend, "", budget, micro(**amounts), key=key)


def block(world: World, job: Claimed, budget: str, **amounts: Any) -> None:
    """Refused, and blocked as its worker would."""
    assert isinstance(reserve(world, job, budget, **amounts), Exhausted)
    world.finish("w", job, Parked("budget_exhausted", ERROR))


def get(world: World, name: str) -> Budget:
    return world.read(budgets.get, "", name)


def line(world: World, name: str, dimension: str = TOKENS) -> BudgetLine:
    return get(world, name)[dimension]
