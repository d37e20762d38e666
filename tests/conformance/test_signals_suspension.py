"""Suspension: a job goes to rest with what it waits for, and goes on once, when that is there."""

from __future__ import annotations

import pytest

from holdfast.clock import SECOND
from holdfast.errors import LeaseLost
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import Done, Finish, Recorded, Suspended
from holdfast.model.signals import Signal
from holdfast.storage.ops.jobs import actions, finishing
from holdfast.storage.ops.signals import signals, suspension
from holdfast.storage.port import Op
from tests.patience import SOON

from .racing import aside, await_blocked, open_transaction
from .waiting_kit import payloads, pending_ids, redeem, send, suspended, wait_for, waiter, wake
from .world import World, spec


def test_a_suspended_job_is_owned_by_nobody_under_a_new_epoch_and_keeps_its_attempt(world: World) -> None:
    job = waiter(world)
    job.suspend(wait_for("approval"))
    found = job.job
    assert (found.state, found.reason, found.owner, found.due) == (JobState.SUSPENDED, "signal", None, None)
    assert (found.attempts, found.epoch) == (0, job.epoch + 1)
    assert world.history(job.id) == []


def test_the_run_that_was_suspended_can_record_nothing_any_more(world: World) -> None:
    job = suspended(world, wait_for("approval"))
    before = world.row(job.id)
    assert world.finish(job.owner, job.claimed(), Done("1")) == Recorded("suspended", again=True)
    with pytest.raises(LeaseLost):
        job.take(wait_for("approval"))
    with pytest.raises(LeaseLost):
        job.open()
    assert world.row(job.id) == before


def test_a_signal_resumes_the_job_with_its_payload_in_the_journal(world: World) -> None:
    job = suspended(world, wait_for("approval"))
    assert send(world, job.id, payload='{"ok":true}').effect == "resumed"
    again = job.go_on()
    assert (again.attempt, job.job.attempts) == (1, 1)
    answer = job.take(wait_for("approval"))
    assert payloads(answer) == [{"ok": True}]
    assert answer == job.answer()


def test_a_signal_that_came_before_the_wait_is_taken_without_suspending(world: World) -> None:
    job = waiter(world)
    assert send(world, job.id).effect == "stored"
    assert payloads(job.take(wait_for("approval"))) == [True]
    assert job.state == "running"


def test_a_signal_that_comes_between_the_look_and_the_suspension_is_found_there(world: World) -> None:
    job = waiter(world)
    assert job.take(wait_for("approval")) is None
    send(world, job.id)
    job.suspend(wait_for("approval"))
    assert job.state == "ready"
    job.go_on()
    assert payloads(job.take(wait_for("approval"))) == [True]


def test_a_signal_to_a_job_that_has_not_started_waits_for_it(world: World) -> None:
    queue = world.name("queue")
    job_id = world.add(queue=queue)
    send(world, job_id)
    owner = world.worker(queues=[queue])
    job = world.take(owner, queues=[queue])
    assert job.id == job_id
    taken = world.run(suspension.take, owner, job_id, job.epoch, wait_for("approval"))
    assert payloads(taken) == [True]


def test_a_signal_is_consumed_once_and_in_the_order_of_acceptance(world: World) -> None:
    job = waiter(world)
    for n in range(3):
        send(world, job.id, payload=str(n))
    taken = [payloads(job.take(wait_for("approval", key=f"wait:approval#{n}"))) for n in range(1, 4)]
    assert taken == [[0], [1], [2]]
    assert job.take(wait_for("approval", key="wait:approval#4")) is None


def test_a_taken_answer_is_the_same_however_often_it_is_asked_for(world: World) -> None:
    job = waiter(world)
    send(world, job.id, payload="1")
    first = job.take(wait_for("approval"))
    send(world, job.id, payload="2")
    assert job.take(wait_for("approval")) == first


def test_other_signals_leave_the_job_at_rest(world: World) -> None:
    job = suspended(world, wait_for("approval"))
    assert send(world, job.id, "gossip").effect == "stored"
    assert job.state == "suspended"


def test_all_of_several_are_waited_for(world: World) -> None:
    job = suspended(world, wait_for("legal", "finance", needed=0))
    assert send(world, job.id, "legal", "1").effect == "stored"
    assert send(world, job.id, "legal", "2").effect == "stored"
    assert send(world, job.id, "finance", "3").effect == "resumed"
    assert payloads(job.answer()) == [1, 3]


def test_a_count_of_signals_is_waited_for(world: World) -> None:
    job = suspended(world, wait_for("vote", needed=3))
    effects = [send(world, job.id, "vote", str(n)).effect for n in range(3)]
    assert effects == ["stored", "stored", "resumed"]


def test_a_count_of_sources_is_not_met_by_one_who_repeats_himself(world: World) -> None:
    job = suspended(world, wait_for("vote", needed=2, distinct="sources"))
    assert send(world, job.id, "vote", "1", source="bob").effect == "stored"
    assert send(world, job.id, "vote", "2", source="bob").effect == "stored"
    assert send(world, job.id, "vote", "3", source="eve").effect == "resumed"
    assert payloads(job.answer()) == [1, 3]


