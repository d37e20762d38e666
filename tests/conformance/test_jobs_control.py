"""What operators do to work in progress: hold, release, reorder, revoke a lease, declare a worker dead."""

from __future__ import annotations

import pytest

from holdfast.clock import SECOND
from holdfast.errors import IllegalMove, NotFound
from holdfast.model.actions import Action, ActionResult, Order
from holdfast.model.audit import AuditFilter
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import Done, Lost, Retry, Suspended
from holdfast.model.signals import Wait
from holdfast.rules.lifecycle import MAX_GENERATION
from holdfast.storage.ops import audit
from holdfast.storage.ops.jobs import actions
from holdfast.storage.ops.workers import leases

from .world import LEASE, World

WHO = {"actor": "ann", "reason": "because"}
REVOKE = Order(Action.REVOKE)


def audited(world: World) -> list[str]:
    return [record.action for record in world.read(audit.list_audit, AuditFilter())]


# -- revoke


def test_a_revoked_job_is_ready_again_at_no_cost_under_a_new_epoch(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    answer = world.run(actions.act, placed.id, REVOKE, **WHO)
    job = world.job(placed.id)
    assert answer is ActionResult.REVOKED
    assert (job.state, job.reason, job.due, job.attempts, job.crashes) == (JobState.READY, "revoked", 1, 0, 0)
    assert (job.owner, job.claim, job.epoch) == (None, None, placed.epoch + 1)
    assert audited(world) == ["job.revoke"]


def test_what_the_worker_of_a_revoked_job_records_no_longer_counts(world: World) -> None:
    placed = world.place(JobState.READY)
    claimed = world.take_placed(placed)
    world.run(actions.act, placed.id, REVOKE, **WHO)
    assert world.finish(placed.owner, claimed, Done("1")) == Lost()
    again = world.take_placed(placed)
    assert (again.attempt, again.epoch > claimed.epoch) == (1, True)
    world.finish(placed.owner, again, Done("2"))
    assert world.job(placed.id).result == "2"


def test_revoking_twice_says_that_there_is_no_lease(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.run(actions.act, placed.id, REVOKE, **WHO)
    row = world.row(placed.id)
    assert world.run(actions.act, placed.id, REVOKE, **WHO) is ActionResult.NO_ACTIVE_LEASE
    assert world.row(placed.id) == row
    assert audited(world) == ["job.revoke"]


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RUNNING])
def test_a_job_that_does_not_run_has_no_lease_to_revoke(each_store: World, state: JobState) -> None:
    placed = each_store.place(state)
    row = each_store.row(placed.id)
    assert each_store.run(actions.act, placed.id, REVOKE, **WHO) is ActionResult.NO_ACTIVE_LEASE
    assert each_store.row(placed.id) == row
    assert audited(each_store) == []


