"""A process dies at each statement of what suspends, signals and wakes: nothing is left half done, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.clock import SECOND
from holdfast.model.outcomes import Finish, Suspended
from holdfast.model.signals import Signal
from holdfast.rules.schemas import schema_of
from holdfast.storage.ops.jobs import finishing
from holdfast.storage.ops.signals import keys, signals, suspension, waitpoints, waking

from .faults import survive
from .waiting_kit import HOUR, payloads, send, suspended, wait_for, waiter
from .world import World


def test_a_suspension(each_store: World) -> None:
    world = each_store
    job = waiter(world)
    place = job.open()
    survive(
        world,
        finishing.finish,
        job.owner,
        [Finish(job.id, job.epoch, Suspended(wait_for(waitpoints=(place,), schema=schema_of(bool), timeout=SECOND)))],
    )
    assert job.state == "suspended"
    assert send(world, job.id).effect == "resumed"


def test_a_suspension_that_finds_its_signal(each_store: World) -> None:
    world = each_store
    job = waiter(world)
    place = job.open()
    send(world, job.id)
    survive(world, finishing.finish, job.owner, [Finish(job.id, job.epoch, Suspended(wait_for(waitpoints=(place,))))])
    assert (job.state, payloads(job.answer())) == ("ready", [True])


def test_a_signal_that_is_taken_at_once(each_store: World) -> None:
    world = each_store
    job = waiter(world)
    place = job.open()
    send(world, job.id)
    answer = survive(world, suspension.take, job.owner, job.id, job.epoch, wait_for(waitpoints=(place,)))
    assert payloads(answer) == [True]
    assert job.take(wait_for(waitpoints=(place,))) == answer


def test_a_waitpoint_that_is_opened(each_store: World) -> None:
    world = each_store
    job = waiter(world)
    arguments = (job.owner, job.id, job.epoch, "waitpoint:approval#1", "approval", HOUR)
    opened = survive(world, waitpoints.open_waitpoint, *arguments)
    assert world.run(waitpoints.open_waitpoint, *arguments) == opened
    assert world.run(signals.send_by_token, opened.token, Signal(name="")) is not None


@pytest.mark.parametrize("needed", [1, 2])
def test_a_signal(each_store: World, needed: int) -> None:
    world = each_store
    job = suspended(world, wait_for("approval", needed=needed, schema=schema_of(bool)))
    for n in range(needed):
        signal = Signal(name="approval", payload="true", key=f"k{n}")
        sent = survive(world, signals.send, job.id, signal)
        again = survive(world, signals.send, job.id, signal)
        assert (again.seq, again.again) == (sent.seq, True)
    assert (job.state, payloads(job.answer())) == ("ready", [True] * needed)


def test_a_signal_by_token(each_store: World) -> None:
    world = each_store
    job = waiter(world)
    place = job.open()
    job.suspend(wait_for(waitpoints=(place,)))
    sent = survive(world, signals.send_by_token, place.token, Signal(name="", payload="true"))
    assert sent is not None
    assert survive(world, signals.send_by_token, place.token, Signal(name="")) is None
    assert (job.state, payloads(job.answer())) == ("ready", [True])


@pytest.mark.parametrize("on_timeout", ["fail", "cancel", "expire", "resume", "escalate"])
def test_a_timeout(each_store: World, on_timeout: str) -> None:
    world = each_store
    jobs = [suspended(world, wait_for("approval", timeout=SECOND, on_timeout=on_timeout)) for _ in range(2)]
    world.clock.advance(1)
    survive(world, waking.wake_due)
    states = {
        "fail": "failed", "cancel": "cancelled", "expire": "expired", "resume": "ready", "escalate": "suspended",
    }  # fmt: skip
    assert {job.state for job in jobs} == {states[on_timeout]}
    assert world.run(waking.wake_due) == 0


def test_an_operators_answer(each_store: World) -> None:
    world = each_store
    job = suspended(world, wait_for("approval"))
    survive(world, waking.resume, job.id, "true", actor="ann", reason="")
    assert job.state == "ready"


@pytest.mark.parametrize("operation", ["seed", "rotate", "revoke"])
def test_a_change_of_keys(each_store: World, operation: str) -> None:
    world = each_store
    steps: dict[str, Callable[[], object]] = {
        "seed": lambda: survive(world, keys.seed, "one", "11" * 32, actor="ann"),
        "rotate": lambda: survive(world, keys.rotate, "two", "22" * 32, actor="ann"),
        "revoke": lambda: survive(world, keys.revoke, "one", actor="ann"),
    }
    for name, step in steps.items():
        step()
        if name == operation:
            break
    assert [key.state for key in world.read(keys.list_keys)].count("active") == 1
