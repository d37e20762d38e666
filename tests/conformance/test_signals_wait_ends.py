"""Waits that end otherwise: by their time, by an operator, or because they have become hopeless."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.errors import IllegalMove, NotFound, PayloadMismatch
from holdfast.model.audit import AuditFilter
from holdfast.model.signals import Wait
from holdfast.rules.schemas import schema_of
from holdfast.storage.ops.audit import list_audit
from holdfast.storage.ops.signals import waking

from .racing import all_at_once
from .waiting_kit import HOUR, redeem, send, suspended, wait_for, waiter, wake
from .world import World


def test_only_an_operator_ends_a_wait_without_signals(world: World) -> None:
    job = suspended(world, Wait(key="wait:review#1", reason="operator"))
    assert send(world, job.id, "review").effect == "stored"
    assert job.state == "suspended"
    world.run(waking.resume, job.id, '{"note":"go"}', actor="ann", reason="looked at it")
    assert job.state == "ready"
    answer = job.answer("wait:review#1")
    assert answer is not None
    assert (answer.how, bytes(answer.payload)) == ("operator", b'{"note":"go"}')
    (record,) = world.read(list_audit, AuditFilter(target_kind="job", target=job.id))
    assert (record.actor, record.action, record.reason) == ("ann", "job.resume", "looked at it")


def test_an_operators_answer_must_fit_too(world: World) -> None:
    job = suspended(world, wait_for("approval", schema=schema_of(bool)))
    with pytest.raises(PayloadMismatch):
        world.run(waking.resume, job.id, '"maybe"', actor="ann", reason="")
    assert job.state == "suspended"


def test_what_is_not_suspended_cannot_be_resumed(world: World) -> None:
    job = waiter(world)
    with pytest.raises(IllegalMove):
        world.run(waking.resume, job.id, "null", actor="ann", reason="")
    with pytest.raises(NotFound):
        world.run(waking.resume, "nobody", "null", actor="ann", reason="")


def test_a_job_of_another_tenant_cannot_be_resumed_and_seems_not_to_exist(world: World) -> None:
    job = suspended(world, wait_for("approval"), tenant="acme")
    with pytest.raises(NotFound):
        world.run(waking.resume, job.id, "null", actor="ann", reason="", tenant="rival")
    world.run(waking.resume, job.id, "null", actor="ann", reason="", tenant="acme")
    assert job.state == "ready"


@pytest.mark.parametrize(("on_timeout", "state"), [("fail", "failed"), ("cancel", "cancelled"), ("expire", "expired")])
def test_a_timeout_ends_the_job_as_asked(world: World, on_timeout: str, state: str) -> None:
    job = suspended(world, wait_for("approval", timeout=60 * SECOND, on_timeout=on_timeout))
    world.clock.advance(59)
    assert wake(world) == 0
    world.clock.advance(1)
    assert wake(world) == 1
    found = job.job
    assert (found.state, found.reason, found.finished_at) == (state, "wait_timeout", world.now)
    assert (found.error is not None) == (state == "failed")
    assert found.epoch == job.epoch + 2
    assert world.sql("select count(*) from holdfast_wait") == [(0,)]


def test_a_timeout_may_let_the_job_go_on_without_an_answer(world: World) -> None:
    job = suspended(world, wait_for("approval", timeout=SECOND, on_timeout="resume"))
    world.clock.advance(1)
    wake(world)
    answer = job.answer()
    assert (job.state, answer.how if answer else "") == ("ready", "timeout")
    send(world, job.id)
    job.go_on()
    assert job.take(wait_for("approval")) == answer


def test_a_timeout_may_leave_the_job_to_an_operator(world: World) -> None:
    job = suspended(world, wait_for("approval", timeout=SECOND, on_timeout="escalate"))
    world.clock.advance(1)
    wake(world)
    assert (job.state, job.job.reason) == ("suspended", "escalated")
    assert world.read(waking.next_wake) is None
    world.run(waking.resume, job.id, "false", actor="ann", reason="nobody answered")
    assert job.state == "ready"


def test_an_escalated_wait_still_hears_its_signal(world: World) -> None:
    job = suspended(world, wait_for("approval", timeout=SECOND, on_timeout="escalate"))
    world.clock.advance(1)
    wake(world)
    assert send(world, job.id).effect == "resumed"


def test_a_timeout_alone_can_be_waited_for(world: World) -> None:
    job = suspended(world, Wait(key="wait:pause#1", reason="signal", timeout=SECOND, on_timeout="resume"))
    send(world, job.id, "pause")
    assert job.state == "suspended"
    world.clock.advance(1)
    wake(world)
    assert job.state == "ready"


def test_a_wait_ends_when_the_waitpoints_that_it_needs_have_expired(world: World) -> None:
    job = waiter(world)
    first, second = job.open("first", expires=HOUR), job.open("second", expires=2 * HOUR)
    job.suspend(wait_for(waitpoints=(first, second), needed=0))
    assert world.read(waking.next_wake) == HOUR
    redeem(world, first.token)
    world.clock.advance(3600)
    # The first has its signal; so the second is waited for.
    assert wake(world) == 1
    assert (job.state, world.read(waking.next_wake)) == ("suspended", HOUR)
    world.clock.advance(3600)
    wake(world)
    assert (job.state, job.job.reason) == ("failed", "wait_timeout")


def test_waiting_for_a_waitpoint_that_is_used_up_ends_at_once(world: World) -> None:
    job = waiter(world)
    place = job.open()
    redeem(world, place.token)
    assert job.take(wait_for(waitpoints=(place,))) is not None
    job.suspend(wait_for(waitpoints=(place,), key="wait:approval#2"))
    wake(world)
    assert job.state == "failed"


def test_a_signal_and_the_timeout_together_end_the_wait_once(two_worlds: tuple[World, World]) -> None:
    here, there = two_worlds
    for _ in range(10):
        job = suspended(here, wait_for("approval", timeout=SECOND, on_timeout="resume"))
        here.clock.advance(1)
        together: list[Any] = [partial(send, here, job.id), partial(wake, there)]
        all_at_once(together)
        wake(here)
        assert job.state == "ready"
        answer = job.answer()
        assert answer is not None
        unread = here.sql("select count(*) from holdfast_signal where job_id = :id and taken_by is null", id=job.id)
        assert unread == [(0 if answer.how == "signals" else 1,)]


def test_two_who_wake_at_once_end_each_wait_once(two_worlds: tuple[World, World]) -> None:
    here, there = two_worlds
    jobs = [suspended(here, wait_for("approval", timeout=SECOND)) for _ in range(20)]
    here.clock.advance(1)
    all_at_once([lambda: wake(here), lambda: wake(there)])
    while wake(here):
        pass
    assert {job.state for job in jobs} == {"failed"}
    assert {job.job.epoch for job in jobs} == {jobs[0].epoch + 2}