def test_a_lease_is_revoked_only_from_the_hands_that_are_named(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    row = world.row(placed.id)
    for order, why in (
        (Order(Action.REVOKE, owner="another"), ActionResult.DIFFERENT_OWNER),
        (Order(Action.REVOKE, epoch=placed.epoch + 1), ActionResult.EPOCH_MOVED),
        (Order(Action.REVOKE, owner=placed.owner, epoch=placed.epoch - 1), ActionResult.EPOCH_MOVED),
    ):
        assert world.run(actions.act, placed.id, order, **WHO) is why
    assert world.row(placed.id) == row
    fits = Order(Action.REVOKE, owner=placed.owner, epoch=placed.epoch)
    assert world.run(actions.act, placed.id, fits, **WHO) is ActionResult.REVOKED


def test_revoking_a_job_that_was_asked_to_stop_cancels_it(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.run(actions.cancel, placed.id, reason="enough")
    assert world.run(actions.act, placed.id, REVOKE, **WHO) is ActionResult.CANCELLED
    assert world.job(placed.id).reason == "enough"


def test_revoking_an_unknown_job_is_not_found(each_store: World) -> None:
    with pytest.raises(NotFound):
        each_store.run(actions.act, "none", REVOKE, **WHO)


# -- workers


def test_a_worker_that_is_declared_dead_loses_its_jobs_at_once(world: World) -> None:
    owner = world.worker()
    ids = [world.add() for _ in range(3)]
    world.claim(owner)
    page = world.run(leases.mark_dead, owner, **WHO)
    assert page is not None and sorted(page.rescued) == sorted(ids)
    assert {world.job(id).state for id in ids} == {JobState.READY}
    assert {world.job(id).reason for id in ids} == {"rescue"}
    assert audited(world) == ["worker.dead"]


def test_declaring_a_worker_dead_again_says_so(world: World) -> None:
    owner = world.worker()
    assert world.run(leases.mark_dead, owner, **WHO) is not None
    assert world.run(leases.mark_dead, owner, **WHO) is None
    assert audited(world) == ["worker.dead"]


def test_a_worker_that_nobody_knows_cannot_be_declared_dead(each_store: World) -> None:
    with pytest.raises(NotFound):
        each_store.run(leases.mark_dead, "nobody", **WHO)


def test_only_leases_that_are_over_are_listed_page_by_page(each_store: World) -> None:
    world = each_store
    silent, live = world.worker(), world.worker(queues=["other"])
    ids = sorted(world.add() for _ in range(5))
    world.claim(silent)
    world.clock.advance(LEASE / SECOND + 1)
    world.run(leases.workers.beat, live)
    world.add(queue="other")
    world.claim(live, queues=["other"])
    first = world.read(leases.expired_leases, limit=3)
    rest = world.read(leases.expired_leases, after=first[-1].job, limit=3)
    assert [lease.job for lease in first + rest] == ids
    assert {(lease.owner, lease.worker_state) for lease in first + rest} == {(silent, "alive")}
    assert first[0].overdue == SECOND
    assert world.read(leases.expired_leases, after=ids[-1]) == []


def test_a_dead_workers_leases_are_over_whatever_its_clock_says(each_store: World) -> None:
    owner = each_store.worker()
    job_id = each_store.add()
    each_store.claim(owner)
    assert each_store.read(leases.expired_leases) == []
    each_store.sql("update holdfast_worker set state = 'dead' where id = :id", id=owner)
    assert [lease.job for lease in each_store.read(leases.expired_leases)] == [job_id]


# -- hold, release, priority


def test_holding_and_releasing_can_be_repeated(world: World) -> None:
    job_id = world.add(delay=5 * SECOND)
    assert world.run(actions.act, job_id, Order(Action.HOLD), **WHO) is ActionResult.HELD
    held = world.row(job_id)
    assert world.run(actions.act, job_id, Order(Action.HOLD), **WHO) is ActionResult.ALREADY
    assert world.row(job_id) == held
    assert world.run(actions.act, job_id, Order(Action.RELEASE), **WHO) is ActionResult.RELEASED
    free = world.row(job_id)
    assert world.run(actions.act, job_id, Order(Action.RELEASE), **WHO) is ActionResult.ALREADY
    assert world.row(job_id) == free
    assert (world.job(job_id).state, world.job(job_id).due) == (JobState.READY, 0)
    assert audited(world) == ["job.release", "job.hold"]


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.READY])
def test_only_a_ready_job_can_be_held(each_store: World, state: JobState) -> None:
    placed = each_store.place(state)
    row = each_store.row(placed.id)
    if state is JobState.BLOCKED and each_store.job(placed.id).reason == "operator":
        assert each_store.run(actions.act, placed.id, Order(Action.HOLD), **WHO) is ActionResult.ALREADY
    else:
        with pytest.raises(IllegalMove):
            each_store.run(actions.act, placed.id, Order(Action.HOLD), **WHO)
    assert each_store.row(placed.id) == row


def test_a_priority_that_is_set_again_changes_nothing(world: World) -> None:
    job_id = world.add()
    assert world.run(actions.act, job_id, Order(Action.SET_PRIORITY, priority=7), **WHO) is ActionResult.CHANGED
    row = world.row(job_id)
    assert world.run(actions.act, job_id, Order(Action.SET_PRIORITY, priority=7), **WHO) is ActionResult.ALREADY
    assert world.row(job_id) == row
    assert audited(world) == ["job.set_priority"]


def test_a_held_jobs_priority_counts_when_it_is_released(each_store: World) -> None:
    first, second = each_store.add(), each_store.add()
    each_store.run(actions.act, second, Order(Action.HOLD), **WHO)
    each_store.run(actions.act, second, Order(Action.SET_PRIORITY, priority=9), **WHO)
    each_store.run(actions.act, second, Order(Action.RELEASE), **WHO)
    assert [job.id for job in each_store.claim(each_store.worker())] == [second, first]


def test_the_priority_of_a_job_that_runs_cannot_be_changed(each_store: World) -> None:
    placed = each_store.place(JobState.RUNNING)
    with pytest.raises(IllegalMove):
        each_store.run(actions.act, placed.id, Order(Action.SET_PRIORITY, priority=7), **WHO)


# -- reschedule


def reschedule(world: World, job_id: str, **when: int) -> ActionResult:
    return world.run(actions.act, job_id, Order(Action.RESCHEDULE, **when), **WHO)