def test_a_count_of_waitpoints_closes_those_that_are_no_longer_needed(world: World) -> None:
    job = waiter(world)
    places = tuple(job.open(f"board-{n}") for n in range(3))
    job.suspend(wait_for(waitpoints=places, needed=2, distinct="waitpoints"))
    assert redeem(world, places[2].token, "3") is not None
    assert redeem(world, places[0].token, "1") is not None
    assert job.state == "ready"
    assert payloads(job.answer()) == [3, 1]
    assert redeem(world, places[1].token) is None
    assert pending_ids(world) == []


def test_what_a_later_wait_needs_stays_open(world: World) -> None:
    job = waiter(world)
    now, later = job.open("now"), job.open("later")
    job.suspend(wait_for(waitpoints=(now,)))
    redeem(world, now.token)
    assert pending_ids(world) == [later.id]


def test_a_signal_that_waits_for_the_suspension_to_commit_finds_the_job_at_rest(on_postgres: World) -> None:
    world = on_postgres
    job = waiter(world)
    with aside() as start:
        with open_transaction(world) as within:
            finish = Finish(job.id, job.epoch, Suspended(wait_for("approval")))
            within(Op(lambda tx: finishing.finish(tx, job.owner, [finish])))
            late = start(lambda: send(world, job.id))
            await_blocked(world)
        assert late.result(10).effect == "resumed"
    assert job.state == "ready"


def test_a_suspension_that_waits_for_a_signal_to_commit_finds_it(on_postgres: World) -> None:
    world = on_postgres
    job = waiter(world)
    with aside() as start:
        with open_transaction(world) as within:
            within(Op(lambda tx: signals.send(tx, job.id, Signal(name="approval"))))
            late = start(lambda: job.suspend(wait_for("approval")))
            await_blocked(world)
        late.result(10)
    assert job.state == "ready"


def test_a_delay_between_the_answer_and_the_resumption_is_kept(world: World) -> None:
    job = suspended(world, wait_for("approval", delay=10 * SECOND))
    send(world, job.id)
    found = job.job
    assert (found.state, found.due, found.not_before) == ("ready", 0, world.now + 10 * SECOND)


def test_a_cancelled_wait_is_gone_and_stays_gone(world: World) -> None:
    job = suspended(world, wait_for("approval", timeout=SECOND))
    world.run(actions.cancel, job.id)
    world.clock.advance(1)
    wake(world)
    assert job.state == "cancelled"
    assert world.sql("select count(*) from holdfast_wait") == [(0,)]


def test_a_requested_cancel_wins_over_the_suspension(world: World) -> None:
    job = waiter(world)
    world.run(actions.cancel, job.id)
    job.suspend(wait_for("approval"))
    assert job.state == "cancelled"
    assert world.sql("select count(*) from holdfast_wait") == [(0,)]


def test_many_suspended_in_one_batch_keep_their_own_waits(world: World) -> None:
    queue = world.name("queue")
    owner = world.worker(queues=[queue])
    ids = [answer.id for answer in world.enqueue(*(spec(queue=queue) for _ in range(5)))]
    jobs = {job.id: job for job in world.claim(owner, 5, queues=[queue])}
    send(world, ids[1], "go-1")
    send(world, ids[3], "go-3")
    finishes = [
        Finish(id, jobs[id].epoch, Suspended(wait_for(f"go-{n}", key=f"wait:go-{n}#1"))) for n, id in enumerate(ids)
    ]
    world.run(finishing.finish, owner, finishes)
    assert [str(world.job(id).state) for id in ids] == ["suspended", "ready", "suspended", "ready", "suspended"]
    assert send(world, ids[4], "go-4").effect == "resumed"
    assert send(world, ids[0], "go-4").effect == "stored"


def test_a_job_that_is_suspended_again_waits_for_the_new_thing_alone(world: World) -> None:
    job = suspended(world, wait_for("first", timeout=SECOND))
    send(world, job.id, "first")
    job.go_on()
    job.suspend(wait_for("second", key="wait:second#1"))
    world.clock.advance(5)
    assert wake(world) == 0
    assert send(world, job.id, "first").effect == "stored"
    assert send(world, job.id, "second").effect == "resumed"


def test_a_resumed_job_rings_the_bell_of_its_queue(each_store: World) -> None:
    world = each_store
    job = suspended(world, wait_for("approval"))
    listener = world.store.wakeups.listen([f"queue:{job.queue}"])
    try:
        send(world, job.id)
        assert listener.wait(SOON)
    finally:
        listener.close()


def test_a_run_that_did_not_hear_of_its_answer_goes_on_with_it(each_store: World) -> None:
    """Its take was committed and the reply was lost; nothing more is consumed for the same wait."""
    world = each_store
    job = waiter(world)
    send(world, job.id, payload="1")
    job.take(wait_for("approval"))
    send(world, job.id, payload="2")
    job.suspend(wait_for("approval"))
    assert (job.state, payloads(job.answer())) == ("ready", [1])
    job.go_on()
    assert payloads(job.take(wait_for("approval", key="wait:approval#2"))) == [2]
