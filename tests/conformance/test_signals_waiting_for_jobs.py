"""A job that waits for others to end goes on when the last of them has, however they ended."""

from __future__ import annotations

import pytest

from holdfast.clock import SECOND
from holdfast.model.outcomes import Done, Failed, Finish, Suspended
from holdfast.model.signals import Wait
from holdfast.storage.ops.jobs import actions, finishing
from holdfast.storage.ops.signals import waking

from .faults import survive
from .racing import all_at_once
from .waiting_kit import Waiter, suspended, waiter, wake
from .world import ERROR, World


def until_ended(*jobs: Waiter, key: str = "wait:job#1", **more: object) -> Wait:
    return Wait(key=key, reason="jobs", jobs=tuple(job.id for job in jobs), **more)  # type: ignore[arg-type]


def succeed(world: World, job: Waiter) -> None:
    world.finish(job.owner, job.claimed(), Done("1"))


def how(job: Waiter, key: str = "wait:job#1") -> str | None:
    answer = job.answer(key)
    return answer.how if answer else None


def test_it_goes_on_when_the_last_has_ended(world: World) -> None:
    first, second = waiter(world), waiter(world)
    job = suspended(world, until_ended(first, second))
    assert job.job.reason == "jobs"
    succeed(world, first)
    assert job.state == "suspended"
    world.finish(second.owner, second.claimed(), Failed("permanent", ERROR))
    assert (job.state, how(job)) == ("ready", "jobs")
    assert world.sql("select count(*) from holdfast_wait") == [(0,)]
    assert world.sql("select count(*) from holdfast_edge") == [(0,)]


def test_a_cancelled_job_has_ended_too(world: World) -> None:
    other = waiter(world)
    job = suspended(world, until_ended(other))
    world.run(actions.cancel, other.id, force=True)
    assert how(job) == "jobs"


def test_what_has_ended_before_is_not_waited_for(world: World) -> None:
    ended, job = waiter(world), waiter(world)
    succeed(world, ended)
    answer = job.take(until_ended(ended))
    assert answer is not None
    assert answer.how == "jobs"
    other = suspended(world, until_ended(ended))
    assert (other.state, how(other)) == ("ready", "jobs")


def test_looking_does_not_make_it_wait(world: World) -> None:
    other, job = waiter(world), waiter(world)
    assert job.take(until_ended(other)) is None
    assert world.sql("select count(*) from holdfast_edge") == [(0,)]


def test_after_a_timeout_the_end_of_the_others_means_nothing(world: World) -> None:
    other = waiter(world)
    job = suspended(world, until_ended(other, timeout=SECOND, on_timeout="resume"))
    world.clock.advance(1)
    wake(world)
    assert how(job) == "timeout"
    job.go_on()
    job.suspend(Wait(key="wait:operator#1", reason="operator"))
    succeed(world, other)
    assert job.state == "suspended"


def test_an_operator_may_end_it(world: World) -> None:
    other = waiter(world)
    job = suspended(world, until_ended(other))
    world.run(waking.resume, job.id, "null", actor="ann", reason="")
    assert how(job) == "operator"
    succeed(world, other)
    assert how(job) == "operator"


def test_a_crash_at_each_statement_leaves_nothing_half_done(each_store: World) -> None:
    world = each_store
    other, job = waiter(world), waiter(world)
    survive(world, finishing.finish, job.owner, [Finish(job.id, job.epoch, Suspended(until_ended(other)))])
    assert job.state == "suspended"
    survive(world, finishing.finish, other.owner, [Finish(other.id, other.epoch, Done("1"))])
    assert (job.state, how(job)) == ("ready", "jobs")


@pytest.mark.parametrize("n", range(5))
def test_an_end_at_the_same_time_as_the_suspension_is_not_missed(two_worlds: tuple[World, World], n: int) -> None:
    here, there = two_worlds
    other, job = waiter(here), waiter(here)
    all_at_once([lambda: job.suspend(until_ended(other)), lambda: succeed(there, other)])
    assert (job.state, how(job)) == ("ready", "jobs")
