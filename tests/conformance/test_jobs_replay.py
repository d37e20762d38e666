"""Replay: a finished job runs again as a new generation, attempts from zero, history kept."""

from __future__ import annotations

from contextlib import closing

import pytest

from holdfast.clock import SECOND
from holdfast.errors import IllegalMove, NotFound
from holdfast.model.actions import Action, Order
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import Done, Failed, Lost, Retry
from holdfast.rules.lifecycle import MAX_GENERATION
from holdfast.storage.ops.jobs import actions
from tests.patience import SOON

from .world import ERROR, World, spec

ENDED = [state for state in JobState if state.is_terminal]
LIVE = [state for state in JobState if not state.is_terminal]


@pytest.mark.parametrize("state", ENDED)
def test_every_finished_job_can_be_replayed(world: World, state: JobState) -> None:
    placed = world.place(state)
    before = world.job(placed.id)
    world.clock.advance(1)
    assert world.run(actions.retry, placed.id) is True
    job = world.job(placed.id)
    assert (job.state, job.reason, job.attempts, job.crashes, job.suspect) == (JobState.READY, "replay", 0, 0, 0)
    assert (job.generation, job.epoch) == (before.generation + 1, before.epoch + 1)
    assert (job.not_before, job.finished_at, job.finished_epoch) == (world.now, None, None)
    assert world.take(placed.owner, queues=[placed.queue]).attempt == 1


@pytest.mark.parametrize("state", LIVE)
def test_a_live_job_cannot_be_replayed(world: World, state: JobState) -> None:
    job_id = world.place(state).id
    before = world.row(job_id)
    with pytest.raises(IllegalMove):
        world.run(actions.retry, job_id)
    assert world.row(job_id) == before


def test_a_replayed_job_shows_no_stale_result(world: World) -> None:
    job_id = world.place(JobState.SUCCEEDED).id
    assert world.job(job_id).result == '"fine"'
    world.run(actions.retry, job_id)
    assert world.job(job_id).result is None


def test_a_replayed_job_is_not_ended_by_the_deadline_that_has_passed(world: World) -> None:
    placed = world.place(JobState.EXPIRED)
    world.run(actions.retry, placed.id)
    assert world.take(placed.owner, queues=[placed.queue]).time_left is None


def test_a_replayed_job_keeps_a_deadline_that_lies_ahead(world: World) -> None:
    job_id, owner = world.add(deadline=60 * SECOND), world.worker()
    world.finish(owner, world.take(owner), Failed("permanent", ERROR))
    world.clock.advance(10)
    world.run(actions.retry, job_id)
    assert world.take(owner).time_left == 50 * SECOND


def test_the_history_of_all_generations_is_kept(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Retry(0, ERROR))
    world.finish(owner, world.take(owner), Failed("exhausted", ERROR))
    world.run(actions.retry, job_id)
    world.finish(owner, world.take(owner), Retry(0, ERROR))
    assert [(a.generation, a.attempt) for a in world.history(job_id)] == [(0, 1), (0, 2), (1, 1)]


def test_the_attempts_of_all_generations_are_counted(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Retry(0, ERROR))
    world.finish(owner, world.take(owner), Done("1"))
    assert (world.job(job_id).attempts, world.job(job_id).total_attempts) == (2, 2)
    world.run(actions.retry, job_id)
    assert (world.job(job_id).attempts, world.job(job_id).total_attempts) == (0, 2)
    world.finish(owner, world.take(owner), Failed("permanent", ERROR))
    world.run(actions.apply, [job_id], Order(Action.RETRY), actor="ada", reason="", target="x")
    world.take(owner)
    assert (world.job(job_id).attempts, world.job(job_id).total_attempts, world.job(job_id).generation) == (1, 4, 2)


def test_a_job_is_replayed_at_most_ten_times(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    for _ in range(MAX_GENERATION):
        world.finish(owner, world.take(owner), Failed("permanent", ERROR))
        assert world.run(actions.retry, job_id) is True
    world.finish(owner, world.take(owner), Failed("permanent", ERROR))
    before = world.row(job_id)
    with pytest.raises(IllegalMove):
        world.run(actions.retry, job_id)
    assert world.row(job_id) == before


def test_the_worker_of_an_earlier_generation_cannot_touch_the_new_one(world: World) -> None:
    world.add()
    owner = world.worker()
    claimed = world.take(owner)
    world.run(actions.cancel, claimed.id, force=True)
    world.run(actions.retry, claimed.id)
    assert world.finish(owner, claimed, Done("1")) == Lost()
    world.take(world.worker())
    assert world.finish(owner, claimed, Done("1")) == Lost()


def test_a_finish_repeated_across_a_replay_is_not_taken_for_the_new_run(world: World) -> None:
    world.add()
    owner = world.worker()
    claimed = world.take(owner)
    world.finish(owner, claimed, Done("1"))
    world.run(actions.retry, claimed.id)
    assert world.finish(owner, claimed, Done("1")) == Lost()
    assert world.job(claimed.id).state is JobState.READY


def test_a_replay_against_a_live_twin_is_not_done_and_no_error(world: World) -> None:
    old = world.place(JobState.FAILED, key="k").id
    world.add(key="k")
    before = world.row(old)
    assert world.run(actions.retry, old) is False
    assert world.row(old) == before


def test_a_replayed_job_holds_its_key_again(world: World) -> None:
    old = world.place(JobState.FAILED, key="k").id
    world.run(actions.retry, old)
    (answer,) = world.enqueue(spec(key="k"))
    assert (answer.id, answer.created) == (old, False)


def test_a_replay_wakes_the_queue(each_store: World) -> None:
    placed = each_store.place(JobState.FAILED)
    with closing(each_store.store.wakeups.listen([f"queue:{placed.queue}"])) as listener:
        each_store.run(actions.retry, placed.id)
        assert listener.wait(SOON)


def test_replaying_what_does_not_exist_is_not_found(world: World) -> None:
    with pytest.raises(NotFound):
        world.run(actions.retry, "nobody")


def test_a_finished_job_changes_its_state_by_nothing_but_replay(each_store: World) -> None:
    """The schema itself refuses what no operation should try."""
    job_id = each_store.place(JobState.SUCCEEDED).id
    with pytest.raises(Exception, match="changes only by a retry"):
        each_store.sql("update holdfast_ended set state = 'failed' where id = :id", id=job_id)
    assert each_store.job(job_id).state is JobState.SUCCEEDED


def test_a_replay_of_a_delayed_job_is_due_at_once(world: World) -> None:
    job_id, owner = world.add(delay=60 * SECOND), world.worker()
    world.run(actions.cancel, job_id)
    world.run(actions.retry, job_id)
    assert world.take(owner).id == job_id
