"""Queues as rows: what their state allows, what is kept of their settings, and who changed them."""

from __future__ import annotations

import pytest

from holdfast.clock import SECOND
from holdfast.errors import QueueClosed
from holdfast.model.audit import AuditFilter
from holdfast.model.jobs import JobState
from holdfast.model.queues import QueueRecord, QueueState
from holdfast.storage.ops import audit, queues
from holdfast.storage.ops.jobs import actions, enqueue
from tests.patience import SOON

from .world import World, spec

WHO = {"actor": "ada", "reason": "maintenance"}
CLOSED = [QueueState.DRAINING, QueueState.DISABLED]
SHUT = [QueueState.PAUSED, QueueState.DISABLED]


def move(world: World, queue: str, state: QueueState) -> QueueRecord:
    return world.run(queues.change_queue, queue, {"state": state}, action="queue.move", **WHO)


@pytest.mark.parametrize("state", SHUT)
def test_d12_a_direct_claim_on_a_paused_queue_gives_nothing(world: World, state: QueueState) -> None:
    job_id, owner = world.add(), world.worker()
    move(world, "default", state)
    assert world.claim(owner) == []
    move(world, "default", QueueState.ACTIVE)
    assert world.take(owner).id == job_id


def test_a_draining_queue_hands_out_what_it_has(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    move(world, "default", QueueState.DRAINING)
    assert world.take(owner).id == job_id


@pytest.mark.parametrize("state", CLOSED)
def test_a_closed_queue_refuses_new_jobs_and_says_why(world: World, state: QueueState) -> None:
    move(world, "default", state)
    for refused in (spec(), spec(key="k"), spec(id="mine", explicit_id=True)):
        with pytest.raises(QueueClosed) as caught:
            world.enqueue(refused)
        assert (caught.value.queue, caught.value.state) == ("default", state)
    with pytest.raises(QueueClosed):
        world.run(enqueue.enqueue_keyless, [spec()])
    assert world.jobs() == 0


@pytest.mark.parametrize("state", CLOSED)
def test_of_a_batch_with_a_job_for_a_closed_queue_nothing_is_stored(world: World, state: QueueState) -> None:
    move(world, "shut", state)
    with pytest.raises(QueueClosed):
        world.enqueue(spec(), spec(queue="shut"), spec())
    assert world.jobs() == 0


def test_an_enqueue_that_is_repeated_after_its_queue_was_closed_finds_its_job(world: World) -> None:
    first = spec(id="mine", explicit_id=True, key="k")
    world.enqueue(first)
    move(world, "default", QueueState.DRAINING)
    assert world.enqueue(first)[0].id == "mine"
    assert world.enqueue(spec(key="k"))[0].id == "mine"
    keyless = spec()
    move(world, "default", QueueState.ACTIVE)
    world.run(enqueue.enqueue_keyless, [keyless])
    move(world, "default", QueueState.DRAINING)
    assert world.run(enqueue.enqueue_keyless, [keyless])[0].id == keyless.id


def test_what_runs_in_a_disabled_queue_can_be_finished_and_retried(world: World) -> None:
    placed = world.place(JobState.FAILED)
    move(world, placed.queue, QueueState.DISABLED)
    assert world.run(actions.retry, placed.id) is True


def test_settings_are_kept_and_what_is_not_named_stays(two_worlds: tuple[World, World]) -> None:
    here, there = two_worlds
    here.run(queues.change_queue, "mail", {"timeout": 5 * SECOND, "keep_failed": 0}, action="queue.set", **WHO)
    there.run(queues.change_queue, "mail", {"state": QueueState.PAUSED}, action="queue.pause", **WHO)
    found = here.run(queues.get_queue, "mail")
    assert found == QueueRecord("mail", QueueState.PAUSED, timeout=5 * SECOND, keep_failed=0)
    assert there.run(queues.list_queues) == [found]


def test_a_queue_that_nobody_set_has_the_defaults(world: World) -> None:
    assert world.run(queues.get_queue, "new") == QueueRecord("new")
    assert world.run(queues.list_queues) == []


def test_every_change_is_recorded_with_who_why_and_what(world: World) -> None:
    move(world, "mail", QueueState.PAUSED)
    world.clock.advance(1)
    world.run(queues.change_queue, "mail", {"keep_failed": 7}, action="queue.set", **WHO)
    newest, oldest = world.run(audit.list_audit, AuditFilter(target_kind="queue", target="mail"))
    assert (oldest.actor, oldest.action, oldest.reason) == ("ada", "queue.move", "maintenance")
    assert (oldest.before, oldest.after) == (
        {"state": "active"},
        {"state": "paused"},
    )
    assert (newest.at, newest.before) == (world.instant, {"keep_failed": None})


# -- the tasks of a queue, and waking its workers


def test_the_tasks_of_a_queue_are_those_of_its_jobs_in_any_state(each_store: World) -> None:
    world = each_store
    world.add(task="elsewhere", queue="other")
    for state in JobState:
        placed = world.place(state)
        assert world.read(queues.tasks_of, placed.queue) == [world.job(placed.id).task]
    assert world.read(queues.tasks_of, "other") == ["elsewhere"]
    assert world.read(queues.tasks_of, "nothing") == []


def test_a_notify_wakes_whoever_waits_for_the_queue(each_store: World) -> None:
    listener = each_store.store.wakeups.listen(["queue:mail"])
    try:
        each_store.run(queues.notify, "mail")
        assert listener.wait(SOON)
    finally:
        listener.close()
