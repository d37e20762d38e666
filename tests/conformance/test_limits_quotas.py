"""Quotas: sliding windows and numbers at once, admission that can be repeated, and what is left by lost runs."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.errors import LeaseLost, QuotaNotFound
from holdfast.model.budgets import Admitted, AlreadyAdmitted, ConcurrencyExceeded, Exhausted, RateExceeded
from holdfast.model.jobs import Claimed
from holdfast.model.outcomes import Done, Retry
from holdfast.storage.ops.budgets import budgets, reservations
from holdfast.storage.ops.budgets.budgets import Terms
from holdfast.storage.ops.budgets.reservations import Runner, Wish
from holdfast.storage.ops.jobs import explaining
from holdfast.storage.ops.limits import lanes, quotas
from holdfast.storage.ops.workers import lookout

from .racing import all_at_once
from .world import ERROR, World


def test_a_window_lets_in_as_many_as_it_allows_and_says_when_the_next(world: World) -> None:
    make(world, allowed=2, span=60)
    assert admit(world, "a") == Admitted()
    world.clock.advance(20)
    assert admit(world, "b") == Admitted()
    world.clock.advance(10)
    assert admit(world, "c") == RateExceeded(30.0)
    world.clock.advance(30)
    assert admit(world, "c") == Admitted()
    assert admit(world, "d") == RateExceeded(20.0)
    found = world.read(quotas.get, "", "api")
    assert (found.used, found.admitted, found.refused) == (2, 3, 2)


def test_the_same_holder_counts_once_within_the_window(world: World) -> None:
    make(world, allowed=2, span=60)
    assert [admit(world, "a") for _ in range(3)] == [Admitted(), AlreadyAdmitted(), AlreadyAdmitted()]
    assert admit(world, "b") == Admitted()
    assert isinstance(admit(world, "c"), RateExceeded)
    assert admit(world, "a") == AlreadyAdmitted(), "also while there is no room for others"
    world.clock.advance(60)
    assert admit(world, "a") == Admitted()


def test_so_many_at_once_until_one_is_released(world: World) -> None:
    make(world, concurrency=2)
    assert [admit(world, name) for name in "ab"] == [Admitted(), Admitted()]
    assert admit(world, "c") == ConcurrencyExceeded(2)
    assert world.run(quotas.release, "", "api", "a")
    assert not world.run(quotas.release, "", "api", "a"), "a repetition changes nothing"
    assert not world.run(quotas.release, "", "api", "nobody")
    assert admit(world, "c") == Admitted()
    assert world.read(quotas.get, "", "api").active == 2


def test_the_rate_is_looked_at_before_the_number_at_once(world: World) -> None:
    make(world, allowed=1, span=60, concurrency=1)
    admit(world, "a")
    assert isinstance(admit(world, "b"), RateExceeded)
    world.clock.advance(60)
    assert isinstance(admit(world, "b"), Admitted), "an admission without a job is over with its window or an hour"


def test_an_admission_that_nobody_releases_ends_by_itself(world: World) -> None:
    make(world, concurrency=1)
    admit(world, "a")
    world.clock.advance(3599)
    assert isinstance(admit(world, "b"), ConcurrencyExceeded)
    world.clock.advance(1)
    assert admit(world, "b") == Admitted()


def test_a_job_is_active_while_it_runs_and_no_longer(world: World) -> None:
    make(world, concurrency=1)
    first, second = running(world), running(world)
    assert enter(world, first) is None
    assert enter(world, first) is None
    assert enter(world, second) == ConcurrencyExceeded(1)
    world.finish("w", first, Done("1"))
    assert enter(world, second) is None
    world.lose("w")
    assert world.read(quotas.get, "", "api").active == 0


def test_an_admission_of_a_run_that_ended_by_other_hands_does_not_drift(each_store: World) -> None:
    world = each_store
    make(world, concurrency=1)
    first, second = running(world), running(world)
    enter(world, first)
    world.sql("update holdfast_live set epoch = epoch + 2 where id = :id", id=first.id)
    assert world.read(quotas.get, "", "api").active == 0
    assert enter(world, second) is None


def test_a_retry_within_the_window_is_the_same_admission_and_counts_again_at_once(world: World) -> None:
    make(world, allowed=1, span=60, concurrency=1)
    job = running(world)
    enter(world, job)
    world.finish("w", job, Retry(0, ERROR))
    again = world.take("w")
    assert enter(world, again) is None
    found = world.read(quotas.get, "", "api")
    assert (found.used, found.active, found.admitted) == (1, 1, 1)


def test_a_claim_takes_as_many_as_the_quota_has_room_for_and_parks_the_rest_at_no_cost(world: World) -> None:
    make(world, concurrency=1)
    owner, ids = world.worker("w"), waiting(world, 3)
    free = world.add()
    (first, other) = world.claim(owner)
    assert [first.id, other.id] == [ids[0], free]
    (reason, *_) = world.read(explaining.explain, ids[1]).reasons
    assert (reason.code, "'api' has 1 of 1 active" in reason.text) == ("quota_concurrency", True)
    parked = world.job(ids[1])
    assert (parked.state, parked.attempts, parked.started_at) == ("ready", 0, None)
    assert world.claim(owner) == [], "it is not claimed again before there is room"
    found = world.read(quotas.get, "", "api")
    assert (found.active, found.admitted, found.refused, found.blocked) == (1, 1, 2, 2)
    world.finish(owner, first, Done("1"))
    assert [job.id for job in world.claim(owner)] == [ids[1]]


def test_a_window_lets_the_parked_go_when_it_has_room_the_most_urgent_first(world: World) -> None:
    make(world, allowed=2, span=60)
    owner, ids = world.worker("w"), waiting(world, 4)
    taken = world.claim(owner)
    assert [job.id for job in taken] == ids[:2]
    for job in taken:
        world.finish(owner, job, Done("1"))
    urgent = waiting(world, 1, priority=9)
    assert world.claim(owner) == []
    view = world.read(lookout.look, owner, [])
    assert (view.next_due, view.standing.quotas, view.may_claim) == (60 * SECOND, True, False)
    (reason, *_) = world.read(explaining.explain, ids[2]).reasons
    assert (reason.code, "there is room in 1 m" in reason.text) == ("quota", True)
    world.clock.advance(60)
    view = world.read(lookout.look, owner, [])
    assert (view.next_due, view.may_claim) == (0, True)
    assert [job.id for job in world.claim(owner, standing=view.standing)] == [*urgent, ids[2]]
    assert world.job(ids[3]).due == 2


def test_a_retry_within_the_window_is_let_in_though_the_window_is_full(world: World) -> None:
    make(world, allowed=1, span=60)
    owner = world.worker("w")
    (first, second) = waiting(world, 2)
    (job,) = world.claim(owner)
    world.finish(owner, job, Retry(0, ERROR))
    assert [job.id for job in world.claim(owner)] == [first]
    assert world.job(second).due == 2
    found = world.read(quotas.get, "", "api")
    assert (found.used, found.active, found.admitted) == (1, 1, 1)


def test_a_larger_quota_lets_parked_jobs_go_and_so_does_its_end(world: World) -> None:
    make(world, concurrency=1)
    owner, ids = world.worker("w"), waiting(world, 4)
    world.claim(owner)
    make(world, concurrency=2)
    assert [world.job(job_id).due for job_id in ids[1:]] == [1, 2, 2]
    assert world.run(quotas.remove, "", "api")
    assert not world.run(quotas.remove, "", "api")
    assert [world.job(job_id).due for job_id in ids[1:]] == [1, 1, 1]


def test_a_release_by_hand_lets_a_parked_job_go(world: World) -> None:
    make(world, concurrency=1)
    admit(world, "somebody")
    owner, (job_id,) = world.worker("w"), waiting(world, 1)
    assert world.claim(owner) == []
    world.run(quotas.release, "", "api", "somebody")
    assert [job.id for job in world.claim(owner)] == [job_id]


def test_jobs_parked_behind_a_quota_whose_runs_ended_by_other_hands_are_found(each_store: World) -> None:
    world = each_store
    make(world, concurrency=1)
    owner, ids = world.worker("w"), waiting(world, 2)
    (job,) = world.claim(owner)
    world.sql("update holdfast_live set epoch = epoch + 2 where id = :id", id=job.id)
    assert world.run(lanes.unpark_stalled) == 1
    assert [job.id for job in world.claim(owner)] == ids[1:]


def test_claims_at_once_in_two_processes_never_exceed(two_worlds: tuple[World, World]) -> None:
    one, two = two_worlds
    make(one, allowed=7, span=3600, concurrency=5)
    waiting(one, 30)
    for name in "ab":
        one.worker(name)
    calls = [lambda n=n, world=world: world.claim("ab"[n % 2], 3) for n, world in enumerate([one, two] * 10)]
    assert sum(len(jobs) for jobs in all_at_once(calls)) == 5
    assert one.read(quotas.get, "", "api").active == 5


def test_what_the_quota_refuses_reserves_nothing_and_what_the_budget_refuses_is_not_let_in(world: World) -> None:
    make(world, allowed=1, span=60)
    world.run(budgets.ensure, "", "team", Terms(limits={"tokens": 100}, soft={}), origin="code")
    first, second, third = running(world), running(world), running(world)
    assert isinstance(enter(world, third, tokens=101), Exhausted)
    assert world.read(quotas.get, "", "api").used == 0
    assert enter(world, first, tokens=60) is None
    assert isinstance(enter(world, second, tokens=40), RateExceeded)
    assert world.sql("select sum(amount) from holdfast_reservation") == [(60,)]


def test_an_unknown_quota_and_a_stale_run_are_refused(world: World) -> None:
    with pytest.raises(QuotaNotFound):
        admit(world, "a")
    make(world, concurrency=1)
    job = running(world)
    world.finish("w", job, Retry(0, ERROR))
    with pytest.raises(LeaseLost):
        enter(world, job)
    assert world.read(quotas.get, "", "api").active == 0


def test_code_does_not_overrule_an_operator(world: World) -> None:
    assert make(world, concurrency=1)
    assert not make(world, concurrency=1)
    assert make(world, concurrency=5, origin="operator")
    assert not make(world, concurrency=1)
    assert world.read(quotas.get, "", "api").concurrency == 5


def test_a_tenants_own_quota_comes_before_that_of_no_tenant(world: World) -> None:
    make(world, concurrency=1)
    world.run(quotas.ensure, "acme", "api", allowed=None, span=None, concurrency=2, origin="code")
    assert [world.run(quotas.admit, "acme", "api", name) for name in "ab"] == [Admitted(), Admitted()]
    assert world.run(quotas.admit, "other", "api", "a") == Admitted()
    assert isinstance(world.run(quotas.admit, "other", "api", "b"), ConcurrencyExceeded)
    with pytest.raises(QuotaNotFound):
        world.run(quotas.admit, "other", "api", "b", shares=False)
    assert [quota.tenant for quota in world.read(quotas.list_quotas, None)] == ["", "acme"]


def test_windows_expire(world: World) -> None:
    make(world, allowed=5, span=60)
    jobs = [running(world) for _ in range(2)]
    for job in jobs:
        enter(world, job)
    world.finish("w", jobs[0], Done("1"))
    world.clock.advance(61)
    assert world.run(quotas.prune_admissions, 100) == 1
    admit(world, "another")
    assert world.sql("select count(*) from holdfast_admission") == [(2,)]


def test_admissions_at_once_in_two_processes_never_exceed(two_worlds: tuple[World, World]) -> None:
    one, two = two_worlds
    make(one, allowed=7, span=3600, concurrency=7)
    calls = [lambda n=n, world=world: admit(world, str(n)) for n, world in enumerate([one, two] * 10)]
    assert all_at_once(calls).count(Admitted()) == 7


def make(
    world: World, allowed: int | None = None, span: int | None = None, concurrency: int | None = None, **more: Any
) -> bool:
    micros = None if span is None else span * SECOND
    terms = {"allowed": allowed, "span": micros, "concurrency": concurrency, "origin": "code", **more}
    return world.run(quotas.ensure, "", "api", **terms)


def admit(world: World, holder: str) -> Any:
    return world.run(quotas.admit, "", "api", holder)


def running(world: World) -> Claimed:
    if not world.sql("select 1 from holdfast_worker where id = 'w'"):
        world.worker("w")
    job_id = world.add()
    (job,) = world.claim("w", 1)
    assert job.id == job_id
    return job


def enter(world: World, job: Claimed, tokens: int = 0) -> Any:
    wishes = [Wish("admission:team", "team", {"tokens": tokens})] if tokens else []
    return world.run(reservations.reserve, Runner("w", job.id, job.epoch), wishes, quota="api")


def waiting(world: World, n: int, **fields: Any) -> list[str]:
    return [world.add(limits='{"quota":"api"}', **fields) for _ in range(n)]
