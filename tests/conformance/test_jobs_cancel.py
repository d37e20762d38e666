"""Cancel ends a waiting job at once and asks a running one; delete removes what nobody runs."""

from __future__ import annotations

from contextlib import closing

import pytest

from holdfast.clock import SECOND
from holdfast.errors import IllegalMove, NotFound
from holdfast.model.actions import Action, ActionResult, Order
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import (  # fmt: skip
    Cancelled,
    Done,
    Expired,
    Failed,
    Lost,
    Outcome,
    Parked,
    Recorded,
    Released,
    Retry,
    Snoozed,
    Throttled,
)
from holdfast.storage.ops.jobs import actions
from holdfast.storage.ops.workers import workers
from tests.patience import SOON

from .world import ERROR, World

WAITING = [JobState.READY, JobState.BLOCKED, JobState.SUSPENDED]
ENDED = [state for state in JobState if state.is_terminal]
UNDONE: list[Outcome] = [
    Retry(SECOND, ERROR), Failed("permanent", ERROR), Snoozed(SECOND), Throttled(SECOND, ERROR), Parked("auth", ERROR),
    Released("shutdown"), Cancelled("cancelled"), Expired(),
]  # fmt: skip


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("state", WAITING)
def test_a_waiting_job_is_cancelled_at_once(world: World, state: JobState, force: bool) -> None:
    job_id = world.place(state).id
    epoch = world.job(job_id).epoch
    assert world.run(actions.cancel, job_id, reason="no need", force=force) is ActionResult.CANCELLED
    job = world.job(job_id)
    assert (job.state, job.reason, job.cancel_reason) == (JobState.CANCELLED, "no need", "no need")
    assert (job.cancel_at, job.finished_at, job.epoch) == (world.now, world.now, epoch + 1)


def test_a_delayed_job_that_was_cancelled_never_comes_due(world: World) -> None:
    job_id = world.add(delay=SECOND)
    world.run(actions.cancel, job_id)
    world.clock.advance(5)
    assert world.claim(world.worker()) == []