def test_a_rescheduled_job_is_claimed_at_its_new_time(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    assert reschedule(world, job_id, delay=10 * SECOND) is ActionResult.RESCHEDULED
    job = world.job(job_id)
    assert (job.state, job.due, job.reason, job.not_before) == (JobState.READY, 0, "delay", world.now + 10 * SECOND)
    assert world.claim(owner) == []
    world.clock.advance(10)
    assert [claimed.id for claimed in world.claim(owner)] == [job_id]


def test_a_delayed_job_is_rescheduled_to_the_past_and_is_due(world: World) -> None:
    job_id = world.add(delay=60 * SECOND)
    assert reschedule(world, job_id, at=world.now - SECOND) is ActionResult.RESCHEDULED
    assert (world.job(job_id).due, world.job(job_id).reason) == (1, "new")
    assert [claimed.id for claimed in world.claim(world.worker())] == [job_id]


def test_a_job_that_waits_for_a_retry_is_rescheduled_and_keeps_its_attempts(each_store: World) -> None:
    world, placed = each_store, each_store.place(JobState.READY)
    world.finish(placed.owner, world.take_placed(placed), Retry(5 * SECOND, "{}"))
    reschedule(world, placed.id, delay=90 * SECOND)
    job = world.job(placed.id)
    assert (job.reason, job.attempts, job.not_before) == ("retry", 1, world.now + 90 * SECOND)


def test_a_held_job_keeps_its_new_time_until_it_is_released(world: World) -> None:
    job_id = world.add()
    world.run(actions.act, job_id, Order(Action.HOLD), **WHO)
    assert reschedule(world, job_id, delay=10 * SECOND) is ActionResult.RESCHEDULED
    assert (world.job(job_id).state, world.job(job_id).reason) == (JobState.BLOCKED, "operator")
    world.run(actions.act, job_id, Order(Action.RELEASE), **WHO)
    assert (world.job(job_id).state, world.job(job_id).due) == (JobState.READY, 0)


def test_a_reschedule_to_the_same_time_changes_nothing(world: World) -> None:
    job_id, at = world.add(), world.now + 60 * SECOND
    assert [reschedule(world, job_id, at=at) for _ in "12"] == [ActionResult.RESCHEDULED, ActionResult.ALREADY]
    (record,) = world.read(audit.list_audit, AuditFilter())
    assert (record.action, record.after) == ("job.reschedule", {"outcome": "rescheduled", "at": at})


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.READY])
def test_only_a_job_that_waits_for_its_time_can_be_rescheduled(each_store: World, state: JobState) -> None:
    placed = each_store.place(state)
    each_store.sql(
        "update holdfast_live set reason = 'dependencies' where id = :id and state = 'blocked'", id=placed.id
    )
    row = each_store.row(placed.id)
    with pytest.raises(IllegalMove, match="only a ready or held job"):
        reschedule(each_store, placed.id, delay=SECOND)
    assert each_store.row(placed.id) == row


# -- cancel, retry


@pytest.mark.parametrize("force", [False, True])
def test_a_cancel_is_meant_only_for_the_hands_that_are_named(world: World, force: bool) -> None:
    placed = world.place(JobState.RUNNING)
    row = world.row(placed.id)
    other = world.run(actions.cancel, placed.id, force=force, owner="another")
    moved = world.run(actions.cancel, placed.id, force=force, epoch=placed.epoch + 2)
    assert (other, moved) == (ActionResult.DIFFERENT_OWNER, ActionResult.EPOCH_MOVED)
    assert world.row(placed.id) == row
    fits = {"owner": placed.owner, "epoch": placed.epoch}
    wanted = ActionResult.CANCELLED if force else ActionResult.REQUESTED
    assert world.run(actions.cancel, placed.id, force=force, **fits) is wanted


def test_a_job_that_has_ended_is_finished_in_whichever_hands_it_is_looked_for(each_store: World) -> None:
    placed = each_store.place(JobState.SUCCEEDED)
    assert each_store.run(actions.cancel, placed.id, owner="another") is ActionResult.FINISHED


def test_a_waiting_job_can_be_cancelled_by_its_epoch(each_store: World) -> None:
    placed = each_store.place(JobState.READY)
    epoch = each_store.job(placed.id).epoch
    assert each_store.run(actions.cancel, placed.id, epoch=epoch + 1) is ActionResult.EPOCH_MOVED
    assert each_store.run(actions.cancel, placed.id, epoch=epoch) is ActionResult.CANCELLED


def test_a_job_is_retried_ten_times_and_no_more(each_store: World) -> None:
    placed = each_store.place(JobState.FAILED)
    for _ in range(MAX_GENERATION):
        assert each_store.run(actions.retry, placed.id)
        each_store.run(actions.cancel, placed.id)
    with pytest.raises(IllegalMove, match="10 times"):
        each_store.run(actions.retry, placed.id)


def test_a_suspended_job_has_no_lease(each_store: World) -> None:
    placed = each_store.place(JobState.READY)
    claimed = each_store.take_placed(placed)
    each_store.finish(placed.owner, claimed, Suspended(Wait(key="wait:x#1", reason="signal")))
    assert each_store.run(actions.act, placed.id, REVOKE, **WHO) is ActionResult.NO_ACTIVE_LEASE