def test_cancelling_a_running_job_only_requests_it(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    before = world.job(placed.id)
    assert world.run(actions.cancel, placed.id, reason="no need") is ActionResult.REQUESTED
    job = world.job(placed.id)
    assert (job.state, job.owner, job.epoch) == (JobState.RUNNING, before.owner, before.epoch)
    assert (job.cancel_at, job.cancel_reason) == (world.now, "no need")


def test_the_first_request_to_cancel_stays_on_record(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    first = world.now
    world.run(actions.cancel, placed.id, reason="first")
    world.clock.advance(1)
    assert world.run(actions.cancel, placed.id, reason="second") is ActionResult.ALREADY
    assert (world.job(placed.id).cancel_at, world.job(placed.id).cancel_reason) == (first, "first")


def test_the_owner_hears_of_the_request_at_its_next_beat(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    assert [owned.cancel_requested for owned in world.run(workers.beat, placed.owner)] == [False]
    world.run(actions.cancel, placed.id)
    assert [owned.cancel_requested for owned in world.run(workers.beat, placed.owner)] == [True]


def test_a_success_that_comes_within_the_grace_stands(world: World) -> None:
    world.add()
    owner = world.worker()
    claimed = world.take(owner)
    world.run(actions.cancel, claimed.id)
    assert world.finish(owner, claimed, Done("1")) == Recorded("succeeded")
    assert (world.job(claimed.id).state, world.job(claimed.id).result) == (JobState.SUCCEEDED, "1")


@pytest.mark.parametrize("outcome", UNDONE, ids=lambda outcome: type(outcome).__name__.lower())
def test_anything_but_success_after_a_request_ends_cancelled(world: World, outcome: Outcome) -> None:
    world.add()
    owner = world.worker()
    claimed = world.take(owner)
    world.run(actions.cancel, claimed.id, reason="no need")
    assert world.finish(owner, claimed, outcome) == Recorded("cancelled")
    job = world.job(claimed.id)
    assert (job.state, job.reason, job.finished_at) == (JobState.CANCELLED, "no need", world.now)
    world.clock.advance(100)
    assert world.claim(owner, suspects=1) == []


def test_rescuing_a_job_that_was_asked_to_stop_cancels_it(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.run(actions.cancel, placed.id, reason="no need")
    assert world.lose(placed.owner) == [placed.id]
    assert (world.job(placed.id).state, world.job(placed.id).reason) == (JobState.CANCELLED, "no need")


def test_a_forced_cancel_ends_a_running_job_now_under_a_new_epoch(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    assert world.run(actions.cancel, placed.id, reason="now", force=True) is ActionResult.CANCELLED
    job = world.job(placed.id)
    assert (job.state, job.reason, job.owner, job.claim) == (JobState.CANCELLED, "now", None, None)
    assert (job.epoch, job.finished_at) == (placed.epoch + 1, world.now)


def test_after_a_forced_cancel_its_worker_can_neither_finish_nor_revive_it(world: World) -> None:
    world.add()
    owner = world.worker()
    claimed = world.take(owner)
    world.run(actions.cancel, claimed.id, force=True)
    assert world.run(workers.beat, owner) == []
    assert world.finish(owner, claimed, Done("1")) == Lost()
    assert world.finish(owner, claimed, Retry(0, ERROR)) == Lost()
    assert (world.job(claimed.id).state, world.job(claimed.id).result) == (JobState.CANCELLED, None)


def test_a_forced_cancel_may_follow_a_request(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.run(actions.cancel, placed.id, reason="please")
    world.run(actions.cancel, placed.id, reason="now", force=True)
    job = world.job(placed.id)
    assert (job.state, job.cancel_reason) == (JobState.CANCELLED, "please")


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("state", ENDED)
def test_a_late_cancel_does_not_touch_a_job_that_has_ended(world: World, state: JobState, force: bool) -> None:
    job_id = world.place(state).id
    before = world.row(job_id)
    assert world.run(actions.cancel, job_id, force=force) is ActionResult.FINISHED
    assert world.row(job_id) == before


def test_only_a_replay_clears_the_request(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.run(actions.cancel, placed.id)
    world.lose(placed.owner)
    assert world.job(placed.id).cancel_at is not None
    world.run(actions.retry, placed.id)
    assert (world.job(placed.id).cancel_at, world.job(placed.id).cancel_reason) == (None, None)


@pytest.mark.parametrize("force", [False, True])
def test_cancelling_what_does_not_exist_is_not_found(world: World, force: bool) -> None:
    with pytest.raises(NotFound):
        world.run(actions.cancel, "nobody", force=force)


def test_cancels_wake_those_they_concern(each_store: World) -> None:
    running, waiting = each_store.place(JobState.RUNNING), each_store.place(JobState.READY)
    with closing(each_store.store.wakeups.listen(["cancel"])) as worker_ear:
        each_store.run(actions.cancel, running.id)
        assert worker_ear.wait(SOON)
    with closing(each_store.store.wakeups.listen(["finished"])) as client_ear:
        each_store.run(actions.cancel, waiting.id)
        assert client_ear.wait(SOON)


# -- delete, priority, run now


@pytest.mark.parametrize("state", [s for s in JobState if s not in (JobState.RUNNING, JobState.SUSPENDED)])
def test_a_job_that_nobody_runs_is_deleted_with_its_history(world: World, state: JobState) -> None:
    job_id = world.place(state).id
    assert world.run(actions.delete, job_id) is ActionResult.DELETED
    with pytest.raises(NotFound):
        world.job(job_id)
    assert world.sql("select count(*) from holdfast_attempt where job_id = :id", id=job_id) == [(0,)]


def test_deleting_a_running_job_requests_its_cancel(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    assert world.run(actions.delete, placed.id) is ActionResult.REQUESTED
    assert world.job(placed.id).cancel_at == world.now


def test_deleting_what_does_not_exist_is_not_found(world: World) -> None:
    with pytest.raises(NotFound):
        world.run(actions.delete, "nobody")


@pytest.mark.parametrize("state", JobState)
def test_priority_changes_only_while_a_job_waits(world: World, state: JobState) -> None:
    job_id = world.place(state).id
    if state in (JobState.READY, JobState.BLOCKED, JobState.SUSPENDED):
        world.run(actions.act, job_id, Order(Action.SET_PRIORITY, priority=7), actor="ann", reason="")
        assert world.job(job_id).priority == 7
        return
    before = world.row(job_id)
    with pytest.raises(IllegalMove):
        world.run(actions.act, job_id, Order(Action.SET_PRIORITY, priority=7), actor="ann", reason="")
    assert world.row(job_id) == before


def test_a_new_priority_takes_effect_at_the_next_claim(world: World) -> None:
    world.add(priority=5)
    late = world.add()
    world.run(actions.act, late, Order(Action.SET_PRIORITY, priority=9), actor="ann", reason="")
    assert world.take(world.worker()).id == late


def test_changing_the_priority_of_what_does_not_exist_is_not_found(world: World) -> None:
    with pytest.raises(NotFound):
        world.run(actions.act, "nobody", Order(Action.SET_PRIORITY, priority=1), actor="ann", reason="")


def test_run_now_makes_a_delayed_job_due(world: World) -> None:
    job_id = world.add(delay=60 * SECOND)
    assert world.run(actions.run_now, job_id) is True
    assert world.job(job_id).not_before == world.now
    assert world.run(actions.run_now, job_id) is False
    assert world.take(world.worker()).id == job_id


def test_run_now_ends_the_wait_of_a_retry(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Retry(60 * SECOND, ERROR))
    world.run(actions.run_now, job_id)
    assert world.take(owner).attempt == 2


def test_run_now_is_how_somebody_says_that_a_parked_job_may_go_on(world: World) -> None:
    placed = world.place(JobState.BLOCKED)
    assert world.run(actions.run_now, placed.id) is True
    assert world.take_placed(placed).id == placed.id


def test_a_held_job_that_is_run_now_is_held_no_more(world: World) -> None:
    tried, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Retry(SECOND, ERROR))
    for job_id, reason in ((world.add(), "new"), (tried, "retry")):
        world.run(actions.act, job_id, Order(Action.HOLD), actor="ann", reason="")
        assert world.run(actions.run_now, job_id) is True
        job = world.job(job_id)
        assert (job.state, job.reason) == (JobState.READY, reason)


def test_run_now_wakes_the_queue(each_store: World) -> None:
    job_id = each_store.add(delay=60 * SECOND)
    with closing(each_store.store.wakeups.listen(["queue:default"])) as listener:
        each_store.run(actions.run_now, job_id)
        assert listener.wait(SOON)


def test_a_delayed_suspect_that_is_run_now_still_runs_apart(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Retry(60 * SECOND, ERROR, outcome="crashed", convicts=True))
    world.run(actions.run_now, job_id)
    assert world.claim(owner) == []
    assert world.take(owner, suspects=1).id == job_id
